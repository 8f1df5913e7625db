//! Whole clusters in one thread, from one seed: delays, cuts in one direction, clocks that differ, crashes with torn files.
//!
//! A test that fails prints its seed. `SEED=<seed> cargo test -p sleeve-cluster <test>` runs it again with that seed.

mod addresses;
mod chaos;
mod claims;
mod clients;
mod elections;
mod failures;
mod membership;
mod messages;
mod network;
mod server;
mod world;

pub(crate) use world::World;
