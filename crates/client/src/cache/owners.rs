//! The connection that invalidates the replies of each slot of a cluster, and its tenure.
//!
//! A node reports changes of the slots that it owns, on the connections over which the keys were read. So a reply is valid
//! only while its connection is the one to the owner of its slot: changes of a slot that has moved are reported on the
//! connection to its last owner at best. Whenever a slot gets another connection its tenure begins anew. If the slot later
//! comes back to a node, none of the replies that were kept before count.
//!
//! The cluster's task reports the owners; readers load the tenures without a lock. Any thread.

use std::sync::atomic::{AtomicU64, Ordering};

use sleeve_wire::slot::{self, SLOTS};

/// A number in place of a connection's: no connection invalidates the slot.
pub(super) const NOBODY: u32 = 0;

/// The time for which one connection invalidates a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tenure(u64);

impl Tenure {
    /// The tenure of the only connection to a single server, which has all keys and never ends. If that connection is lost,
    /// its replies are removed.
    pub(super) const ENDLESS: Self = Self::of(1, 0);

    const fn of(connection: u32, turn: u32) -> Self {
        Self((connection as u64) << 32 | turn as u64)
    }

    /// Returns the number of the connection.
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
        let slot = self.0.get(usize::from(slot::of_key(key)));
        slot.map_or(Tenure::of(NOBODY, 0), |slot| Tenure(slot.load(Ordering::Acquire)))
    }

    /// Sets the connection that invalidates each slot from now on. Only one thread at a time calls this.
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
            owners.follow(&mut |slot| if slot == slot::of_key(b"bar") { connection } else { 7 });
            told.push((owners.tenure(b"bar"), owners.tenure(b"foo")));
        }
        let connections: Vec<u32> = told.iter().map(|(bar, _)| bar.connection()).collect();
        assert_eq!(connections, [3, 4, NOBODY, 3]);
        assert_ne!(told[0].0, told[3].0);
        assert_eq!(told[0].1, told[3].1, "whose connection stays is not disturbed");
    }
}
