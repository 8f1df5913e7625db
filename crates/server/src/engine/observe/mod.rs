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

use crate::config::Config;
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

impl Observations {
    /// Returns the ticks from which on a command is slow, 0 for all commands, and the bytes of a request and its reply
    /// together from which on either may be large. During a collection of HOTKEYS, both are 0, so that all commands are
    /// examined.
    #[inline]
    pub fn conspicuous(&self, config: &Config) -> (u64, usize) {
        if self.hot_keys.is_collecting() {
            return (0, 0);
        }
        (config.slow_ticks(), config.large_bytes())
    }
}
