//! The owner of each slot of a cluster, the move of a slot key by key, and the failover of the slots of a dead server.
//!
//! All servers have the same data, so a key that moves is only marked as moved.

use std::collections::BTreeSet;

use sleeve_wire::slot::{self, SLOTS};

/// The owners of the slots.
pub(super) struct Topology {
    /// The number of servers.
    count: usize,
    /// The server that owns each slot.
    owners: Vec<usize>,
    moving: Option<Moving>,
}

/// A slot that is being moved.
struct Moving {
    slot: u16,
    to: usize,
    /// The keys that have been moved already, and those that were created at the new server.
    moved: BTreeSet<Vec<u8>>,
}

/// A server's decision about a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The server executes the command.
    Here,
    /// The server answers with this error.
    Refused(String),
}

impl Topology {
    /// Creates a cluster in which this number of servers own equal parts of the slots.
    pub(super) fn new(count: usize) -> Self {
        let owners = (0..usize::from(SLOTS)).map(|slot| slot * count / usize::from(SLOTS)).collect();
        Self { count, owners, moving: None }
    }

    /// Decides on a command with these keys. `exists` returns whether a key exists on any server.
    pub(super) fn judge(
        &mut self,
        node: usize,
        keys: &[&[u8]],
        asking: bool,
        exists: impl Fn(&[u8]) -> bool,
    ) -> Verdict {
        let Some(slot) = keys.first().map(|key| slot::of_key(key)) else { return Verdict::Here };
        if keys.iter().any(|key| slot::of_key(key) != slot) {
            return Verdict::Refused("-CROSSSLOT Keys in request don't hash to the same slot\r\n".to_owned());
        }
        let owner = self.owners[usize::from(slot)];
        let moved = |owner| Verdict::Refused(format!("-MOVED {slot} {}\r\n", address(owner)));
        let Some(moving) = self.moving.as_mut().filter(|moving| moving.slot == slot) else {
            return if owner == node { Verdict::Here } else { moved(owner) };
        };
        let later = || Verdict::Refused("-TRYAGAIN Multiple keys request during rehashing of slot\r\n".to_owned());
        let here = |key: &&&[u8]| exists(key) && !moving.moved.contains(**key);
        let count = keys.iter().filter(here).count();
        if node == owner {
            return match count {
                _ if count == keys.len() => Verdict::Here,
                0 => Verdict::Refused(format!("-ASK {slot} {}\r\n", address(moving.to))),
                _ => later(),
            };
        }
        if node != moving.to || !asking {
            return moved(owner);
        }
        if count > 0 {
            return later();
        }
        moving.moved.extend(keys.iter().map(|key| key.to_vec()));
        Verdict::Here
    }

    /// Decides on a command that waits for these keys at this server: it is redirected, or goes on waiting. Returns true if
    /// it may take elements from them here.
    pub(super) fn judge_waiting(&self, node: usize, keys: &[&[u8]]) -> Result<bool, String> {
        let Some(slot) = keys.first().map(|key| slot::of_key(key)) else { return Ok(true) };
        let owner = self.owners[usize::from(slot)];
        match self.moving.as_ref().filter(|moving| moving.slot == slot) {
            Some(moving) if node == moving.to => Ok(keys.iter().all(|key| moving.moved.contains(*key))),
            Some(moving) if node == owner => Ok(!keys.iter().any(|key| moving.moved.contains(*key))),
            None if node == owner => Ok(true),
            _ => Err(format!("-MOVED {slot} {}\r\n", address(owner))),
        }
    }

    /// Returns the server that has a key, or at which it is created now.
    pub(super) fn holder(&mut self, key: &[u8], exists: bool) -> usize {
        let slot = slot::of_key(key);
        match self.moving.as_mut().filter(|moving| moving.slot == slot) {
            Some(moving) if !exists || moving.moved.contains(key) => {
                moving.moved.insert(key.to_vec());
                moving.to
            }
            _ => self.owners[usize::from(slot)],
        }
    }

    /// Takes a step in the move of a slot: the move begins, one of its keys is moved, or it ends. `roll` decides which.
    /// Returns the key that has moved, with its last server.
    pub(super) fn move_on(
        &mut self,
        mut roll: impl FnMut(usize) -> usize,
        keys: &BTreeSet<Vec<u8>>,
    ) -> Option<(usize, Vec<u8>)> {
        match &mut self.moving {
            None => {
                let key = keys.iter().nth(roll(keys.len().max(1)))?;
                let slot = slot::of_key(key);
                let to = (self.owners[usize::from(slot)] + 1 + roll(self.count - 1)) % self.count;
                self.moving = Some(Moving { slot, to, moved: BTreeSet::new() });
                None
            }
            Some(moving) => {
                let slot = moving.slot;
                let left = keys.iter().find(|key| slot::of_key(key) == slot && !moving.moved.contains(*key));
                let Some(key) = left else {
                    self.arrive();
                    return None;
                };
                moving.moved.insert(key.clone());
                Some((self.owners[usize::from(slot)], key.clone()))
            }
        }
    }

    /// Ends the move of a slot: the new server owns it.
    pub(super) fn arrive(&mut self) {
        if let Some(moving) = self.moving.take() {
            self.owners[usize::from(moving.slot)] = moving.to;
        }
    }

    /// Makes another server take over the slots of a dead one.
    pub(super) fn fail_over(&mut self, dead: usize, to: usize) {
        self.arrive();
        self.owners.iter_mut().filter(|owner| **owner == dead).for_each(|owner| *owner = to);
    }

    /// Returns the answer to CLUSTER SLOTS.
    pub(super) fn slots(&self) -> String {
        let mut ranges: Vec<(usize, usize, usize)> = Vec::new();
        for (slot, &owner) in self.owners.iter().enumerate() {
            match ranges.last_mut() {
                Some((_, last, before)) if *before == owner => *last = slot,
                _ => ranges.push((slot, slot, owner)),
            }
        }
        let range = |(first, last, owner): &(usize, usize, usize)| {
            let host = format!("10.0.0.{}", owner + 1);
            format!("*3\r\n:{first}\r\n:{last}\r\n*2\r\n${}\r\n{host}\r\n:6379\r\n", host.len())
        };
        format!("*{}\r\n{}", ranges.len(), ranges.iter().map(range).collect::<String>())
    }
}

fn address(node: usize) -> String {
    format!("10.0.0.{}:6379", node + 1)
}
