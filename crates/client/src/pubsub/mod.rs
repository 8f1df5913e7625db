//! Subscriptions to channels: each has a connection of its own, or a session of the embedded engine.
//!
//! From top to bottom: `subscription` is the callers' side; `listener` is its task over a connection, which puts the events
//! into the `inbox` and tells the server which names are `wanted`; `embedded_listener` is a session in an engine; `event` has
//! the events, and `names` the names that are subscribed to.

#[cfg(feature = "embedded")]
pub(crate) mod embedded_listener;
pub(crate) mod event;
pub(crate) mod inbox;
pub(crate) mod listener;
pub(crate) mod names;
pub(crate) mod subscription;
pub(crate) mod wanted;
