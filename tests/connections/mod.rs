//! Connections to a server: sockets, TLS, shared memory, limits.

mod drivers;
mod limits;
mod shared_memory;
pub mod tls;
mod unix_offer;
