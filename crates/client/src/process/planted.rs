//! Mistakes that the simulation has to find, to show that it would: it alone can make them.

#[cfg(test)]
use std::cell::Cell;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Of replies that come together the first two go to each other's callers.
    SwapsReplies,
    /// A write whose answer was lost is sent again, whatever it does.
    RepeatsWrites,
    /// Whoever is told that a write was to be sent again hears that it had never left.
    ForgetsThatItLeft,
    /// A command of a cluster whose answer was lost is sent again, whatever it does.
    SendsAgainInCluster,
    /// The reply to ASKING is taken for that to the command behind it.
    TakesReplyToAsking,
    /// A large call of a handle with lanes leaves before what was sent ahead of it is answered.
    OvertakesOnLane,
    /// Of those who are woken together one is forgotten.
    LosesWaker,
    /// What is not sent because time is up counts as queued for ever.
    KeepsBudget,
    /// A message that answers nothing is taken for a reply.
    TakesMessage,
    /// The reactor does not read what it has left to a task that did not come.
    NeverReadsWhatWasLeft,
    /// A deadline that is sooner than all others is not told to whoever watches over them.
    ForgetsDeadline,
}

#[cfg(test)]
thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Has this thread make a mistake, or none any more.
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
