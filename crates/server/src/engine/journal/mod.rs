//! The one ordered log of effects.
//!
//! Every write appends its *effects*, never its request: expiry is a DEL, a relative time is absolute, a random choice is its
//! result. An effect is a request in RESP form, so a reader needs nothing but an engine to replay it.
//!
//! The effects of one command, transaction or script are one piece. They are gathered in a [`Batch`], which a thread's
//! [`Recorder`] keeps beside its locks: no thread gives a shard back without appending the effects recorded under it, so two
//! effects on one key stand in the order in which they happened. The [`Journal`] keeps pieces in `chunks`, which its
//! [`Reader`]s share and which go when all have read them. Without readers a write costs one relaxed load. Replicas are sent
//! the journal as it is ([`Follower`]); bytes that stand in it for them alone, such as messages, are in no AOF.

mod batch;
mod chunks;
mod log;
mod memory;
mod offsets;
mod reader;
mod recorder;

pub use batch::{Batch, write_select};
pub use log::{BacklogSize, Journal};
pub use memory::JournalMemory;
pub use offsets::ShardOffsets;
pub use reader::{Follower, Reader, Slices};
pub use recorder::{BatchBuffer, Recorder};
