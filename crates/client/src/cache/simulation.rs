//! The cache, the pipe and the reply reader against a server made of bytes, in one thread, from one seed.
//!
//! Callers read and write, other clients write too, keys expire, all keys are flushed, the connection is cut at any byte, and
//! timeouts pass. In every case no read may be older than the state that was known when it began: an invalidation that had
//! arrived, a connection that had been lost, a write of the caller's own. And every caller is answered. Forbidden behaviour
//! is planted, to show that the simulation would see it.

mod cluster;
mod history;
mod planted;
mod server;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use sleeve_wire::frame::{Frame, Scanner, decode};

use super::requests::deciding_key;
use super::requests_of;
use super::shards::{CacheRead, Look, Shards};
use super::stats::CacheStats;
use super::tracking::Tracking;
use crate::cache::options::CacheOptions;
use crate::config::{Endpoint, Resend};
use crate::error::Error;
use crate::pipe::Pipe;
use crate::pipe::cached_read::{Cache, Read};
use crate::pipe::in_flight::{Asker, Time};
use crate::pipe::reply_reader::ReplyReader;
use crate::pipe::slot::{Completions, Handle};
use crate::pipe::testing::{Dice, nobody, source};
use crate::pipe::timeout::Situation;
use crate::request::name::Name;
use crate::request::{EncodedRequest, Request};
use history::{History, Key, Least, State};
use planted::{Fault, Planted};
use server::Server;

/// Draws a part of `count`: all of it half the time, otherwise a random part, which may be zero.
fn some_of(dice: &mut Dice, count: usize) -> usize {
    if dice.roll(2) == 0 { count } else { dice.roll(count + 1) }
}

/// A read with a waiting caller.
struct Asked {
    key: Key,
    least: Least,
    handle: Handle,
}

/// Returns the words of an encoded request.
fn words_of(request: &[u8]) -> Vec<&str> {
    let Ok((Frame::Array(items), _)) = decode(request) else { panic!("no request") };
    let word = |item| match item {
        Ok(Frame::Bulk(word)) => std::str::from_utf8(word).expect("a text"),
        other => panic!("no word: {other:?}"),
    };
    items.map(word).collect()
}

/// Draws the random options of a cache: its bound in bytes, which is small now and then, and whether servers broadcast.
fn options(dice: &mut Dice) -> (CacheOptions, usize) {
    let bytes_max = if dice.roll(3) == 0 { 8 * 500 } else { 1 << 20 };
    let options = CacheOptions::new().bytes_max(bytes_max);
    (if dice.roll(3) == 0 { options.broadcast(["k"]) } else { options }, bytes_max)
}

/// Returns a read of this key, encoded, and its name.
fn read_of(dice: &mut Dice, key: &str) -> (Vec<u8>, Name) {
    let words: &[&str] = if dice.roll(4) == 0 { &["SUBSTR", key, "0", "-1"] } else { &["GET", key] };
    let write = |request: &mut Request| words.iter().for_each(|word| _ = request.word(word));
    (Request::bytes_of(write).expect("a request"), Name::of(words))
}

/// Returns the client's own write of this number, encoded, and its name.
fn write_of(key: &str, number: usize) -> (Vec<u8>, Name) {
    let note = format!("w{number}");
    let write = |request: &mut Request| _ = request.word("SET").word(key).word(&note);
    (Request::bytes_of(write).expect("a request"), Name::of(&["SET"]))
}

/// Draws the random write of another client: a note, and its deadline.
fn note_of(dice: &mut Dice, now_ms: u64) -> (String, Option<u64>) {
    let note = "x".repeat(dice.roll(40));
    (note, (dice.roll(10) < 5).then(|| now_ms + 1 + dice.roll(60) as u64))
}

struct World {
    dice: Dice,
    pipe: Pipe,
    reply_reader: ReplyReader,
    cache: Arc<Planted>,
    history: History,
    server: Server,
    up: VecDeque<u8>,
    /// The number of bytes that were taken in on this connection.
    taken: u64,
    now_ms: u64,
    asked: Vec<Asked>,
    writes: Vec<Handle>,
    bytes_max: usize,
    /// The rarity of writes.
    calm: usize,
}

impl World {
    fn new(seed: u64, fault: Fault) -> Self {
        let mut dice = Dice::new(seed);
        let (options, bytes_max) = options(&mut dice);
        let calm = [2, 25, 100][dice.roll(3)];
        let shards = Shards::new(&options, &nobody(), (seed, 60), None);
        let tracking = Tracking::new(shards, options).expect("a request");
        let cache = Arc::new(Planted::new(tracking.connect(), fault));
        let mut reply_reader = ReplyReader::default();
        reply_reader.cache = Some(Arc::clone(&cache) as Arc<dyn Cache>);
        Self {
            dice,
            pipe: Pipe::new(0, source()),
            reply_reader,
            cache,
            history: History::default(),
            server: Server::default(),
            up: VecDeque::new(),
            taken: 0,
            now_ms: 1_000,
            asked: Vec::new(),
            writes: Vec::new(),
            bytes_max,
            calm,
        }
    }

