//! Where everything arrives that is handed over to one snapshot.
//!
//! Tables of keys hand over batches of small keys and open values for large ones, and those that the store lets go of come
//! here whole. The walk itself takes them from here, on its own thread. The lock inside is held for moments, and nothing
//! is dropped under it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::backlog::Backlog;
use super::entry_batch::EntryBatch;
use super::open_value::OpenValue;
use super::owing::{Budget, Owing};

/// The place to which one snapshot's tables hand over.
pub struct SnapshotQueue {
    backlog: Arc<Backlog>,
    /// Tables that still owe something, wherever they are.
    tables: AtomicUsize,
    queued: Mutex<Queued>,
}

#[derive(Default)]
struct Queued {
    batches: Vec<(usize, EntryBatch)>,
    opened: VecDeque<Arc<OpenValue>>,
    ended: Vec<Box<dyn Owing>>,
    is_torn: bool,
}

impl SnapshotQueue {
    /// A queue in which nothing waits.
    pub fn new(backlog: Backlog) -> Self {
        Self { backlog: Arc::new(backlog), tables: AtomicUsize::new(0), queued: Mutex::default() }
    }

    /// What of the snapshot waits.
    pub fn backlog(&self) -> &Arc<Backlog> {
        &self.backlog
    }

    /// One more table owes something.
    pub fn add_table(&self) {
        self.tables.fetch_add(1, Ordering::Relaxed);
    }

    /// A table has handed over everything, or, if not `is_whole`, cannot find what it owes.
    pub fn finish_table(&self, is_whole: bool) {
        if !is_whole {
            self.queued.lock().is_torn = true;
        }
        self.tables.fetch_sub(1, Ordering::Release);
    }

    /// How many tables still owe something.
    pub fn tables(&self) -> usize {
        self.tables.load(Ordering::Acquire)
    }

    /// Whether nothing is owed and nothing waits. Large values that were taken from here are not counted.
    pub fn is_empty(&self) -> bool {
        // The tables first: whatever they handed over was here before they said that it was all.
        let tables = self.tables();
        let queued = self.queued.lock();
        tables == 0 && queued.batches.is_empty() && queued.opened.is_empty() && queued.ended.is_empty()
    }

    /// Whether some table could not find what it owes.
    pub fn is_torn(&self) -> bool {
        self.queued.lock().is_torn
    }

    /// Hands over small keys of a database.
    pub fn hand(&self, db: usize, batch: EntryBatch) {
        let mut queued = self.queued.lock();
        // Asked under the lock, so that nothing comes behind what is thrown away.
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

    /// Keeps a table that the store lets go of.
    pub fn adopt(&self, table: Box<dyn Owing>) {
        self.queued.lock().ended.push(table);
    }

    /// Takes out the small keys that were handed over, each batch with its database.
    pub fn take_batches(&self) -> Vec<(usize, EntryBatch)> {
        std::mem::take(&mut self.queued.lock().batches)
    }

    /// Takes out a large value.
    pub fn take_opened(&self) -> Option<Arc<OpenValue>> {
        self.queued.lock().opened.pop_front()
    }

    /// Hands over more of a table that the store has let go of; false if there is none.
    pub fn hand_over_ended(&self, budget: &mut Budget) -> bool {
        let Some(mut table) = self.queued.lock().ended.pop() else { return false };
        table.hand_over(budget);
        // What it still owes brings it back here.
        drop(table);
        true
    }

    /// Nobody wants the snapshot any longer: throws away what has arrived. What is in the store goes on being marked.
    pub fn abort(&self) {
        self.backlog.abort();
        let (batches, ended, opened) = {
            let mut queued = self.queued.lock();
            (std::mem::take(&mut queued.batches), std::mem::take(&mut queued.ended), queued.opened.clone())
        };
        opened.iter().for_each(|open_value| open_value.clear());
        self.backlog.release(batches.iter().map(|(_, batch)| batch.bytes()).sum());
        drop(ended);
    }
}
