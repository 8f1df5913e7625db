//! The cache itself, in parts that have a lock each: kept replies, and reads in flight.
//!
//! A key's hash says which part it belongs to, so everything about one key happens under one lock. The locks are held for a
//! look-up or a copy of a counted pointer, never while a request is sent, and no other lock is taken under them.
//!
//! Any thread; times are arguments.

#[cfg(test)]
pub(super) mod faults;

use std::hash::{DefaultHasher, Hasher};
use std::sync::Weak;

use super::flights::Flights;
use super::owners::{Owners, Tenure};
use super::stats::CacheStats;
use super::store::{Found, KeyedRequest, Store};
use crate::cache::options::CacheOptions;
use crate::pipe::cached_read::{Answer, KeyLifetime, ReadId};
use crate::pipe::slot::Payload;
use crate::pipe::slot::{Completions, Driver, Handle, Source, Target};
use crate::request::EncodedRequest;
use crate::sys::CLOCK_TICK_MS;
use crate::sys::lock::{Mutex, MutexGuard};

/// Parts; a power of two.
const SHARDS: usize = 8;

struct Shard {
    store: Store,
    flights: Flights,
    /// Makes the slots of callers that did not find their reply.
    source: Source,
    stats: CacheStats,
}

/// The result of a look.
pub(super) enum Look {
    /// It is here.
    Hit(Payload),
    /// Another's read will answer it.
    Shared(Handle),
    /// It is to be sent, and then landed at this place.
    Missing(ReadId, Target, Handle),
}

/// A request with a reply that may be kept, and the time at which its caller asks.
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

    fn asked(&self, hash: u64, tenure: Tenure) -> KeyedRequest<'a> {
        KeyedRequest { hash, database: self.database, request: self.request.bytes, key: self.key, tenure }
    }
}

/// Over which connection a reply has come.
#[derive(Clone, Copy)]
pub(super) struct Over {
    pub(super) connection: u32,
    /// Whether its server had confirmed before that it reports changes.
    pub(super) is_tracked: bool,
}

/// All parts.
pub(super) struct Shards {
    shards: [Mutex<Shard>; SHARDS],
    /// A secret, so that no client can find keys with the same hash.
    secret: u64,
    ttl_max_ms: u64,
    /// The largest age of a read in flight that others join: its remaining time must suffice for them.
    shared_ms_max: u64,
    /// Whether the server confirms with each read that it will say when its key changes.
    opts_in: bool,
    /// The owners of slots, if a cluster has the keys.
    pub(super) owners: Option<Owners>,
}

impl Shards {
    pub(super) fn new(
        options: &CacheOptions,
        driver: &Weak<dyn Driver>,
        (secret, shared_ms_max): (u64, u64),
        owners: Option<Owners>,
    ) -> Self {
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
            owners,
        }
    }

    /// Returns the present tenure of a key's slot.
    #[inline]
    fn tenure(&self, key: &[u8]) -> Tenure {
        self.owners.as_ref().map_or(Tenure::ENDLESS, |owners| owners.tenure(key))
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

    /// Returns the kept reply, or the next step.
    #[inline]
    pub(super) fn look(&self, wanted: CacheRead<'_>) -> Look {
        let hash = self.hash(wanted.key());
        let asked = wanted.asked(hash, self.tenure(wanted.key()));
        let mut shard = self.shard(hash);
        match shard.find(asked, wanted.now_ms) {
            Some(payload) => Look::Hit(payload),
            None => self.miss(&mut shard, asked, wanted),
        }
    }

    #[cold]
    fn miss(&self, shard: &mut Shard, asked: KeyedRequest<'_>, wanted: CacheRead<'_>) -> Look {
        let CacheRead { request, now_ms, .. } = wanted;
        let (target, handle) = shard.source.pair(request.name);
        if let Some(flight) = shard.flights.current(asked) {
            if now_ms.saturating_sub(flight.sent_ms) <= self.shared_ms_max {
                flight.others.push(target);
                shard.stats.shared += 1;
                return Look::Shared(handle);
            }
            flight.is_current = false;
        }
        shard.stats.misses += 1;
        let number = shard.flights.begin(asked, now_ms);
        Look::Missing(ReadId { hash: asked.hash, number }, target, handle)
    }

    /// Returns the kept reply; otherwise the caller reads at once, and keeps the reply itself.
    #[cfg(feature = "embedded")]
    pub(super) fn find(&self, wanted: CacheRead<'_>) -> Option<Payload> {
        let hash = self.hash(wanted.key());
        self.shard(hash).find(wanted.asked(hash, Tenure::ENDLESS), wanted.now_ms)
    }

    /// Keeps a reply that a caller read itself, if every invalidation of its key until then has been applied.
    #[cfg(feature = "embedded")]
    pub(super) fn keep(&self, wanted: CacheRead<'_>, answer: &Answer, is_tracked: bool) {
        let hash = self.hash(wanted.key());
        let mut shard = self.shard(hash);
        shard.stats.misses += 1;
        let is_true = self.opts_in || is_tracked;
        self.keep_in(&mut shard, wanted.asked(hash, Tenure::ENDLESS), answer, wanted.now_ms, is_true);
    }

    /// Takes the answer to a read: its reply is kept, if nothing speaks against it, and goes to all waiters. It is kept if it
    /// has come over the connection that invalidates its slot, and has done so since it was sent. Answers come in order, so a
    /// server that had confirmed before that it reports changes was asked ahead of the read.
    pub(super) fn land(&self, place: ReadId, over: Over, answer: &Answer, done: &mut Completions) {
        let mut shard = self.shard(place.hash);
        let Some(flight) = shard.flights.end(place.hash, place.number) else { return };
        let asked = flight.asked(place.hash);
        let is_owner = flight.tenure.connection() == over.connection && flight.tenure == self.tenure(flight.key());
        let is_true = flight.is_current && is_owner && (self.opts_in || over.is_tracked);
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

    /// Forgets every reply that came over this connection. Reads in flight may come over any.
    pub(super) fn forget_of(&self, connection: u32) {
        for (index, shard) in self.shards.iter().enumerate() {
            let mut shard = shard.lock();
            shard.stats.flushes += u64::from(index == 0);
            shard.store.forget_of(connection);
            shard.flights.overtake_all();
        }
    }

    /// Returns the counts and sizes of all parts.
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
    fn find(&mut self, asked: KeyedRequest<'_>, now_ms: u64) -> Option<Payload> {
        match self.store.find(asked, now_ms) {
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
