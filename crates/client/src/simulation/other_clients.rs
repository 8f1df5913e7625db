//! The other clients of the servers: their writes to keys of the cache, which the client does not know of, and the deadlines
//! of these keys.

use super::server::{Key, Servers, Value};
use super::tracking::PREFIX;

impl Servers {
    /// Notes the new value of a key of the cache, or its removal, and reports it to the connections of a node.
    pub(super) fn changed(&mut self, node: usize, key: &Key, text: Option<&[u8]>, until_us: Option<u64>) {
        if key.1.starts_with(PREFIX.as_bytes()) {
            self.history.became(key, text, self.now_us, until_us);
            self.trackers.changed(node, &key.1);
        }
    }

    /// Removes a key of the cache if its deadline has passed.
    pub(super) fn expire(&mut self, node: usize, key: &Key) {
        if self.data.contains_key(key) && self.history.until_us(key).is_some_and(|until_us| until_us <= self.now_us) {
            self.data.remove(key);
            self.changed(node, key, None, None);
        }
    }

    /// Returns the time to live of a key of the cache, as PTTL does.
    pub(super) fn left_ms(&self, key: &Key) -> i64 {
        let left_ms = |until_us: u64| ((until_us - self.now_us) / 1000) as i64;
        if self.data.contains_key(key) { self.history.until_us(key).map_or(-1, left_ms) } else { -2 }
    }

    /// Acts as another client: writes to one of the cache's keys, or flushes a node.
    fn write_as_others(&mut self) {
        let (database, number) = (self.roll(if self.topology.is_some() { 1 } else { 2 }), self.roll(4));
        let key = (database as u32, format!("{PREFIX}{number}").into_bytes());
        let node = self.holder(&key);
        if !self.is_reachable(node) {
            return;
        }
        match self.roll(12) {
            0 => {
                let is_cached = |key: &&Key| key.1.starts_with(PREFIX.as_bytes());
                let mut keys: Vec<Key> = self.data.keys().filter(is_cached).cloned().collect();
                keys.sort();
                for key in keys.into_iter().filter(|key| self.holder(key) == node).collect::<Vec<_>>() {
                    self.data.remove(&key);
                    self.history.became(&key, None, self.now_us, None);
                }
                self.trackers.flushed(node);
            }
            1 | 2 => self.expire(node, &key),
            _ => {
                let text = format!("{database}/{PREFIX}{number}=other{}", self.now_us).into_bytes();
                let until_us = (self.roll(2) == 0).then(|| self.now_us + 20_000 + self.roll(400_000) as u64);
                self.write(key.clone(), &text, Value::Text(text.clone()));
                self.changed(node, &key, Some(&text), until_us);
            }
        }
    }

    /// Returns the node that has a key, or at which it would be created.
    fn holder(&mut self, key: &Key) -> usize {
        let exists = self.data.contains_key(key);
        self.topology.as_mut().map_or(0, |topology| topology.holder(&key.1, exists))
    }

    fn roll(&self, sides: usize) -> usize {
        self.dice.borrow_mut().roll(sides)
    }

    /// Lets another client act, if that is due.
    pub(super) fn step(&mut self, now_us: u64) -> bool {
        if self.others_us.is_none_or(|others_us| others_us > now_us) {
            return false;
        }
        self.now_us = now_us;
        self.write_as_others();
        self.others_us = Some(now_us + 1 + self.roll(self.others_pause_us) as u64);
        true
    }

    /// Returns the time of the next such step.
    pub(super) fn next_us(&self) -> Option<u64> {
        self.others_us
    }
}
