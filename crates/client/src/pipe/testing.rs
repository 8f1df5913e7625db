//! Helpers for the tests of several modules: a source of slots without a connection, and random numbers from a seed.

use std::cell::Cell;

use super::slot::Source;
pub(crate) use crate::reply::by_hand::{driver, nobody};

/// Creates a source of slots without a driver.
pub(crate) fn source() -> Source {
    Source::new(nobody())
}

/// Random numbers from a seed (xorshift64*, Vigna 2016).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns a number below `sides`.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % sides
    }
}

thread_local! {
    static CHUNKS_ALIVE: Cell<isize> = const { Cell::new(0) };
}

/// Counts the chunks of slots that were made in this thread, less those that have ended in it.
pub(crate) struct Alive(());

impl Default for Alive {
    fn default() -> Self {
        CHUNKS_ALIVE.set(CHUNKS_ALIVE.get() + 1);
        Self(())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        CHUNKS_ALIVE.set(CHUNKS_ALIVE.get() - 1);
    }
}

/// Returns how many chunks of slots there are of this thread.
pub(crate) fn chunks_alive() -> isize {
    CHUNKS_ALIVE.get()
}
