//! One door for "a key changed or vanished", and for whole databases of them.
//!
//! Whatever the [`Cause`], [`tell`] lets everybody hear of it who must: those who watch the key (WATCH), those who wait for
//! it (BLPOP and its like), those who have it in a cache of their own (CLIENT TRACKING), the statistics; and where nobody
//! asked for it, keyspace notifications and the journal. A command says its own events and effects itself, through the same
//! [`Pending`] (`effects`). Where all keys of a database change at once, [`tell_all`] says so to the same three.
//!
//! Whether anything may vanish that nobody asked to vanish is asked here too ([`may_vanish`]). All of this is called under
//! the lock of the key's shard. While nobody watches, waits or tracks, a change costs three relaxed loads.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sleeve_store::ExpiredFields;

use super::notifications;
use super::notifications::EventClass;
use super::session_state::State;
use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::clients::blocking::DatabaseKey;
use crate::engine::clients::watch::Presence;
use crate::engine::journal::Recorder;
use crate::host::clock::Instant;
use crate::host::planted::{self, Fault};
use crate::messaging::mail::{Letter, Mailbox};
use crate::messaging::wakeups::Wakeups;
use crate::observe::stats::Counters;
use crate::request::Key;

/// Why a key has changed, or is gone.
#[derive(Debug, Clone, Copy)]
pub enum Cause<'a> {
    /// A command changed or removed it.
    Command,
    /// A command changed it, and how often that counts is said elsewhere.
    Uncounted,
    /// A command removed a group of a stream, which only those can tell who wait for its entries.
    GroupRemoved,
    /// Its time had come.
    Expired,
    /// The time of these fields of it had come.
    FieldsExpired(&'a ExpiredFields),
    /// It went to make room.
    Evicted,
}

/// On whose behalf a key changes, and where what follows from that is noted.
pub struct Source<'a, 's> {
    /// The engine.
    pub engine: &'a Engine,
    /// The thread's counters.
    pub counters: &'a Counters,
    /// The client whose command runs; none where time alone is at work.
    pub state: Option<&'a State>,
    /// What is to be done about it later.
    pub pending: &'a mut Pending,
    /// Where what no command has asked for is recorded.
    pub recorder: &'a mut Recorder<'s>,
}

/// What changes leave to be done when the command or the transaction is over, or when the locks have been given back.
#[derive(Debug, Default)]
pub struct Pending {
    /// Changes of the running command.
    pub changes: u64,
    /// Keys that have changed and that somebody waits for; they are served when the outermost command is over.
    pub marked: VecDeque<DatabaseKey>,
    /// Who is to be woken for what was published, and what the client published to itself.
    pub wakeups: Wakeups,
    /// What is posted when the locks have been given back.
    pub letters: Vec<(Arc<Mailbox>, Letter)>,
}

/// Tells everybody that a key has changed or vanished, after it has. Always inline: the cause is known where it is called,
/// and what does not concern it falls away.
#[inline(always)]
pub fn tell(source: Source<'_, '_>, cause: Cause<'_>, database: u32, key: Key<'_>) {
    let Source { engine, counters, state, pending, recorder } = source;
    let is_seen = !matches!(cause, Cause::GroupRemoved);
    match cause {
        Cause::Expired => engine.watches.raise_expired(database, key.name),
        _ if is_seen => engine.watches.raise(database, key.name),
        _ => {}
    }
    if let Some(place) = engine.blocking.mark(database, key) {
        pending.marked.push_back(place);
    }
    if is_seen && engine.tracking.is_used() {
        engine.tracking.changed(key.name, state.and_then(State::changer), &mut pending.wakeups);
    }
    match cause {
        Cause::Command | Cause::GroupRemoved => pending.changes += 1,
        Cause::Uncounted => {}
        Cause::Expired | Cause::FieldsExpired(_) | Cause::Evicted => {
            tell_unasked(Source { engine, counters, state, pending, recorder }, cause, database, key.name);
        }
    }
}

/// How all keys of a database change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turnover {
    /// They go, or others take their place.
    Replaced,
    /// The database changes places with another one. Who has keys in a cache is not told of that, as in Redis, whose caches
    /// know names whatever their database.
    Exchanged,
}

/// Tells everybody that all keys of these databases change at once, whatever they are. All shards are locked. `look` gives what
/// was under a key of a database before, and what is there afterwards.
pub fn tell_all(
    (engine, state, pending): (&Engine, Option<&State>, &mut Pending),
    turnover: Turnover,
    databases: Range<u32>,
    mut look: impl FnMut(u32, &[u8]) -> (Presence, Presence),
) {
    for database in databases {
        engine.watches.replace_all(database, |name| look(database, name));
        pending.marked.extend(engine.blocking.mark_all(database));
    }
    if turnover == Turnover::Replaced && engine.tracking.is_used() {
        let by = state.and_then(State::changer).map(|(id, _)| id);
        engine.tracking.changed_all(by, &mut pending.wakeups);
    }
}

/// Counts, publishes and records what no command has asked for.
#[cold]
fn tell_unasked(source: Source<'_, '_>, cause: Cause<'_>, database: u32, name: &[u8]) {
    let Source { engine, counters, state, pending, recorder } = source;
    let is_recording = recorder.is_recording();
    let mut publish = |class: EventClass, event: &'static str| {
        let by = (engine, state.and_then(State::own), &mut pending.wakeups);
        notifications::publish(by, database, (class, event), name);
    };
    match cause {
        Cause::Command | Cause::Uncounted | Cause::GroupRemoved => return,
        Cause::Expired => {
            counters.expired.add(1);
            publish(EventClass::Expired, "expired");
        }
        Cause::Evicted => {
            counters.evicted.add(1);
            publish(EventClass::Evicted, "evicted");
        }
        Cause::FieldsExpired(expired) => {
            publish(EventClass::Hash, "hexpired");
            if expired.emptied {
                publish(EventClass::Generic, "del");
            }
            if is_recording {
                let mut words = recorder.effect(database, 2 + expired.fields.len());
                words.bulks(&[b"HDEL", name]);
                expired.fields.iter().for_each(|field| words.bulk(field));
            }
            return;
        }
    }
    if is_recording {
        let is_lazy = if matches!(cause, Cause::Evicted) { Opt::LazyfreeLazyEviction } else { Opt::LazyfreeLazyExpire };
        let mut words = recorder.effect(database, 2);
        words.bulks(&[removal(engine, is_lazy), name]);
    }
}

/// The word of an effect that removes a key where this option says whether that is to take no time, as in Redis.
pub fn removal(engine: &Engine, is_lazy: Opt) -> &'static [u8] {
    if engine.config.flag(is_lazy) { b"UNLINK" } else { b"DEL" }
}

/// Whether keys and fields may vanish that nobody asked to remove: because their time has come, or to make room.
///
/// Nothing vanishes while a log is applied, for the log says itself what did; nor on a replica, whose primary says it. Nothing
/// does during a pause either: a failover relies on that. What is due only looks gone meanwhile. A pause begins with all
/// shards locked; so whoever asks under the lock of the key's shard, and acts before giving it back, is not overtaken by one.
pub fn may_vanish(engine: &Engine, now: Instant) -> bool {
    !engine.is_replaying.load(Ordering::Relaxed)
        && (!engine.replication.role.is_replica() || planted::has(Fault::OwnEffects))
        && engine.pause.held(now.monotonic_ms()).is_none()
}
