//! Handles with calls on other connections than the shared one: `priority` for all calls, `handle` for large calls.

pub(crate) mod handle;
pub(crate) mod priority;
