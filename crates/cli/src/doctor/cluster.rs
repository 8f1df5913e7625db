//! The look at a cluster: one node says which nodes there are, and each of them is asked for its own line and its load. The
//! load is that of the time between the beginning and the end of the look, in which the doctor itself sends little.

use std::time::Instant;

use super::causes::{ClusterEvidence, Told};
use super::session::{Fault, Session, Tally};
use crate::cluster::node::Line;
use crate::endpoint::{Endpoint, Login};
use crate::replies::info::Info;

/// A node that is asked.
struct Asked {
    place: Endpoint,
    session: Session,
    /// The number of commands that it had executed at the beginning.
    commands: u64,
    since: Instant,
}

/// A look at a cluster that has begun.
pub struct Look {
    nodes: Vec<Asked>,
    unread: Vec<String>,
}

impl Look {
    /// Connects to all nodes of the cluster that a server belongs to. The server's own connection comes first; the requests on
    /// it are counted, because that server is watched.
    pub fn begin(endpoint: &Endpoint, login: &Login, tally: &Tally) -> Self {
        let mut look = Self { nodes: Vec::new(), unread: Vec::new() };
        look.add(endpoint.clone(), login, tally);
        let lines = look.nodes.first_mut().map(|first| lines(&mut first.session)).transpose();
        let lines = lines.unwrap_or_else(|fault| {
            look.unread.push(fault.to_string());
            None
        });
        // The node that was named first may not know the address under which it is reached.
        for line in lines.into_iter().flatten().filter(|line| !line.is_own && line.is_connected) {
            if !line.node.has_flag("fail") && !line.node.has_flag("noaddr") {
                let address = line.node.address;
                look.add(endpoint.elsewhere(address.host, address.port), login, &Tally::default());
            }
        }
        look
    }

    fn add(&mut self, place: Endpoint, login: &Login, tally: &Tally) {
        let login = Login { database: 0, ..login.clone() };
        let asked = Session::open(&place, &login, tally).and_then(|mut session| {
            let commands = commands(&mut session)?;
            Ok((session, commands))
        });
        match asked {
            Ok((session, commands)) => self.nodes.push(Asked { place, session, commands, since: Instant::now() }),
            Err(fault) => self.unread.push(format!("{place}: {fault}")),
        }
    }

    /// Asks all nodes again. Faults are added to `unread`.
    pub fn end(mut self, unread: &mut Vec<String>) -> ClusterEvidence {
        let mut evidence = ClusterEvidence::default();
        for node in &mut self.nodes {
            match node.end() {
                Ok((lines, told)) => {
                    evidence.told.push(told);
                    if evidence.lines.is_empty() {
                        evidence.lines = lines;
                    }
                }
                Err(fault) => self.unread.push(format!("{}: {fault}", node.place)),
            }
        }
        unread.append(&mut self.unread);
        evidence
    }
}

impl Asked {
    fn end(&mut self) -> Result<(Vec<Line>, Told), Fault> {
        let executed = commands(&mut self.session)?.saturating_sub(self.commands);
        let per_second = executed as f64 / self.since.elapsed().as_secs_f64();
        let lines = lines(&mut self.session)?;
        let own = lines.iter().find(|line| line.is_own).map(|line| line.node.clone()).unwrap_or_default();
        let told = Told {
            address: self.place.to_string(),
            is_primary: !own.is_replica() && own.slots.len() > 0,
            open: own.migrating.into_iter().chain(own.importing).collect(),
            per_second,
        };
        Ok((lines, told))
    }
}

fn lines(session: &mut Session) -> Result<Vec<Line>, Fault> {
    let reply = session.ask_text(&["CLUSTER", "NODES"])?;
    Line::read_all(&reply).ok_or_else(|| Fault::Refused("CLUSTER NODES: a reply that is no list of nodes".to_owned()))
}

fn commands(session: &mut Session) -> Result<u64, Fault> {
    Ok(Info::parse(&session.ask_text(&["INFO", "stats"])?).number("total_commands_processed"))
}
