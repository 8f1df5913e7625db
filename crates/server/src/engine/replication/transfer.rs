//! A snapshot on its way to replicas.
//!
//! One thread walks through the data and appends blocks. The workers that own the replicas' connections take them out, each
//! replica at its own position. There are two forms. In the first the blocks are sent as they are made, between a mark of
//! forty characters and the same mark again. A bounded number of bytes of them is kept: the thread waits for the slowest
//! replica, or puts the rest into a file. In the second form all blocks are in a file, which is sent when it is complete,
//! with its length first. Replicas that connect together share a snapshot. Any thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sleeve_disk::disk::File;

use super::ids::Id;
use crate::host::waiting::Condvar;
use crate::messaging::mail::{Letter, Mailbox};

/// The number of bytes of a file that are read at once.
const READ_BYTES: usize = 256 << 10;

/// The format that the replicas of one snapshot can load, and the part of the data that they want.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplicaForm {
    /// The major version of the replicas, if they are Valkeys that load Valkey's format.
    pub valkey: Option<u32>,
    /// The part of the data that they want.
    pub filter: RdbFilter,
}

/// The part of the data that replicas want (`REPLCONF rdb-filter-only`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RdbFilter {
    /// All of the data.
    #[default]
    All,
    /// The libraries of functions and no keys.
    Functions,
    /// Neither keys nor functions.
    Nothing,
}

/// A snapshot that replicas are sent.
#[derive(Debug)]
pub struct Transfer {
    id: Id,
    /// The snapshot's offset in the journal.
    pub offset: u64,
    /// The format that the replicas can load.
    pub form: ReplicaForm,
    /// The mark before and after the blocks; None if they are in a file.
    mark: Option<Id>,
    state: Mutex<TransferState>,
    /// The condition that is notified when a block was taken, or a replica has left.
    moved: Condvar,
    /// The first bytes cannot be sent yet.
    is_being_written: AtomicBool,
}

#[derive(Debug, Default)]
struct TransferState {
    /// The blocks that some replica has still to take, each with its position.
    blocks: VecDeque<(u64, Arc<Vec<u8>>)>,
    /// The position behind the last byte so far.
    end: u64,
    /// A file, and the position of its first byte: no byte from there on is in blocks.
    file: Option<(Arc<dyn File>, u64)>,
    outcome: Option<bool>,
    /// The replicas that take the snapshot, by client id.
    takers: BTreeMap<u64, Taker>,
}

#[derive(Debug)]
struct Taker {
    mailbox: Arc<Mailbox>,
    at: u64,
}

/// The source of the next bytes.
enum NextBytes {
    /// A block, from a position on.
    Block(Arc<Vec<u8>>, usize),
    /// A number of bytes of the file, from a position on.
    File(Arc<dyn File>, u64, usize),
    NotYet,
    End,
}

/// The result of a replica's read from a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub enum TransferRead {
    /// Bytes were appended.
    Bytes,
    /// There are no bytes yet.
    NotYet,
    /// The replica has the complete snapshot.
    End,
    /// The snapshot has failed: no more bytes follow.
    Lost,
}

impl Transfer {
    /// Makes a transfer of a snapshot that begins at this offset of the stream with this id, for replicas that load this
    /// format. `mark` is the mark around the blocks, or None for a file.
    pub fn new((id, offset): (Id, u64), form: ReplicaForm, mark: Option<Id>) -> Self {
        Self {
            id,
            offset,
            form,
            mark,
            state: Mutex::default(),
            moved: Condvar::new(),
            is_being_written: AtomicBool::new(mark.is_none()),
        }
    }

    /// Returns the line before the snapshot.
    pub fn announcement(&self) -> String {
        format!("+FULLRESYNC {} {}\r\n", self.id, self.offset)
    }

    /// Returns whether the snapshot is sent between marks.
    pub fn is_streamed(&self) -> bool {
        self.mark.is_some()
    }

    /// Returns whether nothing of the snapshot can be sent yet.
    pub fn is_being_written(&self) -> bool {
        self.is_being_written.load(Ordering::Relaxed)
    }

    /// Adds a client that takes the snapshot.
    pub fn enter(&self, client: u64, mailbox: &Arc<Mailbox>) {
        self.state.lock().takers.insert(client, Taker { mailbox: Arc::clone(mailbox), at: 0 });
    }

    /// Removes a client that takes no more of the snapshot.
    pub fn leave(&self, client: u64) {
        let mut state = self.state.lock();
        state.takers.remove(&client);
        state.free();
        self.moved.notify_all();
    }

    /// Appends a block.
    pub fn push(&self, block: Vec<u8>) {
        let mut state = self.state.lock();
        let at = state.end;
        state.end += block.len() as u64;
        state.blocks.push_back((at, Arc::new(block)));
        self.tell(state);
    }

