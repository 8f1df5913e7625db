//! Faults that a test plants, to show that the simulation would find them. Only tests of this crate can plant them.

#[cfg(test)]
use std::cell::Cell;

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A primary votes more than once in one epoch.
    VotesTwice,
    /// A vote leaves before nodes.conf with it is on the disk.
    VotesBeforeSync,
    /// A replica wins with one vote less than a majority.
    WinsByMinority,
    /// A vote of an earlier epoch counts in the present one.
    CountsOldVotes,
    /// A replica that has less data than another does not let it go first.
    HasNoRank,
    /// One node that does not reach another declares it failed.
    FailsAlone,
    /// A claim of slots takes them from an owner with a higher epoch.
    BelievesOldClaims,
    /// A node that claims slots of a newer owner is not told so.
    NeverCorrects,
    /// A known node stays at its first address.
    KeepsAddress,
    /// Two primaries keep the same configuration epoch.
    KeepsCollision,
    /// A primary that becomes a replica keeps its open moves of slots.
    KeepsMoves,
}

#[cfg(test)]
thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Plants a fault in this thread, or removes it.
#[cfg(test)]
pub(crate) fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
}

/// Returns whether this fault is planted in this thread; always false outside of the tests of this crate.
#[inline]
pub(crate) fn has(fault: Fault) -> bool {
    #[cfg(test)]
    let planted = PLANTED.get();
    #[cfg(not(test))]
    let planted = None;
    planted == Some(fault)
}
