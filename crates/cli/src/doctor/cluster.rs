//! The look at a cluster: one node says which nodes there are, and each of them is asked for its own line and its load.

use super::causes::{ClusterEvidence, Told};
use super::session::{Fault, Session, Tally};
use crate::cluster::node::Line;
use crate::endpoint::{Endpoint, Login};
use crate::replies::info::Info;

/// Asks the nodes of the cluster that a server belongs to. Nodes that cannot be asked are added to `unread`.
pub fn look(endpoint: &Endpoint, login: &Login, unread: &mut Vec<String>) -> ClusterEvidence {
    let session = Session::open(endpoint, login, &Tally::default());
    let reply = session.and_then(|mut session| session.ask_text(&["CLUSTER", "NODES"]));
    let lines = reply.map(|reply| Line::read_all(&reply).unwrap_or_default()).unwrap_or_else(|fault| {
        unread.push(fault.to_string());
        Vec::new()
    });
    let mut told = Vec::new();
    for line in &lines {
        let address = &line.node.address;
        let is_gone = line.node.has_flag("fail") || line.node.has_flag("noaddr") || !(line.is_connected || line.is_own);
        if is_gone {
            continue;
        }
        // The node that was named first may not know the address under which it is reached.
        let place = if line.is_own { endpoint.clone() } else { endpoint.elsewhere(address.host.clone(), address.port) };
        match ask(&place, login) {
            Ok(facts) => told.push(facts),
            Err(fault) => unread.push(format!("{place}: {fault}")),
        }
    }
    ClusterEvidence { lines, told }
}

fn ask(place: &Endpoint, login: &Login) -> Result<Told, Fault> {
    let login = Login { database: 0, ..login.clone() };
    let mut session = Session::open(place, &login, &Tally::default())?;
    let reply = session.ask_text(&["CLUSTER", "NODES"])?;
    let lines = Line::read_all(&reply).unwrap_or_default();
    let own = lines.into_iter().find(|line| line.is_own).map(|line| line.node).unwrap_or_default();
    let info = Info::parse(&session.ask_text(&["INFO", "stats"])?);
    Ok(Told {
        address: place.to_string(),
        is_primary: !own.is_replica() && own.slots.len() > 0,
        open: own.migrating.into_iter().chain(own.importing).collect(),
        per_second: info.number("instantaneous_ops_per_sec") as f64,
    })
}
