//! Planted faults that the simulation has to find, to show that it would. Only the simulation can switch them on.

#[cfg(test)]
use std::cell::Cell;

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Among replies that arrive together, the first two go to each other's callers.
    SwapsReplies,
    /// Every write is sent again after its answer was lost.
    RepeatsWrites,
    /// The caller of a write that was to be sent again gets the error that it had never left.
    ForgetsThatItLeft,
    /// Every command of a cluster is sent again after its answer was lost.
    SendsAgainInCluster,
    /// The reply to ASKING is taken for the reply to the command behind it.
    TakesReplyToAsking,
    /// A large call of a handle with lanes leaves before the calls ahead of it are answered.
    OvertakesOnLane,
    /// One of the wakers that are called together is not called.
    LosesWaker,
    /// A call that times out before it is sent counts against the queue's bound for ever.
    KeepsBudget,
    /// A message that answers no request is taken for a reply.
    TakesMessage,
    /// The reactor does not read bytes that it left to a caller's task, if that task never reads them.
    NeverReadsWhatWasLeft,
    /// The reactor does not check whether the runtime reads that a socket was left to.
    TrustsRuntime,
    /// A deadline that is earlier than all others is not reported to the watch over deadlines.
    ForgetsDeadline,
    /// The cache ignores invalidations of single keys.
    MissesInvalidations,
    /// The cache ignores invalidations of all keys.
    MissesFlushes,
    /// A reply is kept although its key was invalidated after the read was sent.
    KeepsOvertaken,
    /// Kept replies stay when their connection is lost.
    StaysAcrossConnections,
    /// The client's own writes remove no kept replies; only the server's invalidations do.
    LeavesOwnWrites,
    /// The cache ignores the time to live of keys.
    OutlivesKeys,
    /// The cache ignores the present owner of a slot.
    IgnoresOwners,
    /// A reply is kept although its server does not remember the key.
    KeepsUntracked,
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
