//! Concerns of the process: forks, locks, threads for blocking work, wakers, callbacks and traces.

pub(crate) mod callback;
pub(crate) mod fork;
pub(crate) mod lock;
#[cfg(feature = "embedded")]
pub(crate) mod off_thread;
pub(crate) mod planted;
#[cfg(not(feature = "tracing"))]
#[path = "no_trace.rs"]
pub(crate) mod trace;
#[cfg(feature = "tracing")]
pub(crate) mod trace;
pub(crate) mod wake;
