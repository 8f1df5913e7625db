//! A node as a line of CLUSTER NODES describes it, and its text as redis-cli prints it. Pure: bytes of a server come in as text,
//! and a line that cannot be read is `None`.

use std::fmt;

use super::slots::{SLOTS, SlotSet};

/// The distance between a node's port and the port of its bus, unless the node names another.
pub const BUS_DISTANCE: u16 = 10_000;

/// The address of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAddress {
    /// Name or address; empty if the cluster does not know it.
    pub host: String,
    /// The port for clients; 0 if the cluster does not know it.
    pub port: u16,
    /// The port of the bus, if the text names it.
    pub bus: Option<u16>,
}

impl NodeAddress {
    /// Reads `host:port`, with `@bus-port` and a hostname behind it or not.
    pub fn read(text: &str) -> Option<Self> {
        let (place, rest) = text.rsplit_once('@').unwrap_or((text, ""));
        let (host, port) = place.rsplit_once(':')?;
        let bus = rest.split(',').next().and_then(|bus| bus.parse().ok());
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Some(Self { host: host.to_owned(), port: port.parse().unwrap_or(0), bus })
    }

    /// Reads the words behind a command: `host:port` in one word, or the two in two words.
    pub fn of_words(words: &[String]) -> Option<Self> {
        let address = match words {
            [] => None,
            [one] => Self::read(one),
            [host, port, ..] => Some(Self { host: host.clone(), port: port.parse().unwrap_or(0), bus: None }),
        };
        address.filter(|address| address.port != 0)
    }

    /// Returns the port of the bus if CLUSTER MEET has to name it.
    pub fn unusual_bus(&self) -> Option<u16> {
        self.bus.filter(|bus| *bus != 0 && Some(*bus) != self.port.checked_add(BUS_DISTANCE))
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// A slot that a node sends to another one or receives from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSlot {
    /// The slot.
    pub slot: u16,
    /// The id of the other node.
    pub peer: String,
}

/// A node.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The id: 40 hexadecimal digits.
    pub id: String,
    /// The address.
    pub address: NodeAddress,
    /// The flags, without `myself`.
    pub flags: Vec<String>,
    /// The id of the primary that the node replicates.
    pub primary: Option<String>,
    /// The configuration epoch.
    pub epoch: u64,
    /// The slots that the node serves.
    pub slots: SlotSet,
    /// The slots that leave the node.
    pub migrating: Vec<OpenSlot>,
    /// The slots that come to the node.
    pub importing: Vec<OpenSlot>,
}

/// A line of CLUSTER NODES.
#[derive(Clone, Debug)]
pub struct Line {
    /// The node.
    pub node: Node,
    /// True if the line is about the node that has printed it.
    pub is_own: bool,
    /// True if the node that has printed the line has a connection to this one.
    pub is_connected: bool,
    /// The address as it is printed.
    pub address: String,
}

impl Line {
    /// Reads a line.
    pub fn read(line: &str) -> Option<Self> {
        let mut words = line.trim_end().split(' ');
        let (id, place, flags, primary) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let (_ping, _pong, epoch, link) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let mut node = Node {
            id: id.to_owned(),
            address: NodeAddress::read(place)?,
            flags: flags.split(',').filter(|flag| *flag != "myself").map(str::to_owned).collect(),
            epoch: epoch.parse().unwrap_or(0),
            ..Node::default()
        };
        node.primary = node.has_flag("slave").then(|| primary.to_owned());
        words.for_each(|word| node.take_slots(word));
        Some(Self {
            node,
            is_own: flags.split(',').any(|flag| flag == "myself"),
            is_connected: link != "disconnected",
            address: place.to_owned(),
        })
    }

    /// Reads a whole reply; `None` if a line cannot be read.
    pub fn read_all(reply: &str) -> Option<Vec<Self>> {
        reply.lines().filter(|line| !line.is_empty()).map(Self::read).collect()
    }
}

