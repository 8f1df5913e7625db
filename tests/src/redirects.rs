//! A caller of a cluster that follows redirects by itself, so that a test sees each answer of a node as it came.
//!
//! It sends a request to the node that it takes for the owner of its slot. MOVED and ASK send it elsewhere, and a cluster
//! that is down makes it ask again. A connection that is lost behind a request leaves it unknown whether the request had an
//! effect. One thread uses it at a time, for the keys of one slot.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::Connection;

/// The timeout of a request, with all its redirects. Only a broken cluster gets near it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time that the caller waits for a reply before it takes the node for dead.
const SILENCE_MAX: Duration = Duration::from_millis(1_000);

/// The pause before the caller asks again.
const PAUSE: Duration = Duration::from_millis(2);

/// The answers of nodes that are not ready for a request: it has had no effect.
const NOT_READY: [&str; 4] = ["-CLUSTERDOWN", "-TRYAGAIN", "-LOADING", "-MASTERDOWN"];

/// A caller for the keys of one slot.
#[derive(Debug)]
pub struct Redirected {
    nodes: Vec<SocketAddr>,
    open: BTreeMap<SocketAddr, Connection>,
    owner: Option<SocketAddr>,
    /// The number of times that a node was chosen without a redirect.
    choices: usize,
}

impl Redirected {
    /// Makes a caller that knows these nodes.
    pub fn new(nodes: Vec<SocketAddr>) -> Self {
        Self { nodes, open: BTreeMap::new(), owner: None, choices: 0 }
    }

    /// Returns the answer to a request and the node that gave it; none if a connection was lost while the answer was awaited.
    ///
    /// # Panics
    /// If no node answers in time.
    pub fn call(&mut self, words: &[&str]) -> Option<(String, SocketAddr)> {
        let (since, mut last) = (Instant::now(), String::new());
        loop {
            assert!(since.elapsed() < PATIENCE, "no node answers {words:?}: {last}");
            let node = self.owner.unwrap_or_else(|| self.choose());
            if !self.is_open(node) {
                self.owner = None;
                thread::sleep(PAUSE);
                continue;
            }
            let answer = self.exchange(node, words)?;
            if let Some(next) = redirect(&answer, "-MOVED") {
                self.owner = Some(next);
                // The nodes that the caller was told of at first may all be replaced.
                if !self.nodes.contains(&next) {
                    self.nodes.push(next);
                }
            } else if let Some(next) = redirect(&answer, "-ASK") {
                if self.is_open(next) {
                    self.exchange(next, &["ASKING"])?;
                    let answer = self.exchange(next, words)?;
                    if !is_refusal(&answer) {
                        return Some((answer, next));
                    }
                }
            } else if is_refusal(&answer) {
                self.owner = None;
            } else {
                self.owner = Some(node);
                return Some((answer, node));
            }
            last = answer;
            thread::sleep(PAUSE);
        }
    }

    /// Returns whether a replica has acknowledged everything that this caller has written on a node.
    pub fn is_replicated(&mut self, node: SocketAddr) -> bool {
        self.exchange(node, &["WAIT", "1", "500"]).is_some_and(|answer| answer.starts_with(':') && answer != ":0\r\n")
    }

    fn choose(&mut self) -> SocketAddr {
        self.choices += 1;
        self.nodes[self.choices % self.nodes.len()]
    }

    fn is_open(&mut self, node: SocketAddr) -> bool {
        if self.open.contains_key(&node) {
            return true;
        }
        let Ok(connection) = Connection::open(node) else { return false };
        let is_limited = connection.stream().set_read_timeout(Some(SILENCE_MAX)).is_ok();
        self.open.insert(node, connection);
        is_limited
    }

    /// Returns the answer of a node to which there is a connection, unless the connection is lost.
    fn exchange(&mut self, node: SocketAddr, words: &[&str]) -> Option<String> {
        let answer = self.open.get_mut(&node)?.command(words);
        if answer.is_err() {
            self.open.remove(&node);
            self.owner = None;
        }
        answer.ok().map(|answer| String::from_utf8_lossy(&answer).into_owned())
    }
}

/// Returns whether the request has had no effect on this node.
fn is_refusal(answer: &str) -> bool {
    NOT_READY.iter().chain(&["-MOVED", "-ASK"]).any(|code| answer.starts_with(code))
}

/// Returns the node that an answer with this code names.
fn redirect(answer: &str, code: &str) -> Option<SocketAddr> {
    let mut words = answer.trim_end().strip_prefix(code)?.split(' ');
    words.nth(2)?.parse().ok()
}
