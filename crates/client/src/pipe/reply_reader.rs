//! The receiving half of the pipe: bytes arrive, frames are cut, and the oldest askers get them.
//!
//! The thread that reads the socket fills the buffer here, cuts the bytes into frames, takes as many entries from the pipe
//! (the only step under the pipe's lock), and then hands every frame to its entry without any lock. Messages that answer no
//! request (RESP3's push type) go to the callers that wait for the disk and to the near cache; others are dropped. A reply
//! without an asker, or bytes that are no reply, end the connection: no later byte can be trusted to belong to its asker.
//!
//! The reader takes bytes and gives bytes: no socket, no clock, no thread. One thread at a time owns it.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Weak};

use sleeve_wire::attribute::behind_attributes;
use sleeve_wire::frame::{FrameError, Scanner, short_bulk};

use super::asker::{Asker, Time};
use super::cached_read::Cache;
use super::durability::{DurabilityWaits, is_message};
use super::hold::{may_end_script, passing};
use super::queue::{Entry, UNWATCH};
use super::select_failed;
use super::slot::Completions;
use super::slot::Payload;
use super::transaction_state::Step;
use crate::error::{Effect, Error};
use crate::sys::planted::{self, Fault};

/// The length of an empty buffer, and the step by which it grows for a reply that does not fit into it: a read never takes
/// long, so that other connections have their turns.
const BUFFER_LENGTH: usize = 64 * 1024;

/// The number of bytes from which on a reply is handed over with its buffer instead of being copied.
const HANDED_OVER_MIN: usize = 256 * 1024;

/// A byte that begins no valid reply.
const NO_REPLY: u8 = b'?';

/// The length above which a buffer shrinks again when it is empty.
const KEPT_LENGTH_MAX: usize = 256 * 1024;

/// Returns the error for a reply that is longer than may be kept.
pub(crate) fn too_long(length: u64, max: usize) -> Error {
    Error::protocol(format_args!(
        "a reply of {length} bytes or more is longer than reply_bytes_max, {max} bytes: if the server is to be trusted, ask for \
         less at once (GETRANGE, LRANGE, a SCAN) or raise it (Config::reply_bytes_max, or reply_bytes_max=4gb in the URL)"
    ))
}

/// The requests that remain to be sent because of a reply: the second phase of a transaction, or the release of its keys.
pub(crate) struct Resumption {
    pub(crate) asker: Asker,
    pub(crate) frames: u32,
    pub(crate) database: u32,
    pub(crate) request: Vec<u8>,
    /// The time of the transaction, which goes on.
    pub(crate) time: Time,
}

impl Resumption {
    fn execute(entry: Entry, request: Vec<u8>) -> Self {
        let (database, time, asker) = (entry.database, entry.time(), entry.asker);
        let frames = if let Asker::Transaction(transaction) = &asker { transaction.frames() } else { 0 };
        Self { asker, frames, database, request, time }
    }

    fn release(entry: &Entry) -> Self {
        let (database, time) = (entry.database, entry.time());
        Self { asker: Asker::Nobody, frames: 1, database, request: UNWATCH.to_vec(), time }
    }
}

/// An observer that is notified of a server's errors.
pub(crate) trait ErrorObserver: Send + Sync {
    /// Notes that the server has answered with this error. The reply reader's lock is held.
    fn refused(&self, error: &[u8]);
}

/// Notifies the error observer of this reply, if it is an error. The errors with which a server refuses commands are too long
/// to be kept in a slot, so a short reply is not checked.
fn tell_of_error(error_observer: Option<&Weak<dyn ErrorObserver>>, reply: &[u8]) {
    if reply.first() == Some(&b'-')
        && let Some(error_observer) = error_observer.and_then(Weak::upgrade)
    {
        error_observer.refused(reply.trim_ascii_end().get(1..).unwrap_or_default());
    }
}

/// Keeps a reply. `head` is the number of bytes in front of the text of a short bulk string; 0 for any other reply.
fn keep(error_observer: Option<&Weak<dyn ErrorObserver>>, reply: &[u8], head: usize) -> Payload {
    Payload::short(reply, head).unwrap_or_else(|| {
        tell_of_error(error_observer, reply);
        Payload::Long(reply.into())
    })
}

/// Takes the reply to a SELECT that went ahead of a request. Returns the reply if it refuses the SELECT for the moment.
fn accept_select(reply: &[u8]) -> Result<Option<Box<[u8]>>, Error> {
    match reply {
        b"+OK\r\n" => Ok(None),
        _ if passing(reply, false).is_some() => Ok(Some(reply.into())),
        _ => Err(select_failed(reply)),
    }
}

