//! A value that is too large to be copied at once, as it was when a snapshot opened it.
//!
//! The facts that were captured then never change: its key and database, its deadline, and the number of its parts. The parts
//! come later, some from the snapshot's own walk and some from writers that were about to change them. The present key of the
//! value is noted here too, because a key can be renamed while its value is open; and if the store releases the value, the
//! rest of it is given to this place. The lock inside is held for moments, and no other is taken under it.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use parking_lot::Mutex;

use super::backlog::Backlog;
use super::entry_batch::EntryBatch;
use super::source::{Budget, CaptureSource};
use crate::value::Kind;

/// The facts that are captured of a value when it is opened.
#[derive(Debug)]
pub struct Outline {
    /// The number of the value's parts.
    pub parts: usize,
    /// The number of walks over the value, each of which says when it has finished.
    pub walks: usize,
    /// Further facts that the value's type needs to write it.
    pub extra: Option<Box<dyn Any + Send + Sync>>,
}

/// A part of a value that is a run of bytes: a pack of a list, a block of a stream, a page of a string.
#[derive(Debug)]
pub struct Part {
    /// The bytes of the part.
    pub bytes: Box<[u8]>,
    /// The length of the bytes once they are unpacked; 0 if they are not packed.
    pub unpacked_len: usize,
}

/// The facts of a key beside its value, at the instant of the snapshot.
#[derive(Debug)]
pub struct KeyMetadata {
    /// The database.
    pub db: usize,
    /// The key.
    pub key: Box<[u8]>,
    /// The key's deadline, in milliseconds since the epoch.
    pub deadline: Option<i64>,
    /// The access clock.
    pub clock: u32,
    /// The type.
    pub kind: Kind,
}

/// A large value of a snapshot.
#[derive(Debug)]
pub struct OpenValue {
    metadata: KeyMetadata,
    outline: Outline,
    backlog: Arc<Backlog>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The present key of the value.
    key_now: Box<[u8]>,
    batches: Vec<EntryBatch>,
    parts: BTreeMap<u128, Part>,
    /// Small parts that may come in any order, one behind the other, and their number.
    loose: (Vec<u8>, usize),
    /// The place up to which all parts have been delivered.
    reached: Option<u128>,
    /// The parts that the store has released with the value and that are not captured yet.
    released: Vec<Box<dyn CaptureSource>>,
    /// The number of walks that have not finished.
    walks: usize,
    /// The memory of the opened value itself, as long as it is counted.
    own_bytes: usize,
}

// A panic leaves nothing half done under the lock; missing parts are noticed at the end.
impl UnwindSafe for OpenValue {}
impl RefUnwindSafe for OpenValue {}

/// The parts that have arrived since the last time: they can be written now.
#[derive(Default)]
pub struct Delivery {
    /// Copies of entries.
    pub batches: Vec<EntryBatch>,
    /// Parts with their places, in order, from the first that was not delivered yet.
    pub parts: Vec<(u128, Part)>,
    /// Small parts that may come in any order, one behind the other, and their number.
    pub loose: (Vec<u8>, usize),
    /// True if all parts have arrived.
    pub is_finished: bool,
}

impl Delivery {
    /// Returns the number of entries and parts.
    pub fn len(&self) -> usize {
        self.batches.iter().map(EntryBatch::len).sum::<usize>() + self.parts.len() + self.loose.1
    }

    /// Returns the bytes of the delivery that waited.
    pub fn bytes(&self) -> usize {
        let of_parts = self.parts.iter().map(|(_, part)| part.bytes.len()).sum::<usize>();
        self.batches.iter().map(EntryBatch::bytes).sum::<usize>() + of_parts + self.loose.0.len()
    }
}

impl OpenValue {
    /// Opens a value.
    pub fn new(metadata: KeyMetadata, outline: Outline, backlog: Arc<Backlog>) -> Self {
        // The key is stored twice; the watch of the value takes about as much memory as this struct.
        let own_bytes = 2 * (size_of::<Self>() + metadata.key.len());
        backlog.add(own_bytes);
        let state = State {
            own_bytes,
            key_now: metadata.key.clone(),
            batches: Vec::new(),
            parts: BTreeMap::new(),
            loose: (Vec::new(), 0),
            reached: None,
            released: Vec::new(),
            walks: outline.walks,
        };
        Self { metadata, outline, backlog, state: Mutex::new(state) }
    }

    /// Returns the facts of the value's key at the instant of the snapshot.
    pub fn metadata(&self) -> &KeyMetadata {
        &self.metadata
    }

