//! A service that Sentinels watch over: they are asked where its primary is before each connection is made, and tell one
//! subscription when that changes.
//!
//! Their answers are kept for all connections of a client (`service`). Each connection asks them by itself (`search`), one
//! after the other, and goes on only with a server that says itself that it is a primary. One task for all of them listens
//! (`watch`), so that a switch ends the connections to the old primary at once, and every wait for it.

mod asking;
pub(crate) mod search;
pub(crate) mod service;
mod watch;
