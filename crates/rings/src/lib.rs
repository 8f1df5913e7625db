//! Bytes between two processes of one machine through memory that both have mapped, without the kernel.
//!
//! Client and server have a Unix socket, over which the server hands out a piece of memory ([`handover`]). In it are two rings,
//! one for each direction ([`ring`]). From then on the socket carries no data: a byte on it is a bell, rung for a side that has
//! said that it sleeps, and its end is the end of the connection, whoever dies. So both wait for what they have always waited
//! for, and an idle pair of rings costs nothing but its memory.
//!
//! # The rooms, from top to bottom
//!
//! | room | what is in it |
//! | --- | --- |
//! | `handover` | Memory goes from one process to the other over a socket. |
//! | `memory` | Memory that processes share, sealed at its size. |
//! | `side` | What one of the two has: it writes into one ring and reads from the other. |
//! | `patience` | How long it pays to look instead of sleeping. |
//! | `ring` | Bytes from one writer to one reader, and when a bell is due. |
//!
//! The other side is foreign: it may write anything anywhere into the memory at any time. What is read from there ends in bytes
//! or in an error, never in a panic, an access beyond the memory, or a loop or an allocation that it chose.

#[cfg(target_os = "linux")]
pub mod handover;
#[cfg(target_os = "linux")]
pub mod memory;
pub mod patience;
pub mod ring;
pub mod side;
