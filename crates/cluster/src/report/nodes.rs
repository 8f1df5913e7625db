//! CLUSTER NODES and CLUSTER REPLICAS: a line for each node.

use super::{Viewer, stored};
use crate::id::NodeId;
use crate::nodes_conf::{Form, write_line};
use crate::state::ClusterState;

/// Returns the text of CLUSTER NODES: a line for each node, those in handshake included.
pub fn nodes(state: &ClusterState, viewer: Viewer<'_>) -> String {
    let stored = stored(state, viewer.now);
    let mut text = String::new();
    for node in state.nodes.values() {
        write_line(&mut text, node, &stored, Form::Reply { is_plain: viewer.is_plain });
        text.push('\n');
    }
    text
}

/// Returns the lines of the replicas of a primary, for CLUSTER REPLICAS.
pub fn replicas(state: &ClusterState, primary: NodeId, viewer: Viewer<'_>) -> Vec<String> {
    let stored = stored(state, viewer.now);
    state
        .replicas_of(primary)
        .map(|node| {
            let mut line = String::new();
            write_line(&mut line, node, &stored, Form::Reply { is_plain: viewer.is_plain });
            line
        })
        .collect()
}
