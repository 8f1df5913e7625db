//! The packets that were sent and received, by type.

use crate::packet::{Packet, PacketType};

/// The counters of CLUSTER INFO (`cluster_stats_messages_*`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traffic {
    sent: [u64; PacketType::ALL.len()],
    received: [u64; PacketType::ALL.len()],
    /// The type of packets that a test has this node lose.
    lost: Option<PacketType>,
}

impl Traffic {
    /// Returns each type with the number of packets sent and received.
    pub fn counts(&self) -> impl Iterator<Item = (PacketType, u64, u64)> + '_ {
        let counts = self.sent.iter().zip(&self.received);
        PacketType::ALL.into_iter().zip(counts).map(|(kind, (sent, received))| (kind, *sent, *received))
    }

    /// Loses all packets of a type that arrive from now on, or none.
    pub(crate) fn lose(&mut self, lost: Option<PacketType>) {
        self.lost = lost;
    }

    /// Returns whether a packet is lost.
    pub(crate) fn loses(&self, packet: &Packet) -> bool {
        self.lost.is_some() && packet.kind() == self.lost
    }

    /// Counts a packet that is sent.
    pub(crate) fn count_sent(&mut self, packet: &Packet) {
        count(&mut self.sent, packet);
    }

    /// Counts a packet that was received.
    pub(crate) fn count_received(&mut self, packet: &Packet) {
        count(&mut self.received, packet);
    }
}

fn count(counters: &mut [u64], packet: &Packet) {
    if let Some(counter) = packet.kind().and_then(|kind| counters.get_mut(usize::from(kind.code()))) {
        *counter += 1;
    }
}