impl Node {
    /// Returns whether the node has this flag.
    pub fn has_flag(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| flag == name)
    }

    /// Returns whether the node replicates another.
    pub fn is_replica(&self) -> bool {
        self.primary.is_some()
    }

    /// Returns the first 8 digits of the id.
    pub fn short_id(&self) -> &str {
        self.id.get(..8).unwrap_or(&self.id)
    }

    /// Takes `7`, `7-9`, `[7->-id]` or `[7-<-id]`; other words are passed over.
    fn take_slots(&mut self, word: &str) {
        let number = |text: &str| text.parse::<u16>().ok().filter(|slot| *slot < SLOTS);
        if let Some(open) = word.strip_prefix('[') {
            let open = open.strip_suffix(']').unwrap_or(open);
            if let Some((slot, peer)) = open.split_once("->-") {
                self.migrating.extend(number(slot).map(|slot| OpenSlot { slot, peer: peer.to_owned() }));
            } else if let Some((slot, peer)) = open.split_once("-<-") {
                self.importing.extend(number(slot).map(|slot| OpenSlot { slot, peer: peer.to_owned() }));
            }
            return;
        }
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        if let (Some(first), Some(last)) = (number(first), number(last)) {
            (first..=last).for_each(|slot| self.slots.insert(slot));
        }
    }

    /// Returns the text of a node in a list, with so many columns before it; `replicas` are those of a primary.
    pub fn describe(&self, indent: usize, replicas: usize) -> String {
        let space = " ".repeat(indent);
        let role = if self.is_replica() { 'S' } else { 'M' };
        let mut text = format!(
            "{space}{role}: {} {}\n{space}   slots:{} ({} slots) {}",
            self.id,
            self.address,
            self.slots,
            self.slots.len(),
            self.flags.join(",")
        );
        match &self.primary {
            Some(primary) => text.push_str(&format!("\n{space}   replicates {primary}")),
            None if replicas > 0 => text.push_str(&format!("\n{space}   {replicas} additional replica(s)")),
            None => {}
        }
        text
    }

    /// Returns the text of a node that shall become a replica.
    pub fn describe_future_replica(&self, primary: &str) -> String {
        format!("S: {} {}\n   replicates {primary}", self.id, self.address)
    }

    /// Returns the node as an object of the file that describes a backup.
    pub fn json(&self, errors: usize) -> String {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let slots = self.slots.to_string().replace('-', ",");
        let mut fields = vec![
            format!("\"name\": {}", text(&self.id)),
            format!("\"host\": {}", text(&self.address.host)),
            format!("\"port\": {}", self.address.port),
            format!("\"replicate\": {}", self.primary.as_deref().map_or("null".to_owned(), text)),
            format!("\"slots\": [{slots}]"),
            format!("\"slots_count\": {}", self.slots.len()),
            format!("\"flags\": {}", text(&self.flags.join(","))),
            format!("\"current_epoch\": {}", self.epoch),
        ];
        if errors > 0 {
            fields.push(format!("\"cluster_errors\": {errors}"));
        }
        for (name, open) in [("migrating", &self.migrating), ("importing", &self.importing)] {
            let pairs: Vec<String> =
                open.iter().map(|open| format!("\"{}\": {}", open.slot, text(&open.peer))).collect();
            if !pairs.is_empty() {
                fields.push(format!("\"{name}\": {{{}}}", pairs.join(",")));
            }
        }
        format!("  {{\n    {}\n  }}", fields.join(",\n    "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIMARY: &str =
        "aa 127.0.0.1:7000@17000,name,shard-id=x myself,master - 0 0 3 connected 0-5 9 [9->-bb] [7-<-cc]";

    #[test]
    fn a_line_of_cluster_nodes_is_read() {
        let line = Line::read(PRIMARY).unwrap();
        let node = &line.node;
        assert!(line.is_own && line.is_connected && !node.is_replica());
        assert_eq!((node.id.as_str(), node.epoch, node.slots.to_string().as_str()), ("aa", 3, "[0-5],[9]"));
        assert_eq!((node.address.to_string().as_str(), node.address.unusual_bus()), ("127.0.0.1:7000", None));
        assert_eq!(node.migrating, [OpenSlot { slot: 9, peer: "bb".to_owned() }]);
        assert_eq!(node.importing, [OpenSlot { slot: 7, peer: "cc".to_owned() }]);
        let replica = Line::read("bb ::1:1@9 slave,fail? aa 0 0 3 disconnected").unwrap();
        assert_eq!((replica.node.address.host.as_str(), replica.node.address.unusual_bus()), ("::1", Some(9)));
        assert_eq!((replica.node.primary.as_deref(), replica.is_connected), (Some("aa"), false));
        for bad in ["", "aa", "aa 127.0.0.1 master - 0 0 3 connected", "aa :0@0 noaddr"] {
            assert!(Line::read(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_node_prints_as_redis_cli_prints_it() {
        let node = Line::read(PRIMARY).unwrap().node;
        assert_eq!(
            node.describe(4, 2),
            "    M: aa 127.0.0.1:7000\n       slots:[0-5],[9] (7 slots) master\n       2 additional replica(s)"
        );
        let json: serde_json::Value = serde_json::from_str(&node.json(2)).unwrap();
        assert_eq!(json["slots"], serde_json::json!([[0, 5], [9]]));
        assert_eq!((&json["migrating"]["9"], &json["replicate"]), (&"bb".into(), &serde_json::Value::Null));
        assert_eq!(json["cluster_errors"], 2);
    }

    #[test]
    fn addresses_come_in_one_word_or_two() {
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            NodeAddress::of_words(&words).map(|address| address.to_string())
        };
        assert_eq!(read(&["h:1"]).as_deref(), Some("h:1"));
        assert_eq!(read(&["h", "1"]).as_deref(), Some("h:1"));
        assert_eq!(read(&["[::1]:1@2"]).as_deref(), Some("::1:1"));
        for bad in [&[][..], &["h"], &["h:x"], &["h:99999"], &["h", "x"]] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }
}
