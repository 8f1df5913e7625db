//! A base of the log in words of requests (`aof-use-rdb-preamble no`): what makes each key, in the words of the oldest server
//! that reads a log's folder.
//!
//! Large values come in several requests of at most [`ELEMENTS_MAX`] elements. What requests cannot say is lost, as with
//! every server: how keys were used, and when consumers of streams were last seen.

mod stream;
mod words;

use sleeve_disk::log::Options;
use sleeve_store::snapshot::{Bytes, Keys, Large, Members, Record};
use sleeve_store::{Digits, EntryRef, Kind, List, Map, MapRef, Set, SortedSet, Stream, ValueRef};
use sleeve_wire::reply::{Protocol, Writer};

use stream::{HeldStream, whole_stream};
use words::Words;

/// Elements of a value that one request names at most, as in Redis.
const ELEMENTS_MAX: usize = 64;

/// Why a value can be looked at as what it is.
const KNOWN: &str = "the type says which collection it is";

/// Writes what a snapshot gives out as requests.
pub struct Requests {
    words: Words,
    /// The database that is selected.
    db: Option<usize>,
    keys: u64,
    /// Whether a part of the string that is being written has come.
    has_string: bool,
    /// The stream that is being written.
    stream: HeldStream,
}

impl Requests {
    /// Begins a base that stands for the journal up to an offset, at this time.
    pub fn begin(options: &Options, stands_for: u64, now_s: i64) -> Self {
        let words = Words::begin(options, stands_for, now_s);
        Self { words, db: None, keys: 0, has_string: false, stream: HeldStream::default() }
    }

    /// Writes a library of functions.
    pub fn function(&mut self, code: &[u8]) {
        self.words.request(&[b"FUNCTION", b"LOAD", code]);
    }

    /// How many keys were written.
    pub fn keys_len(&self) -> u64 {
        self.keys
    }

    /// Bytes that wait to be taken out.
    pub fn pending_len(&self) -> usize {
        self.words.pending_len()
    }

    /// Gives out what was written since the last time.
    pub fn drain<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> R {
        self.words.drain(take)
    }

    /// Ends the base; what is left is to be taken out.
    pub fn end(self) -> Vec<u8> {
        self.words.end()
    }

    /// Writes a record.
    pub fn write(&mut self, record: Record<'_>) {
        match record {
            Record::Keys(keys) => self.small(keys),
            Record::Open(large) => {
                self.select(large.db());
                self.keys += 1;
                self.has_string = false;
                self.stream = HeldStream::of(large);
            }
            Record::Members(large, members) => self.members(large, members),
            Record::Part(large, bytes) => self.part(large, &bytes),
            Record::Pending(_, pending) => self.stream.pending.extend(pending.iter()),
            Record::Close(large) => self.close(large),
        }
        self.words.settle();
    }

    fn select(&mut self, db: usize) {
        if self.db.replace(db) != Some(db) {
            self.words.request(&[b"SELECT", db.to_string().as_bytes()]);
        }
    }

    fn deadline(&mut self, key: &[u8], deadline: Option<i64>) {
        if let Some(deadline) = deadline {
            self.words.request(&[b"PEXPIREAT", key, Digits::default().write(deadline)]);
        }
    }

    fn small(&mut self, keys: Keys<'_>) {
        self.select(keys.db());
        keys.for_each(|entry| {
            self.keys += 1;
            self.entry(&entry);
            self.deadline(entry.key(), entry.deadline());
            self.words.settle();
        });
    }

    fn entry(&mut self, entry: &EntryRef<'_>) {
        let key = entry.key();
        match entry.kind() {
            Kind::String => self.words.request(&[b"SET", key, entry.value().bytes(&mut Digits::default())]),
            Kind::List => {
                let list = entry.collection::<List>().expect(KNOWN);
                self.elements(b"RPUSH", key, |words| list.iter().for_each(|element| words.add(element)));
            }
            Kind::Set => {
                let set = entry.collection::<Set>().expect(KNOWN);
                self.elements(b"SADD", key, |words| set.for_each(|member| words.add(member)));
            }
            Kind::SortedSet => {
                let set = entry.collection::<SortedSet>().expect(KNOWN);
                let all = 0..set.len();
                self.elements(b"ZADD", key, |words| set.visit(all, false, |name, score| words.scored(name, score)));
            }
            Kind::Hash => self.hash(key, entry.collection::<Map>().expect(KNOWN)),
            Kind::Stream => whole_stream(&mut self.words, key, entry.collection::<Stream>().expect(KNOWN)),
        }
    }

    fn hash(&mut self, key: &[u8], map: MapRef<'_>) {
        let mut timed = Vec::new();
        // What is over was there.
        self.elements(b"HMSET", key, |words| {
            map.for_each_with_deadline(i64::MIN, |field, value, deadline| {
                words.pair(field, value);
                timed.extend(timed_field(field, deadline));
            });
        });
        self.time_fields(key, &timed);
    }