    fn key(&mut self) -> Key {
        (self.dice.roll(2) as u32 * 3, format!("k{}", self.dice.roll(4)))
    }

    fn read(&mut self) {
        let key = self.key();
        let (bytes, name) = read_of(&mut self.dice, &key.1);
        let request = EncodedRequest { bytes: &bytes, name };
        let place = deciding_key(request).expect("it may be kept");
        let wanted = CacheRead { database: key.0, request, key: place, now_ms: self.now_ms };
        let least = self.history.least(&key);
        let tracking = &self.cache.connection.tracking;
        let handle = match tracking.shards.look(wanted) {
            Look::Hit(payload) => return self.history.check(&key, least, &payload, true, self.now_ms),
            Look::Shared(handle) => handle,
            Look::Missing(place, target, handle) => {
                let opts_in = tracking.opts_in();
                let read = Read::new(Arc::clone(&self.cache) as Arc<dyn Cache>, place, target, opts_in);
                let (frames, requests) = (read.frames(), requests_of(wanted, opts_in));
                self.pipe.gather(
                    Asker::Read(Box::new(read)),
                    frames,
                    key.0,
                    &requests,
                    Time::Issued(self.now_ms as u32),
                );
                handle
            }
        };
        self.asked.push(Asked { key, least, handle });
    }

    fn write_own(&mut self) {
        let (key, number) = (self.key(), self.writes.len());
        let (bytes, name) = write_of(&key.1, number);
        self.writes.push(self.pipe.push(key.0, EncodedRequest { bytes: &bytes, name }, self.now_ms as u32));
        self.cache.wrote(&bytes);
        self.history.sent(key, number);
    }

    fn others(&mut self) {
        match self.dice.roll(12) {
            0 if self.dice.roll(4) == 0 => self.server.flush(&mut self.history, |_| true),
            0 | 1 => {
                // This stands for the server's active expiry.
                let key = self.key();
                if self.history.last(&key).is_over(self.now_ms) {
                    self.server.change(&mut self.history, key, State::GONE, false);
                }
            }
            _ => {
                let key = self.key();
                let (note, until_ms) = note_of(&mut self.dice, self.now_ms);
                self.server.write(&mut self.history, key, (&note, until_ms), false);
            }
        }
    }

    fn write_out(&mut self) {
        let Some((bytes, written)) = self.pipe.lend() else { return };
        let rest = &bytes[written..];
        let count = some_of(&mut self.dice, rest.len());
        self.up.extend(&rest[..count]);
        self.pipe.wrote(bytes, count);
    }

    /// Lets the server execute the whole requests among the next bytes, and commands of other clients between them.
    fn serve(&mut self) {
        for _ in 0..self.dice.roll(8) {
            if self.dice.roll(4 * self.calm) == 0 {
                self.others();
            }
            let bytes = self.up.make_contiguous();
            let Ok(Some(length)) = Scanner::new().scan(bytes) else { break };
            let request: Vec<u8> = self.up.drain(..length).collect();
            self.server.execute(&mut self.history, &words_of(&request), self.now_ms);
        }
        self.server.say_changed(&self.history);
    }

    fn take_in(&mut self) {
        let count = some_of(&mut self.dice, self.server.down.len()).min(self.reply_reader.room().len());
        for (room, byte) in self.reply_reader.room().iter_mut().zip(self.server.down.drain(..count)) {
            *room = byte;
        }
        self.taken += count as u64;
        let replies = self.reply_reader.filled(count).expect("replies");
        self.history.raise_floors(self.server.said_until(self.taken));
        assert!(self.pipe.take(replies, &mut self.reply_reader.pending));
        let mut done = Completions::default();
        assert!(self.reply_reader.deliver(&mut done).expect("replies").is_none());
    }

    fn cut(&mut self) {
        if self.dice.roll(2) == 0 {
            self.serve();
        }
        self.up.clear();
        self.server.hang_up();
        let lost = self.pipe.cut(self.reply_reader.cut(), Resend::Reads);
        let mut done = Completions::default();
        for mut entry in lost {
            entry.asker.fail(&Error::disconnected("it was cut"), &mut done);
        }
        let versions = self.history.versions(|_| true);
        self.history.raise_floors(versions);
    }

