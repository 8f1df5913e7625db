//! The only way to report that a key changed or vanished, and for whole databases of them.
//!
//! For every [`Cause`], [`tell`] notifies all parties that need it: the clients that watch the key (WATCH), those that are
//! blocked on it (BLPOP and its like), those that have it in a cache of their own (CLIENT TRACKING), and the statistics. If
//! no command caused the change, it also publishes the keyspace notification and records the effect in the journal. A command
//! reports its own events and effects itself, through the same [`Pending`] (`changes`). If all keys of a database change at
//! once, [`tell_all`] notifies the same three kinds of clients.
//!
//! [`may_vanish`] decides whether keys may vanish without a command. All of this is called under the lock of the key's shard.
//! While no client watches, waits or tracks, a change costs three relaxed loads.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sleeve_store::ExpiredFields;

use super::notifications;
use super::notifications::EventClass;
use super::session_state::SessionState;
use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::clients::blocking::DatabaseKey;
use crate::engine::clients::watch::Presence;
use crate::engine::journal::Recorder;
use crate::engine::observe::stats::Counters;
use crate::host::clock::Instant;
use crate::host::planted::{self, Fault};
use crate::messaging::mail::{Letter, Mailbox};
use crate::messaging::wakeups::Wakeups;
use crate::request::Key;

/// The reason why a key has changed, or is gone.
#[derive(Debug, Clone, Copy)]
pub enum Cause<'a> {
    /// A command changed or removed it.
    Command,
    /// A command changed the key, and counts the changes itself.
    Uncounted,
    /// A command removed a group of a stream, which only the clients that wait for its entries can notice.
    GroupRemoved,
    /// The key has expired.
    Expired,
    /// These fields of the key's hash have expired.
    FieldsExpired(&'a ExpiredFields),
    /// The key was evicted to make room.
    Evicted,
}

/// The origin of a key's change, and the places for its consequences.
pub struct ChangeSource<'a, 's> {
    /// The engine.
    pub engine: &'a Engine,
    /// The thread's counters.
    pub counters: &'a Counters,
    /// The client that runs the command; None if a deadline alone is the reason.
    pub state: Option<&'a SessionState>,
    /// The work that the change leaves for later.
    pub pending: &'a mut Pending,
    /// The recorder of the effects of changes that no command caused.
    pub recorder: &'a mut Recorder<'s>,
}

/// The work that changes leave for the end of the command or the transaction, or for the time when the locks have been given
/// back.
#[derive(Debug, Default)]
pub struct Pending {
    /// Changes of the running command.
    pub changes: u64,
    /// Keys that have changed and that clients wait for; they are served when the outermost command has ended.
    pub marked: VecDeque<DatabaseKey>,
    /// The workers to be woken for published messages, and the messages that the client published to itself.
    pub wakeups: Wakeups,
    /// The letters that are posted when the locks have been given back.
    pub letters: Vec<(Arc<Mailbox>, Letter)>,
}

impl Pending {
    /// Posts a letter when the locks of the running batch have been given back.
    pub fn post(&mut self, mailbox: &Arc<Mailbox>, letter: Letter) {
        self.letters.push((Arc::clone(mailbox), letter));
    }

    /// Posts the letters, now that no lock is held, and wakes their receivers. The owner of the mailbox `own` is the caller
    /// and reads it without being woken. Replies to blocked clients get `shown` as the journal offset that they show.
    pub fn post_letters(&mut self, own: Option<&Arc<Mailbox>>, shown: u64) {
        for (mailbox, mut letter) in self.letters.drain(..) {
            if let Letter::Unblock { reply, .. } = &mut letter {
                reply.shown = shown;
            }
            let is_own = own.is_some_and(|own| Arc::ptr_eq(own, &mailbox));
            if is_own { mailbox.post_unheard(letter) } else { mailbox.post(letter) }
        }
        self.wakeups.ring(own);
    }
}

/// Notifies all parties after a key has changed or vanished. Always inline: the caller knows the cause, and the compiler
/// drops the branches of the other causes.
#[inline(always)]
pub fn tell(source: ChangeSource<'_, '_>, cause: Cause<'_>, database: u32, key: Key<'_>) {
    let ChangeSource { engine, counters, state, pending, recorder } = source;
    let is_seen = !matches!(cause, Cause::GroupRemoved);
    match cause {
        Cause::Expired => engine.clients.watches.raise_expired(database, key.name),
        _ if is_seen => engine.clients.watches.raise(database, key.name),
        _ => {}
    }
    if let Some(place) = engine.clients.blocking.mark(database, key) {
        pending.marked.push_back(place);
    }
    if is_seen && engine.clients.tracking.is_used() {
        engine.clients.tracking.changed(key.name, state.and_then(SessionState::changer), &mut pending.wakeups);
    }
    match cause {
        Cause::Command | Cause::GroupRemoved => pending.changes += 1,
        Cause::Uncounted => {}
        Cause::Expired | Cause::FieldsExpired(_) | Cause::Evicted => {
            tell_unasked(ChangeSource { engine, counters, state, pending, recorder }, cause, database, key.name);
        }
    }
}

/// The way in which all keys of a database change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turnover {
    /// The keys are removed, or other keys take their place.
    Replaced,
    /// The database changes places with another one. Clients with keys in a cache are not notified of that, as in Redis:
    /// their caches hold names without a database.
    Exchanged,
}

/// Notifies all parties that all keys of these databases change at once. All shards are locked. `look` returns the state of a
/// key before the change and after it.
pub fn tell_all(
    (engine, state, pending): (&Engine, Option<&SessionState>, &mut Pending),
    turnover: Turnover,
    databases: Range<u32>,
    mut look: impl FnMut(u32, &[u8]) -> (Presence, Presence),
) {
    for database in databases {
        engine.clients.watches.replace_all(database, |name| look(database, name));
        pending.marked.extend(engine.clients.blocking.mark_all(database));
    }
    if turnover == Turnover::Replaced && engine.clients.tracking.is_used() {
        let by = state.and_then(SessionState::changer).map(|(id, _)| id);
        engine.clients.tracking.changed_all(by, &mut pending.wakeups);
    }
}

/// Counts, publishes and records a change that no command caused.
#[cold]
fn tell_unasked(source: ChangeSource<'_, '_>, cause: Cause<'_>, database: u32, name: &[u8]) {
    let ChangeSource { engine, counters, state, pending, recorder } = source;
    let is_recording = recorder.is_recording();
    let mut publish = |class: EventClass, event: &'static str| {
        let by = (engine, state.and_then(SessionState::own), &mut pending.wakeups);
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

/// Returns the name of the command that records the removal of a key: UNLINK if the option has values freed on another
/// thread, else DEL, as in Redis.
pub fn removal(engine: &Engine, is_lazy: Opt) -> &'static [u8] {
    if engine.config.flag(is_lazy) { b"UNLINK" } else { b"DEL" }
}

/// Returns whether keys and fields may vanish without a command: because they have expired, or to make room.
///
/// Keys do not vanish while an AOF is applied, because the AOF itself says which did; nor on a replica, because its primary
/// says it. They do not vanish during a pause either: a failover relies on that. In that time, an expired key only looks
/// gone. A pause begins with all shards locked. So a caller that asks under the lock of the key's shard, and acts before
/// giving it back, is not overtaken by one.
pub fn may_vanish(engine: &Engine, now: Instant) -> bool {
    !engine.persistence.is_replaying.load(Ordering::Relaxed)
        && (!engine.replication.role.is_replica() || planted::has(Fault::OwnEffects))
        && engine.clients.pause.held(now.monotonic_ms()).is_none()
}
