//! A caller that is about to wait for a reply, and its next step.

/// The kind of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A task that begins to wait. If the write would take a system call, it may poll again after the other ready tasks.
    FreshTask,
    /// A task that has let the other tasks have their turns.
    Task,
    /// A thread, a callback, or a task of the client itself.
    Other,
}

/// The next step of a task that is about to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// The task waits.
    Done,
    /// The task polls again after the other ready tasks.
    Yield,
    /// The task gives up, because no answer can arrive: see [`Driver::lost`](super::Driver::lost).
    Lost,
}
