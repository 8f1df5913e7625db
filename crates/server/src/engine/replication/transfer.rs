//! A snapshot on its way to replicas.
//!
//! One thread walks through the data and puts blocks in at the end; the workers that own the replicas' connections take them
//! out, each replica at its own place. Either the blocks go as they are made, between a mark of forty characters and the same
//! mark again, and no more of them are kept than a stated number of bytes, for which the thread waits; or they are in a file,
//! which is read when it is whole and whose length is said first. Replicas that come together share one. Any thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use sleeve_disk::disk::File;

use super::ids::Id;
use crate::messaging::mail::{Letter, Mailbox};

/// Bytes of a file that are read at once.
const READ_BYTES: usize = 256 << 10;

/// What replicas can load that share a snapshot, and what of it they want.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplicaForm {
    /// The first number of their version, where they are Valkeys.
    pub valkey: Option<u32>,
    /// They want the libraries of functions and no keys.
    pub functions_only: bool,
}

/// A snapshot that replicas are sent.
#[derive(Debug)]
pub struct Transfer {
    id: Id,
    /// The offset of the journal at which it stands.
    pub offset: u64,
    /// Who can load it.
    pub form: ReplicaForm,
    /// What stands before and behind the blocks; none where they are in a file.
    mark: Option<Id>,
    state: Mutex<State>,
    /// Something was taken, or somebody has left.
    moved: Condvar,
    /// Whether what goes out first is still to come.
    is_being_written: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Blocks that somebody has still to take, each with its place.
    blocks: VecDeque<(u64, Arc<Vec<u8>>)>,
    /// The place behind the last block.
    end: u64,
    /// The file, and its length, once it is whole.
    file: Option<(Arc<dyn File>, u64)>,
    outcome: Option<bool>,
    /// Who takes, by client id.
    takers: BTreeMap<u64, Taker>,
}

#[derive(Debug)]
struct Taker {
    mailbox: Arc<Mailbox>,
    at: u64,
}

/// What a replica is given of a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// The bytes that were appended.
    Bytes,
    /// Nothing yet.
    NotYet,
    /// It has everything.
    End,
    /// There will be no more of it.
    Lost,
}

impl Transfer {
    /// One that begins at this offset of the stream with this id, for whoever can load this; between two marks, or as a file.
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

    /// The line that it begins with.
    pub fn announcement(&self) -> String {
        format!("+FULLRESYNC {} {}\r\n", self.id, self.offset)
    }

    /// Whether it stands between marks.
    pub fn is_streamed(&self) -> bool {
        self.mark.is_some()
    }

    /// Whether replicas are sent nothing of it yet.
    pub fn is_being_written(&self) -> bool {
        self.is_being_written.load(Ordering::Relaxed)
    }

    /// A client takes it from now on.
    pub fn enter(&self, client: u64, mailbox: &Arc<Mailbox>) {
        self.state.lock().takers.insert(client, Taker { mailbox: Arc::clone(mailbox), at: 0 });
    }

    /// A client takes no more.
    pub fn leave(&self, client: u64) {
        let mut state = self.state.lock();
        state.takers.remove(&client);
        state.free();
        self.moved.notify_all();
    }

    /// Puts a block in.
    pub fn push(&self, block: Vec<u8>) {
        let mut state = self.state.lock();
        let at = state.end;
        state.end += block.len() as u64;
        state.blocks.push_back((at, Arc::new(block)));
        self.tell(state);
    }

    /// Has it be read from this file.
    pub fn set_file(&self, file: Arc<dyn File>, length: u64) {
        let mut state = self.state.lock();
        state.file = Some((file, length));
        self.is_being_written.store(false, Ordering::Relaxed);
        self.tell(state);
    }

    /// Says how it ended.
    pub fn end(&self, is_good: bool) {
        let mut state = self.state.lock();
        state.outcome.get_or_insert(is_good);
        self.tell(state);
    }

    fn tell(&self, state: parking_lot::MutexGuard<'_, State>) {
        let mailboxes: Vec<_> = state.takers.values().map(|taker| Arc::clone(&taker.mailbox)).collect();
        drop(state);
        mailboxes.iter().for_each(|mailbox| mailbox.post(Letter::Stream));
    }

    /// Who takes it: each with its place, and how many bytes wait for it.
    pub fn takers(&self) -> Vec<(u64, u64, u64)> {
        let state = self.state.lock();
        state.takers.iter().map(|(client, taker)| (*client, taker.at, state.end - taker.at)).collect()
    }

