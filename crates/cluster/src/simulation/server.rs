//! A simulated server: the state of a node, its data, its disk and its clocks.

use std::collections::BTreeMap;

use crate::action::LinkId;
use crate::host::{Host, ReplicationLink, Time};
use crate::id::NodeId;
use crate::node::Address;
use crate::packet::Message;
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
    /// The difference of the wall clock to that of the world.
    pub skew_ms: i64,
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
        let skew_ms = chance.below(1_000) as i64 - 500;
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
            skew_ms,
            messages: Vec::new(),
            deleted: Vec::new(),
            log: Vec::new(),
        };
        let me = members::random_id(&mut server.data);
        server.state = Some(ClusterState::new(me, server.options.clone()));
        server
    }

    /// Returns the time by the clocks of the server.
    pub fn time(&self, world_ms: u64) -> Time {
        let unix_ms = 1_700_000_000_000 + world_ms as i64 + self.skew_ms;
        Time { ms: world_ms, unix_ms: unix_ms as u64 }
    }

    /// Returns the number of a link that the server accepts.
    pub fn accept_number(&mut self) -> LinkId {
        self.next_link += 2;
        LinkId(self.next_link)
    }

    /// Returns whether the server executes writes of a slot.
    pub fn serves(&self, slot: Slot, world_ms: u64) -> bool {
        let Some(state) = &self.state else { return false };
        state.health.is_ok
            && self.follows.is_none()
            && self.paused_until_ms <= world_ms
            && state.slots.owner(slot) == Some(state.id())
    }
}
