//! The history of each key of a simulation, the invalidations that arrived, and the values that a read may return after
//! these.

use std::collections::{BTreeMap, BTreeSet};

use sleeve_wire::frame::Frame;

use crate::pipe::slot::Payload;

/// A database and a key.
pub(super) type Key = (u32, String);

/// A value of a key, and its deadline.
#[derive(Clone)]
pub(super) struct State {
    pub(super) text: Option<String>,
    pub(super) until_ms: Option<u64>,
}

impl State {
    pub(super) const GONE: Self = Self { text: None, until_ms: None };

    pub(super) fn is_over(&self, now_ms: u64) -> bool {
        self.until_ms.is_some_and(|until_ms| until_ms <= now_ms)
    }
}

/// The oldest versions that a read may return.
#[derive(Clone, Copy)]
pub(super) struct Least {
    /// The version of the last invalidation that had arrived when the read began.
    floor: usize,
    /// The client's last own write before the read, and whether it was answered.
    own: Option<(usize, bool)>,
}

/// The states of all keys. The index of a state among those of its key is its version.
#[derive(Default)]
pub(super) struct History {
    states: BTreeMap<Key, Vec<State>>,
    /// The versions that the client's own writes have made, by the numbers of the writes.
    own: BTreeMap<usize, usize>,
    /// The last version of each key for which an invalidation has arrived: no older version may be read.
    floors: BTreeMap<Key, usize>,
    last_own: BTreeMap<Key, (usize, bool)>,
    /// The client's own writes that came back and were sent again.
    unordered: BTreeSet<usize>,
}

impl History {
    /// Returns the states of a key, the present one last.
    pub(super) fn states(&mut self, key: &Key) -> &mut Vec<State> {
        self.states.entry(key.clone()).or_insert_with(|| vec![State::GONE])
    }

    /// Returns the present state of a key.
    pub(super) fn last(&mut self, key: &Key) -> State {
        self.states(key).last().cloned().expect("there is always one")
    }

    /// Removes the keys that the predicate selects.
    pub(super) fn flush(&mut self, is_meant: impl Fn(&Key) -> bool) {
        self.states.iter_mut().filter(|(key, _)| is_meant(key)).for_each(|(_, states)| states.push(State::GONE));
    }

    /// Returns the present versions of the keys that the predicate selects.
    pub(super) fn versions(&self, is_meant: impl Fn(&Key) -> bool) -> Vec<(Key, usize)> {
        let meant = self.states.iter().filter(|(key, _)| is_meant(key));
        meant.map(|(key, states)| (key.clone(), states.len() - 1)).collect()
    }

    /// Notes that invalidations of these versions have arrived.
    pub(super) fn raise_floors(&mut self, versions: Vec<(Key, usize)>) {
        for (key, version) in versions {
            let floor = self.floors.entry(key).or_default();
            *floor = (*floor).max(version);
        }
    }

    /// Notes that the client has sent this own write: its later reads must see it.
    pub(super) fn sent(&mut self, key: Key, number: usize) {
        self.last_own.insert(key, (number, false));
    }

    /// Notes that an own write was answered.
    pub(super) fn answered(&mut self, key: &Key, number: usize) {
        self.last_own.entry(key.clone()).and_modify(|last| last.1 |= last.0 == number);
    }

    /// Notes that an own write came back: until it is answered, later reads need not see it.
    pub(super) fn put_off(&mut self, number: usize) {
        self.unordered.insert(number);
    }

    /// Notes that an own write was executed, and the version that it made.
    pub(super) fn executed(&mut self, number: usize, version: usize) {
        self.own.insert(number, version);
    }

    /// Returns the oldest versions that a read may return if it begins now.
    pub(super) fn least(&self, key: &Key) -> Least {
        Least { floor: self.floors.get(key).copied().unwrap_or(0), own: self.last_own.get(key).copied() }
    }

    /// Asserts that a read may return this reply.
    pub(super) fn check(&self, key: &Key, least: Least, payload: &Payload, is_hit: bool, now_ms: u64) {
        let floor = least.floor;
        let own = least.own.filter(|(own, is_answered)| *is_answered || !self.unordered.contains(own));
        let own = own.and_then(|(own, _)| self.own.get(&own)).copied().unwrap_or(0);
        let states = self.states.get(key).map(Vec::as_slice).unwrap_or_default();
        match payload.frame() {
            Ok(Frame::Bulk(text)) => {
                let text = String::from_utf8_lossy(text).into_owned();
                let version = states.iter().position(|state| state.text.as_ref() == Some(&text));
                let version = version.unwrap_or_else(|| panic!("{key:?} never was {text}"));
                assert!(version >= floor, "{key:?} was read as {text}, and version {floor} had been heard of");
                assert!(version >= own, "{key:?} was read as {text} behind its own write {own}");
                // A value that was overwritten after its deadline is removed when its invalidation arrives, as any other
                // value is. So only the last version can be late.
                let is_late = is_hit && version == states.len() - 1 && states[version].is_over(now_ms);
                assert!(!is_late, "{text} was read here when its time was over");
            }
            Ok(Frame::Null) => {
                let mut later = states.iter().skip(floor.max(own));
                let was_there = !states.is_empty() && later.all(|state| state.text.is_some() && !state.is_over(now_ms));
                assert!(!was_there, "{key:?} was read as nothing behind version {floor}, and its own write {own}");
            }
            Ok(other) => panic!("another's answer: {other:?}"),
            // The caller got an error: the read was lost, or timed out.
            Err(_) => {}
        }
    }
}
