//! The slots that other nodes claim, and the corrections that nodes with an outdated claim get.

use std::collections::BTreeSet;

use crate::action::{Action, LogLevel};
use crate::host::{Host, Time};
use crate::id::NodeId;
use crate::packet::Body;
use crate::planted::{self, Fault};
use crate::slots::{Slot, SlotSet};
use crate::state::cluster_state::{ClusterState, Save};
use crate::state::{members, send};

/// The UPDATE packets that one packet is answered with at most. The next packet is answered with the others.
const CORRECTIONS_MAX: usize = 8;

/// Takes over the slots that a node claims at a configuration epoch. A slot without an owner, or with an owner of a lower
/// epoch, goes to the node. If this node's shard loses its last slot, this node follows the new owner.
pub(crate) fn apply(state: &mut ClusterState, claimant: NodeId, epoch: u64, claimed: &SlotSet, host: &mut dyn Host) {
    if claimant == state.me || !state.nodes.contains_key(&claimant) {
        return;
    }
    let own_primary = state.own_primary();
    let mut lost = 0;
    let mut dirty = SlotSet::default();
    let before = state.nodes.get(&claimant).map(|node| node.slots.clone()).unwrap_or_default();
    for slot in differing(&before, claimed, state) {
        if !claimed.contains(slot) {
            ceased(state, claimant, epoch, slot);
            continue;
        }
        let owner = state.slots.owner(slot);
        if owner == Some(claimant) {
            state.slots.released.remove(slot);
            continue;
        }
        if !yields(state, slot, claimant, epoch) {
            continue;
        }
        if owner.is_some() && owner == own_primary {
            lost += 1;
        }
        if owner == Some(state.me) && host.keys_in_slot(slot) > 0 {
            dirty.insert(slot);
        }
        redirect_moves(state, slot, claimant);
        state.assign_slot(slot, Some(claimant));
        state.config_changed(Save::Synced);
    }
    take_consequences(state, claimant, epoch, Lost { slots: lost, dirty }, claimed.len());
}

/// Returns the slots in which a claim differs from the slots that the claimant is known to own, and those that move.
fn differing(before: &SlotSet, claimed: &SlotSet, state: &ClusterState) -> Vec<Slot> {
    let mut slots = BTreeSet::new();
    for (byte, (old, new)) in before.bytes().iter().zip(claimed.bytes()).enumerate() {
        if old != new {
            slots.extend(
                (0..8)
                    .map(|bit| (byte * 8 + bit) as Slot)
                    .filter(|slot| before.contains(*slot) != claimed.contains(*slot)),
            );
        }
    }
    slots.extend(state.slots.migrating.keys().chain(state.slots.importing.keys()));
    slots.extend(state.slots.released.iter().filter(|slot| claimed.contains(*slot)));
    slots.into_iter().collect()
}

/// Returns whether the owner of a slot loses it to a claim.
fn yields(state: &mut ClusterState, slot: Slot, claimant: NodeId, epoch: u64) -> bool {
    let Some(owner) = state.slots.owner(slot).filter(|_| !state.slots.released.contains(slot)) else { return true };
    let Some(owned) = state.nodes.get(&owner).map(|node| node.config_epoch) else { return true };
    if owned >= epoch && !planted::has(Fault::BelievesOldClaims) {
        return false;
    }
    // A node that never won an election was given its slots by an operator. If the claimant is dead, it is the node that the
    // operator replaced, and gossip about it must not undo that.
    let has_failed = state.nodes.get(&claimant).is_some_and(|node| node.has_failed());
    if owner == state.me && owned == 0 && has_failed {
        state.bump_epoch();
        return false;
    }
    true
}

/// Ends or redirects the moves of a slot that has got a new owner.
fn redirect_moves(state: &mut ClusterState, slot: Slot, claimant: NodeId) {
    if state.slots.migrating.contains_key(&slot) && !state.are_in_one_shard(claimant, state.me) {
        state.slots.migrating.remove(&slot);
    }
    let Some(from) = state.slots.importing.get(&slot).copied().filter(|from| *from != claimant) else { return };
    if state.are_in_one_shard(from, claimant) {
        state.slots.importing.insert(slot, claimant);
    } else {
        state.slots.importing.remove(&slot);
    }
}

/// Handles a slot that the claimant does not claim.
fn ceased(state: &mut ClusterState, claimant: NodeId, epoch: u64, slot: Slot) {
    if state.slots.owner(slot) == Some(claimant) {
        state.slots.released.insert(slot);
    }
    // After a failover in the shard that a slot moves to, the slot moves to the new primary.
    if let Some(to) = state.slots.migrating.get(&slot).copied().filter(|to| *to != claimant) {
        let is_replaced = state.nodes.get(&to).is_none_or(|node| node.is_replica() || node.config_epoch < epoch);
        if is_replaced && state.are_in_one_shard(to, claimant) {
            state.slots.migrating.insert(slot, claimant);
            state.config_changed(Save::Synced);
        }
    }
    // The source has closed the move before this node has: the slot belongs to this node.
    if state.myself().is_primary() && state.slots.importing.get(&slot) == Some(&claimant) {
        let owner = state.slots.owner(slot);
        if owner == Some(claimant) {
            let me = state.me;
            state.assign_slot(slot, Some(me));
            state.bump_epoch();
        }
        if owner == Some(claimant) || owner == Some(state.me) {
            state.slots.importing.remove(&slot);
            state.config_changed(Save::Synced);
        }
    }
}