    /// Lets replicas read the snapshot from this file, which is complete.
    pub fn set_file(&self, file: Arc<dyn File>, length: u64) {
        let mut state = self.state.lock();
        (state.file, state.end) = (Some((file, 0)), length);
        self.is_being_written.store(false, Ordering::Relaxed);
        self.tell(state);
    }

    /// Lets replicas read all later blocks from this file, which is empty.
    pub fn go_on_in_file(&self, file: Arc<dyn File>) {
        let mut state = self.state.lock();
        state.file = Some((file, state.end));
    }

    /// Adds so many bytes to the readable part of the file.
    pub fn grow_file(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.end += bytes as u64;
        self.tell(state);
    }

    /// Ends the snapshot, complete or failed.
    pub fn end(&self, is_good: bool) {
        let mut state = self.state.lock();
        state.outcome.get_or_insert(is_good);
        self.tell(state);
    }

    fn tell(&self, state: parking_lot::MutexGuard<'_, TransferState>) {
        let mailboxes: Vec<_> = state.takers.values().map(|taker| Arc::clone(&taker.mailbox)).collect();
        drop(state);
        mailboxes.iter().for_each(|mailbox| mailbox.post(Letter::Stream));
    }

    /// Returns the clients that take the snapshot: each with its position, and the number of bytes that wait for it.
    pub fn takers(&self) -> Vec<(u64, u64, u64)> {
        let state = self.state.lock();
        state.takers.iter().map(|(client, taker)| (*client, taker.at, state.end - taker.at)).collect()
    }

    /// Returns whether there are bytes for a replica that has taken the bytes before `at`.
    pub fn has_more(&self, at: u64) -> bool {
        let state = self.state.lock();
        state.end > at || state.outcome.is_some()
    }

    /// Waits until a block is taken, or until the timeout.
    pub fn wait(&self, timeout: Duration) {
        self.moved.wait_for(&mut self.state.lock(), timeout);
    }

    /// Appends the next bytes for a client that has taken the bytes before `at`, at most `bytes_max` and the head. A file is
    /// read without a lock, so that no other caller waits for the disk.
    pub fn read(&self, client: u64, at: &mut u64, bytes_max: usize, into: &mut Vec<u8>) -> TransferRead {
        let (source, end) = {
            let state = self.state.lock();
            if state.outcome == Some(false) || !state.takers.contains_key(&client) {
                return TransferRead::Lost;
            }
            (state.source(*at), state.end)
        };
        if bytes_max == 0 && matches!(source, NextBytes::Block(..) | NextBytes::File(..)) {
            return TransferRead::NotYet;
        }
        if *at == 0 && end != 0 {
            let head = self.mark.map_or_else(|| format!("${end}\r\n"), |mark| format!("$EOF:{mark}\r\n"));
            into.extend_from_slice(head.as_bytes());
        }
        let before = into.len();
        match source {
            NextBytes::NotYet => return TransferRead::NotYet,
            NextBytes::End => {
                self.mark.iter().for_each(|mark| into.extend_from_slice(mark.as_str().as_bytes()));
                return TransferRead::End;
            }
            NextBytes::Block(block, from) => {
                let rest = block.get(from..).unwrap_or_default();
                into.extend_from_slice(&rest[..rest.len().min(bytes_max)]);
            }
            NextBytes::File(file, from, count) => {
                let count = count.min(bytes_max);
                into.resize(before + count, 0);
                match sleeve_disk::disk::read_full(&*file, from, &mut into[before..]) {
                    Ok(read) if read == count => {}
                    // Another process has changed the file.
                    Ok(_) | Err(_) => return TransferRead::Lost,
                }
            }
        }
        *at += (into.len() - before) as u64;
        let mut state = self.state.lock();
        if let Some(taker) = state.takers.get_mut(&client) {
            taker.at = *at;
        }
        state.free();
        self.moved.notify_all();
        TransferRead::Bytes
    }
}

impl TransferState {
    fn source(&self, at: u64) -> NextBytes {
        if at == self.end {
            return if self.outcome == Some(true) { NextBytes::End } else { NextBytes::NotYet };
        }
        match &self.file {
            Some((file, first)) if at >= *first => {
                NextBytes::File(Arc::clone(file), at - first, READ_BYTES.min((self.end - at) as usize))
            }
            _ => {
                let index = self.blocks.partition_point(|(place, block)| place + block.len() as u64 <= at);
                let block = self.blocks.get(index);
                block.map_or(NextBytes::NotYet, |(place, block)| {
                    NextBytes::Block(Arc::clone(block), at.saturating_sub(*place) as usize)
                })
            }
        }
    }

