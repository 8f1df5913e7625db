//! Measurements and counters of running commands, for INFO, LATENCY, SLOWLOG and HOTKEYS.

pub(crate) mod heavy_hitters;
pub mod histogram;
pub(crate) mod hot_keys;
pub(crate) mod key_samples;
pub(crate) mod key_tally;
pub mod latency;
pub(crate) mod rates;
pub(crate) mod slowlog;
pub(crate) mod stats;
