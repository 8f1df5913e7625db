//! Commands that tell what was slow, and which keys are used most.

pub mod hotkeys;
pub mod latency;
pub mod slowlog;
