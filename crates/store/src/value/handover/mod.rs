//! What tables and collections hand to a snapshot before they change it, and where it waits until it is written.
//!
//! A snapshot is of one instant, and the store goes on changing. Whatever is about to change and still belongs to that
//! instant is copied first, as raw as it lies: into a batch if it is an entry, as a part if it is a run of bytes. What is
//! too large to be copied at once is opened: from then on its parts are handed over one by one, by whoever comes first.
//! The queue is where all of this arrives. Nothing here knows how a table or a collection looks inside, and nothing here is
//! encoded. Handing over happens under a shard's lock, taking from the queue on the snapshot's thread without it.

pub mod backlog;
pub mod entry_batch;
pub mod open_value;
pub mod owing;
pub mod pages;
pub mod queue;
