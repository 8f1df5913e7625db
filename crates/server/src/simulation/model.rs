//! The simulation's model of the promises: the writes that were acknowledged at each level, and the failures that each level
//! survives.

use std::collections::BTreeMap;

use super::client::Heard;

/// The level that a write has reached, according to the messages to clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Level {
    /// The primary's disk has the write.
    on_disk: bool,
    /// The number of replicas that have the write and have not failed since.
    replicas: usize,
}

/// The acknowledged writes that must not be lost.
#[derive(Debug, Default)]
pub struct Owed {
    writes: BTreeMap<u64, Level>,
    /// The numbers of the last requested write at each loss of a replica and each change of the primary.
    losses: Vec<u64>,
    /// The numbers of acknowledgements by level. They show that each level has occurred.
    pub told: Told,
}

/// The numbers of acknowledgements by kind.
#[derive(Debug, Clone, Copy, Default)]
pub struct Told {
    /// The number of acknowledged writes.
    pub written: u64,
    /// The number of writes that a disk has.
    pub on_disk: u64,
    /// The number of writes that a replica has.
    pub replicated: u64,
}

impl Told {
    /// Adds the numbers of other clients.
    pub fn add(&mut self, other: Self) {
        self.written += other.written;
        self.on_disk += other.on_disk;
        self.replicated += other.replicated;
    }
}

impl Owed {
    /// Notes a message to a client. `is_synced` states that this primary replies only after its disk has a write.
    pub fn hear(&mut self, heard: &Heard, is_synced: bool) {
        for number in &heard.writes {
            let is_new = !self.writes.contains_key(number);
            // Writes that were lost with a primary are no longer promised.
            if is_new && !heard.is_answer {
                continue;
            }
            let level = self.writes.entry(*number).or_default();
            self.told.written += u64::from(is_new);
            self.told.on_disk += u64::from(!level.on_disk && heard.on_disk);
            self.told.replicated += u64::from(level.replicas == 0 && heard.replicas > 0);
            level.on_disk |= heard.on_disk || is_synced;
            // The acknowledgement may count lost replicas: it may have been sent before a loss, or before the primary noticed
            // it.
            let losses = self.losses.iter().filter(|last| *last >= number).count();
            level.replicas = level.replicas.max(heard.replicas.saturating_sub(losses));
        }
    }

    /// Notes that the primary has lost the writes that its disk did not have.
    pub fn lose_power(&mut self) {
        self.writes.retain(|_, level| level.on_disk);
        // Replicas that have more writes than are left do a full sync.
        self.writes.values_mut().for_each(|level| level.replicas = 0);
    }

    /// Notes that the primary has lost these writes, or may have lost them. It had them from the primary before it, and
    /// others have acknowledged them.
    pub fn lose_inherited(&mut self, writes: &[u64]) {
        writes.iter().for_each(|number| _ = self.writes.remove(number));
    }

    /// Notes that a replica has lost, or may have lost, the writes up to this one.
    pub fn lose_replica(&mut self, last: u64) {
        self.losses.push(last);
        self.writes.values_mut().for_each(|level| level.replicas = level.replicas.saturating_sub(1));
    }

    /// Notes that the primary is lost and a replica takes its place.
    pub fn lose_primary(&mut self) {
        self.writes.retain(|_, level| level.replicas > 0);
        self.writes.values_mut().for_each(|level| *level = Level { on_disk: false, replicas: level.replicas - 1 });
    }

    /// Notes that a replica with all writes, up to this number, has taken over the role of the primary.
    pub fn hand_over(&mut self, last: u64) {
        self.losses.push(last);
        let handed = |level: &Level| Level { on_disk: false, replicas: level.replicas.saturating_sub(1) };
        self.writes.values_mut().for_each(|level| *level = handed(level));
    }

    /// Returns an error about the first promised write that is missing; none if all are present.
    pub fn missing(&self, order: &[u64]) -> Option<String> {
        let there: std::collections::BTreeSet<u64> = order.iter().copied().collect();
        let (number, level) = self.writes.iter().find(|(number, _)| !there.contains(number))?;
        Some(format!("write {number} was acknowledged ({level:?}) and is not there"))
    }
}

/// Returns the values that the keys of transactions have after these writes in this order.
pub fn keys_after(order: &[u64], transactions: &[u64], keys: u64) -> Vec<Option<u64>> {
    let last = |key: u64| order.iter().rev().find(|number| *number % keys == key && transactions.contains(number));
    (0..keys).map(|key| last(key).copied()).collect()
}
