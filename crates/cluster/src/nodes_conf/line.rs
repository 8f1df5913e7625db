//! One line of nodes.conf that describes a node.

use super::repair::{Repair, RepairLog};
use crate::id::NodeId;
use crate::node::{Address, NodeFlags};
use crate::slots::{SLOTS, Slot, SlotSet};

/// The most bytes of an address or a name. Redis has 46 for an IP address and 256 for a host name.
const WORD_LEN_MAX: usize = 256;

/// A node as its line describes it.
#[derive(Debug, Clone)]
pub struct NodeLine {
    /// The id.
    pub id: NodeId,
    /// The address.
    pub address: Address,
    /// The shard, if the line names it.
    pub shard: Option<NodeId>,
    /// The flags.
    pub flags: NodeFlags,
    /// The primary of a replica.
    pub primary: Option<NodeId>,
    /// Whether a PING was in flight.
    pub has_ping: bool,
    /// Whether a PONG had come.
    pub has_pong: bool,
    /// The configuration epoch.
    pub config_epoch: u64,
    /// The slots.
    pub slots: SlotSet,
    /// The slots on the move.
    pub moves: Vec<Move>,
}

/// A slot on the move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// The slot.
    pub slot: Slot,
    /// The other node.
    pub node: NodeId,
    /// Whether the slot leaves this node.
    pub leaves: bool,
}

/// Reads the words of a line. None if they describe no node: a line that ends before its slots is read only if it is that of
/// this node, because its id is the one thing that cannot be learned from other nodes.
pub fn parse(words: &[&str], has_tls: bool, repairs: &mut RepairLog) -> Option<NodeLine> {
    let id = NodeId::parse(words.first()?.as_bytes())?;
    let mut parser = Parser { id, repairs };
    let flags = parser.flags(words.get(2)?);
    if words.len() < 8 {
        if !flags.has(NodeFlags::MYSELF) {
            return None;
        }
        parser.broken::<()>("end");
    }
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    let (address, shard) = parser.address(word(1), has_tls);
    let primary = parser.primary(word(3));
    let config_epoch = match word(6) {
        "" => 0,
        text => number(text).unwrap_or_else(|| parser.broken("configuration epoch")),
    };
    let mut line = NodeLine {
        id,
        address,
        shard,
        flags,
        primary,
        has_ping: !matches!(word(4), "" | "0"),
        has_pong: !matches!(word(5), "" | "0"),
        config_epoch,
        slots: SlotSet::default(),
        moves: Vec::new(),
    };
    for word in words.iter().skip(8) {
        if parser.slots(word, &mut line).is_none() {
            parser.broken::<()>("slots");
        }
    }
    Some(line)
}

/// Returns a number of decimal digits alone.
pub fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The reader of one line.
struct Parser<'a> {
    id: NodeId,
    repairs: &'a mut RepairLog,
}

impl Parser<'_> {
    /// Notes that a part cannot be read, and returns the value of a part that is not there.
    fn broken<T: Default>(&mut self, field: &'static str) -> T {
        self.repairs.note(Repair::Field { node: self.id, field });
        T::default()
    }

    fn flags(&mut self, word: &str) -> NodeFlags {
        let mut flags = NodeFlags::default();
        for name in word.split(',') {
            match NodeFlags::of_name(name) {
                Some(flag) => flags = flags.with(flag),
                None => self.broken("unknown flag"),
            }
        }
        flags
    }

    /// Reads `ip:port@bus_port,host name,name=value…`. Returns the shard, too.
    fn address(&mut self, word: &str, has_tls: bool) -> (Address, Option<NodeId>) {
        let mut address = Address::default();
        let mut parts = word.split(',');
        let socket = parts.next().unwrap_or_default();
        if self.socket(socket, has_tls, &mut address).is_none() && !socket.is_empty() {
            self.broken::<()>("address");
        }
        address.hostname = self.name(parts.next().unwrap_or_default(), "host name");
        let mut shard = None;
        for part in parts {
            let Some((name, value)) = part.split_once('=') else {
                self.broken::<()>("name without a value");
                continue;
            };
            match name {
                "shard-id" => {
                    shard = NodeId::parse(value.as_bytes());
                    if shard.is_none() {
                        self.broken::<()>("shard");
                    }
                }
                "nodename" => address.human_name = self.name(value, "name"),
                "client-ipv4" => address.client_ipv4 = self.name(value, "client address"),
                "client-ipv6" => address.client_ipv6 = self.name(value, "client address"),
                "tcp-port" if has_tls => address.port = number(value).unwrap_or_else(|| self.broken("port")),
                "tls-port" if !has_tls => address.tls_port = number(value).unwrap_or_else(|| self.broken("port")),
                // Valkey and Redis add names with each version. They are facts of others, which gossip brings again.
                _ => {}
            }
        }
        (address, shard)
    }

    /// Reads `ip:port@bus_port`. The IP address may have colons. The bus port is missing in old files.
    fn socket(&mut self, text: &str, has_tls: bool, address: &mut Address) -> Option<()> {
        let (ip, ports) = text.rsplit_once(':')?;
        let (port, bus_port) = match ports.split_once('@') {
            Some((port, bus_port)) => (number::<u16>(port)?, number::<u16>(bus_port)?),
            None => number::<u16>(ports).map(|port| (port, port.saturating_add(10_000)))?,
        };
        address.ip = self.name(ip, "IP address");
        address.bus_port = bus_port;
        *(if has_tls { &mut address.tls_port } else { &mut address.port }) = port;
        Some(())
    }

    fn name(&mut self, text: &str, field: &'static str) -> String {
        if text.len() <= WORD_LEN_MAX && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            text.to_owned()
        } else {
            self.broken(field)
        }
    }

    fn primary(&mut self, word: &str) -> Option<NodeId> {
        match word {
            "" | "-" => None,
            digits => NodeId::parse(digits.as_bytes()).or_else(|| self.broken("primary")),
        }
    }

    /// Reads a slot, a range of slots or a slot on the move. None if it is none of them.
    fn slots(&mut self, word: &str, line: &mut NodeLine) -> Option<()> {
        let slot = |text: &str| number::<Slot>(text).filter(|slot| *slot < SLOTS);
        if let Some(inner) = word.strip_prefix('[') {
            let inner = inner.strip_suffix(']')?;
            let (number, node, leaves) = match (inner.split_once("->-"), inner.split_once("-<-")) {
                (Some((number, node)), _) => (number, node, true),
                (None, Some((number, node))) => (number, node, false),
                (None, None) => return None,
            };
            let node = NodeId::parse(node.as_bytes())?;
            line.moves.push(Move { slot: slot(number)?, node, leaves });
            return Some(());
        }
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last) = (slot(first)?, slot(last)?);
        line.slots.insert_range(first, last);
        (first <= last).then_some(())
    }
}
