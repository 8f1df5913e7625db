//! Tests of the engine from outside, through its embedded sessions and its sockets.
//!
//! These files are one program, because linking a program takes longer than running most of the tests.

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
mod slots;
mod sockets;
mod switching;
mod tracking;
