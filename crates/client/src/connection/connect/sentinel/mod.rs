//! A service that Sentinels watch over: they are asked for the address of its primary before each connection is made, and
//! announce a new primary to one subscription.
//!
//! Their answers are kept for all connections of a client (`service`). Each connection asks them by itself (`search`), one
//! after the other, and uses only a server that itself says that it is a primary. One task listens for all connections
//! (`watch`), so that a switch ends the connections to the old primary, and every wait for it, at once.

mod asking;
pub(crate) mod search;
pub(crate) mod service;
mod watch;
