//! The way from an endpoint to a connection that has been greeted: names, addresses, TLS, the greeting, the move to a Unix
//! socket, and the Sentinels, which are asked first for the address of a service.

pub(crate) mod arrival;
pub(crate) mod attempt;
pub(crate) mod conversation;
pub(crate) mod dial;
pub(crate) mod handshake;
pub(crate) mod login;
mod memory_offer;
mod names;
pub(crate) mod questions;
pub(crate) mod refusal;
#[cfg(not(all(target_os = "linux", not(sleeve_portable))))]
#[path = "no_rings.rs"]
mod rings;
#[cfg(all(target_os = "linux", not(sleeve_portable)))]
mod rings;
pub(crate) mod sentinel;
pub(crate) mod socket;
#[cfg(feature = "tls")]
pub(crate) mod tls_session;
pub(crate) mod unix_offer;
