//! The commands that give slots away and move them.

use sleeve_wire::number;

use super::{Operation, Refusal, find_member};
use crate::action::LogLevel;
use crate::id::NodeId;
use crate::slots::{SLOTS, Slot, SlotSet};
use crate::state::ClusterState;
use crate::state::cluster_state::Save;
use crate::state::members;

/// Returns the slot of a text.
///
/// # Errors
/// The text is not the number of a slot.
pub fn slot_of(text: &[u8]) -> Result<Slot, Refusal> {
    let number = number::parse_i64(text).and_then(|number| Slot::try_from(number).ok());
    number.filter(|slot| *slot < SLOTS).ok_or(Refusal::NO_SLOT)
}

/// CLUSTER ADDSLOTS and ADDSLOTSRANGE: gives this node slots that have no owner. The ranges are checked one by one, up to the
/// first that is refused.
///
/// # Errors
/// A range is none, or one of its slots has an owner or was named before. Redis 7.0 gives slots to a replica too, where they are
/// lost with the next packet; that is refused here.
pub fn add_slots(
    operation: &mut Operation<'_>,
    ranges: impl IntoIterator<Item = Result<(Slot, Slot), Refusal>>,
) -> Result<(), Refusal> {
    let state = &mut *operation.state;
    let slots = checked(state, ranges, |state, slot| match state.slots.owner(slot) {
        Some(_) => Err(format!("Slot {slot} is already busy").into()),
        None => Ok(()),
    })?;
    if state.myself().is_replica() {
        return Err(Refusal::fixed("Please use ADDSLOTS only with masters."));
    }
    let me = state.me;
    assign(state, &slots, Some(me));
    Ok(())
}

/// CLUSTER DELSLOTS and DELSLOTSRANGE: forgets the owners of slots.
///
/// # Errors
/// A range is none, or one of its slots has no owner or was named before.
pub fn delete_slots(
    operation: &mut Operation<'_>,
    ranges: impl IntoIterator<Item = Result<(Slot, Slot), Refusal>>,
) -> Result<(), Refusal> {
    let state = &mut *operation.state;
    let slots = checked(state, ranges, |state, slot| match state.slots.owner(slot) {
        None => Err(format!("Slot {slot} is already unassigned").into()),
        Some(_) => Ok(()),
    })?;
    assign(state, &slots, None);
    Ok(())
}

/// Returns the slots of the ranges.
fn checked(
    state: &ClusterState,
    ranges: impl IntoIterator<Item = Result<(Slot, Slot), Refusal>>,
    check: impl Fn(&ClusterState, Slot) -> Result<(), Refusal>,
) -> Result<SlotSet, Refusal> {
    let mut slots = SlotSet::default();
    for range in ranges {
        let (first, last) = range?;
        if first > last {
            return Err(format!("start slot number {first} is greater than end slot number {last}").into());
        }
        for slot in first..=last {
            check(state, slot)?;
            if !slots.insert(slot) {
                return Err(format!("Slot {slot} specified multiple times").into());
            }
        }
    }
    Ok(slots)
}

fn assign(state: &mut ClusterState, slots: &SlotSet, owner: Option<NodeId>) {
    for slot in slots.iter() {
        state.slots.importing.remove(&slot);
        state.assign_slot(slot, owner);
    }
    state.config_changed(Save::Lazy);
}

/// CLUSTER FLUSHSLOTS: takes all slots from this node.
///
/// # Errors
/// The server holds keys.
pub fn flush_slots(operation: &mut Operation<'_>) -> Result<(), Refusal> {
    if !operation.host.is_empty() {
        return Err(Refusal::fixed("DB must be empty to perform CLUSTER FLUSHSLOTS."));
    }
    let me = operation.state.me;
    members::release_slots(operation.state, me);
    operation.state.config_changed(Save::Lazy);
    Ok(())
}

/// Takes the slots of the keys that were loaded at the start, if nodes.conf does not give them to this node. A slot without an
/// owner becomes its own. A slot of another node is noted as coming from it, so that an operator sees the keys and can move
/// them. A replica does nothing: its primary decides about its keys.
///
/// # Errors
/// Never refuses.
pub fn adopt_keys(operation: &mut Operation<'_>) -> Result<(), Refusal> {
    let Operation { state, host, .. } = operation;
    if state.myself().is_replica() {
        return Ok(());
    }
    let me = state.me;
    let (mut unowned, mut foreign) = (SlotSet::default(), SlotSet::default());
    for slot in 0..SLOTS {
        let owner = state.slots.owner(slot);
        if owner == Some(me) || state.slots.importing.contains_key(&slot) || host.keys_in_slot(slot) == 0 {
            continue;
        }
        match owner {
            None => _ = unowned.insert(slot),
            Some(owner) => {
                foreign.insert(slot);
                state.slots.importing.insert(slot, owner);
            }
        }
    }
    if !unowned.is_empty() {
        state
            .log(LogLevel::Warning, format!("I have keys for unassigned slots. Taking responsibility for {unowned:?}"));
    }
    if !foreign.is_empty() {
        let line = format!("I have keys for slots of other nodes. Setting them to importing state: {foreign:?}");
        state.log(LogLevel::Warning, line);
    }
    unowned.iter().for_each(|slot| state.assign_slot(slot, Some(me)));
    if !unowned.is_empty() || !foreign.is_empty() {
        state.config_changed(Save::Synced);
    }
    Ok(())
}

