//! The registry of all clients of an engine. Any thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::client_info::{ClientInfo, ClientSocket};
use crate::messaging::mail::Mailbox;

/// The clients of one engine, by id.
#[derive(Debug, Default)]
pub struct ClientList {
    next_id: AtomicU64,
    generation: AtomicU64,
    rows: Mutex<BTreeMap<u64, Arc<ClientInfo>>>,
}

impl ClientList {
    /// Enters a client that has just connected.
    pub fn enter(&self, socket: ClientSocket, mailbox: Arc<Mailbox>, now_ms: i64) -> Arc<ClientInfo> {
        let client = self.describe(socket, mailbox, now_ms);
        self.rows.lock().insert(client.id, Arc::clone(&client));
        client
    }

    /// Describes a client without entering it: CLIENT LIST does not show it, and no count includes it.
    pub fn describe(&self, socket: ClientSocket, mailbox: Arc<Mailbox>, now_ms: i64) -> Arc<ClientInfo> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        Arc::new(ClientInfo::new(id, socket, mailbox, (now_ms, self.generation())))
    }

    /// Returns the generation of the data: how often another server's data has replaced, or is about to replace, all data.
    /// Changes that an earlier client has seen may be lost.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Begins a new generation, because another server's data replaces all data. Returns the clients that follow the journal,
    /// which is replaced too.
    pub fn begin_generation(&self) -> Vec<Arc<ClientInfo>> {
        self.generation.fetch_add(1, Ordering::AcqRel);
        let mut followers = self.all();
        followers.retain(|client| client.settings.follows_journal.load(Ordering::Relaxed));
        followers
    }

    /// Removes a client that has disconnected.
    pub fn leave(&self, id: u64) {
        self.rows.lock().remove(&id);
    }

    /// Returns the client with this id.
    pub fn find(&self, id: u64) -> Option<Arc<ClientInfo>> {
        self.rows.lock().get(&id).cloned()
    }

    /// Returns all clients, oldest first.
    pub fn all(&self) -> Vec<Arc<ClientInfo>> {
        self.rows.lock().values().cloned().collect()
    }

    /// Returns the memory of all clients other than replicas, and that of replicas, in bytes.
    pub fn bytes(&self) -> (usize, usize) {
        let (mut clients, mut replicas) = (0, 0);
        for client in self.rows.lock().values() {
            let sum = if client.roles.is_replica.load(Ordering::Relaxed) { &mut replicas } else { &mut clients };
            *sum += client.memory.sum();
        }
        (clients, replicas)
    }

    /// Returns how many clients there are.
    pub fn len(&self) -> usize {
        self.rows.lock().len()
    }
}