/// Checks that a command was executed in its database: if the last SELECT was refused, the command must have been refused as
/// well.
#[inline]
fn check_database(select_refusal: Option<&[u8]>, asker: &Asker, reply: &[u8]) -> Result<(), Error> {
    let Some(refusal) = select_refusal.filter(|_| !runs_anywhere(asker)) else { return Ok(()) };
    match Payload::of(reply).into_error() {
        Some(error) if error.effect() == Effect::Refused => Ok(()),
        _ => Err(select_failed(refusal)),
    }
}

/// Returns whether the command runs in any database, or its answer goes to no caller.
fn runs_anywhere(asker: &Asker) -> bool {
    may_end_script(asker) || matches!(asker, Asker::Nobody | Asker::Follow(_) | Asker::Tracking)
}

/// The place of a whole reply in the buffer.
#[derive(Clone, Copy)]
struct Whole {
    start: usize,
    end: usize,
    /// The number of bytes in front of its text, if it is a short bulk string; otherwise 0.
    head: usize,
}

impl Whole {
    /// Corrects the place after `count` bytes in front of it were removed.
    fn move_by(&mut self, count: usize) {
        (self.start, self.end) = (self.start - count, self.end - count);
    }
}

/// The reader's half of a connection.
#[derive(Default)]
pub(crate) struct ReplyReader {
    /// The buffer; it is always initialised to its length, so that it can be read into.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    scanner: Scanner,
    /// Whole replies without an entry so far: those of a transaction wait here for the last.
    replies: Vec<Whole>,
    /// Entries with replies that have all arrived; empty except while the replies are handed out.
    pub(crate) pending: VecDeque<Entry>,
    /// The number of bytes received on all connections so far.
    pub(crate) bytes_total: u64,
    /// The beginnings and ends of the received messages with offsets of the journal.
    messages: Vec<(usize, usize)>,
    /// The callers that wait until the disk has the effects that a reply shows.
    pub(crate) durability: DurabilityWaits,
    /// The cache that this connection's messages invalidate.
    pub(crate) cache: Option<Arc<dyn Cache>>,
    /// The observer of errors, if there is one.
    error_observer: Option<Weak<dyn ErrorObserver>>,
    /// The indices of those of `replies` that refuse a command for the moment.
    refusals: Vec<usize>,
    /// The error of the last of these replies.
    pub(crate) refusal: Option<Error>,
    /// The reply to the last SELECT, if it was refused: until the next SELECT the connection is in another database.
    select_refusal: Option<Box<[u8]>>,
    /// The largest number of bytes that are kept of replies without an entry so far; none if the server is trusted.
    reply_bytes_max: Option<usize>,
    /// The least length of a reply that is longer than that, if there is one.
    excess: Option<u64>,
}

impl ReplyReader {
    /// Returns whether a received reply refuses a command for the moment.
    #[inline]
    pub(crate) fn has_refusals(&self) -> bool {
        !self.refusals.is_empty()
    }

    /// Creates a reader with an error observer, that keeps at most `reply_bytes_max` bytes of a reply.
    pub(crate) fn new(error_observer: Option<Weak<dyn ErrorObserver>>, reply_bytes_max: usize) -> Self {
        Self { error_observer, reply_bytes_max: Some(reply_bytes_max), ..Self::default() }
    }

