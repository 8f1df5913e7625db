//! The decision of a node of a cluster about a request with keys of one slot: served here, or refused with the
//! node that serves it or with the reason why none does.
//!
//! The order of the checks is that of Redis. Pure functions; any thread.

use sleeve_cluster::Slot;
use sleeve_cluster::state::{NOBODY, Target, View};

use crate::request::error::Error;

/// The facts about a request on which the decision depends.
#[derive(Debug, Clone, Copy, Default)]
pub struct SlotRequest {
    /// The slot of its keys.
    pub slot: Slot,
    /// The request writes.
    pub writes: bool,
    /// The client has sent ASKING, or the command says so by itself (RESTORE-ASKING).
    pub is_asking: bool,
    /// The client has sent READONLY.
    pub reads_replicas: bool,
    /// Its keys are channels: SSUBSCRIBE, SUNSUBSCRIBE and SPUBLISH.
    pub is_of_channels: bool,
    /// It moves keys of open slots to other nodes: MIGRATE.
    pub moves_keys: bool,
    /// It has several keys of different names.
    pub has_many_keys: bool,
}

/// The services that the options allow while the cluster is down.
#[derive(Debug, Clone, Copy, Default)]
pub struct WhenDown {
    /// `cluster-allow-reads-when-down`.
    pub reads: bool,
    /// `cluster-allow-pubsubshard-when-down`.
    pub messages: bool,
}

/// The numbers of a request's keys that this node has and lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Presence {
    /// The keys that are here.
    pub here: usize,
    /// The keys that are not.
    pub missing: usize,
}

/// The reason why a request is not served here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The keys hash to different slots.
    CrossSlot,
    /// The slot has no node.
    Unbound,
    /// The cluster is down.
    Down,
    /// The cluster is down, and the option allows only reads.
    DownForWrites,
    /// A part of the keys has moved already, or has not arrived yet.
    TryAgain,
    /// The keys have moved to this node, or are not there yet.
    Ask(Slot, Target),
    /// This node serves the slot.
    Moved(Slot, Target),
}

impl Refusal {
    /// Returns the error reply. A client that speaks TLS is told the TLS port, if the other node has one.
    pub fn error(&self, is_tls: bool) -> Error {
        match self {
            Self::CrossSlot => Error::fixed("CROSSSLOT Keys in request don't hash to the same slot"),
            Self::Unbound => Error::fixed("CLUSTERDOWN Hash slot not served"),
            Self::Down => Error::fixed("CLUSTERDOWN The cluster is down"),
            Self::DownForWrites => Error::fixed("CLUSTERDOWN The cluster is down and only accepts read commands"),
            Self::TryAgain => Error::fixed("TRYAGAIN Multiple keys request during rehashing of slot"),
            Self::Ask(slot, target) => redirect("ASK", *slot, target, is_tls),
            Self::Moved(slot, target) => redirect("MOVED", *slot, target, is_tls),
        }
    }

    /// Returns the error for the command of a script.
    pub fn script_error(&self) -> Error {
        Error::fixed(match self {
            Self::DownForWrites => {
                "ERR Script attempted to execute a write command while the cluster is down and readonly"
            }
            Self::Down => "ERR Script attempted to execute a command while the cluster is down",
            _ => "ERR Script attempted to access a non local key in a cluster node",
        })
    }
}

fn redirect(word: &str, slot: Slot, target: &Target, is_tls: bool) -> Error {
    let (first, second) = if is_tls { (target.tls_port, target.port) } else { (target.port, target.tls_port) };
    let port = if first == 0 { second } else { first };
    Error::new(format!("{word} {slot} {}:{port}", target.endpoint))
}

/// Returns the index of the node that owns a slot.
fn owner_of(view: &View, slot: Slot) -> u16 {
    view.owners.get(usize::from(slot)).copied().unwrap_or(NOBODY)
}

/// Returns whether any node owns a slot.
pub fn has_owner(view: &View, slot: Slot) -> bool {
    owner_of(view, slot) != NOBODY
}

/// Returns whether this node owns a slot or, if it is a replica, its primary does.
pub fn is_of_shard(view: &View, slot: Slot) -> bool {
    let owner = owner_of(view, slot);
    owner != NOBODY && owner == view.own_primary
}

/// Returns whether this node has subscribers to the shard channels of a slot: its shard owns the slot, or it imports it.
pub fn keeps_channels(view: &View, slot: Slot) -> bool {
    is_of_shard(view, slot) || view.importing.contains_key(&slot)
}

