//! The whole store as it was at one instant, while it goes on changing: the source of an RDB file and of an AOF's base.
//!
//! A snapshot is a version, not a fork. It begins with all shards locked, in a time that does not depend on the number of
//! keys: each table flips its epoch, and from then on every entry with the other bit is pending (see `table/before_images`).
//! A writer that is about to change such an entry captures its before-image first; [`Snapshot::step`] walks over the rest, a
//! little at a time, each time under the lock of one shard. The caller receives [`Record`]s, outside of all locks, in an
//! order in which they can be written to a file: a large value arrives part by part, without other keys in between.
//!
//! Captured before-images wait in memory until a step takes them. The counter in [`Snapshot::begin`]'s argument holds their
//! size; holding writers back is the caller's business. One thread uses a snapshot. A snapshot that is dropped before its end
//! is aborted: nothing is copied for it any longer, and before another can begin its pending entries are brought to an end, as
//! [`Unfinished`] says.

pub mod record;
pub mod writer;

use std::fmt;
use std::sync::Arc;

use crate::keyspace::Store;
use crate::keyspace::locks::Locked;
use crate::value::capture::backlog::Backlog;
pub use crate::value::capture::backlog::Waiting;
use crate::value::capture::open_value::{Delivery, OpenValue};
use crate::value::capture::queue::SnapshotQueue;
pub use crate::value::capture::source::Budget;
pub use record::{Bytes, Keys, Large, Members, Pendings, Record};
pub use writer::SnapshotWriter;

/// The keys of one database at the instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// All keys, with the expired ones that were not removed yet.
    pub keys: usize,
    /// The keys among them with a deadline.
    pub volatile: usize,
}

/// The state of a snapshot after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More records follow.
    More,
    /// More records follow, but they are on their way from one thread to another: the caller tries again in a moment.
    Waiting,
    /// All records have been given out.
    Done,
}

/// The error of a snapshot that differs from the store at its instant, because before-images are missing. It is useless, and
/// the cause is a fault of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn;

impl fmt::Display for Torn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the snapshot lacks keys or parts of values that were there when it began")
    }
}

impl std::error::Error for Torn {}

/// The error of a snapshot that cannot begin because the one before has not ended. If that one was aborted,
/// [`Snapshot::unfinished`] gives it back to be stepped to its end, which captures nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished;

impl fmt::Display for Unfinished {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("another snapshot has not ended yet")
    }
}

impl std::error::Error for Unfinished {}

/// A large value that is being written.
struct Current {
    open_value: Arc<OpenValue>,
    /// The number of its parts that have been given out.
    delivered: usize,
}

/// The store as it was when the snapshot began.
pub struct Snapshot {
    queue: Arc<SnapshotQueue>,
    sizes: Vec<Size>,
    has_timed_fields: bool,
    needs_newest_format: bool,
    /// The first shard that may have pending entries.
    shard: usize,
    current: Option<Current>,
    is_over: bool,
    clock: fn() -> u64,
    longest_hold: u64,
}

impl Snapshot {
    /// Returns the aborted snapshot of a store that has not ended, to be stepped to its end.
    pub fn unfinished(store: &Store) -> Option<Self> {
        let queue = store.queue.lock().clone().filter(|queue| queue.backlog().is_aborted())?;
        Some(Self::on(queue))
    }

    fn on(queue: Arc<SnapshotQueue>) -> Self {
        Self {
            queue,
            sizes: Vec::new(),
            has_timed_fields: false,
            needs_newest_format: false,
            shard: 0,
            current: None,
            is_over: false,
            clock: || 0,
            longest_hold: 0,
        }
    }

    /// Begins a snapshot of this instant. `all` are all shards of the store. The bytes that are captured and not taken
    /// are added to `waiting`.
    ///
    /// # Errors
    /// [`Unfinished`] when the snapshot before this one has not ended.
    ///
    /// # Panics
    /// If not all shards are locked.
    pub fn begin(store: &Store, all: &mut Locked<'_>, waiting: Arc<Waiting>) -> Result<Self, Unfinished> {
        let mut place = store.queue.lock();
        if place.is_some() {
            return Err(Unfinished);
        }
        let queue = Arc::new(SnapshotQueue::new(Backlog::new(waiting)));
        let mut snapshot = Self::on(Arc::clone(&queue));
        for shard in 0..store.shards() {
            let shard = all.shard_mut(shard);
            if snapshot.sizes.len() < shard.databases() {
                snapshot.sizes.resize(shard.databases(), Size::default());
            }
            for (db, size) in snapshot.sizes.iter_mut().enumerate() {
                size.keys += shard.len(db);
                size.volatile += shard.volatile_len(db);
            }
            snapshot.has_timed_fields |= shard.has_timed_fields();
            snapshot.needs_newest_format |= shard.needs_newest_format;
            shard.begin_capture(&queue);
        }
        *place = Some(queue);
        Ok(snapshot)
    }

    /// Returns the number of keys that each database had; databases that are not listed had none.
    pub fn sizes(&self) -> &[Size] {
        &self.sizes
    }

    /// Returns whether there may have been hashes with fields that expire.
    pub fn has_timed_fields(&self) -> bool {
        self.has_timed_fields
    }

    /// Returns whether there may have been streams with producers that number their messages, which only the newest version
    /// of the format can express.
    pub fn needs_newest_format(&self) -> bool {
        self.needs_newest_format
    }

    /// Sets the clock, in any unit, that measures how long a step holds a shard.
    pub fn measure_by(&mut self, clock: fn() -> u64) {
        self.clock = clock;
    }

    /// Returns the longest time for which a step has held a shard, as the clock counts.
    pub fn longest_hold(&self) -> u64 {
        self.longest_hold
    }

