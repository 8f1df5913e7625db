//! The sizes at which small values become large ones, as the options say.
//!
//! They are read from the configuration when a value is about to change, so CONFIG SET holds from the next change of each
//! value on.

use std::sync::atomic::Ordering;

use sleeve_store::rdb::Limits;
use sleeve_store::{BlockLimits, ListLimit, MapLimits, ProducerLimits, SetLimits, SortedSetLimits};

use crate::config::Opt;
use crate::engine::Engine;

impl Engine {
    /// Of lists.
    #[inline]
    pub fn list_limit(&self) -> ListLimit {
        let config = &self.config;
        let depth = config.number(Opt::ListCompressDepth);
        let limit = ListLimit::new(config.number(Opt::ListMaxListpackSize)).compressed_beyond(depth as usize);
        match self.debug.packed_threshold.load(Ordering::Relaxed) {
            0 => limit,
            bytes => limit.alone_from(bytes),
        }
    }

    /// Of hashes.
    #[inline]
    pub fn hash_limits(&self) -> MapLimits {
        let number = |option| self.config.number(option) as usize;
        MapLimits {
            entries_max: number(Opt::HashMaxListpackEntries),
            value_bytes_max: number(Opt::HashMaxListpackValue),
        }
    }

    /// Of sets.
    pub fn set_limits(&self) -> SetLimits {
        let number = |option| usize::try_from(self.config.number(option)).unwrap_or(0);
        SetLimits {
            integers_max: number(Opt::SetMaxIntsetEntries),
            packed_max: number(Opt::SetMaxListpackEntries),
            packed_value_max: number(Opt::SetMaxListpackValue),
        }
    }

    /// Of sorted sets.
    pub fn sorted_set_limits(&self) -> SortedSetLimits {
        let number = |option| usize::try_from(self.config.number(option)).unwrap_or(0);
        SortedSetLimits {
            entries_max: number(Opt::ZsetMaxListpackEntries),
            value_max: number(Opt::ZsetMaxListpackValue),
        }
    }

    /// Of the blocks of streams.
    pub fn stream_limits(&self) -> BlockLimits {
        BlockLimits {
            bytes_max: self.config.memory(Opt::StreamNodeMaxBytes) as usize,
            entries_max: self.config.number(Opt::StreamNodeMaxEntries) as usize,
        }
    }

    /// Returns the limits of the producers' message ids that streams keep.
    pub fn producer_limits(&self) -> ProducerLimits {
        ProducerLimits {
            duration_s: self.config.number(Opt::StreamIdmpDuration) as u64,
            ids_max: self.config.number(Opt::StreamIdmpMaxsize) as u64,
        }
    }

    /// Returns all limits, for values that are read in Redis's format at this time.
    pub fn limits(&self, now_ms: i64) -> Limits {
        Limits {
            hash_key: self.keyspace.store.hash_key(),
            list: self.list_limit(),
            set: self.set_limits(),
            hash: self.hash_limits(),
            sorted_set: self.sorted_set_limits(),
            now_ms,
        }
    }
}
