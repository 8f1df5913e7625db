//! The consequences of becoming a replica, and of becoming a primary.
//!
//! The role changes while all shards are locked. With it changes the meaning of the journal: it is a copy of the primary's,
//! or this server's own. The refusals that follow from the role are among the engine's hindrances, which the gates check
//! anyway. Any thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::role::Address;
use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::readiness::Hindrance;
use crate::host::clock::Instant;
use crate::messaging::mail::Letter;
use crate::request::error::Error;

/// Why a client is not waited with any longer.
const UNBLOCKED: Error =
    Error::fixed("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)");

impl Engine {
    /// Updates the refusals that follow from the role, the link and the options.
    pub fn note_role(&self) {
        let role = &self.replication.role;
        let is_replica = role.is_replica();
        // While the role is handed over, clients that write are held, and learn the outcome.
        let is_handing_over = self.replication.failover.is_running();
        let is_read_only = is_replica && !is_handing_over && self.config.flag(Opt::ReplicaReadOnly);
        let is_stale = is_replica && !role.is_connected() && !self.config.flag(Opt::ReplicaServeStaleData);
        self.lifecycle.readiness.set(Hindrance::Follows, is_replica && !is_handing_over);
        self.lifecycle.readiness.set(Hindrance::ReadOnly, is_read_only);
        self.lifecycle.readiness.set(Hindrance::Stale, is_stale);
    }

    /// Follows this primary from now on. Returns false if the server does so already. All shards are locked, or no client is
    /// served yet. The caller makes sure that there is a thread for the link.
    pub fn follow_primary(&self, primary: Address) -> bool {
        // Changes were counted only if the journal is kept for replicas: then another server can go on at its end.
        let may_continue = self.journal.is_streamed();
        let was_replica = self.replication.role.is_replica();
        if !self.replication.role.follow(primary, may_continue) {
            return false;
        }
        self.journal.set_copy(true);
        self.note_role();
        self.disconnect_replicas();
        self.disconnect_journal_followers();
        if !was_replica {
            // A replica's clients may no longer take the elements that they wait for.
            self.clients.blocking.all().iter().for_each(|waiter| self.refuse(waiter, &UNBLOCKED));
        }
        true
    }

    /// Becomes a primary. Returns false if the server is one already. All shards are locked.
    pub fn lead(&self, now: Instant) -> bool {
        if !self.replication.role.lead() {
            return false;
        }
        self.replication.ids.shift(self.new_replication_id(), self.journal.end());
        self.journal.set_copy(false);
        self.replication.own_deadlines.clear();
        // Replicas that had the same primary get time to connect.
        self.replication.replicas.seen_ms.store(now.monotonic_ms(), Ordering::Relaxed);
        self.note_role();
        self.disconnect_replicas();
        true
    }

    /// Closes the connections that follow the journal, because the changes that they have seen may be lost with this server's
    /// data.
    pub fn disconnect_journal_followers(&self) {
        for client in self.clients.list.begin_generation() {
            client.mailbox.post(Letter::Close(client.id));
        }
    }

    /// Stops sending to the replica with this client id. Does nothing if the client is no replica.
    pub fn end_replica(&self, client: u64) {
        self.replication
            .replicas
            .all()
            .iter()
            .filter(|replica| replica.client.id == client)
            .for_each(|replica| replica.end());
    }

    /// Makes all replicas reconnect, because the stream has changed or has another id.
    pub fn disconnect_replicas(&self) {
        for replica in self.replication.replicas.all() {
            // The offset that the replica has acknowledged is not one of the new stream.
            replica.end();
            replica.client.mailbox.post(Letter::Close(replica.client.id));
        }
    }

    /// Follows the primary that the options name, before any client is served.
    pub fn follow_configured(self: &Arc<Self>) {
        let text = String::from_utf8_lossy(&self.config.text(Opt::Replicaof)).into_owned();
        if let Some((host, port)) = text.split_once(' ')
            && let Ok(port) = port.parse()
        {
            self.follow_primary(Address { host: host.to_owned(), port });
        }
    }
}
