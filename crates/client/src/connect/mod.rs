//! From an endpoint to a connection that has been greeted: names, addresses, TLS, the first words.

pub(crate) mod attempt;
pub(crate) mod dial;
pub(crate) mod handshake;
mod names;
pub(crate) mod questions;
pub(crate) mod socket;
#[cfg(feature = "tls")]
pub(crate) mod tls_stream;
