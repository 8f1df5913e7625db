//! The cache itself, in shards that have a lock each: kept replies, and reads in flight.
//!
//! The hash of a key decides its shard, so everything about one key happens under one lock. The locks are held for a look-up
//! or a copy of a counted pointer, never while a request is sent, and no other lock is taken under them.
//!
//! Any thread; times are arguments.

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
use crate::resp::request::EncodedRequest;
use crate::sys::CLOCK_TICK_MS;
use crate::sys::lock::{Mutex, MutexGuard};
use crate::sys::planted::{self, Fault};

/// The number of shards; a power of two.
const SHARDS: usize = 8;

struct Shard {
    store: Store,
    flights: Flights,
    /// The source of slots for callers that did not find their reply.
    source: Source,
    stats: CacheStats,
}

/// The result of a look-up.
pub(super) enum Look {
    /// The reply is in the cache.
    Hit(Payload),
    /// Another caller's read is in flight and will answer this one.
    Shared(Handle),
    /// The read is to be sent, and its reply given to [`Shards::land`] under this id.
    Missing(ReadId, Target, Handle),
}

/// A request with a reply that may be kept, and the time at which its caller asks.
#[derive(Clone, Copy)]
pub(super) struct CacheRead<'a> {
    pub(super) database: u32,
    pub(super) request: EncodedRequest<'a>,
    /// The offsets at which its key begins and ends.
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

/// The connection over which a reply has arrived.
#[derive(Clone, Copy)]
pub(super) struct Over {
    pub(super) connection: u32,
    /// True if the server had confirmed before the reply that it reports changes.
    pub(super) is_tracked: bool,
}

/// All shards of a cache.
pub(super) struct Shards {
    shards: [Mutex<Shard>; SHARDS],
    /// A secret, so that no client can find keys with the same hash.
    secret: u64,
    ttl_max_ms: u64,
    /// The largest age of a read in flight that other callers join: its remaining time must suffice for them.
    shared_ms_max: u64,
    /// True if each read is preceded by CLIENT CACHING YES, so that the server remembers its key.
    opts_in: bool,
    /// The owners of slots; none for a single server.
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
        let owners = self.owners.as_ref().filter(|_| !planted::has(Fault::IgnoresOwners));
        owners.map_or(Tenure::ENDLESS, |owners| owners.tenure(key))
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
        // The hash tables use the lowest and the highest bits, so the shard is chosen by bits between them.
        let index = (hash >> 32) as usize % SHARDS;
        let [first, ..] = &self.shards;
        self.shards.get(index).unwrap_or(first).lock()
    }

    /// Returns the kept reply; otherwise joins a read in flight, or begins one.
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

    /// Returns the kept reply. If there is none, the caller reads the key at once, and passes the reply to `keep`.
    #[cfg(feature = "embedded")]
    pub(super) fn find(&self, wanted: CacheRead<'_>) -> Option<Payload> {
        let hash = self.hash(wanted.key());
        self.shard(hash).find(wanted.asked(hash, Tenure::ENDLESS), wanted.now_ms)
    }

    /// Keeps a reply that a caller has read itself. The caller ensures that every invalidation of its key until then has been
    /// applied.
    #[cfg(feature = "embedded")]
    pub(super) fn keep(&self, wanted: CacheRead<'_>, answer: &Answer, is_tracked: bool) {
        let hash = self.hash(wanted.key());
        let mut shard = self.shard(hash);
        shard.stats.misses += 1;
        let is_true = self.opts_in || is_tracked;
        self.keep_in(&mut shard, wanted.asked(hash, Tenure::ENDLESS), answer, wanted.now_ms, is_true);
    }

    /// Takes the answer to a read: gives it to all waiters, and keeps it if it is valid. It is valid if it arrived over the
    /// connection that invalidates its slot, and if that connection has been the same since the read was sent. Answers arrive
    /// in order, so a server that had confirmed tracking before this answer was asked for it ahead of the read.
    pub(super) fn land(&self, place: ReadId, over: Over, answer: &Answer, done: &mut Completions) {
        let mut shard = self.shard(place.hash);
        let Some(flight) = shard.flights.end(place.hash, place.number) else { return };
        let asked = flight.asked(place.hash);
        let is_over_owner = flight.tenure.connection() == over.connection && flight.tenure == self.tenure(flight.key());
        let is_owner = is_over_owner || planted::has(Fault::IgnoresOwners);
        let is_current = flight.is_current || planted::has(Fault::KeepsOvertaken);
        let is_true = is_current && is_owner && (self.opts_in || over.is_tracked);
        self.keep_in(&mut shard, asked, answer, flight.sent_ms, is_true);
        drop(shard);
        for target in flight.others {
            target.complete(answer.payload.clone(), done);
        }
    }

    fn keep_in(&self, shard: &mut Shard, asked: KeyedRequest<'_>, answer: &Answer, sent_ms: u64, is_true: bool) {
        let kept_ms = match answer.lifetime {
            _ if !is_true || answer.payload.frame().is_err() => 0,
            _ if planted::has(Fault::KeepsUntracked) => self.ttl_max_ms,
            _ if !answer.is_remembered => 0,
            _ if planted::has(Fault::OutlivesKeys) => self.ttl_max_ms,
            KeyLifetime::Unknown => 0,
            KeyLifetime::Endless => self.ttl_max_ms,
            KeyLifetime::For(left) => {
                // The coarse clock may be behind when the kept reply is looked up.
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

    /// Removes the replies of a key that has changed, as the server has reported (`is_told`), or because this client has sent
    /// a write to it.
    pub(super) fn forget(&self, key: &[u8], is_told: bool) {
        let hash = self.hash(key);
        let mut shard = self.shard(hash);
        shard.stats.invalidations += u64::from(is_told);
        shard.store.forget(hash, key);
        shard.flights.overtake(hash, key);
    }

    /// Removes all replies, because any key may have changed.
    pub(super) fn forget_all(&self) {
        for (index, shard) in self.shards.iter().enumerate() {
            let mut shard = shard.lock();
            shard.stats.flushes += u64::from(index == 0);
            shard.store.clear();
            shard.flights.overtake_all();
        }
    }

    /// Removes every reply that arrived over this connection. Reads in flight may arrive over any connection, so they stay.
    pub(super) fn forget_of(&self, connection: u32) {
        for (index, shard) in self.shards.iter().enumerate() {
            let mut shard = shard.lock();
            shard.stats.flushes += u64::from(index == 0);
            shard.store.forget_of(connection);
            shard.flights.overtake_all();
        }
    }

    /// Returns the counts and sizes of all shards.
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
