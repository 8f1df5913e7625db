//! Before-images: the copies that tables and collections deliver to a snapshot before they change, and the queue in which
//! they wait to be written.
//!
//! A snapshot is of one instant, and the store goes on changing. Data that still belongs to that instant is copied before it
//! changes, as raw as it lies: into a batch if it is an entry, as a part if it is a run of bytes. A value that is too large
//! to be copied at once is opened: from then on its parts are captured one by one, by writers that are about to change them
//! and by the snapshot's walk. All copies arrive in the queue. Nothing here knows the inside of a table or a collection, and
//! nothing here is encoded. Capturing happens under a shard's lock, taking from the queue on the snapshot's thread without
//! it.

pub mod backlog;
pub mod entry_batch;
pub mod open_value;
pub mod pages;
pub mod queue;
pub mod source;
