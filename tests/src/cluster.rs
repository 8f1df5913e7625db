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
        let start = |number| {
            let bus = free_port().to_string();
            let own = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", "1000"];
            start(number, &[&own, arguments].concat())
        };
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
        for node in others {
            let bus = text(&ask(node, &["CONFIG", "GET", "cluster-port"])).pop().expect("its bus port");
            let port = node.port().to_string();
            assert_eq!(ask(first, &["CLUSTER", "MEET", &node.host().to_string(), &port, &bus]), "+OK\r\n");
        }
        for node in &self.servers {
            until("all nodes know each other", || {
                let nodes = text(&ask(node, &["CLUSTER", "NODES"])).concat();
                nodes.lines().filter(|line| !line.contains("handshake")).count() == self.servers.len()
            });
        }
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

    /// Waits until all running primaries agree on the owners of slots and their epochs. A node that is given a slot takes an
    /// epoch above all that it knows of. If a higher epoch of the slot's last owner is still on its way, that owner may get
    /// the slot back, and each then says for ever that the other has it.
    fn wait_until_agreed(&self) {
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
        until("all primaries know who owns what", || {
            let views: Vec<_> = self.servers[..self.primaries].iter().filter_map(view).collect();
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
        assert_eq!(ask(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]), "+OK\r\n");
        assert_eq!(ask(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]), "+OK\r\n");
        loop {
            let keys = text(&ask(from, &["CLUSTER", "GETKEYSINSLOT", &slot, "1"]));
            let Some(key) = keys.first() else { break };
            let port = to.port().to_string();
            let moved = ask(from, &["MIGRATE", &to.host().to_string(), &port, key, "0", "10000"]);
            assert!(moved == "+OK\r\n" || moved == "+NOKEY\r\n", "{moved}");
            between();
        }
        for node in [to, from] {
            assert_eq!(ask(node, &["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]), "+OK\r\n");
        }
    }

    /// Returns the number of errors with this code that a node has returned.
    pub fn errors(&self, number: usize, code: &str) -> u64 {
        let errors = info(&self.servers[number], "errorstats");
        let line = errors.lines().find_map(|line| line.strip_prefix(&format!("errorstat_{code}:count=")));
        line.map_or(0, |count| count.trim().parse().expect("a count"))
    }
}

fn info(node: &Server, section: &str) -> String {
    text(&ask(node, &["INFO", section])).concat()
}

fn ask(node: &Server, words: &[&str]) -> String {
    try_ask(node, words).unwrap_or_else(|| panic!("{} does not answer {words:?}: {}", node.port(), node.log()))
}

/// Returns the answer of a node that runs.
fn try_ask(node: &Server, words: &[&str]) -> Option<String> {
    let mut connection: Connection = node.try_connect().ok()?;
    let answer = connection.command(words).ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
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

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