    /// Returns the number of parts that the value had.
    pub fn parts_len(&self) -> usize {
        self.outline.parts
    }

    /// Returns the further facts that its type captured.
    pub fn extra<T: 'static>(&self) -> Option<&T> {
        self.outline.extra.as_ref()?.downcast_ref()
    }

    /// Returns whether the snapshot was aborted, so that nothing is copied any more.
    pub fn is_aborted(&self) -> bool {
        self.backlog.is_aborted()
    }

    /// Delivers copies of entries.
    pub fn deliver(&self, batch: EntryBatch) {
        let mut state = self.state.lock();
        // The flag is checked under the lock, so that nothing arrives after the snapshot was cleared.
        if !batch.is_empty() && !self.is_aborted() {
            self.backlog.add(batch.bytes());
            state.batches.push(batch);
        }
    }

    /// Delivers a part, which belongs at this place among the others.
    pub fn deliver_part(&self, at: u128, part: Part) {
        let mut state = self.state.lock();
        if !self.is_aborted() {
            self.backlog.add(part.bytes.len());
            state.parts.insert(at, part);
        }
    }

    /// Delivers a small part, which may stand anywhere among the others of its kind.
    pub fn deliver_loose(&self, bytes: &[u8]) {
        let mut state = self.state.lock();
        if !self.is_aborted() {
            self.backlog.add(bytes.len());
            state.loose.0.extend_from_slice(bytes);
            state.loose.1 += 1;
        }
    }

    /// Notes that all parts up to this place have been delivered.
    pub fn reach(&self, at: u128) {
        self.state.lock().reached = Some(at);
    }

    /// Notes that a walk has captured every part that it met.
    pub fn finish(&self) {
        let mut state = self.state.lock();
        state.walks = state.walks.saturating_sub(1);
    }

    /// Ends the capture of a value that is dropped: the snapshot receives the value, unless it was aborted. Then `forget`
    /// clears the value's capture, and returns whether there was one.
    pub fn end_of<T: CaptureSource + Default + 'static>(&self, value: &mut T, forget: impl FnOnce(&mut T) -> bool) {
        if !self.is_aborted() {
            self.adopt(Box::new(std::mem::take(value)));
        } else if forget(value) {
            self.finish();
        }
    }

    /// Notes the present key of the value.
    pub fn follow(&self, key: &[u8]) {
        self.state.lock().key_now = key.into();
    }

    /// Returns the present key of the value.
    pub fn key_now(&self) -> Box<[u8]> {
        self.state.lock().key_now.clone()
    }

    /// Keeps the rest of a value that the store releases.
    pub fn adopt(&self, rest: Box<dyn CaptureSource>) {
        self.state.lock().released.push(rest);
    }

    /// Captures more of a value that the store has released; returns false if the store has not released it.
    pub fn capture_released(&self, budget: &mut Budget) -> bool {
        // The capture takes the lock itself.
        let Some(mut rest) = self.state.lock().released.pop() else { return false };
        rest.capture_more(budget);
        // If parts are still pending, dropping the value brings it back here.
        drop(rest);
        true
    }

    /// Takes out the parts that can be written.
    pub fn take(&self) -> Delivery {
        let mut state = self.state.lock();
        let is_finished = state.walks == 0;
        let behind = match state.reached {
            _ if is_finished => BTreeMap::new(),
            Some(u128::MAX) => BTreeMap::new(),
            Some(reached) => state.parts.split_off(&(reached + 1)),
            None => std::mem::take(&mut state.parts),
        };
        let parts = std::mem::replace(&mut state.parts, behind);
        let batches = std::mem::take(&mut state.batches);
        let loose = std::mem::take(&mut state.loose);
        Delivery { batches, parts: parts.into_iter().collect(), loose, is_finished }
    }

    /// Stops counting the memory of the opened value itself, as no parts follow.
    pub fn close(&self) {
        self.backlog.release(std::mem::take(&mut self.state.lock().own_bytes));
    }

    /// Drops the delivered parts, and the rest of a value that the store has released.
    pub fn clear(&self) {
        self.close();
        let (batches, parts, loose, released) = {
            let mut state = self.state.lock();
            let State { batches, parts, loose, released, .. } = &mut *state;
            (std::mem::take(batches), std::mem::take(parts), std::mem::take(loose), std::mem::take(released))
        };
        let bytes = batches.iter().map(EntryBatch::bytes).sum::<usize>() + loose.0.len();
        self.backlog.release(bytes + parts.values().map(|part| part.bytes.len()).sum::<usize>());
        drop(released);
    }
}
