//! Whole clusters in one thread, from one seed: delays, cuts in one direction, clocks that differ, crashes with torn files.
//!
//! A test that fails prints the command that runs it again with its seed. `chaos` lives through random faults, and shows by
//! planted faults that the checks in `watch` would find them. `rare` has schedules for faults that chance seldom finds.

mod addresses;
mod chaos;
mod claims;
mod clients;
mod elections;
mod failures;
mod membership;
mod messages;
mod moves;
mod network;
mod rare;
mod server;
mod strangers;
mod watch;
mod world;

pub(crate) use world::World;
