//! From an endpoint to a connection that has been greeted: names, addresses, TLS, the first words, the move to a Unix socket,
//! and who is asked first where a service is.

pub(crate) mod arrival;
pub(crate) mod attempt;
pub(crate) mod conversation;
pub(crate) mod dial;
pub(crate) mod handshake;
pub(crate) mod login;
mod names;
pub(crate) mod questions;
pub(crate) mod refusal;
pub(crate) mod sentinel;
pub(crate) mod socket;
#[cfg(feature = "tls")]
pub(crate) mod tls_session;
pub(crate) mod unix_offer;
