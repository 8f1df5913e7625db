//! The owner of all that a node knows of the cluster.

use std::collections::BTreeMap;

use crate::action::{Action, LogLevel};
use crate::epochs::{self, Epochs};
use crate::host::{Host, Time};
use crate::id::NodeId;
use crate::node::{Node, NodeFlags};
use crate::slot_table::SlotTable;
use crate::slots::Slot;
use crate::state::election::Election;
use crate::state::forgotten::Forgotten;
use crate::state::health::{Facts, Health};
use crate::state::links::Links;
use crate::state::manual_failover::ManualFailover;
use crate::state::options::Options;
use crate::state::traffic::Traffic;

/// The flags that a node announces besides its role.
const OFFERS: NodeFlags = NodeFlags::MYSELF.with(NodeFlags::EXTENSIONS).with(NodeFlags::LIGHT_PUBLISH);

/// The state of this node: all nodes that it knows, the owners of the slots, and the elections that it takes part in.
#[derive(Debug)]
pub struct ClusterState {
    /// The id of this node.
    pub(crate) me: NodeId,
    /// All known nodes, this one included. In the order of ids, so that simulations repeat.
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    /// The owners of the slots.
    pub(crate) slots: SlotTable,
    /// The epochs, which nodes.conf keeps.
    pub(crate) epochs: Epochs,
    /// Whether the cluster works, as this node sees it.
    pub(crate) health: Health,
    /// The nodes that must not be taken up again for a while.
    pub(crate) forgotten: Forgotten,
    /// The links.
    pub(crate) links: Links,
    /// The packets by type.
    pub(crate) traffic: Traffic,
    /// The election in which this node asks for votes.
    pub(crate) election: Election,
    /// The manual failover that this node takes part in.
    pub(crate) manual_failover: ManualFailover,
    /// The consequences of the running event.
    pub(crate) duties: Duties,
    /// The primary that the caller was told to follow. None if it leads.
    pub(crate) followed: Option<Followed>,
    /// The options.
    pub(crate) options: Options,
    /// The actions that the caller has not taken yet.
    pub(crate) actions: Vec<Action>,
    /// Counts each change that a [`crate::state::View`] would show.
    pub(crate) version: u64,
    /// The time of the last event.
    pub(crate) clock: Clock,
}

/// The time, as the last event told it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clock {
    /// The time.
    pub now: Time,
    /// The number of calls of `tick`.
    pub ticks: u64,
    /// The time of the last call of `tick`, in milliseconds.
    pub tick_ms: u64,
}

/// The consequences of an event, which its end settles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Duties {
    /// Whether nodes.conf is to be written.
    pub save: Option<Save>,
    /// Whether a lazy nodes.conf may wait until the next tick. Packets change it often while a cluster forms.
    pub may_wait: bool,
    /// Whether the health is to be judged.
    pub judge: bool,
    /// Whether all nodes are to be told by a PONG of a change of this node.
    pub announce: bool,
}

/// The way in which nodes.conf is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Save {
    /// The file may be lost with the power: the other nodes would tell its contents again.
    Lazy,
    /// The file must be on the disk before a packet leaves.
    Synced,
}

