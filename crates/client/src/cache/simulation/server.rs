//! The simulation's server, or a node of a cluster. It works on a history, and has one connection, with tracking.

use std::collections::{HashSet, VecDeque};

use super::history::{History, Key, State};

/// A server that knows SELECT, PING, GET, SUBSTR, PTTL, SET and CLIENT TRACKING, and one connection.
#[derive(Default)]
pub(super) struct Server {
    database: u32,
    opt_in: bool,
    broadcasts: bool,
    caching: bool,
    remembered: HashSet<String>,
    /// Keys that are reported as changed at the end of the batch.
    changed: Vec<String>,
    /// Keys that are reported as changed behind the reply.
    behind: Vec<String>,
    pub(super) down: VecDeque<u8>,
    /// The number of bytes that were sent on this connection.
    sent: u64,
    /// The invalidations that the server has sent, each with the offset of its end among the sent bytes.
    said: VecDeque<(u64, Vec<(Key, usize)>)>,
}

impl Server {
    /// Loses the messages in flight, and sends no more.
    pub(super) fn hang_up(&mut self) {
        *self = Self::default();
    }

    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.down.extend(bytes);
        self.sent += bytes.len() as u64;
    }

    /// Takes the versions of the invalidations that end within this many bytes.
    pub(super) fn said_until(&mut self, taken: u64) -> Vec<(Key, usize)> {
        let mut versions = Vec::new();
        while let Some((_, more)) = self.said.pop_front_if(|(end, _)| *end <= taken) {
            versions.extend(more);
        }
        versions
    }

    fn say(&mut self, history: &History, keys: &[String]) {
        if keys.is_empty() {
            return;
        }
        let names: String = keys.iter().map(|key| format!("${}\r\n{key}\r\n", key.len())).collect();
        self.send(format!(">2\r\n$10\r\ninvalidate\r\n*{}\r\n{names}", keys.len()).as_bytes());
        let versions = history.versions(|(_, key)| keys.contains(key));
        self.said.push_back((self.sent, versions));
    }

    /// Ends a batch: reports the keys that have changed in it.
    pub(super) fn say_changed(&mut self, history: &History) {
        let changed: HashSet<String> = std::mem::take(&mut self.changed).into_iter().collect();
        self.say(history, &changed.into_iter().collect::<Vec<_>>());
    }

    /// Removes all keys that the predicate selects, and sends an invalidation of all keys.
    pub(super) fn flush(&mut self, history: &mut History, is_meant: impl Fn(&Key) -> bool) {
        history.flush(&is_meant);
        self.remembered.clear();
        if self.opt_in || self.broadcasts {
            self.send(b">2\r\n$10\r\ninvalidate\r\n_\r\n");
            let versions = history.versions(is_meant);
            self.said.push_back((self.sent, versions));
        }
    }

    /// Notes that a key has changed on this server.
    fn changed(&mut self, history: &History, name: &str, is_own: bool) {
        if self.broadcasts {
            self.changed.push(name.to_owned());
        } else if self.remembered.remove(name) {
            match is_own {
                true => self.behind.push(name.to_owned()),
                false => self.say(history, &[name.to_owned()]),
            }
        }
    }

    /// Gives a key to another node. Earlier reads of it are invalidated, or forgotten silently.
    pub(super) fn gave_away(&mut self, history: &History, name: &str, is_told: bool) {
        if is_told {
            self.changed(history, name, false);
        } else {
            self.remembered.remove(name);
        }
    }

    /// Changes the value of a key, and returns its next version.
    pub(super) fn change(&mut self, history: &mut History, key: Key, state: State, is_own: bool) -> usize {
        let states = history.states(&key);
        states.push(state);
        let version = states.len() - 1;
        self.changed(history, &key.1, is_own);
        version
    }

    /// Returns the present state, and removes an expired key.
    fn now(&mut self, history: &mut History, key: &Key, now_ms: u64) -> State {
        let state = history.last(key);
        if state.is_over(now_ms) {
            self.change(history, key.clone(), State::GONE, true);
            return State::GONE;
        }
        state
    }

    /// Writes a value, by another client or by this one. The value names its version.
    pub(super) fn write(
        &mut self,
        history: &mut History,
        key: Key,
        (note, until_ms): (&str, Option<u64>),
        is_own: bool,
    ) -> usize {
        let version = history.states(&key).len();
        let text = format!("{}:{}:{version}:{note}", key.0, key.1);
        self.change(history, key, State { text: Some(text), until_ms }, is_own)
    }

    /// Turns a request away with an error.
    pub(super) fn turn_away(&mut self, error: &str) {
        self.caching = false;
        self.send(format!("-{error}\r\n").as_bytes());
    }

    /// Executes one request and sends its reply.
    pub(super) fn execute(&mut self, history: &mut History, words: &[&str], now_ms: u64) {
        let key = || (self.database, words[1].to_owned());
        let mut caching = false;
        let reply = match words {
            ["SELECT", database] => {
                self.database = database.parse().expect("a number");
                "+OK\r\n".to_owned()
            }
            ["PING"] => "+PONG\r\n".to_owned(),
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
                match self.now(history, &key, now_ms).text {
                    Some(text) => format!("${}\r\n{text}\r\n", text.len()),
                    None => "_\r\n".to_owned(),
                }
            }
            ["PTTL", _] => {
                let key = key();
                match self.now(history, &key, now_ms) {
                    State { text: None, .. } => ":-2\r\n".to_owned(),
                    State { until_ms: None, .. } => ":-1\r\n".to_owned(),
                    State { until_ms: Some(until_ms), .. } => format!(":{}\r\n", until_ms - now_ms),
                }
            }
            ["SET", _, note] => {
                let key = key();
                let version = self.write(history, key, (note, None), true);
                history.executed(note.trim_start_matches('w').parse().expect("a number"), version);
                "+OK\r\n".to_owned()
            }
            _ => panic!("no such command: {words:?}"),
        };
        self.caching = caching;
        self.send(reply.as_bytes());
        let behind = std::mem::take(&mut self.behind);
        self.say(history, &behind);
    }
}