    /// Frees the blocks that all replicas have taken.
    fn free(&mut self) {
        let least = self.takers.values().map(|taker| taker.at).min().unwrap_or(self.end);
        while self.blocks.pop_front_if(|(place, block)| *place + block.len() as u64 <= least).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::path::Path;

    use sleeve_disk::disk::{Disk, Open, memory::MemoryDisk};

    use super::*;

    #[test]
    fn each_takes_at_its_own_place_and_what_all_have_taken_goes() {
        let (id, mark) = (Id::of_bytes([1; 20]), Id::of_bytes([2; 20]));
        let transfer = Transfer::new((id, 77), ReplicaForm::default(), Some(mark));
        let mailbox = Arc::new(Mailbox::new(|| ()));
        assert!(transfer.takers().is_empty());
        [1, 2].into_iter().for_each(|client| transfer.enter(client, &mailbox));
        transfer.push(b"abc".to_vec());
        transfer.push(b"de".to_vec());
        let (mut first, mut second, mut bytes) = (0, 0, Vec::new());
        assert_eq!(transfer.read(1, &mut first, usize::MAX, &mut bytes), TransferRead::Bytes);
        assert_eq!(transfer.read(1, &mut first, usize::MAX, &mut bytes), TransferRead::Bytes);
        assert_eq!(transfer.read(1, &mut first, usize::MAX, &mut bytes), TransferRead::NotYet);
        assert_eq!(transfer.takers(), [(1, 5, 0), (2, 0, 5)]);
        assert_eq!(transfer.read(2, &mut second, usize::MAX, &mut Vec::new()), TransferRead::Bytes);
        assert_eq!(transfer.state.lock().blocks.len(), 1);
        transfer.end(true);
        assert_eq!(transfer.read(1, &mut first, usize::MAX, &mut bytes), TransferRead::End);
        assert_eq!(String::from_utf8(bytes).expect("text"), format!("$EOF:{mark}\r\nabcde{mark}"));
        transfer.leave(1);
        transfer.leave(2);
        assert_eq!(transfer.read(2, &mut second, usize::MAX, &mut Vec::new()), TransferRead::Lost);
        assert!(transfer.state.lock().blocks.is_empty());
        assert_eq!(transfer.announcement(), format!("+FULLRESYNC {id} 77\r\n"));
    }

    #[test]
    fn who_is_slow_is_given_blocks_and_then_the_file() {
        let mark = Id::of_bytes([2; 20]);
        let transfer = Transfer::new((Id::of_bytes([1; 20]), 0), ReplicaForm::default(), Some(mark));
        let mailbox = Arc::new(Mailbox::new(|| ()));
        [1, 2].into_iter().for_each(|client| transfer.enter(client, &mailbox));
        transfer.push(b"abc".to_vec());
        let (disk, name) = (MemoryDisk::default(), Path::new("file"));
        let file = disk.open(name, Open::Create).expect("it begins");
        transfer.go_on_in_file(Arc::clone(&file));
        disk.remove(name).expect("it is there");
        let write = |bytes: &[u8]| {
            file.append(&[IoSlice::new(bytes)]).expect("there is room");
            transfer.grow_file(bytes.len());
        };
        write(b"de");
        let (mut at, mut bytes) = ([0, 0], [Vec::new(), Vec::new()]);
        let mut read =
            |client: usize| transfer.read(client as u64 + 1, &mut at[client], usize::MAX, &mut bytes[client]);
        assert_eq!(
            [read(0), read(0), read(0), read(1)],
            [TransferRead::Bytes, TransferRead::Bytes, TransferRead::NotYet, TransferRead::Bytes]
        );
        assert_eq!(transfer.takers(), [(1, 5, 0), (2, 3, 2)]);
        assert!(transfer.has_more(3) && !transfer.has_more(5) && transfer.state.lock().blocks.is_empty());
        write(b"fg");
        transfer.end(true);
        for client in [0, 1] {
            while read(client) != TransferRead::End {}
        }
        let expected = format!("$EOF:{mark}\r\nabcdefg{mark}");
        assert_eq!(bytes.map(|bytes| String::from_utf8(bytes).expect("text")), [expected.clone(), expected]);
    }

    #[test]
    fn one_that_fails_is_lost_to_all() {
        let transfer = Transfer::new((Id::of_bytes([1; 20]), 0), ReplicaForm::default(), None);
        transfer.enter(1, &Arc::new(Mailbox::new(|| ())));
        assert!(transfer.is_being_written());
        assert_eq!(transfer.read(1, &mut 0, usize::MAX, &mut Vec::new()), TransferRead::NotYet);
        transfer.end(false);
        assert_eq!(transfer.read(1, &mut 0, usize::MAX, &mut Vec::new()), TransferRead::Lost);
    }
}
