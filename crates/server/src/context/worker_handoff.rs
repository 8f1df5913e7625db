//! The hand-off of a worker by the command that runs on its thread.
//!
//! A worker lends itself to every command that it runs as a [`WorkerHandoff`]; a script that has run for longer than
//! `busy-reply-threshold` hands it over to another thread, which serves the other clients. A thread that embeds an engine has
//! no worker, and serves no other clients.

/// The worker of the thread that runs a command, as the command sees it.
pub trait WorkerHandoff {
    /// Hands the worker over to another thread from now on, if that has not been done. If there is no other thread, its
    /// clients wait.
    fn hand_over(&mut self);

    /// Returns whether the worker has been told to stop, so that commands may not run on for it: those that run for long
    /// (`is_long`), and all of a thread that has handed the worker over.
    fn is_stopping(&self, is_long: bool) -> bool;
}

/// The worker of a thread that has none.
#[derive(Debug)]
pub struct NoWorker;

impl WorkerHandoff for NoWorker {
    fn hand_over(&mut self) {}

    fn is_stopping(&self, _: bool) -> bool {
        false
    }
}
