//! What serves: workers, drivers, sessions, execution and the commands by family.

pub mod config;
pub mod error;
