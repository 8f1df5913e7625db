//! The shared parts of the outside tests: servers to test, plain connections to them, random commands, and transcripts.
//!
//! A test starts a [`Server`] of some [`Kind`], talks to it over a [`Connection`] in whole replies, and compares bytes.
//! `xtask` uses the same two to measure. Only `generator` knows the meaning of commands. Every call may come from any thread.

/// The snippet that users begin with, which is tested as it stands.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

pub mod cluster;
pub mod connection;
pub mod generator;
pub mod network;
pub mod probe;
mod programs;
pub mod random;
pub mod redirects;
pub mod relay;
pub mod server;
pub mod soak;
mod stops;
pub mod strict;
pub mod transcript;
pub mod unread;

pub use cluster::Cluster;
pub use connection::Connection;
pub use redirects::Redirected;
pub use relay::Relay;
pub use server::{Kind, Server, Settings, free_port};
pub use stops::Stops;