/// The new place of a slot in CLUSTER SETSLOT, with the name of the other node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotMove<'a> {
    /// The slot leaves this node for another.
    Migrating(&'a [u8]),
    /// The slot comes from another node.
    Importing(&'a [u8]),
    /// The slot belongs to a node.
    Node(&'a [u8]),
    /// The slot stays where it is.
    Stable,
}

/// CLUSTER SETSLOT.
///
/// # Errors
/// This node is a replica; the other node is not known, or a replica; this node does not own the slot that is to leave, owns the
/// one that is to come, or still holds keys of the one that is to belong to another node.
pub fn set_slot(operation: &mut Operation<'_>, slot: &[u8], to: Option<SlotMove<'_>>) -> Result<(), Refusal> {
    let state = &mut *operation.state;
    if state.myself().is_replica() {
        return Err(Refusal::fixed("Please use SETSLOT only with masters."));
    }
    let slot = slot_of(slot)?;
    let is_owner = state.slots.owner(slot) == Some(state.me);
    let known = |state: &ClusterState, name: &[u8]| {
        let node = find_member(state, name).ok_or_else(|| Refusal::naming("I don't know about node ", name))?;
        if node.is_replica() { Err(Refusal::TARGET_IS_REPLICA) } else { Ok(node.id) }
    };
    match to {
        Some(SlotMove::Migrating(_)) if !is_owner => {
            return Err(format!("I'm not the owner of hash slot {slot}").into());
        }
        Some(SlotMove::Importing(_)) if is_owner => {
            return Err(format!("I'm already the owner of hash slot {slot}").into());
        }
        Some(SlotMove::Migrating(name)) => {
            let node = known(state, name)?;
            state.slots.migrating.insert(slot, node);
        }
        Some(SlotMove::Importing(name)) => {
            let node = known(state, name)?;
            state.slots.importing.insert(slot, node);
        }
        Some(SlotMove::Stable) => {
            state.slots.migrating.remove(&slot);
            state.slots.importing.remove(&slot);
        }
        Some(SlotMove::Node(name)) => give(operation, slot, name)?,
        None => {
            let text = "Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP";
            return Err(Refusal::fixed(text));
        }
    }
    // The source gives the slot away next. If this node lost it with the power, no node would own it.
    let save = if matches!(to, Some(SlotMove::Node(_))) { Save::Synced } else { Save::Lazy };
    operation.state.config_changed(save);
    Ok(())
}

/// Takes over a CLUSTER SETSLOT of this replica's primary. Valkey sends it to its replicas before it executes it, so that the one
/// that takes over knows which slots are on the move, and which the primary has just been given. A node that is not known here
/// changes nothing: the primary's next packets tell the owner.
///
/// # Errors
/// The slot is none.
pub fn copy_set_slot(operation: &mut Operation<'_>, slot: &[u8], to: SlotMove<'_>) -> Result<(), Refusal> {
    let state = &mut *operation.state;
    let slot = slot_of(slot)?;
    if !state.myself().is_replica() {
        return Ok(());
    }
    let known = |name: &[u8]| find_member(state, name).filter(|node| !node.is_replica()).map(|node| node.id);
    match to {
        SlotMove::Migrating(name) => {
            let Some(node) = known(name) else { return Ok(()) };
            state.slots.migrating.insert(slot, node);
        }
        SlotMove::Importing(name) => {
            let Some(node) = known(name) else { return Ok(()) };
            state.slots.importing.insert(slot, node);
        }
        SlotMove::Stable => {
            state.slots.migrating.remove(&slot);
            state.slots.importing.remove(&slot);
        }
        SlotMove::Node(name) => {
            let owner = known(name);
            state.slots.migrating.remove(&slot);
            state.slots.importing.remove(&slot);
            if owner.is_some() {
                state.assign_slot(slot, owner);
            }
        }
    }
    let save = if matches!(to, SlotMove::Node(_)) { Save::Synced } else { Save::Lazy };
    state.config_changed(save);
    Ok(())
}

/// CLUSTER SETSLOT NODE: gives a slot to a node. A node that gets the slot that it imports takes a new epoch, so that the others
/// believe it. A node that gives its last slot away follows the new owner, if replicas may move by themselves.
fn give(operation: &mut Operation<'_>, slot: Slot, name: &[u8]) -> Result<(), Refusal> {
    let Operation { state, host, .. } = operation;
    let node = find_member(state, name).ok_or_else(|| Refusal::unknown_node(name))?;
    if node.is_replica() {
        return Err(Refusal::TARGET_IS_REPLICA);
    }
    let (owner, me, keys) = (node.id, state.me, host.keys_in_slot(slot));
    let was_mine = state.slots.owner(slot) == Some(me);
    if was_mine && owner != me && keys != 0 {
        let text = "to a different node while I still hold keys for this hash slot.";
        return Err(format!("Can't assign hashslot {slot} {text}").into());
    }
    if keys == 0 {
        state.slots.migrating.remove(&slot);
    }
    state.assign_slot(slot, Some(owner));
    if was_mine && owner != me && state.myself().slots.is_empty() && state.options.allows_replica_migration {
        let line = format!("Configuration change detected. Reconfiguring myself as a replica of {owner}");
        state.log(LogLevel::Warning, line);
        members::follow(state, owner);
    }
    if owner == me && state.slots.importing.remove(&slot).is_some() {
        if state.bump_epoch() {
            state.log(LogLevel::Warning, format!("configEpoch updated after importing slot {slot}"));
        }
        state.duties.announce = true;
    }
    Ok(())
}
