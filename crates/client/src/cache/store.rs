//! The kept replies, each below the key that decides it, with its cost.
//!
//! A reply is found by its whole request, and is invalidated by its key: all replies of one key, of any command and in any
//! database, hang on one chain below the key's hash. A server that reports a changed key does not name the database, so all
//! of them go. A reply counts with its request, its entry and its share of the tables; when there is no room, `sieve` chooses
//! the one to evict.
//!
//! Each reply is marked with the connection that invalidates its slot (`owners`): if another one does by now, the reply is
//! invalid and is removed when it is found.
//!
//! Times are arguments. Pure data; one shard's lock guards it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::mem::size_of;
use std::ops::Range;

use super::owners::Tenure;
use super::sieve::Sieve;
use crate::pipe::slot::Payload;

/// The number that stands for a missing entry.
const NONE: u32 = u32::MAX;

/// The memory of an entry in addition to its bytes: the entry itself, its place in the row and under its hash with the spare
/// room of the tables, and the allocator's share for two pieces of memory, one of which has a counter.
pub(super) const ENTRY_BYTES: usize = size_of::<CachedReply>() + 24 + 48;

/// A hasher that returns the hash that it is given.
#[derive(Default)]
pub(super) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A map by hashes that were made with a secret.
pub(super) type ByHash<T> = HashMap<u64, T, BuildHasherDefault<AsItIs>>;

/// A request, with the range of its key.
#[derive(Clone, Copy)]
pub(super) struct KeyedRequest<'a> {
    pub(super) hash: u64,
    pub(super) database: u32,
    pub(super) request: &'a [u8],
    pub(super) key: (usize, usize),
    /// The tenure of its slot.
    pub(super) tenure: Tenure,
}

impl KeyedRequest<'_> {
    fn key_range(&self) -> Range<usize> {
        self.key.0..self.key.1
    }
}

struct CachedReply {
    hash: u64,
    tenure: Tenure,
    database: u32,
    /// The next entry below the same hash.
    next: u32,
    key: Range<u32>,
    request: Box<[u8]>,
    reply: Payload,
    until_ms: u64,
}

impl CachedReply {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.request.len() + self.reply.heap_bytes()
    }

    fn key(&self) -> &[u8] {
        self.request.get(self.key.start as usize..self.key.end as usize).unwrap_or_default()
    }

    #[inline]
    fn answers(&self, database: u32, request: &[u8]) -> bool {
        self.database == database && *self.request == *request
    }
}

/// The result of a look-up in the store.
pub(super) enum Found {
    Reply(Payload),
    /// The time to live of the reply had passed, and the look-up has removed it.
    Late,
    Nothing,
}

/// The kept replies and their keys.
pub(super) struct Store {
    /// The first entry below each hash.
    heads: ByHash<u32>,
    entries: Vec<Option<CachedReply>>,
    free: Vec<u32>,
    sieve: Sieve,
    bytes: usize,
    bytes_max: usize,
}

impl Store {
    pub(super) fn new(bytes_max: usize) -> Self {
        let (entries, free, sieve) = (Vec::new(), Vec::new(), Sieve::default());
        Self { heads: ByHash::default(), entries, free, sieve, bytes: 0, bytes_max }
    }

    /// Returns the kept reply to this request.
    #[inline]
    pub(super) fn find(&mut self, asked: KeyedRequest<'_>, now_ms: u64) -> Found {
        let KeyedRequest { hash, database, request, tenure, .. } = asked;
        let mut place = self.heads.get(&hash).copied().unwrap_or(NONE);
        while let Some(Some(entry)) = self.entries.get(place as usize) {
            if entry.answers(database, request) {
                let is_late = entry.until_ms <= now_ms;
                if !is_late && entry.tenure == tenure {
                    let reply = entry.reply.clone();
                    self.sieve.touch(place);
                    return Found::Reply(reply);
                }
                self.remove(hash, |entry| entry.answers(database, request));
                return if is_late { Found::Late } else { Found::Nothing };
            }
            place = entry.next;
        }
        Found::Nothing
    }

