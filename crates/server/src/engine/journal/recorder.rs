//! The access of one thread to the journal: effects that were recorded under its locks are appended before the locks are
//! given back.
//!
//! A recorder also knows the offset up to which the journal has to be durable so that all that its thread has seen is
//! ([`Recorder::shown_offset`]): a thread that gives back a shard has seen the last piece that concerns it. If the journal
//! has no readers, giving a shard back costs two loads. A recorder lives while its thread executes the requests that arrived
//! together; one thread.

use std::cell::Cell;

use sleeve_wire::reply::{Protocol, Writer};

use super::Journal;
use super::batch::Batch;
use super::offsets::ShardOffsets;

/// The size from which on a batch is appended although locks are still held.
const BATCH_BYTES_MAX: usize = 64 << 10;

/// The buffer of a thread's batches, used again and again.
#[derive(Default)]
pub struct BatchBuffer(Cell<Vec<u8>>);

impl std::fmt::Debug for BatchBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BatchBuffer")
    }
}

/// The effects that a thread records under its locks.
#[derive(Debug)]
pub struct Recorder<'s> {
    journal: &'s Journal,
    offsets: &'s ShardOffsets,
    batch_buffer: &'s BatchBuffer,
    batch: Batch,
    /// During a transaction or script: whether its effects are recorded. None outside.
    transaction: Option<bool>,
    /// Effects are not recorded, in a transaction or outside.
    is_mute: bool,
    /// The running command has recorded its effect itself, or wants none recorded.
    is_recorded: bool,
    /// A script has asked that the effects of its commands are not recorded (`redis.set_repl`).
    is_suppressed: bool,
    /// The offset behind the pieces that were appended since shards were given back; 0 if there are none.
    appended_offset: u64,
    shown_offset: u64,
    /// The number of pieces that were ended.
    pieces: u64,
}

impl<'s> Recorder<'s> {
    /// Makes an empty recorder.
    pub fn new(journal: &'s Journal, offsets: &'s ShardOffsets, batch_buffer: &'s BatchBuffer) -> Self {
        let batch = Batch::default();
        Self {
            journal,
            offsets,
            batch_buffer,
            batch,
            transaction: None,
            is_mute: false,
            is_recorded: false,
            is_suppressed: false,
            appended_offset: 0,
            shown_offset: 0,
            pieces: 0,
        }
    }

    /// Returns whether effects are recorded at all. A reader that begins while a transaction runs gets none of it, never only
    /// its second half.
    #[inline]
    pub fn is_recording(&self) -> bool {
        self.transaction.unwrap_or_else(|| self.journal.wants_effects())
    }