    fn time_fields(&mut self, key: &[u8], timed: &[(Vec<u8>, i64)]) {
        for (field, deadline) in timed {
            let mut digits = Digits::default();
            self.words.request(&[b"HPEXPIREAT", key, digits.write(*deadline), b"FIELDS", b"1", field]);
        }
    }

    /// Requests of one name for one key, with as many elements as `add` says.
    fn elements(&mut self, name: &'static [u8], key: &[u8], add: impl FnOnce(&mut Elements<'_>)) {
        let mut elements =
            Elements { out: &mut self.words.block, name, key, words: Vec::new(), words_len: 0, elements_len: 0 };
        add(&mut elements);
        elements.end();
    }

    fn members(&mut self, large: &Large, members: Members<'_>) {
        let (key, mut timed) = (large.key(), Vec::new());
        let name: &[u8] = match large.kind() {
            Kind::SortedSet => b"ZADD",
            Kind::Hash => b"HMSET",
            _ => b"SADD",
        };
        self.elements(name, key, |words| {
            members.for_each(|entry| {
                let name = ValueRef::Bytes(entry.key());
                match (large.kind(), entry.value()) {
                    (Kind::SortedSet, ValueRef::Integer(bits)) => words.scored(name, f64::from_bits(bits as u64)),
                    (Kind::Hash, value) => {
                        words.pair(name, value);
                        timed.extend(timed_field(name, entry.deadline()));
                    }
                    _ => words.add(name),
                }
            });
        });
        self.time_fields(key, &timed);
    }

    fn part(&mut self, large: &Large, bytes: &Bytes<'_>) {
        let key = large.key();
        match large.kind() {
            Kind::String => {
                let name: &[u8] = if std::mem::replace(&mut self.has_string, true) { b"APPEND" } else { b"SET" };
                self.words.request(&[name, key, &bytes.bytes()]);
            }
            Kind::List if large.is_packed() => {
                let list = bytes.collection::<List>(large).expect(KNOWN);
                self.elements(b"RPUSH", key, |words| list.iter().for_each(|element| words.add(element)));
            }
            Kind::List => {
                let pack = bytes.pack();
                let elements = pack.as_packed();
                self.elements(b"RPUSH", key, |words| elements.iter().for_each(|element| words.add(element)));
            }
            Kind::Set => {
                let set = bytes.collection::<Set>(large).expect(KNOWN);
                self.elements(b"SADD", key, |words| set.for_each(|member| words.add(member)));
            }
            Kind::SortedSet => {
                let set = bytes.collection::<SortedSet>(large).expect(KNOWN);
                let all = 0..set.len();
                self.elements(b"ZADD", key, |words| set.visit(all, false, |name, score| words.scored(name, score)));
            }
            Kind::Hash => self.hash(key, bytes.collection::<Map>(large).expect(KNOWN)),
            Kind::Stream => self.stream.block(&mut self.words, large, bytes),
        }
    }

    fn close(&mut self, large: &Large) {
        if let Some(stream) = large.stream() {
            std::mem::take(&mut self.stream).close(&mut self.words, large.key(), stream);
        }
        self.deadline(large.key(), large.deadline());
    }
}

fn timed_field(field: ValueRef<'_>, deadline: Option<i64>) -> Option<(Vec<u8>, i64)> {
    Some((field.bytes(&mut Digits::default()).to_vec(), deadline?))
}

/// Elements that are gathered for one request.
struct Elements<'a> {
    out: &'a mut Vec<u8>,
    name: &'static [u8],
    key: &'a [u8],
    words: Vec<u8>,
    words_len: usize,
    elements_len: usize,
}

impl Elements<'_> {
    fn word(&mut self, value: ValueRef<'_>) {
        Writer::new(&mut self.words, Protocol::Resp2).bulk(value.bytes(&mut Digits::default()));
        self.words_len += 1;
    }

    fn add(&mut self, value: ValueRef<'_>) {
        self.word(value);
        self.count();
    }

    fn pair(&mut self, field: ValueRef<'_>, value: ValueRef<'_>) {
        self.word(field);
        self.add(value);
    }

    fn scored(&mut self, name: ValueRef<'_>, score: f64) {
        Writer::new(&mut self.words, Protocol::Resp2).bulk_double(score);
        self.words_len += 1;
        self.add(name);
    }

    fn count(&mut self) {
        self.elements_len += 1;
        if self.elements_len == ELEMENTS_MAX {
            self.end();
        }
    }

    fn end(&mut self) {
        if self.elements_len > 0 {
            let mut writer = Writer::new(self.out, Protocol::Resp2);
            writer.array(2 + self.words_len);
            writer.bulks(&[self.name, self.key]);
            self.out.append(&mut self.words);
            (self.words_len, self.elements_len) = (0, 0);
        }
    }
}
