//! Mistakes that a simulation has to find, to show that it would: it alone can make them.

#[cfg(test)]
use std::cell::Cell;

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A replica is sent what this server may still lose.
    SendsEarly,
    /// A replica removes by itself what is over, and puts that into its journal.
    OwnEffects,
    /// A server goes on under the id that it had before it crashed.
    KeepsId,
    /// A primary takes what it has sent to a replica for what that has applied.
    CountsSent,
    /// A server that has become a primary lets replicas of the one before go on that are ahead of where it became one.
    ContinuesAhead,
}

#[cfg(test)]
thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Has this thread make a mistake, or none any more.
#[cfg(test)]
pub fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
}

/// Whether this mistake is to be made. Outside of the tests of this crate none ever is.
#[inline]
pub fn has(fault: Fault) -> bool {
    #[cfg(test)]
    let planted = PLANTED.get();
    #[cfg(not(test))]
    let planted = None;
    planted == Some(fault)
}
