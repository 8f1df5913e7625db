//! The consequences of becoming a replica, and of becoming a primary.
//!
//! The role changes while all shards are locked. The meaning of the journal changes with it: it is a copy of the primary's,
//! or this server's own. The refusals that follow from the role are among the engine's hindrances, which the gates check
//! anyway. Any thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::role::Address;
use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::readiness::Hindrance;
use crate::engine::replication::primary;
use crate::host::clock::Instant;
use crate::messaging::mail::Letter;
use crate::request::error::Error;

/// The error for blocked clients of a server that has become a replica.
const UNBLOCKED: Error =
    Error::fixed("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)");

/// Updates the refusals that follow from the role, the link and the options.
pub fn note_role(engine: &Engine) {
    let role = &engine.replication.role;
    let is_replica = role.is_replica();
    // During a failover, clients that write are held instead of refused, until its outcome is known.
    let is_handing_over = engine.replication.failover.is_running();
    let is_read_only = is_replica && !is_handing_over && engine.config.flag(Opt::ReplicaReadOnly);
    let is_stale = is_replica && !role.is_connected() && !engine.config.flag(Opt::ReplicaServeStaleData);
    engine.lifecycle.readiness.set(Hindrance::Follows, is_replica && !is_handing_over);
    engine.lifecycle.readiness.set(Hindrance::ReadOnly, is_read_only);
    engine.lifecycle.readiness.set(Hindrance::Stale, is_stale);
}

/// Makes this server follow a primary from now on. Returns false if it does so already. All shards are locked, or no client
/// is served yet. The caller starts the thread of the link.
pub fn follow_primary(engine: &Engine, primary: Address) -> bool {
    // The offsets count all changes only if the journal is kept for replicas: only then another server can continue at its
    // end.
    let may_continue = engine.journal.is_streamed();
    let was_replica = engine.replication.role.is_replica();
    if !engine.replication.role.follow(primary, may_continue) {
        return false;
    }
    engine.journal.set_copy(true);
    note_role(engine);
    disconnect_replicas(engine);
    disconnect_journal_followers(engine);
    if !was_replica {
        // Clients of a replica may no longer take the elements for which they wait.
        let waiters = engine.clients.blocking.all();
        waiters.iter().filter(|waiter| waiter.waits_for_others()).for_each(|waiter| engine.refuse(waiter, &UNBLOCKED));
    }
    true
}

/// Makes this server a primary. Returns false if it is one already. All shards are locked.
pub fn lead(engine: &Engine, now: Instant) -> bool {
    if !engine.replication.role.lead() {
        return false;
    }
    engine.replication.ids.shift(primary::new_replication_id(engine), engine.journal.end());
    engine.journal.set_copy(false);
    engine.replication.own_deadlines.clear();
    // Replicas that had the same primary get time to connect.
    engine.replication.replicas.seen_ms.store(now.monotonic_ms(), Ordering::Relaxed);
    note_role(engine);
    disconnect_replicas(engine);
    true
}

/// Closes the connections that follow the journal, because the changes that they have seen may be lost with this server's
/// data.
pub fn disconnect_journal_followers(engine: &Engine) {
    for client in engine.clients.list.begin_generation() {
        client.mailbox.post(Letter::Close(client.id));
    }
}

/// Stops sending to the replica with this client id. Does nothing if the client is no replica.
pub fn end_replica(engine: &Engine, client: u64) {
    engine
        .replication
        .replicas
        .all()
        .iter()
        .filter(|replica| replica.client.id == client)
        .for_each(|replica| replica.end());
}

/// Makes all replicas reconnect, because the stream has changed or has another id. Before their connections close, they send
/// the changes that clients have seen.
pub fn disconnect_replicas(engine: &Engine) {
    let sendable = engine.persistence.passed().min(engine.journal.end());
    for replica in engine.replication.replicas.all() {
        // The offset that the replica has acknowledged is not one of the new stream.
        replica.end_at(sendable);
        replica.client.mailbox.post(Letter::Close(replica.client.id));
    }
}

/// Follows the primary that the options name, before any client is served.
pub fn follow_configured(engine: &Arc<Engine>) {
    let text = String::from_utf8_lossy(&engine.config.text(Opt::Replicaof)).into_owned();
    if let Some((host, port)) = text.split_once(' ')
        && let Ok(port) = port.parse()
    {
        follow_primary(engine, Address { host: host.to_owned(), port });
    }
}
