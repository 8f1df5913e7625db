//! A simulated server: the state of a node, its data, its disk and its clocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::action::LinkId;
use crate::host::{Host, ReplicationLink, Time};
use crate::id::NodeId;
use crate::node::{Address, Node};
use crate::packet::{self, Message, Packet, PacketType};
use crate::slots::{Slot, SlotSet};
use crate::state::options::{EndpointType, Options};
use crate::state::{ClusterState, members};

/// Random numbers from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Chance(pub u64);

impl Chance {
    /// Returns the next random number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a random number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Returns true once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// The data of a server, and its link to its primary.
#[derive(Debug, Clone)]
pub(crate) struct Data {
    /// The numbers of the writes, in the order of the journal.
    pub writes: Vec<u64>,
    /// When the server last got the data of its primary.
    pub copied_ms: Option<u64>,
    pub is_linked: bool,
    /// The keys of each slot.
    pub keys: BTreeMap<Slot, u64>,
    pub now_ms: u64,
    pub chance: Chance,
}

impl Host for Data {
    fn replication_offset(&self) -> u64 {
        self.writes.len() as u64
    }

    fn replication_link(&self) -> ReplicationLink {
        match self.copied_ms {
            _ if self.is_linked => ReplicationLink::Up,
            Some(ms) => ReplicationLink::Down { for_ms: self.now_ms - ms },
            None => ReplicationLink::Down { for_ms: u64::MAX },
        }
    }

    fn keys_in_slot(&self, slot: Slot) -> u64 {
        self.keys.get(&slot).copied().unwrap_or_default()
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn random(&mut self) -> u64 {
        self.chance.next()
    }
}

/// The clocks of a server, by their differences to that of the world.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clocks {
    /// The difference of the wall clock.
    pub skew_ms: i64,
    /// The begin of the clock that never goes back, and its speed.
    pub origin_ms: u64,
    pub speed_permille: u64,
}

impl Default for Clocks {
    fn default() -> Self {
        Self { skew_ms: 0, origin_ms: 0, speed_permille: 1_000 }
    }
}

/// A server.
#[derive(Debug)]
pub(crate) struct Server {
    /// None while the server is down.
    pub state: Option<ClusterState>,
    pub options: Options,
    pub ip: String,
    pub data: Data,
    /// The primary that the last action told to follow.
    pub follows: Option<(NodeId, String)>,
    pub paused_until_ms: u64,
    /// The last nodes.conf, and the last that was synced.
    pub disk: String,
    pub synced: String,
    /// The number of the next accepted link.
    pub next_link: u64,
    pub clocks: Clocks,
    /// The id of the node, also while the server is down.
    pub last_id: NodeId,
    /// The milliseconds between two copies of the primary's data.
    pub copy_ms: u64,
    /// Whether the server votes as Redis does, which does not compare the data of candidates.
    pub is_redis: bool,
    pub messages: Vec<Message>,
    pub deleted: Vec<SlotSet>,
    pub log: Vec<String>,
}

/// The node timeout of simulated clusters.
pub(crate) const TIMEOUT_MS: u64 = 2_000;

/// The bus port of all servers.
pub(crate) const BUS_PORT: u16 = 16_379;

impl Server {
    /// Returns a server that has just been installed.
    pub fn new(number: usize, mut chance: Chance) -> Self {
        let address = Address { port: 6_379, bus_port: BUS_PORT, ..Address::default() };
        let options = Options {
            node_timeout_ms: TIMEOUT_MS,
            replica_validity_factor: 10,
            migration_barrier: 1,
            allows_replica_migration: false,
            requires_full_coverage: true,
            is_no_failover: false,
            replica_ping_period_ms: 1_000,
            has_tls: false,
            endpoint_type: EndpointType::Ip,
            address,
        };
        let clocks = Clocks { skew_ms: chance.below(1_000) as i64 - 500, ..Clocks::default() };
        let data =
            Data { writes: Vec::new(), copied_ms: None, is_linked: false, keys: BTreeMap::new(), now_ms: 0, chance };
        let mut server = Self {
            state: None,
            options,
            ip: format!("10.0.0.{}", number + 1),
            data,
            follows: None,
            paused_until_ms: 0,
            disk: String::new(),
            synced: String::new(),
            next_link: 1,
            clocks,
            last_id: NodeId::new([0; 20]),
            copy_ms: 50,
            is_redis: false,
            messages: Vec::new(),
            deleted: Vec::new(),
            log: Vec::new(),
        };
        let me = members::random_id(&mut server.data);
        server.last_id = me;
        server.state = Some(ClusterState::new(me, server.options.clone()));
        server
    }

    /// Returns the time by the clocks of the server.
    pub fn time(&self, world_ms: u64) -> Time {
        let Clocks { skew_ms, origin_ms, speed_permille } = self.clocks;
        let unix_ms = 1_700_000_000_000 + world_ms as i64 + skew_ms;
        Time { ms: origin_ms + world_ms * speed_permille / 1_000, unix_ms: unix_ms as u64 }
    }

    /// Returns the number of a link that the server accepts.
    pub fn accept_number(&mut self) -> LinkId {
        self.next_link += 2;
        LinkId(self.next_link)
    }

    /// Returns a packet as the server reads it. A voter of Redis judges a candidate by the failure of its primary alone, as
    /// this project's voters judge one that is forced.
    pub fn as_read(&self, bytes: Arc<[u8]>) -> Arc<[u8]> {
        let code = PacketType::VoteRequest.code().to_be_bytes();
        let Some(state) = self.state.as_ref().filter(|_| self.is_redis && bytes.get(12..14) == Some(&code)) else {
            return bytes;
        };
        let Ok(Packet::Full { mut header, body }) = packet::decode(&bytes) else { return bytes };
        let primary = header.primary.and_then(|primary| state.node(primary));
        header.is_forced |= primary.is_some_and(Node::has_failed);
        Packet::Full { header, body }.encode().into()
    }

    /// Returns whether the server executes writes of a slot.
    pub fn serves(&self, slot: Slot, world_ms: u64) -> bool {
        let Some(state) = &self.state else { return false };
        state.health.is_ok
            && self.follows.is_none()
            && self.paused_until_ms <= self.time(world_ms).ms
            && state.slots.owner(slot) == Some(state.id())
    }
}
