//! The commands of an operator: CLUSTER MEET, FORGET, ADDSLOTS, SETSLOT, REPLICATE, FAILOVER, RESET and the others that change
//! the cluster.
//!
//! Each command is a function that checks all that Redis 7.0 checks, in its order, and then changes the state. Names of nodes,
//! addresses and numbers come as the client wrote them, because refusals repeat them. The caller runs a command by
//! [`operate`], and then takes the actions of the state. Any thread that holds the state may call it.

mod faults;
mod refusal;
mod roles;
mod slots;
#[cfg(test)]
mod tests;

pub use faults::{drop_packets, kill_links};
pub use refusal::Refusal;
pub use roles::{
    bump_epoch, count_failure_reports, failover, forget, meet, replicate, reset, save_config, set_config_epoch,
};
pub use slots::{SlotMove, add_slots, adopt_keys, copy_set_slot, delete_slots, flush_slots, set_slot, slot_of};

use crate::host::{Host, Time};
use crate::id::NodeId;
use crate::node::Node;
use crate::state::ClusterState;

/// The state that a command changes, and the server around it.
pub struct Operation<'a> {
    /// The state.
    pub state: &'a mut ClusterState,
    /// The time.
    pub now: Time,
    /// The server.
    pub host: &'a mut dyn Host,
}

/// Runs a command, and settles the consequences of its change.
///
/// # Errors
/// The command refuses.
pub fn operate<T>(
    state: &mut ClusterState,
    now: Time,
    host: &mut dyn Host,
    command: impl FnOnce(&mut Operation<'_>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    state.begin(now, host);
    let outcome = command(&mut Operation { state, now, host });
    state.settle(now, host);
    outcome
}

/// Returns the node of a name, those in handshake included.
pub fn find<'a>(state: &'a ClusterState, name: &[u8]) -> Option<&'a Node> {
    NodeId::parse(name).and_then(|id| state.node(id))
}

/// Returns the node of a name that is not in handshake: the name of such a node is one of chance, and changes.
fn find_member<'a>(state: &'a ClusterState, name: &[u8]) -> Option<&'a Node> {
    find(state, name).filter(|node| !node.is_in_handshake())
}
