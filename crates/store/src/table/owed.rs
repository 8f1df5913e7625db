//! What one table still owes to a snapshot, and how an entry is taken down for it.
//!
//! Every entry has one bit of epoch, and so has its table. When a snapshot begins the table's bit is flipped, and from then
//! on an entry whose bit differs is owed: it is as it was at the instant. Whoever finds it to change it, or takes it out,
//! takes it down first, and the walk takes down the rest in the order of positions. An entry that is too large for that is
//! opened, and the same rule holds inside. Under the shard's lock.

use std::sync::Arc;

use super::entry::Entry;
use crate::memory::heap::Heap;
use crate::value::collection::{Object, ObjectRef};
use crate::value::handover::entry_batch::EntryBatch;
use crate::value::handover::open_value::{Capture, KeyMetadata, OpenValue, Part};
use crate::value::handover::owing::Budget;
use crate::value::handover::pages::{self, PAGED_FROM_BYTES, Strings};
use crate::value::handover::queue::SnapshotQueue;

/// What has been taken down goes to the snapshot when it is so large, in bytes.
const SHEAF_BYTES: usize = 8 << 10;

/// Collections of at most so many bytes are copied at once, which takes less time than opening them and coming back.
const WHOLE_BYTES_MAX: usize = 16 << 10;

/// To whom a table owes its entries.
#[derive(Clone)]
pub(crate) enum Recipient {
    /// The keys of a database: to the snapshot.
    Keys {
        /// Where they are handed over.
        queue: Arc<SnapshotQueue>,
        /// The number that the database had at the instant.
        db: usize,
    },
    /// The members of a collection: to what was opened for it.
    Members(Arc<OpenValue>),
}

/// What a table still owes.
pub(crate) struct Owed {
    /// Where the walk goes on.
    pub position: u64,
    /// The entries that are owed.
    left: usize,
    /// What was taken down and is not handed over yet.
    batch: EntryBatch,
    recipient: Recipient,
}

impl Owed {
    pub fn new(entries: usize, recipient: Recipient) -> Self {
        Self { position: 0, left: entries, batch: EntryBatch::default(), recipient }
    }

    /// Whether nothing is owed any longer.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    pub fn is_aborted(&self) -> bool {
        match &self.recipient {
            Recipient::Keys { queue, .. } => queue.backlog().is_aborted(),
            Recipient::Members(open_value) => open_value.is_aborted(),
        }
    }

    pub fn recipient(&self) -> &Recipient {
        &self.recipient
    }

    /// Takes an entry down, which is owed. Returns what it cost, in bytes.
    pub fn take(&mut self, entry: Entry, heap: &mut Heap, budget: &mut Budget) {
        self.left -= 1;
        if self.is_aborted() {
            return budget.spend(0);
        }
        match (entry.object(), &self.recipient) {
            (Some(object), Recipient::Keys { queue, db }) => {
                let is_whole = open(entry, object, queue, *db, heap, budget);
                if !is_whole {
                    budget.exhaust();
                }
            }
            (None, Recipient::Keys { queue, db }) if is_paged(entry) => {
                open_string(entry, queue, *db, heap);
                budget.exhaust();
            }
            _ => {
                let buffer = entry.shared().map(|buffer| Arc::clone(&buffer));
                // SAFETY: the bytes are copied, and nothing is changed before they are.
                let block = unsafe { entry.block_bytes() };
                // What refers to a buffer goes off nearly by itself.
                if self.batch.is_empty() && buffer.is_none() {
                    self.batch = EntryBatch::for_blocks(self.left + 1, block.len(), SHEAF_BYTES);
                }
                budget.spend(self.batch.push(block, buffer));
                if self.batch.bytes() >= SHEAF_BYTES {
                    self.hand();
                }
            }
        }
    }

    /// Hands over what was taken down.
    pub fn hand(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        match &self.recipient {
            Recipient::Keys { queue, db } => queue.hand(*db, batch),
            Recipient::Members(open_value) => open_value.hand(batch),
        }
    }

    /// Says that nothing follows, because nobody wants it.
    pub fn abandon(self) {
        match &self.recipient {
            Recipient::Keys { queue, .. } => queue.finish_table(true),
            Recipient::Members(open_value) => open_value.finish(),
        }
    }

    /// Hands over the last of it, and says that nothing follows. What is left then is missing.
    pub fn finish(mut self) {
        self.hand();
        match &self.recipient {
            Recipient::Keys { queue, .. } => queue.finish_table(self.left == 0),
            Recipient::Members(open_value) => open_value.finish(),
        }
    }
}

/// Whether an entry is a string that is handed over page by page.
fn is_paged(entry: Entry) -> bool {
    entry.shared().is_some_and(|buffer| buffer.len() > PAGED_FROM_BYTES)
}

/// Where an entry stands.
fn metadata(entry: Entry, db: usize) -> KeyMetadata {
    KeyMetadata { db, key: entry.key().into(), deadline: entry.deadline(), clock: entry.clock(), kind: entry.kind() }
}

/// Opens a long string.
fn open_string(entry: Entry, queue: &Arc<SnapshotQueue>, db: usize, heap: &mut Heap) {
    let Some(buffer) = entry.shared() else { return };
    let open_value =
        Arc::new(OpenValue::new(metadata(entry, db), pages::capture(buffer.len()), Arc::clone(queue.backlog())));
    let watch = heap.watch().get_or_insert_with(|| Box::new(Box::new(Strings::default())));
    if let Some(strings) = watch.as_any().downcast_mut::<Strings>() {
        strings.open(&buffer, &open_value);
    }
    queue.announce(open_value);
}

/// Hands over more of a long string, if it is what was opened; whether it is.
pub(crate) fn hand_over_string(
    entry: Entry,
    open_value: &Arc<OpenValue>,
    heap: &mut Heap,
    budget: &mut Budget,
) -> bool {
    let (Some(buffer), Some(watch)) = (entry.shared(), heap.watch()) else { return false };
    let Some(strings) = watch.as_any().downcast_mut::<Strings>() else { return false };
    let is_it = strings.hand_over(&buffer, open_value, budget);
    if strings.is_empty() {
        *heap.watch() = None;
    }
    is_it
}

/// Opens a collection, or copies it if it is small; whether it was copied.
fn open(
    entry: Entry,
    object: ObjectRef<'_>,
    queue: &Arc<SnapshotQueue>,
    db: usize,
    heap: &mut Heap,
    budget: &mut Budget,
) -> bool {
    let metadata = metadata(entry, db);
    let backlog = Arc::clone(queue.backlog());
    if let Some((form, bytes)) = object.packed() {
        let open_value = OpenValue::new(metadata, Capture { parts: 1, walks: 1, extra: Some(Box::new(form)) }, backlog);
        open_value.hand_part(0, Part { bytes: bytes.into(), unpacked_len: 0 });
        open_value.finish();
        queue.announce(Arc::new(open_value));
        budget.spend(bytes.len());
        return true;
    }
    let (capture, bytes) = (object.capture(), object.memory());
    let open_value = Arc::new(OpenValue::new(metadata, capture, backlog));
    let is_whole = bytes <= WHOLE_BYTES_MAX;
    let begin = |object: &mut Object| {
        object.open(&open_value);
        if is_whole {
            object.hand_over(&mut Budget::unbounded());
        }
    };
    // SAFETY: nothing refers to the entry's value but `object`, which is not used any more.
    unsafe { entry.change_object(heap, begin) };
    queue.announce(open_value);
    budget.spend(if is_whole { bytes } else { 0 });
    is_whole
}
