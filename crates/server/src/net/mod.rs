//! The network: the transport of bytes between sockets and workers.
//!
//! A worker has one [`Driver`], over `epoll`, io_uring (`uring`) or `tokio`, as the option `io` says. The worker gets events
//! (bytes arrived, a connection was accepted or has ended) and passes outputs. It sees no registration and no partial write;
//! it may pause receiving from a connection. Over any driver the bytes of a connection may go through memory that it shares
//! with its client (`shared_memory`).
//!
//! No code in `tokio` is specific to Linux, so it would be the choice on a system without epoll and io_uring. The rest of
//! this crate is for Linux, and does not compile elsewhere; so no other system has ever run it.

mod busy_poll;
mod driver;
mod epoll;
mod event;
mod held_input;
pub mod listeners;
pub mod outgoing;
mod send_pieces;
mod shared_memory;
mod spare_outputs;
#[cfg(test)]
pub(crate) mod tests;
pub mod tls;
mod tokio;
mod uring;

pub use driver::{Driver, DriverKind};
pub use event::{Event, Sending, Token};
pub use listeners::listener::{Listener, bind_tcp};
pub use shared_memory::RING_BYTES;
