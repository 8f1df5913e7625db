//! What concerns the process: whether it was forked, and threads for what must not run on the caller's.

pub(crate) mod callback;
pub(crate) mod fork;
pub(crate) mod off_thread;
