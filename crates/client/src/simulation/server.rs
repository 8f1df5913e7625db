//! The other end: servers that are a model, with sessions, databases, transactions, commands that wait, and failures.
//!
//! Their data are simple enough to be trusted, and they count how often each write was executed. A real engine would answer
//! as well. But it would not report that count, nor move its slots, load its data or refuse a client when the dice say so.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

use sleeve_wire::frame::Scanner;

use super::session::{Session, number, words};
use super::staleness::History;
use super::topology::{Topology, Verdict};
use super::tracking::{PREFIX, Trackers};
use crate::pipe::testing::Dice;

/// A database, and the name of a key in it.
pub(super) type Key = (u32, Vec<u8>);

pub(super) const LOADING: &str = "-LOADING Redis is loading the dataset in memory\r\n";

/// The value of a key.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(Vec<u8>),
    List(VecDeque<Vec<u8>>),
}

/// The state of one server that it does not share with the others.
#[derive(Default)]
struct Node {
    /// The number of the server's present life; each restart increments it.
    life: u64,
    is_down: bool,
    loading_until_us: u64,
}

/// All servers, which have the same data.
pub(super) struct Servers {
    pub(super) dice: Rc<RefCell<Dice>>,
    nodes: Vec<Node>,
    pub(super) data: HashMap<Key, Value>,
    /// The number of changes of each key.
    versions: HashMap<Key, u64>,
    /// The number of times that the write with each token was executed.
    executed: HashMap<Vec<u8>, u32>,
    /// The number of times that each element was taken out of a list.
    popped: HashMap<Vec<u8>, u32>,
    /// The past values of the keys that are read through the cache.
    pub(super) history: History,
    pub(super) trackers: Trackers,
    /// The time at which another client writes to one of these keys next, if one still does; below it the shortest interval
    /// of such writes.
    pub(super) others_us: Option<u64>,
    pub(super) others_pause_us: usize,
    pub(super) now_us: u64,
    /// True if the servers know HELLO.
    pub(super) speaks_resp3: bool,
    /// True if messages that answer no request are sent among the answers.
    is_chatty: bool,
    /// The owners of slots, if the servers are a cluster.
    pub(super) topology: Option<Topology>,
    /// The number of MOVED redirects, and below it that of ASK redirects.
    pub(super) moved: u64,
    pub(super) asked: u64,
}

impl Servers {
    pub(super) fn new(dice: Rc<RefCell<Dice>>, count: usize, is_cluster: bool) -> Self {
        let (speaks_resp3, is_chatty, others_pause_us) = {
            let mut dice = dice.borrow_mut();
            (dice.roll(5) > 0, dice.roll(2) == 0, [2_000, 20_000, 200_000][dice.roll(3)])
        };
        let (data, versions, executed, popped) = Default::default();
        let (history, trackers, others_us, now_us) = (History::default(), Trackers::default(), Some(0), 0);
        let nodes = (0..count).map(|_| Node::default()).collect();
        let topology = is_cluster.then(|| Topology::new(count));
        Self {
            dice,
            nodes,
            data,
            versions,
            executed,
            popped,
            history,
            trackers,
            others_us,
            others_pause_us,
            now_us,
            speaks_resp3,
            is_chatty,
            topology,
            moved: 0,
            asked: 0,
        }
    }

    /// Returns the number of times that the write with this token was executed.
    pub(super) fn executed(&self, token: &[u8]) -> u32 {
        self.executed.get(token).copied().unwrap_or(0)
    }

    /// Returns the number of times that an element was taken out of a list.
    pub(super) fn popped(&self, element: &[u8]) -> u32 {
        self.popped.get(element).copied().unwrap_or(0)
    }

    /// Returns the value of a key.
    pub(super) fn value(&self, database: u32, key: &[u8]) -> Option<&Value> {
        self.data.get(&(database, key.to_vec()))
    }

    pub(super) fn is_reachable(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(|node| !node.is_down)
    }

    /// Kills a server, or restarts it.
    pub(super) fn set_down(&mut self, index: usize, is_down: bool) {
        let node = &mut self.nodes[index];
        node.life += u64::from(is_down);
        node.is_down = is_down;
        if is_down {
            self.trackers.die(index);
        }
    }

    /// Makes a server load its data until this time.
    pub(super) fn load(&mut self, node: usize, until_us: u64) {
        self.nodes[node].loading_until_us = until_us;
    }

