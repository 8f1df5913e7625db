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

/// The least that a read may see.
#[derive(Clone, Copy)]
pub(super) struct Least {
    /// The version that had been heard of.
    floor: usize,
    /// The last write of the client's own before it, and whether that was answered.
    own: Option<(usize, bool)>,
}

/// All keys; where in its states one stands is a version.
#[derive(Default)]
pub(super) struct History {
    states: BTreeMap<Key, Vec<State>>,
    /// The versions that the client's own writes have made.
    own: BTreeMap<usize, usize>,
    /// The last known state of each key: no older one may be read.
    floors: BTreeMap<Key, usize>,
    last_own: BTreeMap<Key, (usize, bool)>,
    /// Writes that came back, and were sent again.
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

    /// Everything is gone that is meant.
    pub(super) fn flush(&mut self, is_meant: impl Fn(&Key) -> bool) {
        self.states.iter_mut().filter(|(key, _)| is_meant(key)).for_each(|(_, states)| states.push(State::GONE));
    }

    /// The present versions of the keys that are meant.
    pub(super) fn versions(&self, is_meant: impl Fn(&Key) -> bool) -> Vec<(Key, usize)> {
        let meant = self.states.iter().filter(|(key, _)| is_meant(key));
        meant.map(|(key, states)| (key.clone(), states.len() - 1)).collect()
    }

    /// These versions were heard of.
    pub(super) fn raise_floors(&mut self, versions: Vec<(Key, usize)>) {
        for (key, version) in versions {
            let floor = self.floors.entry(key).or_default();
            *floor = (*floor).max(version);
        }
    }

    /// The client has sent this write of its own, and its later reads must see it.
    pub(super) fn sent(&mut self, key: Key, number: usize) {
        self.last_own.insert(key, (number, false));
    }

    /// It was answered.
    pub(super) fn answered(&mut self, key: &Key, number: usize) {
        self.last_own.entry(key.clone()).and_modify(|last| last.1 |= last.0 == number);
    }

    /// It came back: nothing is promised of it until it is answered.
    pub(super) fn put_off(&mut self, number: usize) {
        self.unordered.insert(number);
    }

    /// A write of the client's own was executed.
    pub(super) fn executed(&mut self, number: usize, version: usize) {
        self.own.insert(number, version);
    }

    /// The least that a read may see which begins now.
    pub(super) fn least(&self, key: &Key) -> Least {
        Least { floor: self.floors.get(key).copied().unwrap_or(0), own: self.last_own.get(key).copied() }
    }

    /// Whether a read may see this.
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
                // A value that was overwritten goes when its invalidation arrives, as any other does.
                let is_late = is_hit && version == states.len() - 1 && states[version].is_over(now_ms);
                assert!(!is_late, "{text} was read here when its time was over");
            }
            Ok(Frame::Null) => {
                let mut later = states.iter().skip(floor.max(own));
                let was_there = !states.is_empty() && later.all(|state| state.text.is_some() && !state.is_over(now_ms));
                assert!(!was_there, "{key:?} was read as nothing behind version {floor}, and its own write {own}");
            }
            Ok(other) => panic!("another's answer: {other:?}"),
            // It was told that it was lost, or that its time was up.
            Err(_) => {}
        }
    }
}