    /// Keeps a reply until this time, in the place of an older reply to this request, and returns the number of evicted
    /// replies. A reply that is too large by itself is not kept.
    pub(super) fn keep(&mut self, asked: KeyedRequest<'_>, reply: Payload, until_ms: u64) -> u64 {
        let KeyedRequest { hash, database, request, tenure, .. } = asked;
        self.remove(hash, |entry| entry.answers(database, request));
        let key = asked.key_range();
        let entry = CachedReply {
            hash,
            tenure,
            database,
            next: NONE,
            key: key.start as u32..key.end as u32,
            request: request.into(),
            reply,
            until_ms,
        };
        let bytes = entry.bytes();
        if bytes > self.bytes_max {
            return 0;
        }
        let mut evicted = 0;
        while self.bytes + bytes > self.bytes_max
            && let Some(place) = self.sieve.next_out()
        {
            self.evict(place);
            evicted += 1;
        }
        self.bytes += bytes;
        self.enter(entry);
        evicted
    }

    fn enter(&mut self, mut entry: CachedReply) {
        let place = self.free.pop().unwrap_or(self.entries.len() as u32);
        entry.next = self.heads.insert(entry.hash, place).unwrap_or(NONE);
        match self.entries.get_mut(place as usize) {
            Some(free) => *free = Some(entry),
            None => self.entries.push(Some(entry)),
        }
        self.sieve.enter(place);
    }

    /// Removes the replies of a key, and returns their number.
    pub(super) fn forget(&mut self, hash: u64, key: &[u8]) -> u64 {
        self.remove(hash, |entry| entry.key() == key)
    }

    /// Removes all replies, and returns their number.
    pub(super) fn clear(&mut self) -> u64 {
        let count = self.len() as u64;
        *self = Self::new(self.bytes_max);
        count
    }

    /// Removes the replies that came over this connection.
    pub(super) fn forget_of(&mut self, connection: u32) {
        let is_meant = |entry: &CachedReply| entry.tenure.connection() == connection;
        for place in 0..self.entries.len() as u32 {
            if matches!(self.entries.get(place as usize), Some(Some(entry)) if is_meant(entry)) {
                self.evict(place);
            }
        }
        if self.len() == 0 {
            self.clear();
        }
    }

    fn evict(&mut self, place: u32) {
        let Some(Some(entry)) = self.entries.get(place as usize) else { return };
        let (hash, mut at) = (entry.hash, self.heads.get(&entry.hash).copied().unwrap_or(NONE));
        let mut before = NONE;
        while at != place {
            let Some(Some(entry)) = self.entries.get(at as usize) else { return };
            (before, at) = (at, entry.next);
        }
        self.unlink(hash, before, place);
    }

    /// Removes the entries of a chain that the predicate selects, and returns their number.
    fn remove(&mut self, hash: u64, is_meant: impl Fn(&CachedReply) -> bool) -> u64 {
        let mut at = self.heads.get(&hash).copied().unwrap_or(NONE);
        let (mut before, mut count) = (NONE, 0);
        while let Some(Some(entry)) = self.entries.get(at as usize) {
            let next = entry.next;
            if is_meant(entry) {
                self.unlink(hash, before, at);
                count += 1;
            } else {
                before = at;
            }
            at = next;
        }
        count
    }

    /// Removes the entry at `place`, which follows `before` in its chain.
    fn unlink(&mut self, hash: u64, before: u32, place: u32) {
        let Some(entry) = self.entries.get_mut(place as usize).and_then(Option::take) else { return };
        self.bytes -= entry.bytes();
        match self.entries.get_mut(before as usize) {
            Some(Some(previous)) => previous.next = entry.next,
            _ if entry.next == NONE => _ = self.heads.remove(&hash),
            _ => _ = self.heads.insert(hash, entry.next),
        }
        self.free.push(place);
        self.sieve.leave(place);
    }

    /// Returns the number of bytes that count against the bound.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of kept replies.
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::owners::Owners;
    use super::*;

