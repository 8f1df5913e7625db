//! Servers with every kind of fault: they answer late, in pieces, in part or not at all, refuse requests or redirect them,
//! and hang up amid a request or a reply. Each answer is the key or the field that was asked for, so that it shows to which
//! caller it belongs.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use sleeve::{Config, Endpoint};

use crate::scripted::{Requests, config, greet};

/// The prefixes of keys, and the slots that they decide; in the order of the slots.
pub const TAGS: [(&str, u16); 3] = [("{b}", 3300), ("{bar}", 5061), ("{foo}", 12182)];

/// The first slots of the ranges that move, each with one of these prefixes, and the end of the last range.
const BORDERS: [u16; 4] = [0, 4000, 8000, 16384];

/// Random numbers from a seed (splitmix64, Steele and others 2014).
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// Returns the value of a key: the key itself, made longer by the number behind a colon in it.
pub fn value_of(key: &str) -> String {
    let length: usize = key.split_once(':').map_or(0, |(_, length)| length.parse().unwrap());
    format!("{key}{}", ".".repeat(length))
}

/// One server, or the nodes of a cluster.
pub struct Moody {
    ports: Vec<OnceLock<u16>>,
    /// The owner of each tag's keys.
    owners: [AtomicUsize; TAGS.len()],
    /// The number of requests that have arrived.
    seen: AtomicU64,
    /// The number of further greetings that are refused.
    refusals: AtomicU64,
    /// True if no further faults happen.
    is_calm: AtomicBool,
    /// For each counter, whether it was incremented.
    counted: Vec<AtomicBool>,
    /// The number of counters that were incremented twice.
    pub doubled: AtomicU64,
    /// The number of times that the server hung up amid a request; below it amid a reply, and the number of redirects.
    pub cut_requests: AtomicU64,
    pub cut_replies: AtomicU64,
    pub redirected: AtomicU64,
}

impl Moody {
    /// Starts this many servers, for this many calls.
    pub fn start(nodes: usize, calls: u64) -> Arc<Self> {
        let (owners, seen, refusals, is_calm, doubled) = Default::default();
        let (cut_requests, cut_replies, redirected) = Default::default();
        let counted = (0..calls).map(|_| AtomicBool::new(false)).collect();
        let ports = (0..nodes).map(|_| OnceLock::new()).collect();
        let moody = Arc::new(Self {
            ports,
            owners,
            seen,
            refusals,
            is_calm,
            counted,
            doubled,
            cut_requests,
            cut_replies,
            redirected,
        });
        for (node, port) in moody.ports.iter().enumerate() {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            // With a small buffer, a long request does not leave in one piece.
            set_socket_recv_buffer_size(&listener, 4096).unwrap();
            port.set(listener.local_addr().unwrap().port()).unwrap();
            let moody = Arc::clone(&moody);
            thread::spawn(move || {
                for (number, stream) in listener.incoming().enumerate() {
                    let servers = Arc::clone(&moody);
                    let dice = Dice((node + 16 * number) as u64);
                    let connection =
                        Connection { servers, node, dice, is_tracking: false, is_asking: false, transaction: None };
                    thread::spawn(move || connection.converse(stream.unwrap()));
                }
            });
        }
        moody
    }

    fn port(&self, node: usize) -> u16 {
        *self.ports[node].get().unwrap()
    }

    /// Returns a configuration that names the servers, with short pauses between attempts.
    pub fn config(&self) -> Config {
        if self.ports.len() == 1 {
            return config(self.port(0));
        }
        let seeds = (0..self.ports.len()).map(|node| ("127.0.0.1".to_owned(), self.port(node))).collect();
        Config::new(Endpoint::Cluster(seeds)).backoff(Duration::from_millis(1), Duration::from_millis(10))
    }

    /// Ends all faults.
    pub fn calm(&self) {
        self.is_calm.store(true, Ordering::SeqCst);
    }

    /// Returns whether a fault happens that occurs once in this many times.
    fn is_due(&self, dice: &mut Dice, times: u64) -> bool {
        dice.roll(times) == 0 && !self.is_calm.load(Ordering::Relaxed)
    }