    /// Whether there is something for who has taken the bytes before `at`.
    pub fn has_more(&self, at: u64) -> bool {
        let state = self.state.lock();
        state.file.is_some() || state.end > at || state.outcome.is_some()
    }

    /// Waits until something is taken, or until the time is over.
    pub fn wait(&self, timeout: Duration) {
        self.moved.wait_for(&mut self.state.lock(), timeout);
    }

    /// Appends what comes for a client that has taken the bytes before `at`.
    pub fn read(&self, client: u64, at: &mut u64, into: &mut Vec<u8>) -> Piece {
        let mut state = self.state.lock();
        if state.outcome == Some(false) || !state.takers.contains_key(&client) {
            return Piece::Lost;
        }
        let piece = match &state.file {
            Some((file, length)) => read_file(&**file, *length, at, into),
            None => state.read_block(self.mark, at, into),
        };
        if let Some(taker) = state.takers.get_mut(&client) {
            taker.at = *at;
        }
        state.free();
        self.moved.notify_all();
        piece
    }
}

impl State {
    fn read_block(&self, mark: Option<Id>, at: &mut u64, into: &mut Vec<u8>) -> Piece {
        let index = self.blocks.partition_point(|(place, block)| place + block.len() as u64 <= *at);
        if *at == 0
            && let Some(mark) = mark
            && !self.blocks.is_empty()
        {
            into.extend_from_slice(format!("$EOF:{mark}\r\n").as_bytes());
        }
        if let Some((_, block)) = self.blocks.get(index) {
            into.extend_from_slice(block);
            *at += block.len() as u64;
            return Piece::Bytes;
        }
        if self.outcome != Some(true) {
            return Piece::NotYet;
        }
        if let Some(mark) = mark {
            into.extend_from_slice(mark.as_str().as_bytes());
        }
        Piece::End
    }

    /// Lets go of what all have taken.
    fn free(&mut self) {
        let least = self.takers.values().map(|taker| taker.at).min().unwrap_or(self.end);
        while self.blocks.pop_front_if(|(place, block)| *place + block.len() as u64 <= least).is_some() {}
    }
}

fn read_file(file: &dyn File, length: u64, at: &mut u64, into: &mut Vec<u8>) -> Piece {
    if *at == 0 {
        into.extend_from_slice(format!("${length}\r\n").as_bytes());
    }
    if *at == length {
        return Piece::End;
    }
    let (start, count) = (into.len(), READ_BYTES.min((length - *at) as usize));
    into.resize(start + count, 0);
    match sleeve_disk::disk::read_full(file, *at, &mut into[start..]) {
        Ok(read) if read == count => {
            *at += count as u64;
            Piece::Bytes
        }
        // Somebody has changed it.
        Ok(_) | Err(_) => Piece::Lost,
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(transfer.read(1, &mut first, &mut bytes), Piece::Bytes);
        assert_eq!(transfer.read(1, &mut first, &mut bytes), Piece::Bytes);
        assert_eq!(transfer.read(1, &mut first, &mut bytes), Piece::NotYet);
        assert_eq!(transfer.takers(), [(1, 5, 0), (2, 0, 5)]);
        assert_eq!(transfer.read(2, &mut second, &mut Vec::new()), Piece::Bytes);
        assert_eq!(transfer.state.lock().blocks.len(), 1);
        transfer.end(true);
        assert_eq!(transfer.read(1, &mut first, &mut bytes), Piece::End);
        assert_eq!(String::from_utf8(bytes).expect("text"), format!("$EOF:{mark}\r\nabcde{mark}"));
        transfer.leave(1);
        transfer.leave(2);
        assert_eq!(transfer.read(2, &mut second, &mut Vec::new()), Piece::Lost);
        assert!(transfer.state.lock().blocks.is_empty());
        assert_eq!(transfer.announcement(), format!("+FULLRESYNC {id} 77\r\n"));
    }

    #[test]
    fn one_that_fails_is_lost_to_all() {
        let transfer = Transfer::new((Id::of_bytes([1; 20]), 0), ReplicaForm::default(), None);
        transfer.enter(1, &Arc::new(Mailbox::new(|| ())));
        assert!(transfer.is_being_written());
        assert_eq!(transfer.read(1, &mut 0, &mut Vec::new()), Piece::NotYet);
        transfer.end(false);
        assert_eq!(transfer.read(1, &mut 0, &mut Vec::new()), Piece::Lost);
    }
}
