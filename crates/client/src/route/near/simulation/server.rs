//! The simulation's server: some keys with all that they ever were, and one connection that tracks.

use std::collections::{BTreeMap, HashSet, VecDeque};

pub(super) type Key = (u32, String);

/// What was at a key at some time, and until when.
#[derive(Clone)]
pub(super) struct State {
    pub(super) text: Option<String>,
    pub(super) until_ms: Option<u64>,
}

/// A server that knows SELECT, GET, SUBSTR, PTTL, SET and CLIENT TRACKING, and one connection.
#[derive(Default)]
pub(super) struct Server {
    /// All that ever was at each key; where in it one stands is a version.
    pub(super) history: BTreeMap<Key, Vec<State>>,
    /// The versions that the client's own writes have made.
    pub(super) own: BTreeMap<usize, usize>,
    database: u32,
    opt_in: bool,
    broadcasts: bool,
    caching: bool,
    remembered: HashSet<String>,
    /// Keys to be told of when the batch is over.
    pub(super) changed: Vec<String>,
    /// Keys to be told of behind the reply.
    behind: Vec<String>,
    pub(super) down: VecDeque<u8>,
    /// Bytes that were ever sent on this connection.
    sent: u64,
    /// What was said, and where it ends.
    pub(super) said: VecDeque<(u64, Vec<(Key, usize)>)>,
}

impl Server {
    /// What is on its way is lost, and nothing is said any more.
    pub(super) fn hang_up(&mut self) {
        (self.database, self.opt_in, self.broadcasts, self.caching, self.sent) = (0, false, false, false, 0);
        self.remembered.clear();
        self.changed.clear();
        self.behind.clear();
        self.said.clear();
        self.down.clear();
    }

    fn send(&mut self, bytes: &[u8]) {
        self.down.extend(bytes);
        self.sent += bytes.len() as u64;
    }

    pub(super) fn versions(&self, is_meant: impl Fn(&Key) -> bool) -> Vec<(Key, usize)> {
        let meant = self.history.iter().filter(|(key, _)| is_meant(key));
        meant.map(|(key, states)| (key.clone(), states.len() - 1)).collect()
    }

    pub(super) fn say(&mut self, keys: &[String]) {
        if keys.is_empty() {
            return;
        }
        let names: String = keys.iter().map(|key| format!("${}\r\n{key}\r\n", key.len())).collect();
        self.send(format!(">2\r\n$10\r\ninvalidate\r\n*{}\r\n{names}", keys.len()).as_bytes());
        let versions = self.versions(|(_, key)| keys.contains(key));
        self.said.push_back((self.sent, versions));
    }

    fn say_all(&mut self) {
        self.remembered.clear();
        if self.opt_in || self.broadcasts {
            self.send(b">2\r\n$10\r\ninvalidate\r\n_\r\n");
            let versions = self.versions(|_| true);
            self.said.push_back((self.sent, versions));
        }
    }

    /// What is at a key changes.
    pub(super) fn change(&mut self, key: Key, state: State, is_own: bool) -> usize {
        let name = key.1.clone();
        let states = self.history.entry(key).or_insert_with(|| vec![State { text: None, until_ms: None }]);
        states.push(state);
        let version = states.len() - 1;
        if self.broadcasts {
            self.changed.push(name);
        } else if self.remembered.remove(&name) {
            match is_own {
                true => self.behind.push(name),
                false => self.say(&[name]),
            }
        }
        version
    }

    /// The present state; a key whose time is over goes.
    fn now(&mut self, key: &Key, now_ms: u64) -> State {
        let states = self.history.entry(key.clone()).or_insert_with(|| vec![State { text: None, until_ms: None }]);
        let state = states.last().cloned().expect("there is always one");
        if state.until_ms.is_some_and(|until_ms| until_ms <= now_ms) {
            let gone = State { text: None, until_ms: None };
            self.change(key.clone(), gone.clone(), true);
            return gone;
        }
        state
    }

    /// Something that is written by others, or by the client: the next version, in words that name it.
    pub(super) fn write(&mut self, key: Key, note: &str, until_ms: Option<u64>, is_own: bool) -> usize {
        let version = self.history.get(&key).map_or(1, Vec::len);
        let text = format!("{}:{}:{version}:{note}", key.0, key.1);
        self.change(key, State { text: Some(text), until_ms }, is_own)
    }

    pub(super) fn flush_all(&mut self) {
        for states in self.history.values_mut() {
            states.push(State { text: None, until_ms: None });
        }
        self.say_all();
    }

    /// Executes one request and sends its reply.
    pub(super) fn execute(&mut self, words: &[&str], now_ms: u64) {
        let key = || (self.database, words[1].to_owned());
        let mut caching = false;
        let reply = match words {
            ["SELECT", database] => {
                self.database = database.parse().expect("a number");
                "+OK\r\n".to_owned()
            }
            ["CLIENT", "TRACKING", "ON", mode, ..] => {
                (self.opt_in, self.broadcasts) = (*mode == "OPTIN", *mode == "BCAST");
                "+OK\r\n".to_owned()
            }
            ["CLIENT", "CACHING", "YES"] if self.opt_in => {
                caching = true;
                "+OK\r\n".to_owned()
            }
            ["CLIENT", "CACHING", "YES"] => "-ERR not tracking\r\n".to_owned(),
            ["GET" | "SUBSTR", name, ..] => {
                let key = key();
                if self.caching {
                    self.remembered.insert((*name).to_owned());
                }
                match self.now(&key, now_ms).text {
                    Some(text) => format!("${}\r\n{text}\r\n", text.len()),
                    None => "_\r\n".to_owned(),
                }
            }
            ["PTTL", _] => {
                let key = key();
                match self.now(&key, now_ms) {
                    State { text: None, .. } => ":-2\r\n".to_owned(),
                    State { until_ms: None, .. } => ":-1\r\n".to_owned(),
                    State { until_ms: Some(until_ms), .. } => format!(":{}\r\n", until_ms - now_ms),
                }
            }
            ["SET", _, note] => {
                let key = key();
                let version = self.write(key, note, None, true);
                self.own.insert(note.trim_start_matches('w').parse().expect("a number"), version);
                "+OK\r\n".to_owned()
            }
            _ => panic!("no such command: {words:?}"),
        };
        self.caching = caching;
        self.send(reply.as_bytes());
        let behind = std::mem::take(&mut self.behind);
        self.say(&behind);
    }
}
