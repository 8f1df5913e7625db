//! The hand-off of a worker by the command that runs on its thread.
//!
//! A worker lends itself to every command that it runs as a [`WorkerHandoff`]; if a script has run for longer than
//! `busy-reply-threshold`, the script hands the worker over to another thread, which serves the other clients. A thread that
//! embeds an engine has no worker, and serves no other clients.

/// The worker of the thread that runs a command, as the command sees it.
pub trait WorkerHandoff {
    /// Hands the worker over to another thread from now on, if that was not done yet. If no other thread can be had, the
    /// worker's clients wait.
    fn hand_over(&mut self);

    /// Returns whether the worker has been told to stop, so that commands may not run on for it: those that run for long
    /// (`is_long`), and all of a thread that has handed the worker over.
    fn is_stopping(&self, is_long: bool) -> bool;
}

/// The stand-in for a worker on a thread that has none.
#[derive(Debug)]
pub struct NoWorker;

impl WorkerHandoff for NoWorker {
    fn hand_over(&mut self) {}

    fn is_stopping(&self, _: bool) -> bool {
        false
    }
}
