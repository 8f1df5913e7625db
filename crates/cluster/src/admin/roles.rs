//! The commands about nodes and epochs.

use std::net::IpAddr;

use sleeve_wire::number;

use super::{Operation, Refusal, find, find_member};
use crate::action::{Action, LogLevel};
use crate::id::NodeId;
use crate::node::{Address, NodeFlags};
use crate::state::cluster_state::Save;
use crate::state::failover::{failure, manual};
use crate::state::forgotten::Forgotten;
use crate::state::manual_failover::FailoverKind;
use crate::state::members;

/// The distance of the bus port from the port for clients, if it is not named.
const BUS_PORT_DISTANCE: i64 = 10_000;

/// CLUSTER MEET: begins to introduce this node to another. A handshake that is in progress already goes on.
///
/// # Errors
/// The address is no IP address with two ports.
pub fn meet(operation: &mut Operation<'_>, ip: &[u8], port: &[u8], bus_port: Option<&[u8]>) -> Result<(), Refusal> {
    let base = number::parse_i64(port).ok_or_else(|| Refusal::naming("Invalid TCP base port specified: ", port))?;
    let bus = match bus_port {
        Some(text) => {
            number::parse_i64(text).ok_or_else(|| Refusal::naming("Invalid TCP bus port specified: ", text))?
        }
        None => base.saturating_add(BUS_PORT_DISTANCE),
    };
    let number = |port: i64| u16::try_from(port).ok().filter(|port| *port != 0);
    let address = std::str::from_utf8(ip).ok().and_then(|ip| ip.parse::<IpAddr>().ok());
    let (Some(address), Some(base), Some(bus)) = (address, number(base), number(bus)) else {
        let text = [ip.split(|byte| *byte == 0).next().unwrap_or_default(), b":", port].concat();
        return Err(Refusal::naming("Invalid node address specified: ", &text));
    };
    let (port, tls_port) = if operation.state.options.has_tls { (0, base) } else { (base, 0) };
    let address = Address { ip: address.to_string(), port, tls_port, bus_port: bus, ..Address::default() };
    members::begin_handshake(operation.state, address, true, operation.now, operation.host);
    Ok(())
}

/// CLUSTER FORGET: removes a node, and does not take it up again for a minute. An operator asks one node after the other, and
/// the nodes tell each other meanwhile: a node that has been forgotten already is no error, as from Redis 7.2 on.
///
/// # Errors
/// The node is not known, is this node, or is this node's primary.
pub fn forget(operation: &mut Operation<'_>, name: &[u8]) -> Result<(), Refusal> {
    let state = &mut *operation.state;
    let Some(id) = find(state, name).map(|node| node.id) else {
        let is_forgotten = NodeId::parse(name).is_some_and(|id| state.forgotten.contains(id, operation.now));
        return if is_forgotten { Ok(()) } else { Err(Refusal::unknown_node(name)) };
    };
    let me = state.myself();
    if id == me.id {
        return Err(Refusal::fixed("I tried hard but I can't forget myself..."));
    }
    if me.is_replica() && me.primary == Some(id) {
        return Err(Refusal::fixed("Can't forget my master!"));
    }
    state.forgotten.add(id, operation.now, Forgotten::BAN_MS);
    members::remove(state, id);
    Ok(())
}

/// CLUSTER REPLICATE: makes this node a replica of another.
///
/// # Errors
/// The node is not known, is this node, or is a replica; this node is a primary with slots or keys.
pub fn replicate(operation: &mut Operation<'_>, name: &[u8]) -> Result<(), Refusal> {
    let state = &mut *operation.state;
    let node = find_member(state, name).ok_or_else(|| Refusal::unknown_node(name))?;
    let (id, me) = (node.id, state.myself());
    if id == me.id {
        return Err(Refusal::fixed("Can't replicate myself"));
    }
    if node.is_replica() {
        return Err(Refusal::fixed("I can only replicate a master, not a replica."));
    }
    if me.is_primary() && (!me.slots.is_empty() || !operation.host.is_empty()) {
        return Err(Refusal::fixed("To set a master the node must be empty and without assigned slots."));
    }
    members::follow(state, id);
    Ok(())
}

/// CLUSTER FAILOVER: begins to replace this node's primary.
///
/// # Errors
/// This node is a primary; its primary is not known; without FORCE or TAKEOVER, the primary cannot be reached.
pub fn failover(operation: &mut Operation<'_>, kind: FailoverKind) -> Result<(), Refusal> {
    let state = &mut *operation.state;
    if state.myself().is_primary() {
        return Err(Refusal::fixed("You should send CLUSTER FAILOVER to a replica"));
    }
    let Some(primary) = state.myself().primary.and_then(|primary| state.node(primary)) else {
        return Err(Refusal::fixed("I'm a replica but my master is unknown to me"));
    };
    if kind == FailoverKind::Agreed && (primary.has_failed() || !primary.links.is_connected) {
        return Err(Refusal::fixed("Master is down or failed, please use CLUSTER FAILOVER FORCE"));
    }
    manual::start(state, kind, operation.now, operation.host);
    Ok(())
}