    /// Adds an effect on `database` with so many arguments, which the caller writes as bulk strings. Effects are recorded.
    #[inline]
    pub fn effect(&mut self, database: u32, words: usize) -> Writer<'_> {
        self.make_room();
        self.batch.effect(database, words)
    }

    /// Adds an effect on `database` that is in the journal's form already. Effects are recorded.
    #[inline]
    pub fn verbatim(&mut self, database: u32, request: &[u8]) {
        self.make_room();
        self.batch.verbatim(database, request);
    }

    /// Begins a command: its request is its record, unless it records its effect itself.
    #[inline]
    pub fn begin_command(&mut self) {
        self.is_recorded = false;
    }

    /// Returns whether the running command has not recorded its effect, so that its request is the record.
    #[inline]
    pub fn needs_request(&self) -> bool {
        !self.is_recorded && self.is_recording()
    }

    /// Notes that the running command records its effect itself; returns whether effects are recorded.
    #[inline]
    pub fn begin_record(&mut self) -> bool {
        self.is_recorded = true;
        !self.is_suppressed && self.is_recording()
    }

    /// Suppresses the record of the running command's changes.
    pub fn record_nothing(&mut self) {
        self.is_recorded = true;
    }

    /// Sets whether the effects of the commands that follow are recorded: `redis.set_repl`.
    pub fn keep_record(&mut self, is_kept: bool) {
        self.is_suppressed = !is_kept;
    }

    /// Sends replicas a request with so many arguments, which changes no data and is in no AOF.
    pub fn send_to_replicas<'w>(&mut self, request: impl Iterator<Item = &'w [u8]>, count: usize) {
        if self.is_suppressed || !self.journal.is_streamed() || !self.is_recording() {
            return;
        }
        let mut bytes = Vec::new();
        let mut words = Writer::new(&mut bytes, Protocol::Resp2);
        words.array(count);
        request.for_each(|word| words.bulk(word));
        self.make_room();
        self.batch.for_replicas(&bytes);
    }

    /// Adds a part of another server's journal, which has been applied under the held locks. The recorder records nothing
    /// else: [`Recorder::mute`] was called before. Bytes that no AOF needs are marked for replicas alone.
    pub fn foreign(&mut self, database: u32, bytes: &[u8], is_for_replicas: bool) {
        self.make_room();
        self.batch.foreign(database, bytes, is_for_replicas);
        self.pieces += 1;
        if self.batch.len() >= BATCH_BYTES_MAX {
            self.appended_offset = self.journal.append(&mut self.batch);
        }
    }

    #[inline]
    fn make_room(&mut self) {
        if self.batch.capacity() == 0 {
            self.batch.set_room(self.batch_buffer.0.take());
        }
    }

    /// Begins a transaction or a script: the effects until its end are one piece.
    pub fn begin_transaction(&mut self) {
        self.end_piece();
        self.transaction = Some(!self.is_mute && self.journal.wants_effects());
    }

    /// Ends the transaction. Its effects are one piece, or none if the server's end has cut it short (`is_cut`). The locks of
    /// all changed shards are still held.
    pub fn end_transaction(&mut self, is_cut: bool) {
        if is_cut {
            self.batch.drop_open();
        }
        self.transaction = None;
        self.end_piece();
        self.transaction = self.is_mute.then_some(false);
    }

    /// Appends the effects that the running transaction has recorded so far, as a piece of its own, because the journal is
    /// about to become a copy of another server's. All shards are locked.
    pub fn append_open(&mut self) {
        if self.batch.is_open() {
            self.seal();
        }
        if !self.batch.is_empty() {
            self.appended_offset = self.journal.append(&mut self.batch);
        }
    }

    /// Determines anew, in the running transaction, whether effects are recorded, because the journal has become a copy or
    /// this server's own.
    pub fn look_again(&mut self) {
        if self.transaction.is_some() && !self.is_mute {
            self.transaction = Some(self.journal.wants_effects());
        }
    }

    /// Records nothing from now on: the requests that run stand in an AOF already.
    pub fn mute(&mut self) {
        self.end_piece();
        (self.is_mute, self.transaction) = (true, Some(false));
    }

    /// Ends the piece of a command, unless the command is part of a transaction.
    #[inline]
    pub fn end_piece(&mut self) {
        if self.batch.is_open() && self.transaction.is_none() {
            self.seal();
        }
    }

    #[inline(never)]
    fn seal(&mut self) {
        self.pieces += 1;
        self.batch.seal();
        if self.batch.len() >= BATCH_BYTES_MAX {
            self.appended_offset = self.journal.append(&mut self.batch);
        }
    }

    /// Returns whether [`Recorder::settle`] has to be called before locks are given back.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.journal.is_read() || !self.batch.is_empty()
    }

    /// Appends the effects that were recorded under the locks of these shards. They are all the held ones, and are about to
    /// be given back. The caller calls [`Recorder::ring`] after that.
    pub fn settle(&mut self, shards: impl Iterator<Item = usize>) {
        if std::thread::panicking() {
            self.batch.drop_open();
        } else if self.batch.is_open() {
            self.batch.seal();
        }
        if !self.batch.is_empty() {
            self.appended_offset = self.journal.append(&mut self.batch);
        }
        self.shown_offset = self.shown_offset.max(self.appended_offset);
        for shard in shards {
            if self.appended_offset != 0 {
                self.offsets.note(shard, self.appended_offset);
            }
            self.shown_offset = self.shown_offset.max(self.offsets.get(shard));
        }
    }

    /// Notes that a shard was read. Its lock is still held, but it is none of those that are passed to [`Recorder::settle`].
    #[inline]
    pub fn show(&mut self, shard: usize) {
        if self.journal.is_read() {
            self.shown_offset = self.shown_offset.max(self.offsets.get(shard));
        }
    }

    /// Wakes the readers that wait for the appended pieces. No lock is held.
    #[inline]
    pub fn ring(&mut self) {
        if std::mem::take(&mut self.appended_offset) != 0 {
            self.journal.ring();
        }
    }

    /// Returns how many pieces have been ended so far. If the number differs after a command, the command has changed
    /// something.
    #[inline]
    pub fn pieces(&self) -> u64 {
        self.pieces
    }

    /// Returns the offset of the journal behind all that was changed and seen under the locks that have been given back.
    pub fn shown_offset(&self) -> u64 {
        self.shown_offset
    }
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        let mut room = std::mem::take(&mut self.batch).into_room();
        room.clear();
        if (1..=2 * BATCH_BYTES_MAX).contains(&room.capacity()) {
            self.batch_buffer.0.set(room);
        }
    }
}
