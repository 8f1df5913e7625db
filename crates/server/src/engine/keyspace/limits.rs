//! The sizes at which values change from a small encoding to a large one, as the options say.
//!
//! They are read from the configuration when a value is about to change, so after CONFIG SET they hold from the next change
//! of each value on.

use std::sync::atomic::Ordering;

use sleeve_store::rdb::Limits;
use sleeve_store::{BlockLimits, ListLimit, MapLimits, ProducerLimits, SetLimits, SortedSetLimits};

use crate::config::Opt;
use crate::engine::Engine;

/// Returns the limit of lists.
#[inline]
pub fn of_lists(engine: &Engine) -> ListLimit {
    let config = &engine.config;
    let depth = config.number(Opt::ListCompressDepth);
    let limit = ListLimit::new(config.number(Opt::ListMaxListpackSize)).compressed_beyond(depth as usize);
    match engine.debug.packed_threshold.load(Ordering::Relaxed) {
        0 => limit,
        bytes => limit.alone_from(bytes),
    }
}

/// Returns the limits of hashes.
#[inline]
pub fn of_hashes(engine: &Engine) -> MapLimits {
    let number = |option| engine.config.number(option) as usize;
    MapLimits { entries_max: number(Opt::HashMaxListpackEntries), value_bytes_max: number(Opt::HashMaxListpackValue) }
}

/// Returns the limits of sets.
pub fn of_sets(engine: &Engine) -> SetLimits {
    let number = |option| usize::try_from(engine.config.number(option)).unwrap_or(0);
    SetLimits {
        integers_max: number(Opt::SetMaxIntsetEntries),
        packed_max: number(Opt::SetMaxListpackEntries),
        packed_value_max: number(Opt::SetMaxListpackValue),
    }
}

/// Returns the limits of sorted sets.
pub fn of_sorted_sets(engine: &Engine) -> SortedSetLimits {
    let number = |option| usize::try_from(engine.config.number(option)).unwrap_or(0);
    SortedSetLimits { entries_max: number(Opt::ZsetMaxListpackEntries), value_max: number(Opt::ZsetMaxListpackValue) }
}

/// Returns the limits of the blocks of streams.
pub fn of_streams(engine: &Engine) -> BlockLimits {
    BlockLimits {
        bytes_max: engine.config.memory(Opt::StreamNodeMaxBytes) as usize,
        entries_max: engine.config.number(Opt::StreamNodeMaxEntries) as usize,
    }
}

/// Returns the limits of the producers' message ids that streams keep.
pub fn of_producers(engine: &Engine) -> ProducerLimits {
    ProducerLimits {
        duration_s: engine.config.number(Opt::StreamIdmpDuration) as u64,
        ids_max: engine.config.number(Opt::StreamIdmpMaxsize) as u64,
    }
}

/// Returns all limits, for values in Redis's format that are read at this time.
pub fn of_all(engine: &Engine, now_ms: i64) -> Limits {
    Limits {
        hash_key: engine.keyspace.store.hash_key(),
        list: of_lists(engine),
        set: of_sets(engine),
        hash: of_hashes(engine),
        sorted_set: of_sorted_sets(engine),
        now_ms,
    }
}