/// CLUSTER RESET: forgets the cluster. A hard reset also forgets the epochs and takes a new id. A replica loses its data.
///
/// The node leaves its shard: the other nodes of the shard go on without it.
///
/// # Errors
/// This node is a primary with keys.
pub fn reset(operation: &mut Operation<'_>, is_hard: bool) -> Result<(), Refusal> {
    let Operation { state, host, .. } = operation;
    if state.myself().is_primary() && !host.is_empty() {
        return Err(Refusal::fixed("CLUSTER RESET can't be called with master nodes containing keys"));
    }
    let me = state.me;
    if state.myself().is_replica() {
        members::make_primary(state, me);
        // The link to the primary ends first, or its changes would come back behind the flush.
        if state.followed.take().is_some() {
            state.actions.push(Action::Lead);
        }
        state.actions.push(Action::FlushAll);
    }
    let others: Vec<_> = state.nodes.keys().copied().filter(|id| *id != me).collect();
    others.into_iter().for_each(|id| members::remove(state, id));
    members::release_slots(state, me);
    members::end_manual_failover(state);
    state.slots = Default::default();
    state.election.reset();
    let shard = members::random_id(*host);
    state.myself_mut().shard = shard;
    state.myself_mut().flags.set(NodeFlags::MIGRATE_TO, false);
    if is_hard {
        let id = members::random_id(*host);
        let mut node = state.nodes.remove(&me).unwrap_or_else(|| crate::node::Node::new(id, NodeFlags::PRIMARY, 0));
        (node.id, node.shard, node.config_epoch) = (id, id, 0);
        state.nodes.insert(id, node);
        state.me = id;
        state.epochs = Default::default();
        state.log(LogLevel::Warning, "configEpoch set to 0 via CLUSTER RESET HARD");
        state.log(LogLevel::Notice, format!("Node hard reset, now I'm {id}"));
    }
    state.config_changed(Save::Synced);
    Ok(())
}

/// CLUSTER BUMPEPOCH: takes a new configuration epoch, unless this node's is the greatest already. Returns whether it did, and
/// the epoch.
///
/// # Errors
/// Never refuses.
pub fn bump_epoch(operation: &mut Operation<'_>) -> Result<(bool, u64), Refusal> {
    let is_new = operation.state.bump_epoch();
    Ok((is_new, operation.state.myself().config_epoch))
}

/// CLUSTER SET-CONFIG-EPOCH: gives a new node its first epoch. So the nodes of a new cluster begin with different ones.
///
/// # Errors
/// The epoch is negative, or this node knows other nodes or has an epoch.
pub fn set_config_epoch(operation: &mut Operation<'_>, epoch: i64) -> Result<(), Refusal> {
    let state = &mut *operation.state;
    let epoch = u64::try_from(epoch).map_err(|_| Refusal::from(format!("Invalid config epoch specified: {epoch}")))?;
    if state.nodes.len() > 1 {
        let text = "The user can assign a config epoch only when the node does not know any other node.";
        return Err(Refusal::fixed(text));
    }
    if state.myself().config_epoch != 0 {
        return Err(Refusal::fixed("Node config epoch is already non-zero"));
    }
    state.myself_mut().config_epoch = epoch;
    state.epochs.current = state.epochs.current.max(epoch);
    state.log(LogLevel::Warning, format!("configEpoch set to {epoch} via CLUSTER SET-CONFIG-EPOCH"));
    state.config_changed(Save::Lazy);
    Ok(())
}

/// CLUSTER SAVECONFIG: writes nodes.conf.
///
/// # Errors
/// Never refuses.
pub fn save_config(operation: &mut Operation<'_>) -> Result<(), Refusal> {
    operation.state.config_changed(Save::Synced);
    Ok(())
}

/// CLUSTER COUNT-FAILURE-REPORTS: returns the number of primaries that report a node as silent.
///
/// # Errors
/// The node is not known.
pub fn count_failure_reports(operation: &mut Operation<'_>, name: &[u8]) -> Result<usize, Refusal> {
    let id = find(operation.state, name).ok_or_else(|| Refusal::unknown_node(name))?.id;
    Ok(failure::reports(operation.state, id, operation.now))
}
