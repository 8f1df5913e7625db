//! The queue of one snapshot, in which all captured data arrives.
//!
//! Tables of keys deliver batches of small keys and open values for large ones, and those that the store releases come
//! here whole. The walk itself takes them from here, on its own thread. The lock inside is held for moments, and nothing
//! is dropped under it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::backlog::Backlog;
use super::entry_batch::EntryBatch;
use super::open_value::OpenValue;
use super::source::{Budget, CaptureSource};

/// The queue to which one snapshot's tables deliver.
pub struct SnapshotQueue {
    backlog: Arc<Backlog>,
    /// The number of tables with pending entries, in the store or released.
    tables: AtomicUsize,
    queued: Mutex<Queued>,
}

#[derive(Default)]
struct Queued {
    batches: Vec<(usize, EntryBatch)>,
    opened: VecDeque<Arc<OpenValue>>,
    released: Vec<Box<dyn CaptureSource>>,
    is_torn: bool,
}

impl SnapshotQueue {
    /// Returns an empty queue.
    pub fn new(backlog: Backlog) -> Self {
        Self { backlog: Arc::new(backlog), tables: AtomicUsize::new(0), queued: Mutex::default() }
    }

    /// Returns the shared state of the snapshot.
    pub fn backlog(&self) -> &Arc<Backlog> {
        &self.backlog
    }

    /// Counts one more table with pending entries.
    pub fn add_table(&self) {
        self.tables.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a table has delivered everything, or, if not `is_whole`, cannot find its pending entries.
    pub fn finish_table(&self, is_whole: bool) {
        if !is_whole {
            self.queued.lock().is_torn = true;
        }
        self.tables.fetch_sub(1, Ordering::Release);
    }

    /// Returns how many tables have pending entries.
    pub fn tables(&self) -> usize {
        self.tables.load(Ordering::Acquire)
    }

    /// Returns whether no entry is pending and none waits. Large values that were taken from here are not counted.
    pub fn is_empty(&self) -> bool {
        // The tables are checked first: every delivery of a table arrived before the table reported its end.
        let tables = self.tables();
        let queued = self.queued.lock();
        tables == 0 && queued.batches.is_empty() && queued.opened.is_empty() && queued.released.is_empty()
    }

    /// Returns whether some table could not find its pending entries.
    pub fn is_torn(&self) -> bool {
        self.queued.lock().is_torn
    }

    /// Delivers small keys of a database.
    pub fn deliver(&self, db: usize, batch: EntryBatch) {
        let mut queued = self.queued.lock();
        // The flag is checked under the lock, so that nothing arrives after the snapshot was cleared.
        if !batch.is_empty() && !self.backlog.is_aborted() {
            self.backlog.add(batch.bytes());
            queued.batches.push((db, batch));
        }
    }

    /// Announces a large value that has been opened.
    pub fn announce(&self, open_value: Arc<OpenValue>) {
        self.queued.lock().opened.push_back(open_value);
    }

    /// Puts a value back that is not finished.
    pub fn announce_again(&self, open_value: Arc<OpenValue>) {
        self.queued.lock().opened.push_front(open_value);
    }

    /// Keeps a table that the store releases.
    pub fn adopt(&self, table: Box<dyn CaptureSource>) {
        self.queued.lock().released.push(table);
    }

    /// Takes out the captured small keys, each batch with its database.
    pub fn take_batches(&self) -> Vec<(usize, EntryBatch)> {
        std::mem::take(&mut self.queued.lock().batches)
    }

    /// Takes out a large value.
    pub fn take_opened(&self) -> Option<Arc<OpenValue>> {
        self.queued.lock().opened.pop_front()
    }

    /// Captures more of a table that the store has released; returns false if there is none.
    pub fn capture_released(&self, budget: &mut Budget) -> bool {
        let Some(mut table) = self.queued.lock().released.pop() else { return false };
        table.capture_more(budget);
        // If entries are still pending, dropping the table brings it back here.
        drop(table);
        true
    }

    /// Aborts the snapshot and drops everything that has arrived. Entries of the store go on being marked as captured.
    pub fn abort(&self) {
        self.backlog.abort();
        let (batches, released, opened) = {
            let mut queued = self.queued.lock();
            (std::mem::take(&mut queued.batches), std::mem::take(&mut queued.released), queued.opened.clone())
        };
        opened.iter().for_each(|open_value| open_value.clear());
        self.backlog.release(batches.iter().map(|(_, batch)| batch.bytes()).sum());
        drop(released);
    }
}
