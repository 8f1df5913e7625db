//! The cluster as its nodes describe it: each node by its own line of CLUSTER NODES, with an open connection.
//!
//! The node that the user names is asked for all others, and each of them for itself. Nodes that cannot be reached are counted
//! and left out, as redis-cli leaves them out.

use std::collections::BTreeMap;
use std::io;
use std::net::ToSocketAddrs;
use std::thread;
use std::time::Duration;

use super::console::{Console, Reported, complain};
use super::node::{Line, Node, NodeAddress};
use super::peer::{Answer, Door, Fault, Peer};
use super::slots::SlotSet;
use crate::output;

/// The pause between two looks at nodes that shall find each other.
const PAUSE: Duration = Duration::from_secs(1);

/// The number of such pauses after which the links that are missing are listed.
const PAUSES_MAX: usize = 20;

/// A node with the connection to it.
#[derive(Debug)]
pub struct Member {
    /// The facts.
    pub node: Node,
    /// The connection.
    pub peer: Peer,
}

/// The nodes of a cluster that can be reached.
#[derive(Debug, Default)]
pub struct View {
    /// The nodes, the one that the user named first.
    pub members: Vec<Member>,
    /// The number of primaries that cannot be reached.
    pub unreachable_primaries: usize,
}

impl Member {
    /// Connects to a node and asks it for its own line. Failures are printed.
    pub fn meet(door: &Door, console: Console, address: &NodeAddress) -> Result<(Self, Vec<Line>), Reported> {
        let mut peer = door.open(address)?;
        let is_cluster = match peer.info() {
            Ok(info) => info.number("cluster_enabled") != 0,
            Err(Fault::Refused(text)) => return console.fail(format_args!("[ERR] Node {address} {text}")),
            Err(fault) => return peer.report(&fault),
        };
        if !is_cluster {
            return console.fail(format_args!("[ERR] Node {address} is not configured as a cluster node."));
        }
        Self::load(peer, address)
    }

    /// Asks a node for the lines of all nodes that it knows.
    fn load(mut peer: Peer, address: &NodeAddress) -> Result<(Self, Vec<Line>), Reported> {
        let reply = peer.ask(&["CLUSTER", "NODES"])?.text().unwrap_or_default();
        let lines = Line::read_all(&reply).filter(|lines| lines.iter().any(|line| line.is_own));
        let Some(lines) = lines else { return complain(format_args!("Error: invalid CLUSTER NODES reply")) };
        let (own, others): (Vec<Line>, Vec<Line>) = lines.into_iter().partition(|line| line.is_own);
        let mut node = own.into_iter().next().map(|line| line.node).unwrap_or_default();
        // A node without an announced address does not know the one under which it is reached.
        node.address = NodeAddress { bus: node.address.bus, ..address.clone() };
        Ok((Self { node, peer }, others))
    }

    /// Refuses a node that has keys or knows other nodes. The refusal is printed.
    pub fn must_be_empty(&mut self, console: Console) -> Result<(), Reported> {
        let known = self.peer.info().and_then(|info| {
            let reply = self.peer.try_ask(&["CLUSTER", "INFO"])?.text().unwrap_or_default();
            let known = reply.lines().find_map(|line| line.strip_prefix("cluster_known_nodes:"));
            Ok(known == Some("1") && info.text("db0").is_empty())
        });
        let address = &self.node.address;
        match known {
            Ok(true) => Ok(()),
            Ok(false) => console.fail(format_args!(
                "[ERR] Node {address} is not empty. Either the node already knows other nodes (check with CLUSTER NODES) or \
                 contains some key in database 0."
            )),
            Err(Fault::Refused(text)) => console.fail(format_args!("[ERR] Node {address} {text}")),
            Err(fault) => self.peer.report(&fault),
        }
    }

    /// Returns the node's view of the owners of slots: lines that are equal on all nodes that agree.
    fn signature(&mut self) -> Option<Vec<String>> {
        let reply = self.peer.try_ask(&["CLUSTER", "NODES"]).ok()?.text()?;
        let lines = Line::read_all(&reply)?;
        let owners = lines.into_iter().filter(|line| line.node.slots.len() > 0);
        let mut owners: Vec<String> = owners.map(|line| format!("{}:{}", line.node.id, line.node.slots)).collect();
        owners.sort_unstable();
        (!owners.is_empty()).then_some(owners)
    }

    /// Returns the addresses of the nodes that this one has no connection to.
    fn missing_links(&mut self) -> Vec<String> {
        let reply = self.peer.try_ask(&["CLUSTER", "NODES"]).ok().as_ref().and_then(Answer::text);
        let lines = reply.and_then(|reply| Line::read_all(&reply)).unwrap_or_default();
        let is_missing = |line: &Line| !line.is_own && (!line.is_connected || line.node.has_flag("handshake"));
        lines.into_iter().filter(is_missing).map(|line| line.address).collect()
    }
}

