//! Channels that are listened to: a connection of its own, or a session of the embedded engine, for each subscription.
//!
//! From top to bottom: `subscription` is what callers have; `listener` is its task over a connection, which leaves what comes
//! in the `inbox` and tells the server what is `wanted`; `embedded_listener` is a session in an engine; `event` is what comes,
//! and `names` is what is subscribed to.

#[cfg(feature = "embedded")]
pub(crate) mod embedded_listener;
pub(crate) mod event;
pub(crate) mod inbox;
pub(crate) mod listener;
pub(crate) mod names;
pub(crate) mod subscription;
pub(crate) mod wanted;
