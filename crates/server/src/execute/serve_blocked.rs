//! Blocking commands: how a command begins to wait for a key, and how its client is served when the command that changed the
//! key has ended.
//!
//! For each key that was marked, the waiters are tried in the order in which they came: the waiter's request, narrowed to
//! that key, runs as if the waiter had just sent it, under the locks that the finished command still holds, and its reply is
//! posted to the owner of the waiter's session. A request that would block again leaves its waiter at its place in the order.
//! A served request may change further keys (BLMOVE), which are served in turn.
//!
//! If a request needs a shard that is not held, all locks are given back and those that it needs are taken together, as all
//! locks are. The key may be empty by then; the request itself finds that out.

use std::collections::VecDeque;
use std::sync::Arc;

use sleeve_store::Kind;

use crate::context::key_change::Pending;
use crate::context::permission;
use crate::context::session_state::SessionState;
use crate::context::{Cx, ThreadContext};
use crate::engine::clients::blocking::{DatabaseKey, Waiter};
use crate::engine::clients::tracking;
use crate::messaging::mail::{Letter, Mailbox};
use crate::request::output::{Mark, Output};
use crate::request::{KeyAt, Parts, Request, hash_keys};

/// Serves all keys that the finished command has marked. Locks may have changed hands afterwards.
#[cold]
pub fn marked(cx: &mut Cx<'_>) {
    while let Some(key) = cx.pending.marked.pop_front() {
        cx.engine.clients.blocking.unmark(&key);
        serve_key(cx, &key);
    }
}

/// Serves keys that no command has changed: they have expired, they were evicted, or time alone has made their contents
/// usable. The caller holds no shard.
pub fn gone(thread_context: ThreadContext<'_>, call: fn(&mut Cx<'_>, Request<'_>), places: VecDeque<DatabaseKey>) {
    let engine = thread_context.engine;
    let Some((first, _)) = places.iter().find_map(|key| engine.clients.blocking.next(key, 0, None)) else {
        return places.iter().for_each(|key| engine.clients.blocking.unmark(key));
    };
    let (mut state, mut out) = (SessionState::stand_in(&first), Output::default());
    let mut pending = Pending { marked: places, ..Pending::default() };
    let mut cx = Cx::new(thread_context, &mut state, &mut out, &mut pending, call);
    marked(&mut cx);
    cx.timer.settle(cx.engine, cx.counters);
    post_letters(&mut cx, None);
}

fn serve_key(cx: &mut Cx<'_>, key: &DatabaseKey) {
    let hash = cx.engine.keyspace.store.hash(&key.name);
    let mut ticket = 0;
    loop {
        if !cx.locks.holds(hash) {
            cx.locks.take_one(hash);
        }
        if ticket == 0 {
            remove_due(cx, key);
        }
        let kind = kind_of(cx, key);
        let Some((waiter, aim)) = cx.engine.clients.blocking.next(key, ticket, kind) else { return };
        ticket = waiter.ticket;
        let mut keys = Vec::new();
        hash_keys(&cx.engine.keyspace.store, waiter.row, waiter.request(aim).args(), &mut keys);
        if !keys.iter().all(|key| cx.locks.holds(key.hash)) {
            cx.locks.take(keys.iter().map(|key| key.hash).chain([hash]));
            let kind = kind_of(cx, key);
            if !waiter.wants(aim, kind) {
                continue;
            }
        }
        serve(cx, &waiter, aim, &keys);
    }
}

/// Removes an expired key that a client waits for: in Redis the key expires when it is looked up for that client.
fn remove_due(cx: &mut Cx<'_>, key: &DatabaseKey) {
    let is_due = cx.is_over(key.database, cx.engine.keyspace.store.key(&key.name));
    if is_due && cx.engine.clients.blocking.is_awaited(key) {
        let database = std::mem::replace(&mut cx.state.database, key.database);
        cx.remove_due(&key.name);
        cx.state.database = database;
    }
}

fn kind_of(cx: &Cx<'_>, key: &DatabaseKey) -> Option<Kind> {
    cx.view(key.database, cx.engine.keyspace.store.key(&key.name)).map(|entry| entry.kind())
}

/// Runs the request of a waiter as if the waiter's session ran it, and posts the reply unless the client has to go on
/// waiting.
fn serve(cx: &mut Cx<'_>, waiter: &Arc<Waiter>, aim: usize, keys: &[KeyAt]) {
    // A killed client gets no element any more, though its owning thread may not have closed its session yet.
    if cx.engine.clients.list.find(waiter.client.id).is_none() {
        return;
    }
    let Some(claim) = waiter.claim() else { return };
    let (mut state, mut reply) = (SessionState::stand_in(waiter), Output::default());
    std::mem::swap(cx.state, &mut state);
    std::mem::swap(cx.out, &mut reply);
    let invalid_elsewhere = std::mem::take(&mut cx.pending.wakeups.invalid);
    // The client's permission may have been taken away while it waited.
    match permission::check_unblocked(cx, waiter.row, waiter.request(aim).args()) {
        Ok(()) => {
            (cx.call)(cx, Parts { row: waiter.row, args: waiter.request(aim).args(), key_places: keys }.request())
        }
        Err(error) => cx.refuse(&error),
    }
    std::mem::swap(cx.state, &mut state);
    std::mem::swap(cx.out, &mut reply);
    let invalid = std::mem::replace(&mut cx.pending.wakeups.invalid, invalid_elsewhere);
    if state.blocked.is_none() {
        claim.finish(&cx.engine.clients.blocking);
        // The reply is noted as one to a write, though the request may have changed nothing: an error that replaces it does
        // not claim a change either.
        reply.note_write(Mark::default());
        let letter = Letter::Unblock { id: waiter.client.id, ticket: waiter.ticket, reply, is_refused: false };
        cx.pending.post(&waiter.client.mailbox, letter);
        // Behind the reply the client gets the invalidations that its own changes have caused, as if it had not waited.
        for key in invalid.into_iter().flatten() {
            let letter = Letter::Invalidate { id: waiter.client.id, keys: Some(tracking::array_of(&[&key])) };
            cx.pending.post(&waiter.client.mailbox, letter);
        }
    }
}

/// Gives all locks back, posts the letters so far, and wakes their receivers. The owner of the mailbox `own` looks into it by
/// itself.
pub(crate) fn post_letters(cx: &mut Cx<'_>, own: Option<&Arc<Mailbox>>) {
    cx.locks.clear();
    cx.engine.clients.tracking.broadcast(&mut cx.pending.wakeups);
    cx.pending.post_letters(own, cx.locks.recorder.shown_offset());
}
