//! The engine from outside, through its embedded sessions and its sockets.
//!
//! One program for all files, because linking a program takes longer than running most of them.

mod bitmap;
mod blocking;
mod busy;
mod config;
mod effects;
mod embedded;
mod encodings;
mod ending;
mod eviction;
mod failing;
mod healing;
mod journal_pushes;
mod key_changes;
mod keys;
mod logged;
mod migrate;
mod pause;
mod pieces;
mod power;
mod resizing;
mod rewriting;
mod sockets;
mod switching;
mod tracking;
