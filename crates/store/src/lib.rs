//! The data: databases, shards and locks, the hash table, values, expiry. No sockets, no commands, no clock.
//!
//! [`Store`] is the whole; [`Shard`] is the part that one lock guards, where commands do their work; [`EntryRef`],
//! [`EntryMut`] and [`OwnedEntry`] are the ways to hold one key with its value.
//!
//! # The rooms, from top to bottom
//!
//! A room uses only rooms below it.
//!
//! | room | contents |
//! | --- | --- |
//! | `snapshot` | The whole store as it was at one instant, while it goes on changing. |
//! | `dump_file` | Putting the records of a file into a store. |
//! | `keyspace` | All databases: shards behind locks, and the deadlines of fields. |
//! | `rdb` | Redis's snapshot format: values as bytes, and whole files. |
//! | `types` | The types of values, one file or folder each: the structures of large collections. |
//! | `table` | The hash table of one database in one shard: segments, buckets, walks; below them `entry`, one key with its value. |
//! | `packed` | Small collections as one run of bytes. |
//! | `value` | Values as seen from outside, collections of any type in an entry, the keyed hash of keys, and the capture of before-images for a snapshot. |
//! | `memory` | Pages, cells, prefetches. |
//!
//! The store returns events (expired keys, replaced values, garbage that remains to be freed) and never decides their
//! meaning.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "sleeve-store runs on Linux alone: it is built on how Linux gives memory. Elsewhere use the client \
     (package `sleeve` without its feature \"embedded\") and a server on a Linux machine, or in a container."
);

pub mod dump_file;
mod keyspace;
mod memory;
mod packed;
pub mod rdb;
pub mod snapshot;
mod table;
mod types;
mod value;

pub use crate::keyspace::exchange::{Shared, absorb, shared_key};
pub use crate::keyspace::locks::{Locked, SHARDS_MAX, ShardGuard, ShardSet};
pub use crate::keyspace::shard::{Find, Flushed, Moment, Previous, Shard};
pub use crate::keyspace::slots::{SlotPosition, keys_in_slot, remove_in_slot, slot_digest, walk_slot};
pub use crate::keyspace::updating::{ExpiredFields, OtherKind, Updated};
pub use crate::keyspace::{Options, SHARDS_DEFAULT, Shards, Store};
pub use crate::memory::prefetch::PrefetchStep;
pub use crate::packed::listpack::{Elements, Packed, packed_size};
pub use crate::packed::pack::Pack;
pub use crate::packed::ways::{BothWays, Forwards, Ways};
pub use crate::table::Lookup;
pub use crate::table::entry::body::INLINE_MAX;
pub use crate::table::entry::handle::{EntryMut, EntryRef, Garbage, OwnedEntry};
pub use crate::table::walk::ExpireReport;
pub use crate::types::hash::{Map, MapLimits, MapRef};
pub use crate::types::hyperloglog::{
    Corrupt, Registers, Run, Sketch, SketchRef, add_dense, cache_count, count_registers,
};
pub use crate::types::list::chain::{Chain, End};
pub use crate::types::list::items::{Items, ItemsBack};
pub use crate::types::list::limit::ListLimit;
pub use crate::types::list::{List, ListRef};
pub use crate::types::set::intset::{IntegerSet, Integers};
pub use crate::types::set::{Set, SetLimits, SetRef};
pub use crate::types::sorted_set::{NameBound, NameRange, SortedSet, SortedSetLimits, SortedSetRef};
pub use crate::types::stream::block::{BlockLimits, StreamEntry};
pub use crate::types::stream::group::{Consumer, ConsumerId, Pending, PendingCopy, StreamGroup};
pub use crate::types::stream::id::StreamId;
pub use crate::types::stream::producers::{ProducerLimits, Producers, Tracked};
pub use crate::types::stream::{Entries, Keep, Stream, StreamCounters};
pub use crate::value::collection::{Collection, MemberPlace};
pub use crate::value::key_hash::SlotOf;
pub use crate::value::key_hash::{Hash, HashKey, Key};
pub use crate::value::{Deadline, Digits, EMBEDDED_MAX, Encoding, Kind, Value, ValueRef};
