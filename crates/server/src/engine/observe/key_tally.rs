//! The costs of commands by the keys that they named: the counts of HOTKEYS in one thread.
//!
//! The keys with the greatest shares of time and of bytes are kept, in bounded memory. One thread at a time.

use sleeve_store::Key;

use super::heavy_hitters::HeavyHitters;

/// The share of all time, or of all bytes, one in so many, above which a key is always found.
const SHARES: usize = 1_024;

/// The counts of one thread.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// The time that commands with keys took, in ticks of [`crate::host::clock::ticks`].
    pub elapsed_ticks: u64,
    /// The bytes of the requests and replies of these commands.
    pub bytes: u64,
    by_ticks: HeavyHitters<SHARES>,
    by_bytes: HeavyHitters<SHARES>,
}

impl Tally {
    /// Counts a command for its keys, which share its costs; a key that is named twice has two shares.
    pub fn add<'k>(
        &mut self,
        keys: impl ExactSizeIterator<Item = Key<'k>>,
        (ticks, bytes): (u64, u64),
        is_sampled: bool,
    ) {
        self.elapsed_ticks += ticks;
        self.bytes += bytes;
        let count = keys.len().max(1) as u64;
        if is_sampled {
            for key in keys {
                self.by_ticks.add(key, ticks / count);
                self.by_bytes.add(key, bytes / count);
            }
        }
    }

    /// Adds the counts of another thread.
    pub fn absorb(&mut self, other: &Self) {
        self.elapsed_ticks += other.elapsed_ticks;
        self.bytes += other.bytes;
        self.by_ticks.merge(&other.by_ticks);
        self.by_bytes.merge(&other.by_bytes);
    }

    /// Returns the bytes that were counted for keys.
    pub fn key_bytes(&self) -> u64 {
        self.by_bytes.total()
    }

    /// Returns the keys with the most time, with their ticks.
    pub fn top_by_ticks(&self, count: usize) -> Vec<(&[u8], u64)> {
        self.by_ticks.top(count)
    }

    /// Returns the keys with the most bytes.
    pub fn top_by_bytes(&self, count: usize) -> Vec<(&[u8], u64)> {
        self.by_bytes.top(count)
    }
}
