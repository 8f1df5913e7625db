//! Faults that tests of clusters cause on purpose: links that end, and packets that are lost.

use super::{Operation, Refusal, find};
use crate::packet::PacketType;
use crate::state::members;

/// DEBUG CLUSTERLINK KILL: closes the links that this node has opened to another, that the other has opened, or both.
///
/// # Errors
/// The node is not known.
pub fn kill_links(operation: &mut Operation<'_>, outgoing: bool, incoming: bool, name: &[u8]) -> Result<(), Refusal> {
    let state = &mut *operation.state;
    let links = find(state, name).ok_or_else(|| Refusal::unknown_node(name))?.links.clone();
    for link in [links.outgoing.filter(|_| outgoing), links.incoming.filter(|_| incoming)].into_iter().flatten() {
        members::close(state, link);
    }
    Ok(())
}

/// DEBUG DROP-CLUSTER-PACKET-FILTER: loses all packets of a type that arrive, or none if there is no type of this code.
///
/// # Errors
/// Never refuses.
pub fn drop_packets(operation: &mut Operation<'_>, code: i64) -> Result<(), Refusal> {
    let lost = u16::try_from(code).ok().and_then(PacketType::of_code);
    operation.state.traffic.lose(lost);
    Ok(())
}
