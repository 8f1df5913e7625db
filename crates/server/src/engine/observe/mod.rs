//! Measurements and counters of running commands, for INFO, LATENCY, SLOWLOG and HOTKEYS.

pub(crate) mod heavy_hitters;
pub(crate) mod hot_keys;
pub(crate) mod key_samples;
pub(crate) mod key_tally;
pub mod latency;
pub(crate) mod rates;
pub(crate) mod slowlog;
pub(crate) mod stats;

use hot_keys::HotKeys;
use latency::Latency;
use rates::Rates;
use slowlog::SlowLog;
use stats::Stats;

/// The measurements of one engine.
#[derive(Default)]
pub struct Observations {
    /// The counters.
    pub stats: Stats,
    /// The latest slow commands.
    pub(crate) slowlog: SlowLog,
    /// The collection of the keys that take the most time and bytes.
    pub(crate) hot_keys: HotKeys,
    /// The times of slow events.
    pub latency: Latency,
    /// Rates and peaks.
    pub(crate) rates: Rates,
}