    /// Gives captured data to `sink`, then captures about as much more as `budget` says, under the lock of one shard of the
    /// store in which this snapshot began.
    ///
    /// # Errors
    /// [`Torn`] when something is missing. The snapshot is then useless, and is dropped.
    pub fn step(&mut self, store: &Store, budget: Budget, sink: &mut dyn FnMut(Record<'_>)) -> Result<Progress, Torn> {
        self.deliver(sink)?;
        let has_moved = self.hold(store, budget);
        self.deliver(sink)?;
        // An aborted snapshot may be torn: it still has to be stepped to its end, or no other could begin.
        if self.queue.is_torn() && !self.queue.backlog().is_aborted() {
            return Err(Torn);
        }
        if self.current.is_none() && self.queue.is_empty() {
            self.is_over = true;
            store.queue.lock().take_if(|queue| Arc::ptr_eq(queue, &self.queue));
            return Ok(Progress::Done);
        }
        Ok(if has_moved { Progress::More } else { Progress::Waiting })
    }

    /// Captures more entries; returns false if no pending entry was found.
    fn hold(&mut self, store: &Store, mut budget: Budget) -> bool {
        if let Some(Current { open_value, .. }) = &self.current {
            if open_value.capture_released(&mut budget) {
                return true;
            }
            let name = open_value.key_now();
            let key = store.key(&name);
            let shard = store.shard_of(key.hash);
            let (mut shard, began) = (store.lock_in_background(shard), (self.clock)());
            let has_moved = shard.capture_opened(key, open_value, &mut budget);
            drop(shard);
            self.note_hold(began);
            // A value that is not found is in a table that the store has released, or on its way to another key.
            return has_moved || self.queue.capture_released(&mut budget);
        }
        if self.queue.capture_released(&mut budget) {
            return true;
        }
        while self.shard < store.shards() {
            let (mut shard, began) = (store.lock_in_background(self.shard), (self.clock)());
            let has_moved = shard.capture_more(&mut budget);
            drop(shard);
            self.note_hold(began);
            if has_moved {
                return true;
            }
            self.shard += 1;
        }
        false
    }

    /// Notes that a shard which was locked at `began` has been released.
    fn note_hold(&mut self, began: u64) {
        self.longest_hold = self.longest_hold.max((self.clock)().wrapping_sub(began));
    }

    /// Passes on the captured data: small keys, then one large value after the other as far as their parts have arrived.
    fn deliver(&mut self, sink: &mut dyn FnMut(Record<'_>)) -> Result<(), Torn> {
        let backlog = Arc::clone(self.queue.backlog());
        loop {
            let Some(Current { open_value, delivered }) = &mut self.current else {
                for (db, mut batch) in self.queue.take_batches() {
                    let bytes = batch.bytes();
                    sink(Record::Keys(Keys::new(db, &mut batch)));
                    backlog.release(bytes);
                }
                let Some(open_value) = self.queue.take_opened() else { return Ok(()) };
                if !backlog.is_aborted() {
                    sink(Record::Open(&Large::new(&open_value)));
                }
                self.current = Some(Current { open_value, delivered: 0 });
                continue;
            };
            let delivery = open_value.take();
            let (len, bytes, is_finished) = (delivery.len(), delivery.bytes(), delivery.is_finished);
            *delivered += len;
            if !backlog.is_aborted() {
                let is_right = if is_finished {
                    *delivered == open_value.parts_len()
                } else {
                    *delivered <= open_value.parts_len()
                };
                if !is_right {
                    backlog.release(bytes);
                    return Err(Torn);
                }
                give(open_value, delivery, sink);
            }
            backlog.release(bytes);
            if !is_finished {
                return Ok(());
            }
            open_value.close();
            if !backlog.is_aborted() {
                sink(Record::Close(&Large::new(open_value)));
            }
            self.current = None;
        }
    }
}

/// Gives out parts of a large value.
fn give(open_value: &Arc<OpenValue>, delivery: Delivery, sink: &mut dyn FnMut(Record<'_>)) {
    let large = Large::new(open_value);
    for mut batch in delivery.batches {
        sink(Record::Members(&large, Members::new(&mut batch)));
    }
    for (at, part) in &delivery.parts {
        sink(Record::Part(&large, Bytes::new(*at, part)));
    }
    if delivery.loose.1 > 0 {
        sink(Record::Pending(&large, Pendings::new(&delivery.loose.0)));
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if let Some(Current { open_value, .. }) = self.current.take() {
            self.queue.announce_again(open_value);
        }
        self.queue.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Options;
    use crate::keyspace::shard::Moment;
    use crate::value::{Deadline, Value};

    #[test]
    fn behind_one_that_is_torn_another_can_begin() {
        let store = Store::new(Options { shards: 1, ..Options::new([3; 16]) });
        let key = store.key(b"k");
        let moment = Moment { now_ms: 0, clock: 0 };
        drop(store.lock_of(key.hash).set(0, key, &Value::Bytes(b"v"), Deadline::Clear, moment));
        let mut torn = Snapshot::begin(&store, &mut store.lock_all(), Arc::default()).expect("it is the first");
        torn.queue.add_table();
        torn.queue.finish_table(false);
        assert_eq!(torn.step(&store, Budget::unbounded(), &mut |_| ()), Err(Torn));
        drop(torn);
        let mut unfinished = Snapshot::unfinished(&store).expect("its entries are still pending");
        while unfinished.step(&store, Budget::unbounded(), &mut |_| ()).expect("nobody wants it") != Progress::Done {}
        assert!(Snapshot::begin(&store, &mut store.lock_all(), Arc::default()).is_ok());
    }
}
