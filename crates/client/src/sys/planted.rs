//! Mistakes that the simulation has to find, to show that it would: it alone can make them.

#[cfg(test)]
use std::cell::Cell;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Of replies that come together the first two go to each other's callers.
    SwapsReplies,
    /// Any write is sent again after its answer was lost.
    RepeatsWrites,
    /// The caller of a write that was to be sent again is told that it had never left.
    ForgetsThatItLeft,
    /// Any command of a cluster is sent again after its answer was lost.
    SendsAgainInCluster,
    /// The reply to ASKING is taken for that to the command behind it.
    TakesReplyToAsking,
    /// A large call of a handle with lanes leaves before the calls ahead of it are answered.
    OvertakesOnLane,
    /// One of the wakers that are called together is forgotten.
    LosesWaker,
    /// A call that is not sent because its time is up counts as queued for ever.
    KeepsBudget,
    /// A message that answers nothing is taken for a reply.
    TakesMessage,
    /// The reactor does not read bytes that it left to a task that did not come.
    NeverReadsWhatWasLeft,
    /// A deadline that is sooner than all others is not reported to the watch over deadlines.
    ForgetsDeadline,
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

/// Whether this mistake is to be made. Outside of the tests of this crate none ever is.
#[inline]
pub(crate) fn has(fault: Fault) -> bool {
    #[cfg(test)]
    let planted = PLANTED.get();
    #[cfg(not(test))]
    let planted = None;
    planted == Some(fault)
}