/// The slots that this node's shard has lost to a claim.
struct Lost {
    slots: usize,
    /// The slots of which this node holds keys.
    dirty: SlotSet,
}

fn take_consequences(state: &mut ClusterState, claimant: NodeId, epoch: u64, lost: Lost, claimed: usize) {
    let own_primary = state.own_primary();
    let is_same_shard = state.are_in_one_shard(claimant, state.me);
    let is_empty = own_primary.and_then(|id| state.node(id)).is_some_and(|node| node.slots.is_empty());
    // Two primaries of one shard without slots: the one that was elected later leads.
    let own_epoch = own_primary.and_then(|id| state.node(id)).map_or(0, |node| node.config_epoch);
    let is_superseded = is_same_shard && claimed == 0 && own_epoch < epoch && own_primary != Some(claimant);
    if is_empty && (lost.slots > 0 || is_superseded) {
        // A claimant that owns just these slots replaces this shard's primary, even if it is not known to be of the shard.
        let replaces = is_same_shard || lost.slots == claimed;
        if state.options.allows_replica_migration || replaces {
            let line = format!("Configuration change detected. Reconfiguring myself as a replica of {claimant}");
            state.log(LogLevel::Warning, line);
            members::follow(state, claimant);
            return;
        }
    }
    if !lost.dirty.is_empty() {
        state.actions.push(Action::DeleteKeys(lost.dirty));
    }
}

/// Tells a node which of the slots that it claims, for itself or for its primary, have an owner of a higher epoch. A replica
/// learns so the epoch of its primary. A primary
/// that comes back after a failover learns so that it has been replaced, even if it cannot reach its successor.
pub(crate) fn correct(state: &mut ClusterState, node: NodeId, epoch: u64, claimed: &SlotSet) {
    if planted::has(Fault::NeverCorrects) {
        return;
    }
    let mut owners = BTreeSet::new();
    let mut last = None;
    for slot in claimed.iter() {
        let owner = state.slots.owner(slot).filter(|_| !state.slots.released.contains(slot));
        if owner == last {
            continue;
        }
        last = owner;
        let is_newer = |owner: &NodeId| state.nodes.get(owner).is_some_and(|node| node.config_epoch > epoch);
        if let Some(owner) = owner.filter(is_newer) {
            owners.insert(owner);
        }
    }
    for owner in owners.into_iter().take(CORRECTIONS_MAX) {
        update(state, node, owner);
    }
}

/// Tells a node the slots of an owner.
pub(crate) fn update(state: &mut ClusterState, to: NodeId, owner: NodeId) {
    let Some(node) = state.nodes.get(&owner) else { return };
    let released = &state.slots.released;
    let slots = node.slots.iter().filter(|slot| !released.contains(*slot)).collect();
    let body = Body::Update { node: owner, config_epoch: node.config_epoch, slots };
    send::to_node(state, to, body);
}

/// Takes back an epoch that this node had, and the slots that it owned then, as far as no other node is known to own them. It
/// has lost them with a part of its nodes.conf. A node that took a slot since has a higher epoch, and gets it.
fn restore(state: &mut ClusterState, epoch: u64, slots: &SlotSet) {
    let me = state.me;
    if state.myself().is_replica() {
        return;
    }
    state.log(
        LogLevel::Warning,
        format!("The other nodes know this one with configEpoch {epoch}, which it takes back."),
    );
    state.epochs.current = state.epochs.current.max(epoch);
    state.myself_mut().config_epoch = epoch;
    for slot in slots.iter().filter(|slot| state.slots.owner(*slot).is_none()).collect::<Vec<Slot>>() {
        state.assign_slot(slot, Some(me));
    }
    state.config_changed(Save::Synced);
    state.duties.announce = true;
}

/// Tells a node that claims an epoch below the one it is known with which epoch and which slots it had.
pub(crate) fn remind(state: &mut ClusterState, node: NodeId) {
    let Some(known) = state.nodes.get(&node) else { return };
    let body = Body::Update { node, config_epoch: known.config_epoch, slots: known.slots.clone() };
    send::to_node(state, node, body);
}

/// Takes over an UPDATE: the slots of an owner, as the sender knows them.
pub(crate) fn updated(
    state: &mut ClusterState,
    owner: NodeId,
    epoch: u64,
    slots: &SlotSet,
    now: Time,
    host: &mut dyn Host,
) {
    let Some(node) = state.nodes.get_mut(&owner).filter(|node| node.config_epoch < epoch) else { return };
    if owner == state.me {
        return restore(state, epoch, slots);
    }
    node.config_epoch = epoch;
    state.config_changed(Save::Synced);
    members::make_primary(state, owner);
    apply(state, owner, epoch, slots, host);
    // An election that was refused because this node did not know the epoch may begin anew.
    if state.election.is_asked() && state.own_primary() != Some(state.me) {
        state.election.plan(now.ms, state.election.rank, state.election.shard_rank);
    }
}
