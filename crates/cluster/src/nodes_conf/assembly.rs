//! The nodes of a file, put together and judged against each other.

use std::collections::{BTreeMap, BTreeSet};

use super::line::{self, NodeLine, number};
use super::repair::{Repair, RepairLog, Unreadable};
use super::{Contents, NODES_MAX, TEXT_MAX};
use crate::epochs::Epochs;
use crate::host::Time;
use crate::id::NodeId;
use crate::node::{Node, NodeFlags};
use crate::slot_table::SlotTable;
use crate::slots::SlotSet;

/// Reads a nodes.conf. `has_tls` says whether the bus uses TLS, so that the port of a line is the one with TLS. Returns None for
/// an empty file: the node starts for the first time.
///
/// # Errors
/// The file does not say which node this one is, or it is too long.
pub fn read(text: &[u8], has_tls: bool, now: Time) -> Result<Option<(Contents, Vec<Repair>)>, Unreadable> {
    if text.is_empty() {
        return Ok(None);
    }
    if text.len() > TEXT_MAX {
        return Err(Unreadable::TooLong);
    }
    let mut repairs = RepairLog::default();
    let file = File::parse(&String::from_utf8_lossy(text), has_tls, &mut repairs);
    let contents = file.into_contents(now, &mut repairs).ok_or(Unreadable::NoMyself)?;
    Ok(Some((contents, repairs.into_repairs())))
}

/// The lines of a file.
#[derive(Default)]
struct File {
    /// The lines of nodes, at most one of each.
    lines: Vec<NodeLine>,
    /// The id of this node.
    me: Option<NodeId>,
    current_epoch: Option<u64>,
    last_vote_epoch: Option<u64>,
}

impl File {
    fn parse(text: &str, has_tls: bool, repairs: &mut RepairLog) -> Self {
        let mut file = Self::default();
        let mut places = BTreeMap::new();
        let is_cut = !text.ends_with('\n');
        let mut dropped = 0;
        let mut lines = text.lines().enumerate().peekable();
        while let Some((at, line)) = lines.next() {
            let mut words: Vec<&str> = line.split_ascii_whitespace().collect();
            let has_lost_words = is_cut && lines.peek().is_none() && drop_cut_word(&mut words);
            if has_lost_words {
                repairs.note(Repair::CutEnd);
            }
            match words.first() {
                None => {}
                Some(word) if word.eq_ignore_ascii_case("vars") => file.read_variables(&words, repairs),
                Some(_) if file.lines.len() >= NODES_MAX => dropped += 1,
                Some(_) => match line::parse(&words, has_tls, repairs) {
                    // At epoch 0 the other nodes notice that this one has lost slots, and tell it which.
                    Some(line) if has_lost_words => {
                        file.add(NodeLine { config_epoch: 0, ..line }, &mut places, repairs);
                    }
                    Some(line) => file.add(line, &mut places, repairs),
                    None => repairs.note(Repair::Line { line: at + 1 }),
                },
            }
        }
        if dropped > 0 {
            repairs.note(Repair::Nodes { dropped });
        }
        file
    }

    /// Takes the first line of a node: where an old file was overwritten in part, the lines in front are the newer ones.
    fn add(&mut self, mut line: NodeLine, places: &mut BTreeMap<NodeId, usize>, repairs: &mut RepairLog) {
        if let Some(place) = places.get(&line.id) {
            repairs.note(Repair::SecondLine { node: line.id });
            // The second line may be the one that says which node this is.
            if !(line.flags.has(NodeFlags::MYSELF) && self.me.is_none()) {
                return;
            }
            self.me = Some(line.id);
            if let Some(first) = self.lines.get_mut(*place) {
                first.flags.set(NodeFlags::MYSELF, true);
                first.flags = role(first);
            }
            return;
        }
        if line.flags.has(NodeFlags::MYSELF) {
            if self.me.is_some() {
                repairs.note(Repair::SecondMyself { node: line.id });
                line.flags.set(NodeFlags::MYSELF, false);
            }
            self.me = self.me.or(Some(line.id));
        } else if line.flags.has(NodeFlags::HANDSHAKE) {
            // The id of such a node is one of chance.
            return repairs.note(Repair::Field { node: line.id, field: "node in handshake" });
        }
        line.flags = role(&line);
        places.insert(line.id, self.lines.len());
        self.lines.push(line);
    }

    fn read_variables(&mut self, words: &[&str], repairs: &mut RepairLog) {
        for pair in words.get(1..).unwrap_or_default().chunks(2) {
            let (name, value) = (pair.first().copied().unwrap_or_default(), pair.get(1).copied().unwrap_or_default());
            let variable = match name.to_ascii_lowercase().as_str() {
                "currentepoch" => &mut self.current_epoch,
                "lastvoteepoch" => &mut self.last_vote_epoch,
                _ => {
                    repairs.note(Repair::Variable);
                    continue;
                }
            };
            // Epochs never go back, so the greatest of several is the newest.
            *variable = (*variable).max(number(value));
        }
    }

    fn into_contents(mut self, now: Time, repairs: &mut RepairLog) -> Option<Contents> {
        let me = self.me?;
        let slots = self.judge_slots(me, repairs);
        let greatest = self.lines.iter().map(|line| line.config_epoch).max().unwrap_or_default();
        let epochs = self.epochs(greatest, repairs);
        let mut nodes: BTreeMap<NodeId, Node> = self.lines.into_iter().map(|line| (line.id, node(line, now))).collect();
        judge_primaries(&mut nodes, me, now, repairs);
        judge_shards(&mut nodes, repairs);
        Some(Contents { me, nodes, slots, epochs })
    }