impl View {
    /// Asks the node at this address, and each node that it knows. Failures are printed.
    pub fn load(door: &Door, console: Console, address: &NodeAddress) -> Result<Self, Reported> {
        let (first, others) = Member::meet(door, console, address)?;
        let mut view = Self { members: vec![first], unreachable_primaries: 0 };
        for line in others {
            let is_known = !line.node.address.host.is_empty() && line.node.address.port != 0;
            let loaded = is_known.then(|| door.open(&line.node.address).ok()).flatten().and_then(|peer| {
                let loaded = Member::load(peer, &line.node.address).ok();
                if loaded.is_none() {
                    console.error(format_args!("[ERR] Unable to load info for node {}", line.node.address));
                }
                loaded
            });
            let has_failed = ["noaddr", "disconnected", "fail"].iter().any(|flag| line.node.has_flag(flag));
            match loaded {
                Some((member, _)) if !has_failed => view.members.push(member),
                _ => view.unreachable_primaries += usize::from(!line.node.is_replica()),
            }
        }
        for node in view.members.iter().map(|member| &member.node) {
            if let Some(primary) = node.primary.as_ref().filter(|primary| view.find(primary).is_none()) {
                console.warn(format_args!(
                    "*** WARNING: {} claims to be slave of unknown node ID {primary}.",
                    node.address
                ));
            }
        }
        Ok(view)
    }

    /// Returns the number of the node with this id.
    pub fn find(&self, id: &str) -> Option<usize> {
        self.members.iter().position(|member| member.node.id.eq_ignore_ascii_case(id))
    }

    /// Returns the number of the node with an id that begins with these digits.
    pub fn find_abbreviated(&self, id: &str) -> Option<usize> {
        let id = id.to_ascii_lowercase();
        self.members.iter().position(|member| member.node.id.starts_with(&id))
    }

    /// Returns the numbers of all primaries.
    pub fn primaries(&self) -> Vec<usize> {
        (0..self.members.len()).filter(|number| !self.members[*number].node.is_replica()).collect()
    }

    /// Returns the number of replicas of a node.
    pub fn replicas_of(&self, id: &str) -> usize {
        self.members.iter().filter(|member| member.node.primary.as_deref() == Some(id)).count()
    }

    /// Returns the primary with the fewest replicas, other than the one with this id.
    pub fn primary_with_fewest_replicas(&self, except: Option<&str>) -> Option<usize> {
        let primaries =
            self.primaries().into_iter().filter(|number| Some(self.members[*number].node.id.as_str()) != except);
        primaries.min_by_key(|number| self.replicas_of(&self.members[*number].node.id))
    }

    /// Returns the slots that some node serves.
    pub fn covered(&self) -> SlotSet {
        self.members.iter().flat_map(|member| member.node.slots.iter()).collect()
    }

    /// Returns the text of a node in a list.
    pub fn describe(&self, number: usize, indent: usize) -> String {
        let node = &self.members[number].node;
        node.describe(indent, self.replicas_of(&node.id))
    }

    /// Prints all nodes.
    pub fn print(&self) {
        for number in 0..self.members.len() {
            output::line(format_args!("{}", self.describe(number, 0)));
        }
    }

    /// Returns whether all nodes say the same about the owners of slots.
    pub fn is_consistent(&mut self) -> bool {
        if self.members.len() <= 1 {
            return true;
        }
        let mut signatures = self.members.iter_mut().map(Member::signature);
        match signatures.next().flatten() {
            Some(first) => signatures.all(|signature| signature.as_ref() == Some(&first)),
            None => false,
        }
    }

    /// Waits until all nodes say the same about the owners of slots. Links that are missing for long are listed.
    pub fn wait_until_joined(&mut self, console: Console) {
        output::line(format_args!("Waiting for the cluster to join"));
        let patience = PAUSES_MAX + self.members.len() * 3 / 20;
        let mut pauses = 0;
        while !self.is_consistent() {
            console.part(format_args!("."));
            thread::sleep(PAUSE);
            pauses += 1;
            if pauses > patience {
                self.print_missing_links(console);
                pauses = 0;
            }
        }
        output::line(format_args!(""));
    }

    fn print_missing_links(&mut self, console: Console) {
        let mut missing: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for member in &mut self.members {
            for address in member.missing_links() {
                missing.entry(address).or_default().push(member.node.address.to_string());
            }
        }
        if missing.is_empty() {
            return;
        }
        output::line(format_args!(""));
        console.error(format_args!("Warning: {} node(s) may be unreachable", missing.len()));
        for (text, from) in missing {
            match NodeAddress::read(&text) {
                Some(NodeAddress { host, bus: Some(bus), .. }) => {
                    console.error(format_args!(" - The port {bus} of node {host} may be unreachable from:"));
                }
                _ => console.error(format_args!(" - Node {text} may be unreachable from:")),
            }
            from.iter().for_each(|address| console.error(format_args!("   {address}")));
            console.error(format_args!(
                "Cluster bus ports must be reachable by every node.\nRemember that cluster bus ports are different from \
                 standard instance ports."
            ));
        }
    }
}

/// Returns the words of the CLUSTER MEET that leads to a node. The command takes addresses and no names.
pub fn words_of_meet(address: &NodeAddress) -> Result<Vec<String>, Reported> {
    let found: io::Result<_> = (address.host.as_str(), address.port).to_socket_addrs().map(|mut found| found.next());
    let Ok(Some(found)) = found else {
        return complain(format_args!("Invalid IP address or hostname specified: {}", address.host));
    };
    let mut words = vec!["CLUSTER".to_owned(), "MEET".to_owned(), found.ip().to_string(), address.port.to_string()];
    words.extend(address.unusual_bus().map(|bus| bus.to_string()));
    Ok(words)
}
