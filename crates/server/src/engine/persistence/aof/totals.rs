//! The bytes, writes and fsyncs of the AOF since the start or the last CONFIG RESETSTAT, for INFO.
//!
//! A write is a unit of the journal: a command, a transaction or a script that has changed data, or a message that goes to
//! replicas. The bytes are those by which the files of the AOF have grown, the lines between requests included; neither bases
//! of rewrites nor the bytes that a healing writes again are in them. Any thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counts.
#[derive(Debug, Default)]
pub struct Totals {
    bytes: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
    /// The units of the journal that are counted, or were not for this AOF.
    seen_units: AtomicU64,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TotalsRead {
    /// The bytes that were written.
    pub bytes: u64,
    /// The writes that these bytes stand for.
    pub writes: u64,
    /// The fsyncs that have succeeded.
    pub syncs: u64,
}

impl Totals {
    /// Counts the units of the journal from this one on: an AOF is opened.
    pub(super) fn begin_at(&self, units: u64) {
        self.seen_units.store(units, Ordering::Relaxed);
    }

    /// Adds written bytes, which stand for the units of the journal up to this one. The caller has the AOF locked.
    pub(super) fn note_written(&self, bytes: u64, units: u64) {
        if bytes != 0 {
            let before = self.seen_units.swap(units, Ordering::Relaxed);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.writes.fetch_add(units.saturating_sub(before), Ordering::Relaxed);
        }
    }

    /// Adds an fsync.
    pub(super) fn note_synced(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts.
    pub fn read(&self) -> TotalsRead {
        let [bytes, writes, syncs] =
            [&self.bytes, &self.writes, &self.syncs].map(|count| count.load(Ordering::Relaxed));
        TotalsRead { bytes, writes, syncs }
    }

    /// Counts from zero again (CONFIG RESETSTAT).
    pub fn reset(&self) {
        [&self.bytes, &self.writes, &self.syncs].into_iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }
}
