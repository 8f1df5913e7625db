//! The lines of nodes.conf and of CLUSTER NODES.

use std::fmt::Write as _;

use super::Stored;
use crate::id::NodeId;
use crate::node::{Address, Node, NodeFlags};
use crate::slots::Slot;

/// The form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A line of nodes.conf, with the names and values that Redis 7.2 and Valkey keep there.
    File,
    /// A line of a reply, as Redis 7.0 writes it.
    Reply {
        /// Whether the client is connected without TLS, so that it is shown the port without TLS where the bus uses TLS.
        is_plain: bool,
    },
}

/// Returns the text of nodes.conf.
pub fn write(stored: &Stored<'_>) -> String {
    let mut text = String::new();
    for node in stored.nodes.values().filter(|node| !node.is_in_handshake()) {
        write_line(&mut text, node, stored, Form::File);
        text.push('\n');
    }
    _ = writeln!(text, "vars currentEpoch {} lastVoteEpoch {}", stored.epochs.current, stored.epochs.last_vote);
    text
}

/// Appends the description of a node, without the end of the line.
pub fn write_line(text: &mut String, node: &Node, stored: &Stored<'_>, form: Form) {
    // A String takes all that is written to it, so the results below say nothing.
    let Address { ip, bus_port, hostname, .. } = &node.address;
    _ = write!(text, "{} {}:{}@{bus_port}", node.id, word(ip), port(&node.address, stored.has_tls, form));
    if !word(hostname).is_empty() {
        _ = write!(text, ",{}", word(hostname));
    }
    if form == Form::File {
        write_names(text, node, stored.has_tls);
    }
    _ = write!(text, " {} ", node.flags);
    match node.primary {
        Some(primary) => _ = write!(text, "{primary}"),
        None => text.push('-'),
    }
    let primary = node.primary.filter(|_| node.is_replica()).and_then(|id| stored.nodes.get(&id));
    let epoch = primary.map_or(node.config_epoch, |primary| primary.config_epoch);
    let is_up = node.links.is_connected || node.flags.has(NodeFlags::MYSELF);
    let link = if is_up { "connected" } else { "disconnected" };
    _ = write!(text, " {} {} {epoch} {link}", ping_sent_unix_ms(node, stored), node.contact.pong_unix_ms);
    for (first, last) in node.slots.ranges() {
        _ = if first == last { write!(text, " {first}") } else { write!(text, " {first}-{last}") };
    }
    if node.flags.has(NodeFlags::MYSELF) {
        write_moves(text, stored);
    }
}

/// Appends the names with values of a line of nodes.conf. Addresses for clients are not written: Redis refuses a file with a name
/// that it does not know, and a node's next PING brings them.
fn write_names(text: &mut String, node: &Node, has_tls: bool) {
    let Address { port, tls_port, hostname, human_name, .. } = &node.address;
    if word(hostname).is_empty() {
        text.push(',');
    }
    _ = if has_tls { write!(text, ",tcp-port={port}") } else { write!(text, ",tls-port={tls_port}") };
    if !word(human_name).is_empty() {
        _ = write!(text, ",nodename={}", word(human_name));
    }
    _ = write!(text, ",shard-id={}", node.shard);
}

/// Appends the slots on the move. If a slot is said to leave and to come, it leaves, as in Redis.
fn write_moves(text: &mut String, stored: &Stored<'_>) {
    let (migrating, importing) = (&stored.slots.migrating, &stored.slots.importing);
    let comes =
        importing.iter().filter(|(slot, _)| !migrating.contains_key(*slot)).map(|(slot, node)| (slot, '<', node));
    let leaves = migrating.iter().map(|(slot, node)| (slot, '>', node));
    let mut moves: Vec<(&Slot, char, &NodeId)> = leaves.chain(comes).collect();
    moves.sort_unstable();
    for (slot, direction, node) in moves {
        _ = write!(text, " [{slot}-{direction}-{node}]");
    }
}

fn port(address: &Address, has_tls: bool, form: Form) -> u16 {
    let wants_plain = form == Form::Reply { is_plain: true } && address.port != 0;
    if has_tls && !wants_plain { address.tls_port } else { address.port }
}

/// Returns when the PING in flight was sent, in milliseconds since 1970. 0 if none is in flight.
fn ping_sent_unix_ms(node: &Node, stored: &Stored<'_>) -> u64 {
    match node.contact.ping_sent_ms {
        0 => 0,
        sent_ms => stored.now.unix_ms.saturating_sub(stored.now.ms.saturating_sub(sent_ms)),
    }
}

/// Returns a text of a peer if it can stand in a line: a space or a comma in it would change the meaning of the line.
fn word(text: &str) -> &str {
    if text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',') { text } else { "" }
}