    /// Ends all faults of the servers.
    pub(super) fn calm(&mut self) {
        self.topology.iter_mut().for_each(Topology::arrive);
        self.others_us = None;
        for node in &mut self.nodes {
            (node.is_down, node.loading_until_us) = (false, 0);
        }
    }

    /// Returns the number of servers.
    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Takes a step in the move of a cluster's slot.
    pub(super) fn move_on(&mut self) {
        let Self { topology: Some(topology), data, dice, .. } = self else { return };
        let keys: BTreeSet<Vec<u8>> = data.keys().map(|(_, key)| key.clone()).filter(|key| key.len() < 3).collect();
        // The last owner reports each key that it gives away.
        if let Some((owner, key)) = topology.move_on(|sides| dice.borrow_mut().roll(sides), &keys) {
            self.trackers.changed(owner, &key);
        }
    }

    /// Makes another server of a cluster take over the slots of this one, which is dead.
    pub(super) fn fail_over(&mut self, dead: usize) {
        let to = (dead + 1 + self.dice.borrow_mut().roll(self.nodes.len() - 1)) % self.nodes.len();
        self.topology.iter_mut().for_each(|topology| topology.fail_over(dead, to));
    }

    pub(super) fn session(&self, node: usize, number: u64) -> Session {
        let life = self.nodes.get(node).map_or(0, |node| node.life);
        let (buffer, said, watched) = Default::default();
        let (scanner, queued, waits) = (Scanner::new(), None, None);
        let (database, resp3, is_spoilt, is_asking, is_caching) = Default::default();
        Session {
            number,
            node,
            life,
            buffer,
            scanner,
            database,
            resp3,
            queued,
            is_spoilt,
            is_asking,
            is_caching,
            watched,
            waits,
            said,
        }
    }

    /// Takes bytes that have arrived on a connection, and executes their requests.
    pub(super) fn receive(&mut self, session: &mut Session, bytes: &[u8], now_us: u64) {
        if self.nodes.get(session.node).is_none_or(|node| node.is_down || node.life != session.life) {
            return;
        }
        session.buffer.extend_from_slice(bytes);
        self.now_us = now_us;
        self.go_on(session, now_us);
    }

    /// Executes the requests that have arrived, until a command waits.
    fn go_on(&mut self, session: &mut Session, now_us: u64) {
        while session.waits.is_none() {
            let Ok(Some(length)) = session.scanner.scan(&session.buffer) else { return };
            let request: Vec<u8> = session.buffer.drain(..length).collect();
            let words = words(&request);
            session.said.extend(self.trackers.messages(session.number));
            self.chat(session);
            self.execute(session, words, now_us);
        }
    }

