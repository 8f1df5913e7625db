//! The removal of the keys of slots that other nodes own now.
//!
//! Their new owner has them, or they were written here when this node no longer owned the slot. A few keys are removed at a
//! time, so commands for other keys of the shard wait for microseconds. Each removal is recorded as DEL, so replicas and the
//! AOF remove the key too, and is published as the event `del`.

use std::sync::Arc;

use sleeve_cluster::{Slot, SlotSet};
use sleeve_store::remove_in_slot;

use crate::context::key_change::{self, Cause, ChangeSource, Pending};
use crate::context::notifications::{self, EventClass};
use crate::engine::Engine;
use crate::execute::scratch::Scratch;
use crate::execute::{self, serve_blocked};
use crate::host::clock::Instant;

/// The most keys that are removed while one lock is held.
const KEYS_A_STEP: usize = 64;

/// Removes all keys of these slots, of all databases.
pub(super) fn remove(engine: &Arc<Engine>, slots: &SlotSet, now: Instant) {
    let scratch = Scratch::unobserved(engine, now);
    for slot in slots.iter() {
        for database in 0..engine.keyspace.store.databases() {
            while step(&scratch, database, slot) > 0 {}
        }
    }
}

/// Removes some keys of a slot. Returns the number of keys that are left.
fn step(scratch: &Scratch, database: usize, slot: Slot) -> u64 {
    let context = scratch.thread_context();
    let engine = context.engine;
    let store = &engine.keyspace.store;
    let number = store.shard_of_slot(slot);
    let (mut pending, mut recorder, mut garbage) = (Pending::default(), context.recorder(), Vec::new());
    let turn = engine.keyspace.turns.take_each_again();
    let mut shard = store.lock(number);
    let left = remove_in_slot(&mut shard, (database, slot), KEYS_A_STEP, |name, removed| {
        garbage.push(removed);
        let source = ChangeSource {
            engine,
            counters: context.counters,
            state: None,
            pending: &mut pending,
            recorder: &mut recorder,
        };
        key_change::tell(source, Cause::Command, database as u32, store.key(name));
        notifications::publish(
            (engine, None, &mut pending.wakeups),
            database as u32,
            (EventClass::Generic, "del"),
            name,
        );
        if recorder.is_recording() {
            recorder.effect(database as u32, 2).bulks(&[b"DEL", name]);
        }
        recorder.end_piece();
    });
    engine.keyspace.estimate.note(number, shard.memory());
    recorder.settle(std::iter::once(number));
    drop(shard);
    drop(turn);
    recorder.ring();
    drop(garbage);
    engine.clients.tracking.broadcast(&mut pending.wakeups);
    pending.wakeups.ring(None);
    if !pending.marked.is_empty() {
        serve_blocked::gone(context, execute::call, pending.marked);
    }
    left
}