/// The primary that the caller follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Followed {
    /// The node.
    pub node: NodeId,
    /// Its address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl ClusterState {
    /// Returns the state of a node that knows no other and owns no slot. Its shard is named after it.
    pub fn new(me: NodeId, options: Options) -> Self {
        let node = Node::new(me, NodeFlags::PRIMARY, 0);
        Self::restore(me, BTreeMap::from([(me, node)]), SlotTable::default(), Epochs::default(), options)
    }

    /// Returns the state that a nodes.conf describes. If `nodes` has no node of the id `me`, it is added as a primary.
    pub fn restore(
        me: NodeId,
        mut nodes: BTreeMap<NodeId, Node>,
        slots: SlotTable,
        epochs: Epochs,
        options: Options,
    ) -> Self {
        let node = nodes.entry(me).or_insert_with(|| Node::new(me, NodeFlags::PRIMARY, 0));
        node.flags.set(OFFERS, true);
        let mut state = Self {
            me,
            nodes,
            slots,
            epochs,
            health: Health::default(),
            forgotten: Forgotten::default(),
            links: Links::default(),
            traffic: Traffic::default(),
            election: Election::default(),
            manual_failover: ManualFailover::default(),
            duties: Duties { save: Some(Save::Synced), judge: true, ..Duties::default() },
            followed: None,
            options: options.clone(),
            actions: Vec::new(),
            version: 1,
            clock: Clock::default(),
        };
        state.take_options(options);
        state
    }

    /// Takes over the options, without a word to other nodes.
    pub(crate) fn take_options(&mut self, options: Options) {
        let is_no_failover = options.is_no_failover;
        let mut address = options.address.clone();
        self.options = options;
        let node = self.myself_mut();
        if address.ip.is_empty() {
            address.ip.clone_from(&node.address.ip);
        }
        node.address = address;
        node.flags.set(NodeFlags::NO_FAILOVER, is_no_failover);
    }

    /// Returns the id of this node.
    pub fn id(&self) -> NodeId {
        self.me
    }

    /// Returns the links that are open or being opened.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Returns this node.
    pub fn myself(&self) -> &Node {
        self.nodes.get(&self.me).expect("a node is always in its own table")
    }

    /// Returns this node for changes.
    pub(crate) fn myself_mut(&mut self) -> &mut Node {
        self.nodes.get_mut(&self.me).expect("a node is always in its own table")
    }

    /// Returns all known nodes in the order of their ids, this one included.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// Returns a node. None if it is not known.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// Returns the primary of a node, which is the node itself if it is no replica. None if it is not known.
    pub fn primary_of(&self, id: NodeId) -> Option<NodeId> {
        let node = self.nodes.get(&id)?;
        if node.is_replica() { node.primary.filter(|primary| self.nodes.contains_key(primary)) } else { Some(id) }
    }

    /// Returns this node's primary, which is this node if it is no replica.
    pub fn own_primary(&self) -> Option<NodeId> {
        self.primary_of(self.me)
    }

    /// Returns the replicas of a primary.
    pub fn replicas_of(&self, primary: NodeId) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter(move |node| node.is_replica() && node.primary == Some(primary))
    }

    /// Returns whether two nodes are of one shard: a primary and its replicas.
    pub fn are_in_one_shard(&self, one: NodeId, other: NodeId) -> bool {
        let shard = |id| self.nodes.get(&id).map(|node| node.shard);
        one == other || (shard(one).is_some() && shard(one) == shard(other))
    }

    /// Returns the number of primaries with slots, which elect and declare failures.
    pub fn voters(&self) -> usize {
        self.nodes.values().filter(|node| node.is_voter()).count()
    }

    /// Returns the number of primaries that are more than half of all.
    pub fn quorum(&self) -> usize {
        self.voters() / 2 + 1
    }

    /// Returns the greatest epoch that this node has seen.
    pub(crate) fn epoch_max(&self) -> u64 {
        self.nodes.values().map(|node| node.config_epoch).fold(self.epochs.current, u64::max)
    }

    /// Gives this node a new configuration epoch without a vote, if its own is 0 or not the greatest. Returns whether it did.
    pub(crate) fn bump_epoch(&mut self) -> bool {
        let own = self.myself().config_epoch;
        if own != 0 && own == self.epoch_max() {
            return false;
        }
        self.epochs.current = epochs::without_vote(self.epoch_max());
        self.myself_mut().config_epoch = self.epochs.current;
        self.config_changed(Save::Synced);
        self.log(LogLevel::Warning, format!("New configEpoch set to {}", self.epochs.current));
        true
    }

    /// Gives a slot to a node, or to none, in the table and in the nodes' own sets.
    pub(crate) fn assign_slot(&mut self, slot: Slot, owner: Option<NodeId>) {
        if let Some(old) = self.slots.owner(slot).and_then(|old| self.nodes.get_mut(&old)) {
            old.slots.remove(slot);
        }
        let owner = owner.filter(|owner| self.nodes.contains_key(owner));
        self.slots.set_owner(slot, owner);
        self.slots.released.remove(slot);
        let Some(owner) = owner else { return };
        let is_first = self.nodes.get(&owner).is_some_and(|node| node.slots.is_empty());
        // Replicas may move to a new primary, but only where primaries have replicas at all.
        let takes_replicas = is_first && self.nodes.values().any(|node| node.is_replica() && node.primary.is_some());
        if let Some(node) = self.nodes.get_mut(&owner) {
            node.slots.insert(slot);
            if takes_replicas {
                node.flags.set(NodeFlags::MIGRATE_TO, true);
            }
        }
    }

    /// Notes that nodes.conf and the view are out of date.
    pub(crate) fn config_changed(&mut self, save: Save) {
        self.duties.save = self.duties.save.max(Some(save));
        self.duties.judge = true;
        self.version += 1;
    }

    /// Judges anew whether the cluster works.
    pub(crate) fn judge_health(&mut self, now: Time) {
        self.duties.judge = false;
        let silent = NodeFlags::PFAIL.with(NodeFlags::FAIL);
        let facts = Facts {
            is_primary: self.myself().is_primary(),
            is_covered: !self.options.requires_full_coverage || self.is_covered(),
            voters: self.voters(),
            reachable: self.nodes.values().filter(|node| node.is_voter() && !node.flags.has_any(silent)).count(),
            node_timeout_ms: self.options.node_timeout_ms,
        };
        if self.health.judge(&facts, now) {
            self.version += 1;
            let name = if self.health.is_ok { "ok" } else { "fail" };
            self.log(LogLevel::Notice, format!("Cluster state changed: {name}"));
        }
    }

    fn is_covered(&self) -> bool {
        let works = |node: &Node| !node.has_failed();
        let covered: usize = self.nodes.values().filter(|node| works(node)).map(|node| node.slots.len()).sum();
        covered == usize::from(crate::slots::SLOTS)
    }

    /// Takes over the server's offset, which the header of every packet shows.
    pub(crate) fn take_offset(&mut self, host: &dyn Host) {
        self.myself_mut().offset = host.replication_offset();
    }

    /// Writes a line to the log.
    pub(crate) fn log(&mut self, level: LogLevel, line: impl Into<String>) {
        self.actions.push(Action::Log(level, line.into()));
    }
}