    fn asked<'a>(hash: u64, database: u32, request: &'a str) -> KeyedRequest<'a> {
        let start = request.find(' ').map_or(0, |space| space + 1);
        let key = (start, request.len());
        KeyedRequest { hash, database, request: request.as_bytes(), key, tenure: Tenure::ENDLESS }
    }

    fn text(found: Found) -> Option<String> {
        match found {
            Found::Reply(payload) => Some(format!("{:?}", payload.frame().expect("a frame"))),
            Found::Late | Found::Nothing => None,
        }
    }

    fn reply(number: i64) -> Payload {
        Payload::shared(format!(":{number}\r\n").as_bytes())
    }

    #[test]
    fn what_is_below_a_key_goes_with_it_in_all_databases() {
        let mut store = Store::new(1 << 20);
        // The two keys get the same hash, which only a test can arrange.
        for (number, (database, request)) in
            [(0, "GET a"), (0, "STRLEN a"), (3, "GET a"), (0, "GET b"), (3, "TYPE b")].into_iter().enumerate()
        {
            store.keep(asked(7, database, request), reply(number as i64), 100);
        }
        assert_eq!(store.len(), 5);
        assert_eq!(text(store.find(asked(7, 3, "GET a"), 99)), Some("Integer(2)".to_owned()));
        assert!(matches!(store.find(asked(7, 1, "GET a"), 99), Found::Nothing));
        assert_eq!(store.forget(7, b"a"), 3);
        assert_eq!(store.forget(7, b"a"), 0);
        assert_eq!(text(store.find(asked(7, 0, "GET b"), 99)), Some("Integer(3)".to_owned()));
        assert!(matches!(store.find(asked(7, 0, "GET b"), 100), Found::Late));
        assert!(matches!(store.find(asked(7, 0, "GET b"), 0), Found::Nothing));
        assert_eq!((store.len(), store.clear(), store.len(), store.bytes()), (1, 1, 0, 0));
    }

    #[test]
    fn a_reply_counts_for_its_tenure_and_goes_with_its_connection() {
        let mut store = Store::new(1 << 20);
        let owners = Owners::default();
        owners.follow(&mut |_| 2);
        let (one, other) = (Tenure::ENDLESS, owners.tenure(b"a"));
        let of = |tenure, request| KeyedRequest { tenure, ..asked(7, 0, request) };
        store.keep(of(one, "GET a"), reply(1), 100);
        store.keep(of(other, "GET b"), reply(2), 100);
        store.keep(of(other, "GET c"), reply(3), 100);
        assert!(text(store.find(of(other, "GET b"), 99)).is_some());
        assert!(matches!(store.find(of(one, "GET b"), 99), Found::Nothing));
        assert_eq!(store.len(), 2, "what nobody keeps true goes when it is found");
        store.forget_of(2);
        assert!(text(store.find(of(one, "GET a"), 99)).is_some());
        assert!(matches!(store.find(of(other, "GET c"), 99), Found::Nothing));
        store.forget_of(1);
        assert_eq!((store.len(), store.bytes()), (0, 0));
    }

    #[test]
    fn it_takes_no_more_than_it_may_and_keeps_what_is_used() {
        let bytes_max = 20 * (ENTRY_BYTES + 6);
        let mut store = Store::new(bytes_max);
        let mut evicted = 0;
        for number in 0..1_000u64 {
            let request = format!("GET {number:02}");
            let request = request.get(..6).unwrap_or_default();
            evicted += store.keep(asked(number % 50, 0, request), reply(1), u64::MAX);
            assert!(store.bytes() <= bytes_max, "{}", store.bytes());
            assert!(text(store.find(asked(0, 0, "GET 00"), 0)).is_some(), "what is used stays, round {number}");
        }
        assert!(evicted > 100 && store.len() <= 20);
        let long = format!("${bytes_max}\r\n{}\r\n", "x".repeat(bytes_max));
        let before = store.len();
        assert_eq!(store.keep(asked(99, 0, "GET zz"), Payload::shared(long.as_bytes()), u64::MAX), 0);
        assert_eq!(store.len(), before, "what is larger than the whole is not kept, and nothing goes for it");
    }
}
