//! Handles whose calls have other connections than the shared one: `priority` for all of them, `handle` for what is large.

pub(crate) mod handle;
pub(crate) mod priority;