/// Decides about a request. `presence` counts its keys in this node; without it, a decision that depends on the count is left
/// open, and the request passes.
///
/// # Errors
/// The reason why this node does not serve it.
pub fn judge<P: FnOnce() -> Presence>(
    view: &View,
    asked: &SlotRequest,
    when_down: WhenDown,
    presence: Option<P>,
) -> Result<(), Refusal> {
    let slot = asked.slot;
    let owner = owner_of(view, slot);
    let Some(target) = view.nodes.get(usize::from(owner)) else { return Err(Refusal::Unbound) };
    check_health(view, asked, when_down)?;
    let is_own = !view.is_replica && owner == view.own_primary;
    let leaves_to = view.migrating.get(&slot).filter(|_| is_own).and_then(|node| view.nodes.get(usize::from(*node)));
    let arrives = leaves_to.is_none() && view.importing.contains_key(&slot);
    if asked.moves_keys && (leaves_to.is_some() || arrives) {
        return Ok(());
    }
    // The channels of a slot stay with its node until the slot has another one.
    let count = |presence: Option<P>| match presence {
        Some(presence) if !asked.is_of_channels => Some(presence()),
        Some(_) => Some(Presence::default()),
        None => None,
    };
    if let Some(other) = leaves_to {
        return match count(presence) {
            Some(Presence { missing: 1.., here: 1.. }) => Err(Refusal::TryAgain),
            Some(Presence { missing: 1.., here: 0 }) => Err(Refusal::Ask(slot, other.clone())),
            _ => Ok(()),
        };
    }
    if arrives && asked.is_asking {
        let lacks_keys = asked.has_many_keys && count(presence).is_some_and(|presence| presence.missing > 0);
        return if lacks_keys { Err(Refusal::TryAgain) } else { Ok(()) };
    }
    let may_read_here = (asked.reads_replicas || asked.is_of_channels) && !asked.writes;
    if is_own || (view.is_replica && owner == view.own_primary && may_read_here) {
        return Ok(());
    }
    Err(Refusal::Moved(slot, target.clone()))
}

fn check_health(view: &View, asked: &SlotRequest, when_down: WhenDown) -> Result<(), Refusal> {
    match (view.is_ok, asked.is_of_channels) {
        (true, _) => Ok(()),
        (false, true) if when_down.messages => Ok(()),
        (false, false) if when_down.reads && asked.writes => Err(Refusal::DownForWrites),
        (false, false) if when_down.reads => Ok(()),
        (false, _) => Err(Refusal::Down),
    }
}

