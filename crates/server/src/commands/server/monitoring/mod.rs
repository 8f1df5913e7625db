//! Commands that report slow events, and the keys that are used most.

pub mod hotkeys;
pub mod latency;
pub mod slowlog;
