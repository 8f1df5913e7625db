//! The services of the process and the machine: time, memory, the server log, the kernel's facts, and the end after a panic.
//!
//! No module here knows an engine, so that every other module may use them.

pub mod allocator;
pub mod clock;
pub(crate) mod crash;
pub(crate) mod dice;
pub(crate) mod facts;
pub(crate) mod lazy_free;
pub(crate) mod log;
pub(crate) mod oom_score;
pub(crate) mod panics;
pub(crate) mod planted;
pub(crate) mod process_title;
#[cfg(test)]
pub(crate) mod simulated;
pub(crate) mod threads;
pub(crate) mod time_zone;
pub(crate) mod waiting;
