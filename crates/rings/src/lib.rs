//! Bytes between two processes of one machine through memory that both have mapped, without the kernel.
//!
//! Client and server have a Unix socket, over which the server hands out a piece of memory ([`handover`]). The memory holds
//! two rings, one for each direction ([`ring`]). From then on the socket carries no data. A byte on it is a bell that wakes a
//! side which has announced that it sleeps, and the end of the socket is the end of the connection, whichever process dies.
//! Both sides therefore wait for the same socket events as before, and an idle pair of rings costs nothing but its memory.
//!
//! # The rooms, from top to bottom
//!
//! | room | contents |
//! | --- | --- |
//! | `handover` | Passes the memory from one process to the other over a socket. |
//! | `memory` | Memory that processes share, sealed at its size. |
//! | `side` | One side of a pair: the ring it writes and the ring it reads. |
//! | `patience` | Decides for how long busy polling is cheaper than sleeping. |
//! | `ring` | Bytes from one writer to one reader, and when a bell is due. |
//!
//! The peer is foreign: it may write anything anywhere into the memory at any time. Reading the memory yields bytes or an
//! error, never a panic, an access out of bounds, or a loop or an allocation that the peer chose.

#[cfg(target_os = "linux")]
pub mod handover;
#[cfg(target_os = "linux")]
pub mod memory;
pub mod patience;
pub mod ring;
pub mod side;
