//! The one ordered log of effects.
//!
//! Every write appends what it *did*, never what it was asked: expiry is a DEL, a relative time is absolute, a random
//! choice is its result. An effect is a request in RESP form, so a reader needs nothing but an engine to replay it.
//!
//! The effects of one command, transaction or script are one piece. They are gathered in a [`Batch`], which a thread's
//! [`Recorder`] keeps beside its locks: nobody gives a shard back without appending what was recorded under it, so two
//! effects on one key stand in the order in which they happened. The [`Journal`] keeps pieces in `chunks`, which its
//! [`Reader`]s share and which go when all have read them. Nobody reading costs one relaxed load a write. Replicas are sent
//! the journal as it is ([`Follower`]); what stands in it for them alone, such as messages, is in no log.

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
