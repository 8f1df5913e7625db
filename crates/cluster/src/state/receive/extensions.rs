//! The extensions of a heartbeat: names, client addresses and the shard of its sender, and nodes to forget.

use crate::action::LogLevel;
use crate::host::Time;
use crate::id::NodeId;
use crate::packet::Extension;
use crate::state::cluster_state::{ClusterState, Save};
use crate::state::members;

/// Takes the extensions of a known sender. A text that the sender does not send is one that it does not announce.
pub(super) fn take(state: &mut ClusterState, sender: NodeId, extensions: &[Extension], now: Time) {
    let text = |of: fn(&Extension) -> Option<&String>| extensions.iter().find_map(of).cloned().unwrap_or_default();
    let hostname = text(|it| if let Extension::Hostname(text) = it { Some(text) } else { None });
    let human_name = text(|it| if let Extension::HumanName(text) = it { Some(text) } else { None });
    let client_ipv4 = text(|it| if let Extension::ClientIpv4(text) = it { Some(text) } else { None });
    let client_ipv6 = text(|it| if let Extension::ClientIpv6(text) = it { Some(text) } else { None });
    let Some(node) = state.nodes.get_mut(&sender) else { return };
    let address = &mut node.address;
    let known = [&mut address.hostname, &mut address.human_name, &mut address.client_ipv4, &mut address.client_ipv6];
    let mut has_changed = false;
    for (known, told) in known.into_iter().zip([hostname, human_name, client_ipv4, client_ipv6]) {
        has_changed |= *known != told;
        *known = told;
    }
    if has_changed {
        state.config_changed(Save::Lazy);
    }
    for extension in extensions {
        match extension {
            Extension::Shard(shard) => take_shard(state, sender, *shard),
            Extension::Forgotten { node, ttl_s } => forget(state, sender, *node, *ttl_s, now),
            _ => {}
        }
    }
}

/// Takes over the shard of the sender. Only a primary names a shard: its replicas are of it by definition, so the shards of a
/// primary and of its replicas never differ, in any order of their packets.
fn take_shard(state: &mut ClusterState, sender: NodeId, shard: NodeId) {
    let Some(node) = state.nodes.get_mut(&sender) else { return };
    if node.is_primary() {
        members::set_shard(state, sender, shard);
    } else if node.primary.is_none() && node.shard != shard {
        node.shard = shard;
        state.config_changed(Save::Lazy);
    }
}

/// Forgets a node for as long as the sender does. This node, its primary and the sender itself cannot be forgotten so.
fn forget(state: &mut ClusterState, sender: NodeId, node: NodeId, ttl_s: u64, now: Time) {
    let is_needed = node == state.me || node == sender || state.own_primary() == Some(node);
    if is_needed || !state.nodes.contains_key(&node) {
        return;
    }
    state.log(LogLevel::Notice, format!("Node {sender} has forgotten node {node}, so does this node."));
    members::remove(state, node);
    state.forgotten.add(node, now, ttl_s.saturating_mul(1_000));
}
