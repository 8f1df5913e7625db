//! Clusters of any number of nodes that follow a test's scripts.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use sleeve::{Client, Config, Endpoint};

use crate::scripted::{begins, greet, serve_all};

/// The reply of a node to a request: bytes to send back, or `None` to hang up.
pub type Script = Box<dyn Fn(&Nodes, &[String]) -> Option<Vec<u8>> + Send + Sync>;

/// A function that delays a node, by number.
pub type Pause = Arc<dyn Fn(&Nodes, usize) + Send + Sync>;

/// A range of slots, from the first to the last, and the nodes that have them, the owner first.
pub type Range = (u16, u16, Vec<usize>);

/// One node, as the test sees it.
#[derive(Default)]
struct Node {
    port: OnceLock<u16>,
    /// True if the node hangs up on every client that connects.
    is_refusing: AtomicBool,
    greeted: AtomicUsize,
    told: Mutex<Vec<String>>,
}

/// The nodes of a cluster.
pub struct Nodes {
    nodes: Vec<Node>,
    /// The content of the reply to CLUSTER SLOTS.
    pub ranges: Mutex<Vec<Range>>,
    /// The number of times that a client sent CLUSTER SLOTS.
    asked: AtomicUsize,
    /// A function that runs before a PING is answered.
    pub before_ping: Mutex<Option<Pause>>,
}

impl Nodes {
    /// Starts nodes with these scripts. The first has all slots.
    pub fn start(scripts: Vec<Script>) -> Arc<Self> {
        let nodes = scripts.iter().map(|_| Node::default()).collect();
        let ranges = Mutex::new(vec![(0, 16383, vec![0])]);
        let cluster = Arc::new(Self { nodes, ranges, asked: AtomicUsize::new(0), before_ping: Mutex::default() });
        for (number, script) in scripts.into_iter().enumerate() {
            let all = Arc::clone(&cluster);
            let port = serve_all(move |words| all.answer(number, words, &script));
            cluster.nodes[number].port.set(port).unwrap();
        }
        cluster
    }

    fn answer(&self, number: usize, words: &[String], script: &Script) -> Option<Vec<u8>> {
        let node = &self.nodes[number];
        match words[0].as_str() {
            _ if begins(words) => {
                node.greeted.fetch_add(1, Ordering::SeqCst);
                if node.is_refusing.load(Ordering::SeqCst) {
                    return None;
                }
            }
            "PING" => {
                let before = self.before_ping.lock().unwrap().clone();
                before.into_iter().for_each(|before| before(self, number));
            }
            "CLUSTER" => {
                self.asked.fetch_add(1, Ordering::SeqCst);
                return Some(self.slots());
            }
            _ => {}
        }
        greet(words).or_else(|| {
            node.told.lock().unwrap().push(words.join(" "));
            script(self, words)
        })
    }

    /// Returns the reply to CLUSTER SLOTS.
    fn slots(&self) -> Vec<u8> {
        let ranges = self.ranges.lock().unwrap();
        let place = |&node: &usize| format!("*2\r\n$9\r\n127.0.0.1\r\n:{}\r\n", self.port(node));
        let range = |(first, last, nodes): &Range| {
            let places: String = nodes.iter().map(place).collect();
            format!("*{}\r\n:{first}\r\n:{last}\r\n{places}", 2 + nodes.len())
        };
        let all: String = ranges.iter().map(range).collect();
        format!("*{}\r\n{all}", ranges.len()).into_bytes()
    }

    pub fn port(&self, number: usize) -> u16 {
        *self.nodes[number].port.get().unwrap()
    }

    /// Returns the commands that a node was sent, except for greetings and CLUSTER SLOTS.
    pub fn told(&self, number: usize) -> Vec<String> {
        self.nodes[number].told.lock().unwrap().clone()
    }

    /// Returns the number of times that a node was sent this command.
    pub fn count(&self, number: usize, line: &str) -> usize {
        self.told(number).iter().filter(|told| *told == line).count()
    }

    /// Returns the number of times that the nodes were sent CLUSTER SLOTS.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Returns the number of connections that a node has greeted.
    pub fn greeted(&self, number: usize) -> usize {
        self.nodes[number].greeted.load(Ordering::SeqCst)
    }

    /// Sets whether a node hangs up on every client that connects.
    pub fn set_refusing(&self, number: usize, is_refusing: bool) {
        self.nodes[number].is_refusing.store(is_refusing, Ordering::SeqCst);
    }

    pub fn redirection(&self, code: &str, slot: u16, node: usize) -> Option<Vec<u8>> {
        error(&format!("{code} {slot} 127.0.0.1:{}", self.port(node)))
    }

    /// Returns a configuration that names the first node, with short pauses between attempts.
    pub fn config(&self) -> Config {
        Config::new(Endpoint::Cluster(vec![("127.0.0.1".to_owned(), self.port(0))]))
            .backoff(Duration::from_millis(1), Duration::from_millis(20))
    }

    pub fn connect(&self) -> Client {
        Client::connect_with(self.config()).unwrap()
    }
}

/// Returns a script with the same answer to every request.
pub fn always(answer: &'static str) -> Script {
    Box::new(move |_, _| Some(answer.as_bytes().to_vec()))
}

pub fn error(text: &str) -> Option<Vec<u8>> {
    Some(format!("-{text}\r\n").into_bytes())
}

pub fn ok() -> Option<Vec<u8>> {
    Some(b"+OK\r\n".to_vec())
}
