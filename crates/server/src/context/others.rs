//! The other clients of the thread that runs a command, and how they are served when it does not come back for long.
//!
//! A worker lends itself to whatever it runs as [`Others`]; a script that has run for longer than `busy-reply-threshold` has
//! it handed over to another thread. A thread that embeds an engine serves nobody else.

/// Whom a thread serves beside the client whose command it runs.
pub trait Others {
    /// Has another thread serve them from now on, if that has not been done. Where there is none, they wait.
    fn hand_over(&mut self);

    /// Whether the one that serves them has been told to stop, so that nothing may run on for it: what runs for long
    /// (`is_long`), and anything in a thread that has handed them over.
    fn is_stopping(&self, is_long: bool) -> bool;
}

/// Nobody.
#[derive(Debug)]
pub struct Nobody;

impl Others for Nobody {
    fn hand_over(&mut self) {}

    fn is_stopping(&self, _: bool) -> bool {
        false
    }
}
