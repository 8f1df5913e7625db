//! What is kept: databases, shards and locks, the hash table, values, expiry. No sockets, no commands, no clock.
//!
//! [`Store`] is the whole; [`Shard`] is the part that one lock guards, where commands do their work; [`EntryRef`],
//! [`EntryMut`] and [`OwnedEntry`] are the ways to hold one key with its value. Below them, invisible from outside:
//! the table of segments of buckets, the layout of an entry, and the heap of cells where entries live.
//!
//! The store returns what happened (what expired, what was replaced, what remains to be freed) and never decides what
//! that means.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "sleeve-store runs on Linux alone: it is built on epoll and on how Linux gives memory. Elsewhere use the client \
     (package `sleeve` without its feature \"embedded\") and a server on a Linux machine, or in a container."
);

mod arena;
mod body;
mod branch;
mod bucket;
mod cardinality;
mod chain;
mod due;
mod element;
mod entry;
mod field_expiry;
mod fields;
mod form;
mod handle;
mod hash;
mod header;
mod heap;
mod hyperloglog;
mod intset;
mod items;
mod leaf;
mod list;
mod list_limit;
mod listpack;
mod locked;
mod lzf;
mod map;
mod murmur;
mod node;
mod object;
mod order;
mod outside;
mod pack;
mod packed_map;
mod pages;
mod prefetch;
mod ranked;
pub mod rdb;
mod same_bytes;
mod scored;
mod segment;
mod set;
mod shard;
mod sorted_set;
mod store;
mod stream;
mod stream_block;
mod stream_group;
mod stream_id;
mod table;
mod value;
mod walk;

pub use body::INLINE_MAX;
pub use chain::{Chain, End};
pub use field_expiry::ExpiredFields;
pub use handle::{EntryMut, EntryRef, Garbage, OwnedEntry};
pub use hash::{Hash, HashKey};
pub use hyperloglog::{Corrupt, Registers, Run, Sketch, SketchRef, add_dense, cache_count, count_registers};
pub use intset::{IntegerSet, Integers};
pub use items::{Items, ItemsBack};
pub use list::{List, ListRef};
pub use list_limit::ListLimit;
pub use listpack::{Elements, Packed, packed_size};
pub use locked::{Locked, SHARDS_MAX, ShardGuard, ShardSet};
pub use map::{Map, MapLimits, MapRef};
pub use object::{Collection, MemberPlace};
pub use pack::Pack;
pub use prefetch::Step;
pub use set::{Set, SetLimits, SetRef};
pub use shard::{Find, FindMut, Flushed, Moment, OtherKind, Previous, Shard, Updated};
pub use sorted_set::{NameBound, NameRange, SortedSet, SortedSetLimits, SortedSetRef};
pub use store::{Options, SHARDS_DEFAULT, Shards, Store};
pub use stream::{Entries, Keep, Stream, StreamCounters};
pub use stream_block::{BlockLimits, StreamEntry};
pub use stream_group::{Consumer, ConsumerId, Pending, StreamGroup};
pub use stream_id::StreamId;
pub use value::{Deadline, Digits, EMBEDDED_MAX, Encoding, Kind, Value, ValueRef};
pub use walk::ExpireReport;