/// Decides whether a client may go on waiting for a key of this slot.
///
/// # Errors
/// The reason why it waits in vain.
pub fn judge_waiting(view: &View, asked: &SlotRequest) -> Result<(), Refusal> {
    if !view.is_ok {
        // A write has to serve the client, and none is accepted.
        return Err(Refusal::Down);
    }
    let owner = owner_of(view, asked.slot);
    let may_wait = if view.is_replica { asked.reads_replicas && !asked.writes } else { true };
    if (is_of_shard(view, asked.slot) && may_wait) || view.importing.contains_key(&asked.slot) {
        return Ok(());
    }
    let target = view.nodes.get(usize::from(owner)).ok_or(Refusal::Unbound)?;
    Err(Refusal::Moved(asked.slot, target.clone()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use sleeve_cluster::NodeId;

    use super::*;

    fn target(number: u8) -> Target {
        let id = NodeId::new([number; 20]);
        Target { id, endpoint: format!("10.0.0.{number}"), port: 7000 + u16::from(number), tls_port: 0 }
    }

    /// A view of node 0: it has the slots below 100, node 1 has those below 200, and the others have no node.
    fn view() -> View {
        let owners = (0..16_384).map(|slot| match slot {
            0..100 => 0,
            100..200 => 1,
            _ => NOBODY,
        });
        View {
            version: 1,
            owners: owners.collect(),
            nodes: vec![target(0), target(1)],
            own_primary: 0,
            is_replica: false,
            is_ok: true,
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
        }
    }

    fn decide(view: &View, asked: SlotRequest, here: usize, missing: usize) -> Result<(), Refusal> {
        judge(view, &asked, WhenDown { reads: false, messages: true }, Some(|| Presence { here, missing }))
    }

    fn asked(slot: Slot) -> SlotRequest {
        SlotRequest { slot, ..SlotRequest::default() }
    }

    #[test]
    fn a_slot_is_served_by_its_node_alone() {
        let view = view();
        assert_eq!(decide(&view, asked(7), 1, 0), Ok(()));
        assert_eq!(decide(&view, asked(107), 1, 0), Err(Refusal::Moved(107, target(1))));
        assert_eq!(decide(&view, asked(207), 1, 0), Err(Refusal::Unbound));
        let error = Refusal::Moved(107, target(1)).error(false);
        assert_eq!(error.text(), b"MOVED 107 10.0.0.1:7001");
    }

    #[test]
    fn keys_of_a_slot_that_leaves_are_served_while_they_are_here() {
        let mut view = view();
        view.migrating.insert(7, 1);
        assert_eq!(decide(&view, asked(7), 2, 0), Ok(()));
        assert_eq!(decide(&view, asked(7), 0, 1), Err(Refusal::Ask(7, target(1))));
        assert_eq!(decide(&view, asked(7), 1, 1), Err(Refusal::TryAgain));
        assert_eq!(decide(&view, SlotRequest { moves_keys: true, ..asked(7) }, 0, 1), Ok(()));
        assert_eq!(decide(&view, SlotRequest { is_of_channels: true, ..asked(7) }, 0, 1), Ok(()));
        assert_eq!(judge(&view, &asked(7), WhenDown::default(), None::<fn() -> Presence>), Ok(()));
    }

    #[test]
    fn keys_of_a_slot_that_arrives_are_served_to_clients_that_ask() {
        let mut view = view();
        view.importing.insert(107, 1);
        assert_eq!(decide(&view, asked(107), 1, 0), Err(Refusal::Moved(107, target(1))));
        let asking = SlotRequest { is_asking: true, ..asked(107) };
        assert_eq!(decide(&view, asking, 0, 1), Ok(()));
        assert_eq!(decide(&view, SlotRequest { has_many_keys: true, ..asking }, 1, 1), Err(Refusal::TryAgain));
        assert_eq!(decide(&view, SlotRequest { has_many_keys: true, ..asking }, 2, 0), Ok(()));
    }

    #[test]
    fn a_replica_serves_reads_of_its_primary_alone() {
        let mut view = view();
        (view.own_primary, view.is_replica) = (1, true);
        let reading = SlotRequest { reads_replicas: true, ..asked(107) };
        assert_eq!(decide(&view, reading, 1, 0), Ok(()));
        assert_eq!(decide(&view, asked(107), 1, 0), Err(Refusal::Moved(107, target(1))));
        assert_eq!(decide(&view, SlotRequest { writes: true, ..reading }, 1, 0), Err(Refusal::Moved(107, target(1))));
        assert_eq!(decide(&view, SlotRequest { slot: 7, ..reading }, 1, 0), Err(Refusal::Moved(7, target(0))));
    }

    #[test]
    fn a_cluster_that_is_down_serves_as_far_as_options_allow() {
        let mut view = view();
        view.is_ok = false;
        let decide = |asked: SlotRequest, reads, messages| {
            judge(&view, &asked, WhenDown { reads, messages }, None::<fn() -> Presence>)
        };
        assert_eq!(decide(asked(7), false, false), Err(Refusal::Down));
        assert_eq!(decide(asked(7), true, false), Ok(()));
        assert_eq!(decide(SlotRequest { writes: true, ..asked(7) }, true, false), Err(Refusal::DownForWrites));
        assert_eq!(decide(SlotRequest { is_of_channels: true, ..asked(7) }, true, false), Err(Refusal::Down));
        assert_eq!(decide(SlotRequest { is_of_channels: true, ..asked(7) }, false, true), Ok(()));
        assert_eq!(decide(asked(207), true, true), Err(Refusal::Unbound));
    }

    #[test]
    fn a_client_waits_in_vain_for_a_key_that_has_left() {
        let mut view = view();
        assert_eq!(judge_waiting(&view, &asked(7)), Ok(()));
        assert_eq!(judge_waiting(&view, &asked(107)), Err(Refusal::Moved(107, target(1))));
        assert_eq!(judge_waiting(&view, &asked(207)), Err(Refusal::Unbound));
        view.importing.insert(107, 1);
        assert_eq!(judge_waiting(&view, &asked(107)), Ok(()));
        view.is_ok = false;
        assert_eq!(judge_waiting(&view, &asked(7)), Err(Refusal::Down));
    }
}