    fn reconnect(&mut self) {
        self.taken = 0;
        self.pipe.connect();
        self.pipe.push_unasked(Asker::Tracking, self.cache.request(), self.now_ms as u32);
    }

    fn expire(&mut self) {
        let endpoint = Endpoint::Embedded(None);
        let situation = Situation { endpoint: &endpoint, limit: None, trouble: None, ledger: None };
        self.pipe.expire((self.now_ms as u32).wrapping_sub(200), &situation, &mut Completions::default());
    }

    fn step(&mut self) {
        match self.dice.roll(50) {
            0..12 => self.read(),
            12..15 if self.dice.roll(self.calm) == 0 => self.write_own(),
            15..18 if self.dice.roll(self.calm) == 0 => self.others(),
            18..28 => self.write_out(),
            28..37 => self.serve(),
            37..46 => self.take_in(),
            46 | 47 => {
                self.now_ms += self.dice.roll(20) as u64;
                self.expire();
            }
            48 if self.pipe.is_connected() && self.dice.roll(6) == 0 => self.cut(),
            49 if !self.pipe.is_connected() => self.reconnect(),
            _ => {}
        }
        let stats = self.cache.connection.tracking.shards.stats();
        assert!(stats.bytes <= self.bytes_max as u64, "{stats:?}");
        for asked in self.asked.extract_if(.., |asked| asked.handle.is_done()).collect::<Vec<_>>() {
            self.hear(asked);
        }
    }

    fn hear(&mut self, asked: Asked) {
        let Ok(payload) = asked.handle.take() else { panic!("it was done") };
        self.history.check(&asked.key, asked.least, &payload, false, self.now_ms);
    }

    /// Delivers all bytes, and checks that every caller is answered.
    fn finish(mut self) -> CacheStats {
        while !self.pipe.is_idle() || !self.reply_reader.pending.is_empty() || !self.pipe.is_connected() {
            if !self.pipe.is_connected() {
                self.reconnect();
            }
            self.write_out();
            self.serve();
            self.take_in();
        }
        for asked in std::mem::take(&mut self.asked) {
            assert!(asked.handle.is_done(), "nobody answered a read of {:?}", asked.key);
            self.hear(asked);
        }
        self.cache.connection.tracking.shards.stats()
    }
}

/// Runs a seed, and returns the counts of the cache.
fn run(seed: u64, fault: Fault) -> CacheStats {
    let mut world = World::new(seed, fault);
    for _ in 0..if cfg!(miri) { 150 } else { 1_000 } {
        world.step();
    }
    world.finish()
}

/// Runs as many seeds as the environment asks for, and names the seed that fails.
fn run_all(name: &str, run: impl Fn(u64) -> CacheStats) {
    let short = if cfg!(miri) { 3 } else { 300 };
    let count: u64 = std::env::var("SLEEVE_SOAK_COUNT").map_or(short, |count| count.parse().expect("a number"));
    let first: u64 = std::env::var("SLEEVE_SEED").map_or(0, |seed| seed.parse().expect("a number"));
    let mut stats = CacheStats::default();
    for seed in first..first + count {
        match catch_unwind(AssertUnwindSafe(|| run(seed))) {
            Ok(more) => stats.add(&more),
            Err(_) => {
                panic!(
                    "seed {seed}: SLEEVE_SEED={seed} SLEEVE_SOAK_COUNT=1 cargo test -p sleeve --lib near::simulation::{name}"
                )
            }
        }
    }
    println!("{stats:?}");
    let met = [stats.shared, stats.invalidations, stats.evictions, stats.expirations, stats.unkept];
    let is_met =
        cfg!(miri) || count < short || (stats.hits > count * 10 && met.iter().all(|&times| times > count / 10));
    assert!(is_met, "what is to be tried hardly happens: {stats:?}");
}

/// Asserts that each of these faults is found.
fn find_all(faults: &[Fault], run: impl Fn(u64, Fault) -> CacheStats) {
    for &fault in faults {
        let found = (0..2_000).find(|&seed| catch_unwind(AssertUnwindSafe(|| run(seed, fault))).is_err());
        assert!(found.is_some(), "{fault:?} would not be seen");
        println!("{fault:?} is seen with seed {found:?}");
    }
}

#[test]
fn no_read_is_older_than_what_had_been_heard() {
    run_all("no_read", |seed| run(seed, Fault::None));
}

#[test]
#[cfg_attr(miri, ignore = "takes hours there")]
fn what_is_planted_is_found() {
    let faults = [
        Fault::KeepsOvertaken,
        Fault::StaysAcrossConnections,
        Fault::KeepsOlder,
        Fault::LeavesOwnWrites,
        Fault::MissesFlushes,
        Fault::OutlivesKeys,
    ];
    find_all(&faults, run);
}
