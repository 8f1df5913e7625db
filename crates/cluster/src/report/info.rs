//! CLUSTER INFO: the health of the cluster in lines of `name:value`.

use std::fmt::Write as _;

use crate::node::NodeFlags;
use crate::slots::SLOTS;
use crate::state::ClusterState;

/// Returns the text of CLUSTER INFO. `closed_links` is the number of links that were closed because too much waited for them.
pub fn info(state: &ClusterState, closed_links: u64) -> String {
    let (mut assigned, mut failed, mut silent) = (0, 0, 0);
    for owner in (0..SLOTS).filter_map(|slot| state.slots.owner(slot)) {
        assigned += 1;
        match state.nodes.get(&owner).map(|node| node.flags) {
            Some(flags) if flags.has(NodeFlags::FAIL) => failed += 1,
            Some(flags) if flags.has(NodeFlags::PFAIL) => silent += 1,
            _ => {}
        }
    }
    let mut text = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| _ = write!(text, "{name}:{value}\r\n");
    line("cluster_state", &if state.health.is_ok { "ok" } else { "fail" });
    line("cluster_slots_assigned", &assigned);
    line("cluster_slots_ok", &(assigned - failed - silent));
    line("cluster_slots_pfail", &silent);
    line("cluster_slots_fail", &failed);
    line("cluster_known_nodes", &state.nodes.len());
    line("cluster_size", &state.voters());
    line("cluster_current_epoch", &state.epochs.current);
    line("cluster_my_epoch", &my_epoch(state));
    let traffic: Vec<_> =
        state.traffic.counts().map(|(kind, sent, received)| (kind.name(), [sent, received])).collect();
    for (at, direction) in ["sent", "received"].into_iter().enumerate() {
        for (name, counts) in traffic.iter().filter(|(_, counts)| counts[at] != 0) {
            line(&format!("cluster_stats_messages_{name}_{direction}"), &counts[at]);
        }
        line(
            &format!("cluster_stats_messages_{direction}"),
            &traffic.iter().map(|(_, counts)| counts[at]).sum::<u64>(),
        );
    }
    line("total_cluster_links_buffer_limit_exceeded", &closed_links);
    text
}

/// Returns the epoch of this node's shard.
fn my_epoch(state: &ClusterState) -> u64 {
    state.own_primary().and_then(|id| state.node(id)).unwrap_or(state.myself()).config_epoch
}
