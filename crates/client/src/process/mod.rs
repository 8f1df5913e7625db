//! What concerns the process: whether it was forked, its locks, threads for what must not run on the caller's, and wakers.

pub(crate) mod callback;
pub(crate) mod fork;
pub(crate) mod lock;
#[cfg(feature = "embedded")]
pub(crate) mod off_thread;
pub(crate) mod wake;