    /// Sends a message that answers no request.
    fn chat(&mut self, session: &mut Session) {
        if !self.is_chatty || !session.resp3 || session.queued.is_some() {
            return;
        }
        match self.dice.borrow_mut().roll(12) {
            0 => session.said.extend_from_slice(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$5\r\nother\r\n"),
            1 => session.said.extend_from_slice(b"|1\r\n+key-popularity\r\n:90\r\n"),
            _ => {}
        }
    }

    /// Checks a session that waits: another session may have written to its lists, or its timeout may have passed.
    pub(super) fn look_again(&mut self, session: &mut Session, now_us: u64) {
        self.now_us = now_us;
        session.said.extend(self.trackers.messages(session.number));
        let Some((keys, until_us)) = &session.waits else { return };
        let (keys, is_over) = (keys.clone(), until_us.is_some_and(|until_us| until_us <= now_us));
        if self.nodes[session.node].life != session.life {
            return;
        }
        let places: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let judged = self.topology.as_ref().map_or(Ok(true), |topology| topology.judge_waiting(session.node, &places));
        if let Err(moved) = judged {
            session.waits = None;
            session.say(&moved);
        } else if judged == Ok(true) && self.pop_first(session, &keys) {
            session.waits = None;
        } else if is_over {
            session.waits = None;
            let nothing: &[u8] = if session.resp3 { b"_\r\n" } else { b"*-1\r\n" };
            session.said.extend_from_slice(nothing);
        }
        self.go_on(session, now_us);
    }

    /// Ends the session of a connection that is gone.
    pub(super) fn leave(&mut self, session: &Session) {
        self.trackers.leave(session.number);
    }

    fn execute(&mut self, session: &mut Session, words: Vec<Vec<u8>>, now_us: u64) {
        let name = words.first().map(|word| String::from_utf8_lossy(word).to_uppercase()).unwrap_or_default();
        match (name.as_str(), words.len()) {
            ("HELLO", _) if !self.speaks_resp3 => return session.say("-ERR unknown command 'HELLO'\r\n"),
            ("HELLO", _) => {
                session.resp3 = true;
                let mode = if self.topology.is_some() { "$7\r\ncluster" } else { "$10\r\nstandalone" };
                return session.say(&format!("%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$4\r\nmode\r\n{mode}\r\n"));
            }
            ("CLIENT", 3) if words[1] == b"CACHING" => {
                session.is_caching = self.trackers.remembers(session.number);
                return session.say(if session.is_caching { "+OK\r\n" } else { "-ERR not in tracking mode\r\n" });
            }
            ("CLIENT", 4..) if words[1] == b"TRACKING" => {
                let reply = self.trackers.track(session.number, session.node, words[3] == b"BCAST");
                return session.say(reply);
            }
            ("CLIENT", _) => return session.say("+OK\r\n"),
            ("CONFIG", _) => {
                let head = if session.resp3 { "%1" } else { "*2" };
                return session.say(&format!("{head}\r\n$9\r\ndatabases\r\n$2\r\n16\r\n"));
            }
            ("SELECT", 2) if self.topology.is_some() && words[1] != b"0" => {
                return session.say("-ERR SELECT is not allowed in cluster mode\r\n");
            }
            ("SELECT", 2) => {
                session.database = String::from_utf8_lossy(&words[1]).parse().expect("a number");
                return session.say("+OK\r\n");
            }
            _ if self.nodes[session.node].loading_until_us > now_us => {
                if session.queued.is_some() || name == "MULTI" {
                    session.queued = None;
                }
                return session.say(LOADING);
            }
            ("CLUSTER", _) => {
                let slots = self.topology.as_ref().map(Topology::slots);
                return session.say(slots.as_deref().unwrap_or("-ERR This instance has cluster support disabled\r\n"));
            }
            ("ASKING", _) => {
                session.is_asking = true;
                return session.say("+OK\r\n");
            }
            ("MULTI", _) => {
                session.is_spoilt = false;
                session.queued = Some(Vec::new());
                return session.say("+OK\r\n");
            }
            ("EXEC", _) => return self.execute_transaction(session),
            _ => {}
        }
        let is_caching = std::mem::take(&mut session.is_caching);
        if let Some(refusal) = self.refusal(session, &name, &words) {
            session.is_spoilt = session.queued.is_some();
            return session.say(&refusal);
        }
        if let Some(queued) = &mut session.queued {
            queued.push(words);
            return session.say("+QUEUED\r\n");
        }
        if let Some(key) = words.get(1).filter(|key| key.starts_with(PREFIX.as_bytes())) {
            if is_caching {
                self.trackers.remember(session.number, key);
            }
            self.expire(session.node, &(session.database, key.clone()));
        }
        self.execute_one(session, &name, &words, now_us);
    }

    fn execute_transaction(&mut self, session: &mut Session) {
        let Some(queued) = session.queued.take() else { return session.say("-ERR EXEC without MULTI\r\n") };
        let watched = std::mem::take(&mut session.watched);
        if session.is_spoilt {
            return session.say("-EXECABORT Transaction discarded because of previous errors.\r\n");
        }
        // The slot may have moved since the commands were queued.
        for words in &queued {
            let name = String::from_utf8_lossy(&words[0]).to_uppercase();
            if let Some(refusal) = self.refusal(session, &name, words) {
                return session.say(&refusal);
            }
        }
        if watched.iter().any(|(key, version)| self.version(key) != *version) {
            let nothing = if session.resp3 { "_\r\n" } else { "*-1\r\n" };
            return session.say(nothing);
        }
        session.say(&format!("*{}\r\n", queued.len()));
        for words in queued {
            let name = String::from_utf8_lossy(&words[0]).to_uppercase();
            self.execute_one(session, &name, &words, 0);
        }
    }

    /// Returns the error of a cluster's server for a command that belongs to another server.
    fn refusal(&mut self, session: &mut Session, name: &str, words: &[Vec<u8>]) -> Option<String> {
        let topology = self.topology.as_mut()?;
        let keys = match name {
            "GET" | "SET" | "APPEND" | "INCRBY" | "RPUSH" | "EXISTS" | "PTTL" => words.get(1..2)?,
            "MGET" | "WATCH" => words.get(1..)?,
            "BLPOP" => words.get(1..words.len() - 1)?,
            _ => return None,
        };
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let is_asking = std::mem::take(&mut session.is_asking);
        let exists = |key: &[u8]| self.data.contains_key(&(0, key.to_vec()));
        match topology.judge(session.node, &keys, is_asking, exists) {
            Verdict::Here => None,
            Verdict::Refused(refusal) => {
                self.moved += u64::from(refusal.starts_with("-MOVED"));
                self.asked += u64::from(refusal.starts_with("-ASK"));
                Some(refusal)
            }
        }
    }

    fn version(&self, key: &Key) -> u64 {
        self.versions.get(key).copied().unwrap_or(0)
    }

    fn execute_one(&mut self, session: &mut Session, name: &str, words: &[Vec<u8>], now_us: u64) {
        let key = |index: usize| (session.database, words.get(index).cloned().unwrap_or_default());
        match name {
            "PING" => session.say("+PONG\r\n"),
            "ECHO" if words.len() == 2 => session.bulk(Some(&words[1])),
            "UNWATCH" => {
                session.watched.clear();
                session.say("+OK\r\n");
            }
            "WATCH" => {
                let keys: Vec<Key> = (1..words.len()).map(key).collect();
                session.watched.extend(keys.into_iter().map(|key| (key.clone(), self.version(&key))));
                session.say("+OK\r\n");
            }
            "GET" => {
                let text = self.text(&key(1));
                session.bulk(text.as_deref());
            }
            "EXISTS" => {
                let exists = self.data.contains_key(&key(1));
                session.say(if exists { ":1\r\n" } else { ":0\r\n" });
            }
            "MGET" => {
                session.say(&format!("*{}\r\n", words.len() - 1));
                for word in &words[1..] {
                    let text = self.text(&(session.database, word.clone()));
                    session.bulk(text.as_deref());
                }
            }
            "SET" => {
                self.write(key(1), &words[2], Value::Text(words[2].clone()));
                let until_us = words.get(4).map(|life_ms| now_us + number(life_ms) as u64 * 1000);
                self.changed(session.node, &key(1), Some(&words[2]), until_us);
                session.say("+OK\r\n");
            }
            "PTTL" => session.say(&format!(":{}\r\n", self.left_ms(&key(1)))),
            "APPEND" => {
                let mut text = self.text(&key(1)).unwrap_or_default();
                text.extend_from_slice(&words[2]);
                let length = text.len();
                self.write(key(1), &words[2], Value::Text(text));
                session.say(&format!(":{length}\r\n"));
            }
            "INCRBY" => {
                let before = self.text(&key(1)).map_or(0, |text| number(&text));
                let sum = before + number(&words[2]);
                self.write(key(1), &words[1], Value::Text(sum.to_string().into_bytes()));
                session.say(&format!(":{sum}\r\n"));
            }
            "RPUSH" => {
                let mut list = match self.data.get(&key(1)) {
                    Some(Value::List(list)) => list.clone(),
                    _ => VecDeque::new(),
                };
                list.push_back(words[2].clone());
                let length = list.len();
                self.write(key(1), &words[2], Value::List(list));
                session.say(&format!(":{length}\r\n"));
            }
            "BLPOP" => {
                let keys = words[1..words.len() - 1].to_vec();
                if !self.pop_first(session, &keys) {
                    let seconds: f64 = String::from_utf8_lossy(&words[words.len() - 1]).parse().expect("a number");
                    let until_us = (seconds > 0.0).then_some(now_us + (seconds * 1e6) as u64);
                    session.waits = Some((keys, until_us));
                }
            }
            _ => session.say(&format!("-ERR unknown command '{name}'\r\n")),
        }
    }

    fn text(&self, key: &Key) -> Option<Vec<u8>> {
        match self.data.get(key) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        }
    }

    /// Writes a value, and counts the write by its token.
    pub(super) fn write(&mut self, key: Key, token: &[u8], value: Value) {
        *self.executed.entry(token.to_vec()).or_default() += 1;
        *self.versions.entry(key.clone()).or_default() += 1;
        self.history.executed(token);
        self.data.insert(key, value);
    }

    /// Takes the first element of the first of these lists that has one.
    fn pop_first(&mut self, session: &mut Session, keys: &[Vec<u8>]) -> bool {
        for key in keys {
            if let Some(Value::List(list)) = self.data.get_mut(&(session.database, key.clone()))
                && let Some(element) = list.pop_front()
            {
                session.say("*2\r\n");
                session.bulk(Some(key));
                session.bulk(Some(&element));
                *self.popped.entry(element).or_default() += 1;
                return true;
            }
        }
        false
    }
}
