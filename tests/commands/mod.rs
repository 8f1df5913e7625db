//! The commands: their replies, effects and refusals, beside real servers.

mod differential;
mod effects;
mod golden;
mod hot_keys;
mod migrate;
pub mod permissions;
mod refusals;
mod renamed;
mod users;
