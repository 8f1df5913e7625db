//! A cluster of real servers on loopback: primaries with or without replicas, each in its own process.
//!
//! It is made with the servers' own commands, and it is there when all nodes agree that it is: a condition, never a pause.

use std::path::Path;
use std::time::{Duration, Instant};

use sleeve_wire::frame::{Frame, decode};

use crate::network::Network;
use crate::server::free_port;
use crate::{Connection, Kind, Server, Settings};

/// The number of slots of a cluster.
pub const SLOTS: u16 = 16_384;

/// The timeout of every step of a cluster. Only a broken cluster gets near it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Servers that share the keys: the primaries first, in the order of their slots, then the replicas of each in turn.
#[derive(Debug)]
pub struct Cluster {
    /// The nodes.
    pub servers: Vec<Server>,
    /// The number of them that own slots at first.
    pub primaries: usize,
}

impl Cluster {
    /// Starts a cluster in which each of so many primaries has so many replicas, with further words on each command line.
    ///
    /// # Panics
    /// If a server does not start, or the servers do not form a cluster.
    pub fn start(kind: Kind, primaries: usize, replicas: usize, arguments: &[&str]) -> Self {
        Self::start_by(primaries, replicas, arguments, |_, words| Server::start_with(kind, words))
    }

    /// Starts a cluster with each server on a node of its own of a test's network.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    pub fn start_at(network: &Network, kind: Kind, primaries: usize, replicas: usize, arguments: &[&str]) -> Self {
        let start = |number, words: &[&str]| Server::start_at(network.place(number), kind, words);
        Self::start_by(primaries, replicas, arguments, start)
    }

    /// Starts a cluster whose servers run a given program.
    ///
    /// # Errors
    /// As [`Server::launch`].
    ///
    /// # Panics
    /// If the servers do not form a cluster.
    pub fn launch(
        kind: Kind,
        binary: &Path,
        primaries: usize,
        replicas: usize,
        arguments: &[&str],
    ) -> Result<Self, String> {
        Self::try_start_by(primaries, replicas, arguments, |_, words| {
            let arguments = words.iter().map(|&word| word.to_owned()).collect();
            Server::launch(kind, binary, Settings { arguments, password: None })
        })
    }

    /// Starts a cluster with a node of each of these kinds in turn: the primaries first, then the replicas of each.
    ///
    /// # Panics
    /// As [`Cluster::start`], or if the primaries have different numbers of replicas.
    pub fn start_mixed(kinds: &[Kind], primaries: usize, arguments: &[&str]) -> Self {
        assert_eq!(kinds.len() % primaries, 0, "each primary has as many replicas as the others");
        let start = |number: usize, words: &[&str]| Server::start_with(kinds[number], words);
        Self::start_by(primaries, kinds.len() / primaries - 1, arguments, start)
    }

    /// Starts a cluster of such nodes that each have a port for TLS as well; `arguments` name the certificates.
    ///
    /// # Panics
    /// As [`Cluster::start_mixed`].
    pub fn start_with_tls(kinds: &[Kind], primaries: usize, arguments: &[&str]) -> Self {
        let start = |number: usize, words: &[&str]| {
            let port = free_port().to_string();
            Server::start_with(kinds[number], &[words, &["--tls-port", &port]].concat())
        };
        Self::start_by(primaries, kinds.len() / primaries - 1, arguments, start)
    }

    fn start_by(
        primaries: usize,
        replicas: usize,
        arguments: &[&str],
        start: impl Fn(usize, &[&str]) -> Server,
    ) -> Self {
        Self::try_start_by(primaries, replicas, arguments, |number, words| Ok(start(number, words)))
            .unwrap_or_else(|reason| panic!("{reason}"))
    }

    fn try_start_by(
        primaries: usize,
        replicas: usize,
        arguments: &[&str],
        start: impl Fn(usize, &[&str]) -> Result<Server, String>,
    ) -> Result<Self, String> {
        let start = |number| start_node(arguments, |words| start(number, words));
        let servers = (0..primaries * (1 + replicas)).map(start).collect::<Result<Vec<Server>, String>>()?;
        let cluster = Self { servers, primaries };
        cluster.introduce();
        for (number, node) in cluster.servers.iter().enumerate().take(primaries) {
            let slot = |number: usize| number * usize::from(SLOTS) / primaries;
            let (first, last) = (slot(number).to_string(), (slot(number + 1) - 1).to_string());
            assert_eq!(ask(node, &["CLUSTER", "ADDSLOTSRANGE", &first, &last]), "+OK\r\n");
        }
        for (number, node) in cluster.servers.iter().enumerate().skip(primaries) {
            let id = cluster.id((number - primaries) / replicas.max(1));
            assert_eq!(ask(node, &["CLUSTER", "REPLICATE", &id]), "+OK\r\n");
        }
        cluster.wait_until_whole();
        for node in cluster.servers.iter().skip(primaries) {
            until("a replica has its primary's data", || info(node, "replication").contains("master_link_status:up"));
        }
        Ok(cluster)
    }

    /// Introduces all nodes to each other.
    fn introduce(&self) {
        let (first, others) = self.servers.split_first().expect("a cluster has nodes");
        for (number, node) in self.servers.iter().enumerate() {
            let epoch = (number + 1).to_string();
            assert_eq!(ask(node, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch]), "+OK\r\n");
        }
        others.iter().for_each(|node| meet(first, node));
        self.wait_until_acquainted();
    }

    fn wait_until_acquainted(&self) {
        for node in &self.servers {
            until("all nodes know each other", || {
                let nodes = text(&ask(node, &["CLUSTER", "NODES"])).concat();
                nodes.lines().filter(|line| !line.contains("handshake")).count() == self.servers.len()
            });
        }
    }

    /// Replaces a replica by a new node of another kind: the old one ends and is forgotten, and the new one follows the
    /// primary of its shard and gets its number.
    ///
    /// # Panics
    /// If a node refuses.
    pub fn replace_replica(&mut self, replica: usize, primary: usize, kind: Kind, arguments: &[&str]) {
        let old = self.id(replica);
        self.servers[replica].kill();
        self.servers[replica] = start_node(arguments, |words| Server::start_with(kind, words));
        for (_, node) in self.servers.iter().enumerate().filter(|(number, _)| *number != replica) {
            assert_eq!(ask(node, &["CLUSTER", "FORGET", &old]), "+OK\r\n");
        }
        meet(&self.servers[primary], &self.servers[replica]);
        self.wait_until_acquainted();
        let id = self.id(primary);
        assert_eq!(ask(&self.servers[replica], &["CLUSTER", "REPLICATE", &id]), "+OK\r\n");
        self.wait_until_follows(replica, primary);
        self.wait_until_whole();
    }

    /// Waits until a node is a replica that has the data of this primary.
    ///
    /// # Panics
    /// If that does not happen in time.
    pub fn wait_until_follows(&self, replica: usize, primary: usize) {
        let describe = || format!("{}\n{}", state_of(&self.servers[replica]), state_of(&self.servers[primary]));
        until_or("a node follows its primary", describe, || self.follows(replica, primary));
    }

    /// Returns whether a node is a replica of another one and its link is up.
    ///
    /// # Panics
    /// If the primary does not answer.
    pub fn follows(&self, replica: usize, primary: usize) -> bool {
        let port_of = |option| text(&ask(&self.servers[primary], &["CONFIG", "GET", option])).pop();
        let is_port =
            |port: &str| ["port", "tls-port"].into_iter().any(|option| port_of(option).as_deref() == Some(port));
        let says = try_ask(&self.servers[replica], &["INFO", "replication"]).unwrap_or_default();
        let port = says.lines().find_map(|line| line.strip_prefix("master_port:"));
        says.contains("role:slave") && says.contains("master_link_status:up") && port.is_some_and(is_port)
    }

    /// Waits until every running node finds all slots served and all other nodes healthy.
    ///
    /// # Panics
    /// If that does not happen in time.
    pub fn wait_until_whole(&self) {
        for node in &self.servers {
            until("the cluster is whole", || {
                let Some(info) = try_ask(node, &["CLUSTER", "INFO"]) else { return true };
                let nodes = try_ask(node, &["CLUSTER", "NODES"]).unwrap_or_default();
                let served = format!("cluster_slots_ok:{SLOTS}");
                info.contains("cluster_state:ok") && info.contains(&served) && nodes.matches("master").count() >= 1
            });
        }
    }

    /// Waits until all running nodes agree on the owners of slots and their epochs. A node that is given a slot takes an
    /// epoch above all that it knows of. If a higher epoch of the slot's last owner is still on its way, that owner may get
    /// the slot back, and each then says for ever that the other has it.
    ///
    /// # Panics
    /// If that does not happen in time.
    pub fn wait_until_agreed(&self) {
        let view = |node: &Server| {
            let nodes = text(&try_ask(node, &["CLUSTER", "NODES"])?).concat();
            let owners = nodes.lines().map(|line| line.split(' ').collect::<Vec<_>>());
            let owners = owners.filter(|words| words[2].contains("master") && !words[2].contains("fail"));
            // The eighth word is the link's state. Slots stand behind it, and those that are being moved are in brackets.
            let told = |words: Vec<&str>| {
                let slots = words.iter().skip(8).filter(|slot| !slot.starts_with('['));
                [words[0], words[6]].into_iter().chain(slots.copied()).collect::<Vec<_>>().join(" ")
            };
            let mut told: Vec<String> = owners.map(told).collect();
            told.sort_unstable();
            Some(told)
        };
        until("all nodes know who owns what", || {
            let views: Vec<_> = self.servers.iter().filter_map(view).collect();
            views.windows(2).all(|pair| pair[0] == pair[1])
        });
    }

    /// Returns the name by which the nodes know a node.
    pub fn id(&self, number: usize) -> String {
        text(&ask(&self.servers[number], &["CLUSTER", "MYID"])).concat()
    }

    /// Returns the addresses of all nodes as a URL of the client.
    pub fn url(&self) -> String {
        let places: Vec<String> = self.servers.iter().map(|server| server.address().to_string()).collect();
        format!("redis+cluster://{}", places.join(","))
    }

    /// Returns the slot of a key, as the nodes compute it.
    pub fn slot_of(&self, key: &str) -> u16 {
        let answer = ask(&self.servers[0], &["CLUSTER", "KEYSLOT", key]);
        answer.trim_end().trim_start_matches(':').parse().expect("a slot")
    }

    /// Moves a slot from one primary to another as a resharding does, key by key, with a word in between.
    ///
    /// # Panics
    /// When a node refuses.
    pub fn move_slot(&self, slot: u16, from: usize, to: usize, mut between: impl FnMut()) {
        self.wait_until_agreed();
        let slot = slot.to_string();
        let [from_id, to_id] = [from, to].map(|number| self.id(number));
        let [from, to] = [from, to].map(|number| &self.servers[number]);
        let set_slot = |node: &Server, words: [&str; 2]| {
            let answer = ask(node, &[&["CLUSTER", "SETSLOT", &slot][..], &words].concat());
            assert_eq!(answer, "+OK\r\n", "{words:?}\n{}", state_of(node));
        };
        set_slot(to, ["IMPORTING", &from_id]);
        set_slot(from, ["MIGRATING", &to_id]);
        loop {
            let keys = text(&ask(from, &["CLUSTER", "GETKEYSINSLOT", &slot, "1"]));
            let Some(key) = keys.first() else { break };
            let port = to.port().to_string();
            let moved = ask(from, &["MIGRATE", &to.host().to_string(), &port, key, "0", "10000"]);
            assert!(moved == "+OK\r\n" || moved == "+NOKEY\r\n", "{moved}");
            between();
        }
        for node in [to, from] {
            set_slot(node, ["NODE", &to_id]);
        }
    }

    /// Returns the number of errors with this code that a node has returned.
    pub fn errors(&self, number: usize, code: &str) -> u64 {
        let errors = info(&self.servers[number], "errorstats");
        let line = errors.lines().find_map(|line| line.strip_prefix(&format!("errorstat_{code}:count=")));
        line.map_or(0, |count| count.trim().parse().expect("a count"))
    }
}

