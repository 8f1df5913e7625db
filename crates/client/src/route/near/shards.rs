//! The cache itself, in parts that have a lock each: what is kept, and what is on its way.
//!
//! A key's hash says which part it belongs to, so what concerns one key happens under one lock. The locks are held for a
//! look-up or a copy of a counted pointer, never while anything is sent, and no other lock is taken under them.
//!
//! Any thread; times are arguments.

#[cfg(test)]
pub(super) mod faults;

use std::hash::{DefaultHasher, Hasher};
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use super::flights::Flights;
use super::stats::CacheStats;
use super::store::{Found, KeyedRequest, Store};
use crate::options::cache::CacheOptions;
use crate::pipe::near::{Answer, KeyLifetime, ReadId};
use crate::pipe::slot::Payload;
use crate::pipe::slot::{Completions, Driver, Handle, Source, Target};
use crate::process::lock::{Mutex, MutexGuard};
use crate::request::EncodedRequest;
use crate::sys::CLOCK_TICK_MS;

/// Parts; a power of two.
const SHARDS: usize = 8;

struct Shard {
    store: Store,
    flights: Flights,
    /// Where those wait who did not find what they asked for.
    source: Source,
    stats: CacheStats,
}

/// What became of a look.
pub(super) enum Look {
    /// It is here.
    Hit(Payload),
    /// Another's read will answer it.
    Shared(Handle),
    /// It is to be sent, and then landed at this place.
    Missing(ReadId, Target, Handle),
}

/// A request whose reply may be kept, and who wants it when.
#[derive(Clone, Copy)]
pub(super) struct CacheRead<'a> {
    pub(super) database: u32,
    pub(super) request: EncodedRequest<'a>,
    /// Where its key begins and ends.
    pub(super) key: (usize, usize),
    pub(super) now_ms: u64,
}

impl<'a> CacheRead<'a> {
    pub(super) fn key(&self) -> &'a [u8] {
        self.request.bytes.get(self.key.0..self.key.1).unwrap_or_default()
    }

    fn asked(&self, hash: u64) -> KeyedRequest<'a> {
        KeyedRequest { hash, database: self.database, request: self.request.bytes, key: self.key }
    }
}

/// All parts.
pub(super) struct Shards {
    shards: [Mutex<Shard>; SHARDS],
    /// Without it nobody can tell which keys have the same hash.
    secret: u64,
    ttl_max_ms: u64,
    /// How old a read on its way may be that others still wait for: what is left of its time must do for them.
    shared_ms_max: u64,
    /// Whether the server confirms with each read that it will say when its key changes.
    opts_in: bool,
    /// Whether the server says what changes. Read and written under the locks, so that no read begins on one connection and
    /// believes in another.
    is_tracked: AtomicBool,
}

