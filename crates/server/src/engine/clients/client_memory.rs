//! The memory of all clients together, and the choice of clients to close if it is too much (`maxmemory-clients`).
//!
//! The thread that owns a client measures its requests and replies in flight after each batch and at every tick, and only
//! while that option or `maxmemory` is set. The sum is one atomic, to which a thread adds the difference. If it is over the
//! limit, the thread that notices this closes the largest clients, except those with CLIENT NO-EVICT. A chosen client weighs
//! nothing from then on, so that two threads never choose for the same excess. Replicas are not counted and not closed, as in
//! Redis: their pending output has a limit of its own. Any thread.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::client_info::ClientInfo;
use super::client_list::ClientList;
use crate::engine::observe::stats::Counters;
use crate::host::log;
use crate::messaging::mail::Letter;

/// The memory of all clients of one engine, in classes of size.
#[derive(Debug, Default)]
pub struct ClientMemory {
    sum_bytes: AtomicI64,
}

/// The value of `weight` for a client that is no longer counted.
const GONE: i64 = -1;

impl ClientMemory {
    /// Weighs a client; for the thread that owns it.
    pub fn weigh(&self, client: &ClientInfo) {
        let old = client.memory.weight.load(Ordering::Relaxed);
        let new = if client.roles.is_replica.load(Ordering::Relaxed) { 0 } else { client.memory.sum() as i64 };
        if old != GONE
            && old != new
            && client.memory.weight.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.sum_bytes.fetch_add(new - old, Ordering::Relaxed);
        }
    }

    /// Subtracts a client from the sum, for good; returns whether it was counted.
    pub fn forget(&self, client: &ClientInfo) -> bool {
        let old = client.memory.weight.swap(GONE, Ordering::Relaxed);
        if old != GONE {
            self.sum_bytes.fetch_sub(old, Ordering::Relaxed);
        }
        old != GONE
    }

    /// Returns the memory of all counted clients, in bytes.
    #[inline]
    pub fn sum(&self) -> u64 {
        self.sum_bytes.load(Ordering::Relaxed).max(0) as u64
    }

    /// Returns whether all clients together take more than `bytes_max`.
    #[inline]
    pub fn exceeds(&self, bytes_max: u64) -> bool {
        self.sum_bytes.load(Ordering::Relaxed) > i64::try_from(bytes_max).unwrap_or(i64::MAX)
    }

    /// Closes the largest clients of all threads, as long as all together take more than `bytes_max`.
    pub fn evict(&self, clients: &ClientList, bytes_max: u64, (now_ms, counters): (i64, &Counters)) {
        if bytes_max == 0 || !self.exceeds(bytes_max) {
            return;
        }
        for client in self.choose(clients, bytes_max) {
            log::notice(&format!("Evicting client: {}", client.line(now_ms).trim_end()));
            counters.clients_evicted.add(1);
            clients.leave(client.id);
            client.mailbox.post(Letter::Close(client.id));
        }
    }

    /// Returns whether a client was subtracted from the sum, and is about to be closed.
    pub fn has_forgotten(&self, client: &ClientInfo) -> bool {
        client.memory.weight.load(Ordering::Relaxed) == GONE
    }

    /// Chooses the largest clients until the others fit, and subtracts them from the sum. Adds the weights up itself, because
    /// another thread that forgets a client subtracts it from the sum a moment later, and a second client would be closed for
    /// the same excess.
    #[cold]
    pub fn choose(&self, clients: &ClientList, bytes_max: u64) -> Vec<Arc<ClientInfo>> {
        let weight_of = |client: Arc<ClientInfo>| (client.memory.weight.load(Ordering::Relaxed).max(0), client);
        let mut candidates: Vec<_> = clients.all().into_iter().map(weight_of).collect();
        let mut left = candidates.iter().map(|&(weight, _)| weight as u64).sum::<u64>();
        let stays = |client: &ClientInfo| {
            let flags = [&client.settings.no_evict, &client.roles.is_replica, &client.roles.is_primary];
            flags.iter().any(|flag| flag.load(Ordering::Relaxed))
        };
        candidates.retain(|(_, client)| !stays(client));
        candidates.sort_by_key(|&(weight, _)| Reverse(weight));
        let mut chosen = Vec::new();
        for (weight, client) in candidates {
            if left <= bytes_max {
                break;
            }
            left -= weight as u64;
            // If another thread has chosen it, its memory is on the way out too.
            if self.forget(&client) {
                chosen.push(client);
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::clients::client_info::ClientSocket;
    use crate::messaging::mail::Mailbox;

    fn enter(clients: &ClientList) -> Arc<ClientInfo> {
        let socket = ClientSocket { address: "a:1".into(), local_address: "b:1".into(), descriptor: -1, is_tls: false };
        clients.enter(socket, Arc::new(Mailbox::new(|| ())), 0)
    }

    #[test]
    fn a_replica_weighs_nothing_and_stays() {
        let (clients, memory) = (ClientList::default(), ClientMemory::default());
        let client = enter(&clients);
        client.memory.output.store(1 << 20, Ordering::Relaxed);
        memory.weigh(&client);
        assert!(memory.sum() > 1 << 20);
        // The client becomes a replica.
        client.roles.is_replica.store(true, Ordering::Relaxed);
        assert!(memory.choose(&clients, 0).is_empty());
        memory.weigh(&client);
        assert_eq!(memory.sum(), 0);
    }

    /// Checks the moment in which another thread has marked a client as gone and has not subtracted it yet.
    #[test]
    fn no_client_goes_for_one_that_another_thread_is_forgetting() {
        let (clients, memory) = (ClientList::default(), ClientMemory::default());
        let weighed = |bytes: usize| {
            let client = enter(&clients);
            client.memory.input.store(bytes, Ordering::Relaxed);
            memory.weigh(&client);
            client
        };
        let (_small, large) = (weighed(1_000), weighed(1 << 20));
        large.memory.weight.store(GONE, Ordering::Relaxed);
        assert!(memory.exceeds(1 << 20));
        assert!(memory.choose(&clients, 1 << 20).is_empty());
    }

    #[test]
    fn the_largest_go_until_the_others_fit() {
        let (clients, memory) = (ClientList::default(), ClientMemory::default());
        let weighed = |bytes: usize, stays: bool| {
            let client = enter(&clients);
            client.memory.input.store(bytes, Ordering::Relaxed);
            client.settings.no_evict.store(stays, Ordering::Relaxed);
            memory.weigh(&client);
            client.id
        };
        let [small, stays, large, larger] =
            [weighed(1_000, false), weighed(1 << 20, true), weighed(100_000, false), weighed(200_000, false)];
        let own = 4 * size_of::<ClientInfo>() as u64;
        let ids = |chosen: Vec<Arc<ClientInfo>>| chosen.iter().map(|client| client.id).collect::<Vec<_>>();
        assert_eq!(ids(memory.choose(&clients, (1 << 20) + 301_000 + own)), [0; 0]);
        assert_eq!(ids(memory.choose(&clients, (1 << 20) + 150_000 + own)), [larger]);
        assert_eq!(ids(memory.choose(&clients, 0)), [large, small], "{stays} stays");
        clients.all().iter().for_each(|client| _ = memory.forget(client));
        assert!(!memory.exceeds(0), "everything that was added is taken away");
    }
}