    /// Returns the reply to CLUSTER SLOTS.
    fn slots(&self) -> Vec<u8> {
        let mut all = format!("*{}\r\n", TAGS.len());
        for (index, owner) in self.owners.iter().enumerate() {
            let port = self.port(owner.load(Ordering::SeqCst));
            let (first, last) = (BORDERS[index], BORDERS[index + 1] - 1);
            all += &format!("*3\r\n:{first}\r\n:{last}\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
        }
        all.into_bytes()
    }

    /// Increments a counter, which each caller does once.
    fn count(&self, key: &str) {
        let number: usize = key.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse().unwrap();
        if self.counted[number].swap(true, Ordering::SeqCst) {
            self.doubled.fetch_add(1, Ordering::SeqCst);
        }
    }
}

struct Connection {
    servers: Arc<Moody>,
    node: usize,
    dice: Dice,
    is_tracking: bool,
    is_asking: bool,
    /// The commands that a transaction has queued, and whether all of them were accepted.
    transaction: Option<(Vec<Vec<String>>, bool)>,
}

impl Connection {
    fn converse(mut self, mut stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut requests = Requests::default();
        while requests.receive_at_most(&mut stream, if self.is_due(16) { 100 } else { 65536 }) {
            let mut replies = Vec::new();
            while let Some(words) = requests.next() {
                let Some(reply) = self.respond(&words) else { return };
                replies.extend(reply);
            }
            if !self.send(&mut stream, &replies) {
                return;
            }
            if requests.is_amid_one() && self.is_due(256) {
                thread::sleep(Duration::from_millis(30));
            }
            if requests.is_amid_one() && self.is_due(512) {
                self.servers.cut_requests.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    }

    fn is_due(&mut self, times: u64) -> bool {
        self.servers.is_due(&mut self.dice, times)
    }

    /// Sends replies, at times in two pieces, and at times only the first of them. Returns false if the connection has ended.
    fn send(&mut self, stream: &mut TcpStream, replies: &[u8]) -> bool {
        if replies.is_empty() || !self.is_due(8) {
            return stream.write_all(replies).is_ok();
        }
        let (first, second) = replies.split_at(self.dice.roll(replies.len() as u64) as usize);
        if stream.write_all(first).is_err() {
            return false;
        }
        if self.is_due(64) {
            self.servers.cut_replies.fetch_add(1, Ordering::SeqCst);
            return false;
        }
        match self.dice.roll(64) {
            0 => thread::sleep(Duration::from_millis(30)),
            1..8 => thread::sleep(Duration::from_millis(1)),
            _ => thread::yield_now(),
        }
        stream.write_all(second).is_ok()
    }

    /// Returns the answer to a request; none to hang up.
    fn respond(&mut self, words: &[String]) -> Option<Vec<u8>> {
        let is_calm = self.servers.is_calm.load(Ordering::Relaxed);
        let refusals = &self.servers.refusals;
        if words[0] == "HELLO" && !is_calm {
            let refuse = |left: u64| left.checked_sub(1);
            refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, refuse).is_err().then_some(())?;
        }
        self.is_tracking |= words.get(1).is_some_and(|word| word == "TRACKING");
        if let Some(answer) = greet(words) {
            return Some(answer);
        }
        let mut is_loading = false;
        match self.servers.seen.fetch_add(1, Ordering::SeqCst) % 4096 {
            _ if is_calm => {}
            500 => self.reshard(),
            1000 => thread::sleep(Duration::from_millis(40)),
            2000 => return None,
            2500 => {
                refusals.store(self.dice.roll(10), Ordering::SeqCst);
                return None;
            }
            3000..3020 => is_loading = true,
            _ => {}
        }
        self.answer(words, is_loading)
    }

    /// Gives the keys of a tag to another node.
    fn reshard(&mut self) {
        let tag = self.dice.roll(TAGS.len() as u64) as usize;
        let node = self.dice.roll(self.servers.ports.len() as u64) as usize;
        self.servers.owners[tag].store(node, Ordering::SeqCst);
    }

    fn answer(&mut self, words: &[String], is_loading: bool) -> Option<Vec<u8>> {
        match words[0].as_str() {
            "CLUSTER" => return Some(self.servers.slots()),
            "ASKING" => self.is_asking = true,
            "MULTI" => self.transaction = Some((Vec::new(), true)),
            "EXEC" => return Some(self.execute_all()),
            "WATCH" | "UNWATCH" => {}
            _ if is_loading => return Some(self.refuse("LOADING Redis is loading the dataset in memory")),
            _ => return Some(self.take(words)),
        }
        Some(b"+OK\r\n".to_vec())
    }

    /// Executes a request, or queues it, or refuses it.
    fn take(&mut self, words: &[String]) -> Vec<u8> {
        if let Some(refusal) = self.elsewhere(words) {
            return self.refuse(&refusal);
        }
        if let Some((queued, _)) = &mut self.transaction {
            queued.push(words.to_vec());
            return b"+QUEUED\r\n".to_vec();
        }
        let mut answer = self.execute(words);
        if self.is_tracking && words[0] == "GET" && self.is_due(16) {
            answer.extend(format!(">2\r\n+invalidate\r\n*1\r\n${}\r\n{}\r\n", words[1].len(), words[1]).into_bytes());
        }
        answer
    }

    fn refuse(&mut self, why: &str) -> Vec<u8> {
        if let Some((_, is_whole)) = &mut self.transaction {
            *is_whole = false;
        }
        format!("-{why}\r\n").into_bytes()
    }

    /// Returns the redirect of a request that belongs to another node.
    fn elsewhere(&mut self, words: &[String]) -> Option<String> {
        let is_asking = std::mem::take(&mut self.is_asking);
        let tag = TAGS.iter().position(|(tag, _)| words.get(1).is_some_and(|key| key.starts_with(tag)))?;
        let (nodes, slot) = (self.servers.ports.len(), TAGS[tag].1);
        if nodes == 1 || is_asking || self.transaction.as_ref().is_some_and(|(queued, _)| !queued.is_empty()) {
            return None;
        }
        let owner = self.servers.owners[tag].load(Ordering::SeqCst);
        let (code, node) = match () {
            () if owner != self.node => ("MOVED", owner),
            () if self.is_due(64) => ("ASK", (owner + 1) % nodes),
            () if self.is_due(512) => {
                return Some("TRYAGAIN Multiple keys request during rehashing of slot".to_owned());
            }
            () => return None,
        };
        self.servers.redirected.fetch_add(1, Ordering::SeqCst);
        Some(format!("{code} {slot} 127.0.0.1:{}", self.servers.port(node)))
    }

    fn execute_all(&mut self) -> Vec<u8> {
        match self.transaction.take() {
            Some((queued, true)) => {
                let answers = queued.iter().flat_map(|words| self.execute(words));
                format!("*{}\r\n", queued.len()).into_bytes().into_iter().chain(answers).collect()
            }
            _ => b"-EXECABORT Transaction discarded because of previous errors.\r\n".to_vec(),
        }
    }

    fn execute(&self, words: &[String]) -> Vec<u8> {
        let several = |texts: &[String]| {
            let all: String = texts.iter().map(|text| bulk(&value_of(text))).collect();
            format!("*{}\r\n{all}", texts.len())
        };
        let answer = match words[0].as_str() {
            "GET" | "ECHO" => bulk(&value_of(&words[1])),
            "HGET" => bulk(&words[2]),
            "MGET" => several(&words[1..]),
            "HMGET" => several(&words[2..]),
            "BLPOP" => format!("*2\r\n{}{}", bulk(&words[1]), bulk(&words[1])),
            "PTTL" => ":-1\r\n".to_owned(),
            "INCR" => {
                self.servers.count(&words[1]);
                ":1\r\n".to_owned()
            }
            "SET" | "MSET" => "+OK\r\n".to_owned(),
            other => panic!("{other}"),
        };
        answer.into_bytes()
    }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}