impl Shards {
    pub(super) fn new(options: &CacheOptions, driver: &Weak<dyn Driver>, secret: u64, shared_ms_max: u64) -> Self {
        let shard = || Shard {
            store: Store::new(options.bytes_max / SHARDS),
            flights: Flights::default(),
            source: Source::new(driver.clone()),
            stats: CacheStats::default(),
        };
        Self {
            shards: std::array::from_fn(|_| Mutex::new(shard())),
            secret,
            ttl_max_ms: u64::try_from(options.ttl_max.as_millis()).unwrap_or(u64::MAX),
            shared_ms_max,
            opts_in: options.prefixes.is_none(),
            is_tracked: AtomicBool::new(false),
        }
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.secret);
        hasher.write(key);
        hasher.finish()
    }

    #[inline]
    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // The tables go by the lowest and the highest bits.
        let index = (hash >> 32) as usize % SHARDS;
        let [first, ..] = &self.shards;
        self.shards.get(index).unwrap_or(first).lock()
    }

    /// What is kept, or what is to be done.
    #[inline]
    pub(super) fn look(&self, wanted: CacheRead<'_>) -> Look {
        let hash = self.hash(wanted.key());
        let mut shard = self.shard(hash);
        match shard.find(hash, wanted) {
            Some(payload) => Look::Hit(payload),
            None => self.miss(&mut shard, hash, wanted),
        }
    }

    #[cold]
    fn miss(&self, shard: &mut Shard, hash: u64, wanted: CacheRead<'_>) -> Look {
        let CacheRead { database, request, now_ms, .. } = wanted;
        let (target, handle) = shard.source.pair(request.name);
        if let Some(flight) = shard.flights.current(hash, database, request.bytes) {
            if now_ms.saturating_sub(flight.sent_ms) <= self.shared_ms_max {
                flight.others.push(target);
                shard.stats.shared += 1;
                return Look::Shared(handle);
            }
            flight.is_current = false;
        }
        shard.stats.misses += 1;
        let number = shard.flights.begin(wanted.asked(hash), now_ms, self.opts_in || self.is_tracked());
        Look::Missing(ReadId { hash, number }, target, handle)
    }

    /// What is kept; whoever asks does what is to be done at once, and keeps its reply by himself.
    #[cfg(feature = "embedded")]
    pub(super) fn find(&self, wanted: CacheRead<'_>) -> Option<Payload> {
        let hash = self.hash(wanted.key());
        self.shard(hash).find(hash, wanted)
    }

    /// A reply has come to whoever asked by himself, with nothing of its key in between that was not heard before.
    #[cfg(feature = "embedded")]
    pub(super) fn keep(&self, wanted: CacheRead<'_>, answer: &Answer) {
        let hash = self.hash(wanted.key());
        let mut shard = self.shard(hash);
        shard.stats.misses += 1;
        let is_tracked = self.opts_in || self.is_tracked();
        self.keep_in(&mut shard, wanted.asked(hash), answer, wanted.now_ms, is_tracked);
    }

    /// A read was answered: its reply is kept, if nothing speaks against it, and goes to those who wait for it too.
    pub(super) fn land(&self, place: ReadId, answer: &Answer, done: &mut Completions) {
        let mut shard = self.shard(place.hash);
        let Some(flight) = shard.flights.end(place.hash, place.number) else { return };
        let asked =
            KeyedRequest { hash: place.hash, database: flight.database, request: &flight.request, key: flight.key };
        let is_true = flight.is_current && flight.is_tracked;
        self.keep_in(&mut shard, asked, answer, flight.sent_ms, is_true);
        drop(shard);
        for target in flight.others {
            target.complete(answer.payload.clone(), done);
        }
    }

    fn keep_in(&self, shard: &mut Shard, asked: KeyedRequest<'_>, answer: &Answer, sent_ms: u64, is_true: bool) {
        let kept_ms = match answer.lifetime {
            _ if !is_true || !answer.is_remembered || answer.payload.frame().is_err() => 0,
            KeyLifetime::Unknown => 0,
            KeyLifetime::Endless => self.ttl_max_ms,
            KeyLifetime::For(left) => {
                // The clock may be behind when it is looked at.
                let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
                left_ms.saturating_sub(CLOCK_TICK_MS).min(self.ttl_max_ms)
            }
        };
        if kept_ms == 0 {
            shard.stats.unkept += 1;
            return;
        }
        shard.stats.evictions += shard.store.keep(asked, answer.payload.clone(), sent_ms.saturating_add(kept_ms));
    }

    /// A key has changed, as the server says, or as this client has asked for.
    pub(super) fn forget(&self, key: &[u8], is_told: bool) {
        let hash = self.hash(key);
        let mut shard = self.shard(hash);
        shard.stats.invalidations += u64::from(is_told);
        shard.store.forget(hash, key);
        shard.flights.overtake(hash, key);
    }

    /// Everything may have changed.
    pub(super) fn forget_all(&self) {
        for (index, shard) in self.shards.iter().enumerate() {
            let mut shard = shard.lock();
            shard.stats.flushes += u64::from(index == 0);
            shard.store.clear();
            shard.flights.overtake_all();
        }
    }

    /// From now on the server says what changes, or says nothing any more; then everything that is here goes.
    pub(super) fn track(&self, is_tracked: bool) {
        self.is_tracked.store(is_tracked, Ordering::Relaxed);
        if !is_tracked {
            self.forget_all();
        }
    }

    /// Whether the server says what changes.
    pub(super) fn is_tracked(&self) -> bool {
        self.is_tracked.load(Ordering::Relaxed)
    }

    /// What all parts have done and have.
    pub(super) fn stats(&self) -> CacheStats {
        let mut stats = CacheStats::default();
        for shard in &self.shards {
            let shard = shard.lock();
            stats.add(&shard.stats);
            stats.entries += shard.store.len() as u64;
            stats.bytes += shard.store.bytes() as u64;
        }
        stats
    }
}

impl Shard {
    #[inline]
    fn find(&mut self, hash: u64, wanted: CacheRead<'_>) -> Option<Payload> {
        match self.store.find(hash, wanted.database, wanted.request.bytes, wanted.now_ms) {
            Found::Reply(payload) => {
                self.stats.hits += 1;
                Some(payload)
            }
            Found::Late => {
                self.stats.expirations += 1;
                None
            }
            Found::Nothing => None,
        }
    }
}
