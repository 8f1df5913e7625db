//! The part of the journal that its lock guards: the chunks that readers still need, the readers, and the backlog.

use std::sync::Arc;

use super::chunks::Chunks;
use crate::messaging::mail::Mailbox;

/// The bytes that readers still need, the readers, and the state at the end. The journal's lock guards it.
#[derive(Debug, Default)]
pub struct Retained {
    /// The bytes.
    pub chunks: Chunks,
    /// The readers.
    pub readers: Vec<ReaderOffset>,
    /// The number of the next reader.
    pub next_reader: u64,
    /// The database that is selected at the end; None makes the next effect begin with a SELECT.
    pub database: Option<u32>,
    /// The journal is a copy of another server's, at that server's offsets.
    pub is_copy: bool,
    /// The backlog for replicas, if it was ever begun.
    pub backlog: Option<Backlog>,
    /// The owners of replicas that have been sent all bytes; each is notified once when there are more.
    pub owners: Vec<Arc<Mailbox>>,
}

/// A reader's position.
#[derive(Debug)]
pub struct ReaderOffset {
    /// The reader's number.
    pub reader: u64,
    /// The reader's offset.
    pub offset: u64,
    /// The reader is a replica: no writer waits for it.
    pub is_follower: bool,
}

/// The stretch of the journal that is kept so that replicas can continue by a partial sync.
#[derive(Debug, Clone, Copy)]
pub struct Backlog {
    /// The offset at which the backlog was begun; earlier bytes were not kept.
    pub begins: u64,
    /// The greatest length of the backlog, in bytes.
    pub bytes_max: u64,
}

impl Retained {
    /// Returns the entry of a reader, unless it was removed.
    pub fn reader_mut(&mut self, reader: u64) -> Option<&mut ReaderOffset> {
        self.readers.iter_mut().find(|known| known.reader == reader)
    }

    /// Makes the next effect begin with a SELECT. In a copy nothing is inserted.
    pub fn begin_with_select(&mut self) {
        if !self.is_copy {
            self.database = None;
        }
    }

    /// Returns the offset before which all readers for which writers wait have read everything.
    pub fn oldest_awaited(&self) -> u64 {
        let awaited = self.readers.iter().filter(|known| !known.is_follower);
        awaited.map(|known| known.offset).min().unwrap_or(self.chunks.end())
    }

    /// Returns the offset before which no reader needs any bytes.
    pub fn oldest(&self) -> u64 {
        let oldest = self.readers.iter().map(|known| known.offset).min().unwrap_or(self.chunks.end());
        oldest.min(self.backlog_start().unwrap_or(u64::MAX))
    }

    /// Returns the first offset at which replicas can continue.
    pub fn backlog_start(&self) -> Option<u64> {
        let Backlog { begins, bytes_max } = self.backlog?;
        Some(begins.max(self.chunks.end().saturating_sub(bytes_max)))
    }

    /// Returns the number of readers, with the backlog as one.
    pub fn count(&self) -> usize {
        self.readers.len() + usize::from(self.backlog.is_some())
    }
}
