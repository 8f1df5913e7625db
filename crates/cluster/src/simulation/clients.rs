//! The clients of a simulated cluster: they write, and remember the writes that a replica has acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use crate::simulation::network::Place;
use crate::simulation::server::Server;
use crate::slots::Slot;

/// The slots that are written to.
const WRITTEN: [Slot; 6] = [0, 3_000, 6_000, 9_000, 12_000, 16_000];

/// The writes, and the replicas that have acknowledged them.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    last: u64,
    /// The writes that wait for an acknowledgement, each with the primary that executed it.
    waiting: BTreeMap<u64, Place>,
    /// The replicas that have acknowledged each write (WAIT 1).
    acknowledged: BTreeMap<u64, BTreeSet<Place>>,
}

impl Clients {
    /// Writes to a random slot on a server that serves it.
    pub fn write(&mut self, servers: &mut [Server], random: u64, now: u64) {
        let slot = WRITTEN[(random % WRITTEN.len() as u64) as usize];
        let serving: Vec<Place> = (0..servers.len()).filter(|place| servers[*place].serves(slot, now)).collect();
        if serving.is_empty() {
            return;
        }
        let place = serving[(random >> 32) as usize % serving.len()];
        self.last += 1;
        servers[place].data.writes.push(self.last);
        self.waiting.insert(self.last, place);
    }

    /// Notes that a replica has copied writes of its primary. A client that waits at the primary is told.
    pub fn copied(&mut self, replica: Place, primary: Place, writes: &[u64]) {
        for write in writes {
            if self.waiting.get(write) == Some(&primary) {
                self.waiting.remove(write);
                self.acknowledged.insert(*write, BTreeSet::new());
            }
            if let Some(replicas) = self.acknowledged.get_mut(write) {
                replicas.insert(replica);
            }
        }
    }

    /// Notes that the clients of a server that went down get no answer.
    pub fn lost(&mut self, place: Place) {
        self.waiting.retain(|_, primary| *primary != place);
    }

    /// Returns a write that an elected replica lacks, although a fellow holds it and has acknowledged it as a replica.
    pub fn lost_by(&self, winner: Place, fellows: &[Place], servers: &[Server]) -> Option<(u64, Place)> {
        let kept: BTreeSet<u64> = servers[winner].data.writes.iter().copied().collect();
        for fellow in fellows {
            for write in servers[*fellow].data.writes.iter().rev().take(200) {
                let replicas = self.acknowledged.get(write);
                if replicas.is_some_and(|replicas| replicas.contains(fellow)) && !kept.contains(write) {
                    return Some((*write, *fellow));
                }
            }
        }
        None
    }

    /// Returns the number of writes that were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }
}