/// Starts a node that knows no other yet.
fn start_node<S>(arguments: &[&str], start: impl FnOnce(&[&str]) -> S) -> S {
    let bus = free_port().to_string();
    let own = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", "1000"];
    start(&[&own, arguments].concat())
}

/// Introduces a node to another one, which introduces it to all that it knows.
fn meet(known: &Server, node: &Server) {
    let bus = text(&ask(node, &["CONFIG", "GET", "cluster-port"])).pop().expect("its bus port");
    let port = node.port().to_string();
    assert_eq!(ask(known, &["CLUSTER", "MEET", &node.host().to_string(), &port, &bus]), "+OK\r\n");
}

fn info(node: &Server, section: &str) -> String {
    text(&ask(node, &["INFO", section])).concat()
}

fn ask(node: &Server, words: &[&str]) -> String {
    try_ask(node, words).unwrap_or_else(|| panic!("{} does not answer {words:?}: {}", node.port(), node.log()))
}

/// Returns the answer of a node that runs. Bytes that are no ASCII are shown as `?`, so that lengths in the answer stay true: a
/// Valkey 9 shows the secret of a Redis 8 beside it as the name of an address, with the bytes behind it.
fn try_ask(node: &Server, words: &[&str]) -> Option<String> {
    let mut connection: Connection = node.try_connect().ok()?;
    let answer = connection.command(words).ok()?;
    Some(answer.into_iter().map(|byte| if byte.is_ascii() { char::from(byte) } else { '?' }).collect())
}

/// Returns the strings of an answer.
fn text(answer: &str) -> Vec<String> {
    let shown = |frame: Frame<'_>| match frame {
        Frame::Bulk(text) | Frame::Simple(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("no string: {other:?}"),
    };
    match decode(answer.as_bytes()).expect("an answer").0 {
        Frame::Array(items) => items.map(|item| shown(item.expect("an element"))).collect(),
        frame => vec![shown(frame)],
    }
}

/// Returns the state of a node and the end of its log, for the message of a failed test.
pub fn state_of(node: &Server) -> String {
    let [replication, nodes] =
        [["INFO", "replication"], ["CLUSTER", "NODES"]].map(|words| try_ask(node, &words).unwrap_or_default());
    format!("{:?} on port {}:\n{replication}\n{nodes}\n{}", node.kind(), node.port(), node.log_tail())
}

fn until(what: &str, is_so: impl FnMut() -> bool) {
    until_or(what, String::new, is_so);
}

/// Waits until something is so. A test that fails there says what `describe` returns.
fn until_or(what: &str, describe: impl Fn() -> String, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}\n{}", describe());
        std::thread::sleep(Duration::from_millis(5));
    }
}
