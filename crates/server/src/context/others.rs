//! The other clients of the thread that runs a command, and how they are served while a command runs for long.
//!
//! A worker lends itself to every command that it runs as [`Others`]; a script that has run for longer than
//! `busy-reply-threshold` hands it over to another thread. A thread that embeds an engine serves no other clients.

/// The clients that a thread serves beside the client that runs the command.
pub trait Others {
    /// Hands them over to another thread from now on, if that has not been done. Where there is no other thread, they wait.
    fn hand_over(&mut self);

    /// Returns whether the worker of these clients has been told to stop, so that commands may not run on for it: those that
    /// run for long (`is_long`), and all of a thread that has handed the clients over.
    fn is_stopping(&self, is_long: bool) -> bool;
}

/// The empty set of other clients.
#[derive(Debug)]
pub struct Nobody;

impl Others for Nobody {
    fn hand_over(&mut self) {}

    fn is_stopping(&self, _: bool) -> bool {
        false
    }
}
