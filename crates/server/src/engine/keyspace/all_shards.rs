//! All shards of an engine, for threads that serve no client.

use crate::engine::Engine;
use crate::engine::journal::{BatchBuffer, Recorder};
use crate::engine::keyspace::locks::Locks;

/// Locks all shards, however long other threads hold them; see `Locks::take_all_unless`.
pub fn lock_all<'s>(engine: &'s Engine, batch_buffer: &'s BatchBuffer) -> Locks<'s> {
    let recorder = Recorder::new(&engine.journal, &engine.keyspace.offsets, batch_buffer);
    let mut locks = Locks::new(&engine.keyspace.store, &engine.keyspace.turns, recorder);
    _ = locks.take_all_unless(|| false);
    locks
}