    /// Returns the owners of the slots. If two nodes claim a slot, the one with the greater configuration epoch has it, as on
    /// the bus.
    fn judge_slots(&mut self, me: NodeId, repairs: &mut RepairLog) -> SlotTable {
        let mut table = SlotTable::default();
        let mut taken = SlotSet::default();
        let mut order: Vec<usize> = (0..self.lines.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(self.lines.get(*at).map(|line| line.config_epoch)));
        for at in order {
            let Some(line) = self.lines.get_mut(at).filter(|line| !line.slots.is_empty()) else { continue };
            if line.flags.has(NodeFlags::REPLICA) {
                repairs.note(Repair::SlotsOfReplica { node: line.id });
                line.slots = SlotSet::default();
                continue;
            }
            let twice = line.slots.remove_all(&taken);
            if !twice.is_empty() {
                repairs.note(Repair::ClaimedTwice { node: line.id, slots: twice.len() });
            }
            line.slots.iter().for_each(|slot| table.set_owner(slot, Some(line.id)));
            taken.insert_all(&line.slots);
        }
        let known: BTreeSet<NodeId> = self.lines.iter().map(|line| line.id).collect();
        for line in &mut self.lines {
            for moved in std::mem::take(&mut line.moves) {
                if line.id != me || moved.node == me || !known.contains(&moved.node) {
                    repairs.note(Repair::Move { slot: moved.slot, node: moved.node });
                } else if moved.leaves {
                    table.migrating.insert(moved.slot, moved.node);
                } else {
                    table.importing.insert(moved.slot, moved.node);
                }
            }
        }
        table
    }

    /// Returns the epochs. If the last vote is lost, the node has perhaps voted in the current epoch, and must not do so again.
    fn epochs(&self, greatest: u64, repairs: &mut RepairLog) -> Epochs {
        let known = self.current_epoch.unwrap_or_default();
        let current = known.max(greatest).max(self.last_vote_epoch.unwrap_or_default());
        if self.current_epoch != Some(current) {
            repairs.note(Repair::CurrentEpoch { raised_to: current });
        }
        if self.last_vote_epoch.is_none() {
            repairs.note(Repair::LastVote);
        }
        Epochs { current, last_vote: self.last_vote_epoch.unwrap_or(current) }
    }
}

/// Drops the last word of a line that may be cut inside it. The flags stay: those of their names that are known are whole.
/// Returns whether a word was dropped.
fn drop_cut_word(words: &mut Vec<&str>) -> bool {
    let ends_with_flags = words.len() == 3 && !words.first().is_some_and(|word| word.eq_ignore_ascii_case("vars"));
    !ends_with_flags && words.pop().is_some()
}

/// Returns the flags of a line with at most one role, and with one for this node: its primary decides.
fn role(line: &NodeLine) -> NodeFlags {
    let both = NodeFlags::PRIMARY.with(NodeFlags::REPLICA);
    let is_contradictory = line.flags.has(both);
    let is_missing = line.flags.has(NodeFlags::MYSELF) && !line.flags.has_any(both);
    match line.primary {
        Some(_) if is_contradictory || is_missing => line.flags.without(both).with(NodeFlags::REPLICA),
        None if is_contradictory || is_missing => line.flags.without(both).with(NodeFlags::PRIMARY),
        _ => line.flags,
    }
}

fn node(line: NodeLine, now: Time) -> Node {
    let mut node = Node::new(line.id, line.flags.without(NodeFlags::HANDSHAKE), now.ms);
    let is_replica = node.is_replica();
    node.shard = line.shard.unwrap_or(line.id);
    if line.address.ip.is_empty() && line.address.bus_port == 0 && !line.flags.has(NodeFlags::MYSELF) {
        node.flags.set(NodeFlags::NO_ADDRESS, true);
    }
    node.address = line.address;
    node.primary = line.primary.filter(|_| is_replica);
    // The line of a replica has the epoch of its primary.
    node.config_epoch = if is_replica && node.primary.is_some() { 0 } else { line.config_epoch };
    node.slots = line.slots;
    node.contact.ping_sent_ms = if line.has_ping { now.ms } else { 0 };
    if line.has_pong {
        node.contact.pong_ms = now.ms;
        node.contact.pong_unix_ms = now.unix_ms;
    }
    if node.has_failed() {
        node.contact.fail_ms = now.ms;
    }
    node
}

/// Drops primaries without a line, except for this node's own one: it is added without an address, which gossip brings.
fn judge_primaries(nodes: &mut BTreeMap<NodeId, Node>, me: NodeId, now: Time, repairs: &mut RepairLog) {
    let is_unknown = |node: &Node| node.primary.filter(|primary| *primary == node.id || !nodes.contains_key(primary));
    let unknown: Vec<(NodeId, NodeId)> =
        nodes.values().filter_map(|node| is_unknown(node).map(|primary| (node.id, primary))).collect();
    for (replica, primary) in unknown {
        repairs.note(Repair::Primary { node: replica });
        if replica == me && primary != me {
            let flags = NodeFlags::NO_ADDRESS.with(NodeFlags::PRIMARY);
            nodes.insert(primary, Node::new(primary, flags, now.ms));
        } else if let Some(node) = nodes.get_mut(&replica) {
            node.primary = None;
        }
    }
}

/// Gives each replica the shard of its primary.
fn judge_shards(nodes: &mut BTreeMap<NodeId, Node>, repairs: &mut RepairLog) {
    let shards: BTreeMap<NodeId, NodeId> = nodes.values().map(|node| (node.id, node.shard)).collect();
    for node in nodes.values_mut() {
        let Some(shard) = node.primary.and_then(|primary| shards.get(&primary)) else { continue };
        // A replica without a shard of its own was given its id.
        if node.shard != *shard && node.shard != node.id {
            repairs.note(Repair::Shard { node: node.id });
        }
        node.shard = *shard;
    }
}
