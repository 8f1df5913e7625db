//! Which connection invalidates the replies of each slot of a cluster, and since when.
//!
//! A node reports changes of the slots that it owns, to the connections over which the keys were read. So a reply is valid
//! while its connection is the one to the owner of its slot, and no longer: changes of a slot that has moved are reported to
//! its last owner's connection at best. Each time that a slot has another connection its tenure begins anew, so that a slot
//! that comes back to a node finds none of the replies that were kept before.
//!
//! The cluster's task reports the owners; readers look in passing. Any thread.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::transport::cluster::slots::{SLOTS, slot_of};

/// In the place of a connection: none keeps the slot true.
pub(super) const NOBODY: u32 = 0;

/// The time for which one connection keeps a slot true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tenure(u64);

impl Tenure {
    /// The tenure of the only connection of a single server, which has all keys for ever: replies that are lost with it are
    /// taken out.
    pub(super) const ENDLESS: Self = Self::of(1, 0);

    const fn of(connection: u32, turn: u32) -> Self {
        Self((connection as u64) << 32 | turn as u64)
    }

    /// By which connection.
    pub(super) fn connection(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn turn(self) -> u32 {
        self.0 as u32
    }
}

/// The present tenure of each slot.
pub(super) struct Owners(Vec<AtomicU64>);

impl Default for Owners {
    fn default() -> Self {
        Self((0..SLOTS).map(|_| AtomicU64::new(Tenure::of(NOBODY, 0).0)).collect())
    }
}

impl Owners {
    /// Returns the present tenure of a key's slot.
    #[inline]
    pub(super) fn tenure(&self, key: &[u8]) -> Tenure {
        let slot = self.0.get(usize::from(slot_of(key)));
        slot.map_or(Tenure::of(NOBODY, 0), |slot| Tenure(slot.load(Ordering::Acquire)))
    }

    /// From now on each slot is kept true by this connection. One thread at a time says so.
    pub(super) fn follow(&self, connection_of: &mut dyn FnMut(u16) -> u32) {
        for (number, slot) in (0..).zip(&self.0) {
            let (now, connection) = (Tenure(slot.load(Ordering::Relaxed)), connection_of(number));
            if now.connection() != connection {
                slot.store(Tenure::of(connection, now.turn().wrapping_add(1)).0, Ordering::Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_back_begins_anew() {
        let owners = Owners::default();
        assert_eq!(owners.tenure(b"bar").connection(), NOBODY);
        let mut told = Vec::new();
        for connection in [3, 4, NOBODY, 3] {
            owners.follow(&mut |slot| if slot == slot_of(b"bar") { connection } else { 7 });
            told.push((owners.tenure(b"bar"), owners.tenure(b"foo")));
        }
        let connections: Vec<u32> = told.iter().map(|(bar, _)| bar.connection()).collect();
        assert_eq!(connections, [3, 4, NOBODY, 3]);
        assert_ne!(told[0].0, told[3].0);
        assert_eq!(told[0].1, told[3].1, "whose connection stays is not disturbed");
    }
}