    /// Returns whether a reply was longer than the bound, so that the connection ends.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.excess.is_some()
    }

    /// Returns the room to read into: never empty, and never so large that filling it takes long.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let mut kept = self.replies.first().map_or(self.start, |whole| whole.start);
        if kept == self.end {
            (kept, self.start, self.end) = (0, 0, 0);
            if self.buffer.len() > KEPT_LENGTH_MAX {
                self.buffer = Vec::new();
            }
        }
        if self.buffer.len() - self.end < BUFFER_LENGTH / 4 {
            match self.excess_of(kept) {
                Some(length) => self.refuse(length),
                None => self.make_room(kept),
            }
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Makes room behind the bytes that are kept, which begin at `kept`.
    fn make_room(&mut self, kept: usize) {
        // A long reply is moved once: from then on it begins at the front.
        if kept > 0 {
            self.buffer.copy_within(kept..self.end, 0);
            (self.start, self.end) = (self.start - kept, self.end - kept);
            self.replies.iter_mut().for_each(|whole| whole.move_by(kept));
        }
        // The buffer that is left behind a reply that was handed over may be a single byte.
        if self.buffer.len() < BUFFER_LENGTH || self.buffer.len() - self.end < self.buffer.len() / 2 {
            let (length, capacity) = (self.buffer.len() + BUFFER_LENGTH, self.buffer.capacity());
            if length > capacity {
                // The buffer doubles, so that few bytes are copied, but never grows beyond the largest useful length.
                let useful = self.reply_bytes_max.map_or(usize::MAX, |max| max.saturating_add(2 * BUFFER_LENGTH));
                self.buffer.reserve_exact(length.max(useful.min(2 * capacity)) - self.buffer.len());
            }
            self.buffer.resize(length, 0);
        }
        self.buffer.truncate(self.end + BUFFER_LENGTH);
    }

    /// Returns the least length of the reply that begins at `kept`, from the bytes that have arrived and from the length that
    /// it claims, if it is above the bound.
    fn excess_of(&self, kept: usize) -> Option<u64> {
        let rest = self.buffer.get(self.start..self.end).unwrap_or_default();
        let length = self.scanner.length_min(rest).saturating_add((self.start - kept) as u64);
        self.reply_bytes_max.is_some_and(|max| length > max as u64).then_some(length)
    }

    /// Drops a reply that is too long at once, with the memory that it has taken. The next call that reads gets the error.
    fn refuse(&mut self, length: u64) {
        self.excess = Some(length);
        self.buffer = vec![0; BUFFER_LENGTH];
        self.distrust();
    }

    /// Returns the error because of which the received bytes cannot be read on.
    #[cold]
    fn fault(&self, error: FrameError) -> Error {
        match (self.excess, self.reply_bytes_max) {
            (Some(length), Some(max)) => too_long(length, max),
            _ => Error::protocol(error),
        }
    }

    /// Notes that `count` bytes were read into the room. Returns the number of whole replies that have no entry so far.
    pub(crate) fn filled(&mut self, count: usize) -> Result<usize, Error> {
        self.end += count;
        self.bytes_total += count as u64;
        loop {
            let (start, rest) = (self.start, self.buffer.get(self.start..self.end).unwrap_or_default());
            if let Some((head, length)) = short_bulk(rest) {
                self.scanner = Scanner::new();
                self.replies.push(Whole { start, end: start + length, head });
                self.start += length;
                if self.start == self.end {
                    return Ok(self.replies.len());
                }
                continue;
            }
            match self.scanner.scan(rest) {
                Ok(Some(length)) => {
                    match behind_attributes(rest).first() {
                        Some(b'>') if !planted::has(Fault::TakesMessage) => self.sort(length),
                        first => {
                            if first == Some(&b'-') {
                                self.suspect(length);
                            }
                            self.replies.push(Whole { start, end: start + length, head: 0 });
                        }
                    }
                    self.start += length;
                }
                Ok(None) => return Ok(self.replies.len()),
                Err(error) => return Err(self.fault(error)),
            }
        }
    }

    /// Checks an error reply of this length, and notes it if it refuses a command for the moment.
    #[cold]
    fn suspect(&mut self, length: usize) {
        let reply = self.buffer.get(self.start..self.start + length).unwrap_or_default();
        if let Some(error) = passing(behind_attributes(reply), self.error_observer.is_some()) {
            tell_of_error(self.error_observer.as_ref(), behind_attributes(reply));
            self.refusals.push(self.replies.len());
            self.refusal = Some(error);
        }
    }

    /// Returns the indices of those replies to `pending` that refuse a command for the moment, in order. The entries of later
    /// replies are not known yet.
    pub(crate) fn take_refusals(&mut self) -> Vec<usize> {
        let count: usize = self.pending.iter().map(|entry| entry.replies as usize).sum();
        if count == 0 {
            return Vec::new();
        }
        let rest = self.refusals.split_off(self.refusals.partition_point(|refusal| *refusal < count));
        mem::replace(&mut self.refusals, rest.into_iter().map(|refusal| refusal - count).collect())
    }

    /// Takes a message of this length that answers no request, and passes it to its receiver.
    #[cold]
    fn sort(&mut self, length: usize) {
        let message = self.buffer.get(self.start..self.start + length).unwrap_or_default();
        if is_message(message) {
            self.messages.push((self.start, self.start + length));
        } else if let Some(cache) = &self.cache {
            // The cache takes the message ahead of the replies that have arrived with it. These are then not kept, although
            // some may be newer.
            cache.told(behind_attributes(message));
        }
    }

    /// Hands the replies to their entries, and the messages to the callers that wait for them. Returns the request that must
    /// be sent because of them, if there is one.
    pub(crate) fn deliver(&mut self, done: &mut Completions) -> Result<Option<Resumption>, Error> {
        self.hand_out(done).inspect_err(|_| self.distrust())
    }

    fn hand_out(&mut self, done: &mut Completions) -> Result<Option<Resumption>, Error> {
        // `handed_out` is the number of replies that were handed out, and `received` the number of those that the first of
        // `pending` has got.
        let (mut resumption, mut handed_out, mut received) = (None, 0, 0);
        while let Some(entry) = self.pending.front_mut()
            && let Some(&Whole { start, end, head }) = self.replies.get(handed_out)
        {
            handed_out += 1;
            let whole = self.buffer.get(start..end).unwrap_or_default();
            let reply = if head > 0 { whole } else { behind_attributes(whole) };
            let is_plain = received == 0 && entry.replies == 1 && matches!(entry.asker, Asker::Slot(_));
            if is_plain
                && self.select_refusal.is_none()
                && let Some(payload) = Payload::short(reply, head)
            {
                if let Some(Entry { asker: Asker::Slot(target), .. }) = self.pending.pop_front() {
                    target.complete(payload, done);
                }
                continue;
            }
            received += 1;
            if entry.selects && received == 1 {
                self.select_refusal = accept_select(reply)?;
                if entry.replies > 1 {
                    continue;
                }
            } else if received == entry.replies {
                check_database(self.select_refusal.as_deref(), &entry.asker, reply)?;
            }
            let step = match &mut entry.asker {
                Asker::Transaction(transaction) => {
                    tell_of_error(self.error_observer.as_ref(), reply);
                    transaction.accept(reply, done)
                }
                Asker::Read(read) => read.accept(reply, done),
                asker @ Asker::Routed(_) => asker.accept_routed(reply, self.cache.as_deref(), done),
                // A request that has timed out still takes all replies that arrive for it.
                _ if received < entry.replies => Step::More,
                _ => Step::Done,
            };
            if matches!(step, Step::More) {
                continue;
            }
            received = 0;
            match (self.pending.pop_front(), step) {
                (Some(Entry { asker: Asker::Slot(target), .. }), _) => {
                    if reply.len() >= HANDED_OVER_MIN && reply.len() == end {
                        self.replies.drain(..handed_out);
                        target.complete(Payload::Long(self.hand_over(end)), done);
                        return self.hand_out(done);
                    }
                    target.complete(keep(self.error_observer.as_ref(), reply, head), done);
                }
                (Some(Entry { asker: Asker::Follow(what), .. }), _) => self.durability.answered(what, reply, done),
                (Some(Entry { asker: Asker::Tracking, .. }), _) => {
                    self.cache.iter().for_each(|cache| cache.asked(reply));
                }
                (Some(entry), Step::Execute(request)) => resumption = Some(Resumption::execute(entry, request)),
                (Some(entry), Step::Release) => resumption = Some(Resumption::release(&entry)),
                _ => {}
            }
        }
        self.replies.drain(..handed_out);
        if !self.messages.is_empty() {
            self.hear(done);
        }
        Ok(resumption)
    }

    /// Notes that no later byte of this connection can be trusted. If another thread reads before the connection is cut, it
    /// finds bytes that begin no reply. The cut fails the callers that are left in `pending`.
    #[cold]
    pub(crate) fn distrust(&mut self) {
        self.replies.clear();
        self.scanner = Scanner::new();
        if let Some(first) = self.buffer.first_mut() {
            *first = NO_REPLY;
            (self.start, self.end) = (0, 1);
        }
    }

    /// Gives away the buffer, which begins with a reply that ends at `end`. The bytes behind it are moved to another buffer.
    #[cold]
    fn hand_over(&mut self, end: usize) -> Box<[u8]> {
        let tail = self.buffer.get(end..self.end).unwrap_or_default().to_vec();
        let mut whole = mem::replace(&mut self.buffer, tail);
        whole.truncate(end);
        (self.start, self.end) = (self.start - end, self.end - end);
        self.replies.iter_mut().for_each(|whole| whole.move_by(end));
        self.messages.iter_mut().for_each(|(start, other)| (*start, *other) = (*start - end, *other - end));
        whole.into_boxed_slice()
    }

    /// Handles the messages with offsets of the journal. A caller that waits for one had its reply before any of these bytes
    /// were read, so their order among replies does not matter.
    #[cold]
    fn hear(&mut self, done: &mut Completions) {
        for (start, end) in self.messages.drain(..) {
            self.durability.told(self.buffer.get(start..end).unwrap_or_default(), done);
        }
    }

    /// Handles the loss of the connection: forgets its bytes and returns the entries that were being answered.
    pub(crate) fn cut(&mut self) -> VecDeque<Entry> {
        self.cache.iter().for_each(|cache| cache.lost());
        (self.start, self.end) = (0, 0);
        self.scanner = Scanner::new();
        self.replies.clear();
        self.refusals.clear();
        self.select_refusal = None;
        self.messages.clear();
        self.excess = None;
        mem::take(&mut self.pending)
    }
}
