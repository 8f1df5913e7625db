//! The before-images of one table that a snapshot still lacks, and how an entry is captured.
//!
//! Every entry has one bit of epoch, and so has its table. When a snapshot begins the table's bit is flipped. From then on an
//! entry with the other bit is pending: it still is as it was at the instant. A writer that is about to change a pending
//! entry, or takes it out, captures it first, and the walk captures the rest in the order of positions. An entry that is too
//! large for that is opened, and the same rule holds inside. Under the shard's lock.

use std::sync::Arc;

use super::entry::Entry;
use crate::memory::heap::Heap;
use crate::value::capture::entry_batch::EntryBatch;
use crate::value::capture::open_value::{KeyMetadata, OpenValue, Outline, Part};
use crate::value::capture::pages::{self, PAGED_FROM_BYTES, Strings};
use crate::value::capture::queue::SnapshotQueue;
use crate::value::capture::source::Budget;
use crate::value::collection::{Object, ObjectRef};

/// The size in bytes from which a batch of captured entries goes to the snapshot.
const SHEAF_BYTES: usize = 8 << 10;

/// Collections of at most so many bytes are copied at once, which takes less time than opening them and coming back.
const WHOLE_BYTES_MAX: usize = 16 << 10;

/// The receiver of a table's before-images.
#[derive(Clone)]
pub(crate) enum Recipient {
    /// The keys of a database, which go to the snapshot.
    Keys {
        /// The queue of the snapshot.
        queue: Arc<SnapshotQueue>,
        /// The number that the database had at the instant.
        db: usize,
    },
    /// The members of a collection, which go to the snapshot's unfinished copy of that collection.
    Members(Arc<OpenValue>),
}

/// The state of the capture of one table.
pub(crate) struct BeforeImages {
    /// The position from which the walk goes on.
    pub position: u64,
    /// The number of pending entries.
    left: usize,
    /// Captured entries that have not been delivered yet.
    batch: EntryBatch,
    recipient: Recipient,
}

impl BeforeImages {
    pub fn new(entries: usize, recipient: Recipient) -> Self {
        Self { position: 0, left: entries, batch: EntryBatch::default(), recipient }
    }

    /// Returns whether every entry has been captured.
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

    /// Captures a pending entry, and spends the copied bytes from the budget.
    pub fn capture(&mut self, entry: Entry, heap: &mut Heap, budget: &mut Budget) {
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
                // An entry that refers to a buffer is delivered in a small batch.
                if self.batch.is_empty() && buffer.is_none() {
                    self.batch = EntryBatch::for_blocks(self.left + 1, block.len(), SHEAF_BYTES);
                }
                budget.spend(self.batch.push(block, buffer));
                if self.batch.bytes() >= SHEAF_BYTES {
                    self.deliver();
                }
            }
        }
    }

    /// Delivers the captured entries.
    pub fn deliver(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        match &self.recipient {
            Recipient::Keys { queue, db } => queue.deliver(*db, batch),
            Recipient::Members(open_value) => open_value.deliver(batch),
        }
    }

    /// Tells the receiver that nothing follows, because the snapshot was aborted.
    pub fn abandon(self) {
        match &self.recipient {
            Recipient::Keys { queue, .. } => queue.finish_table(true),
            Recipient::Members(open_value) => open_value.finish(),
        }
    }

    /// Delivers the last entries, and tells the receiver that nothing follows. Entries that are still pending are then
    /// missing.
    pub fn finish(mut self) {
        self.deliver();
        match &self.recipient {
            Recipient::Keys { queue, .. } => queue.finish_table(self.left == 0),
            Recipient::Members(open_value) => open_value.finish(),
        }
    }
}

/// Returns whether an entry is a string that is captured page by page.
fn is_paged(entry: Entry) -> bool {
    entry.shared().is_some_and(|buffer| buffer.len() > PAGED_FROM_BYTES)
}

/// Returns the facts of an entry's key that a snapshot captures beside the value.
fn metadata(entry: Entry, db: usize) -> KeyMetadata {
    KeyMetadata { db, key: entry.key().into(), deadline: entry.deadline(), clock: entry.clock(), kind: entry.kind() }
}

/// Opens a long string.
fn open_string(entry: Entry, queue: &Arc<SnapshotQueue>, db: usize, heap: &mut Heap) {
    let Some(buffer) = entry.shared() else { return };
    let open_value =
        Arc::new(OpenValue::new(metadata(entry, db), pages::outline(buffer.len()), Arc::clone(queue.backlog())));
    let watch = heap.watch().get_or_insert_with(|| Box::new(Box::new(Strings::default())));
    if let Some(strings) = watch.as_any().downcast_mut::<Strings>() {
        strings.open(&buffer, &open_value);
    }
    queue.announce(open_value);
}

/// Captures more of a long string, if it is the opened one, and returns whether it is.
pub(crate) fn capture_string(entry: Entry, open_value: &Arc<OpenValue>, heap: &mut Heap, budget: &mut Budget) -> bool {
    let (Some(buffer), Some(watch)) = (entry.shared(), heap.watch()) else { return false };
    let Some(strings) = watch.as_any().downcast_mut::<Strings>() else { return false };
    let is_it = strings.capture_more(&buffer, open_value, budget);
    if strings.is_empty() {
        *heap.watch() = None;
    }
    is_it
}

/// Opens a collection, or copies it if it is small; returns whether it was copied.
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
        let open_value = OpenValue::new(metadata, Outline { parts: 1, walks: 1, extra: Some(Box::new(form)) }, backlog);
        open_value.deliver_part(0, Part { bytes: bytes.into(), unpacked_len: 0 });
        open_value.finish();
        queue.announce(Arc::new(open_value));
        budget.spend(bytes.len());
        return true;
    }
    let (outline, bytes) = (object.outline(), object.memory());
    let open_value = Arc::new(OpenValue::new(metadata, outline, backlog));
    let is_whole = bytes <= WHOLE_BYTES_MAX;
    let begin = |object: &mut Object| {
        object.open(&open_value);
        if is_whole {
            object.capture_more(&mut Budget::unbounded());
        }
    };
    // SAFETY: nothing refers to the entry's value but `object`, which is not used any more.
    unsafe { entry.change_object(heap, begin) };
    queue.announce(open_value);
    budget.spend(if is_whole { bytes } else { 0 });
    is_whole
}
