//! The values that each key of the cache has had, and the check whether a read through the cache may have returned its value.
//!
//! A read may be older than the last write: an invalidation takes as long as any message. It may not be older than
//!
//! - a write of this client on the shared connection that was answered before the read, or sent before it if order holds;
//! - any change that one server made before a command with a reply that had arrived on the shared connection: the
//!   invalidation came ahead of that reply;
//! - the values of a third of a second ago, if nothing delays messages or all failures are over;
//! - its own deadline, if the cache had it.

use std::collections::{BTreeMap, HashMap};

use super::server::Key;

/// The time within which an invalidation arrives if nothing delays it.
const PROMPT_US: u64 = 300_000;

/// A value that a key had, until the next one.
struct Version {
    order: u64,
    at_us: u64,
    text: Option<String>,
    until_us: Option<u64>,
}

/// The changes that the servers have made, in their order.
#[derive(Default)]
pub(super) struct History {
    last: u64,
    keys: BTreeMap<Key, Vec<Version>>,
    /// The index of the first execution of each write among all changes.
    executed: HashMap<Vec<u8>, u64>,
}

/// A read through the cache.
pub(super) struct CachedRead {
    pub(super) database: u32,
    pub(super) key: String,
    pub(super) text: Option<String>,
    pub(super) began_us: u64,
    pub(super) ended_us: u64,
    /// The tokens of the writes to the key that the read must not miss.
    pub(super) behind: Vec<String>,
    /// The tokens of the writes with replies that had arrived on the shared connection to the only server.
    pub(super) heard: Vec<String>,
    /// True if the reply came from the cache.
    pub(super) is_hit: bool,
    /// True if each invalidation that was sent a third of a second ago had arrived.
    pub(super) is_prompt: bool,
}

impl History {
    /// Notes that a write was executed.
    pub(super) fn executed(&mut self, token: &[u8]) {
        self.last += 1;
        self.executed.entry(token.to_vec()).or_insert(self.last);
    }

    /// Notes the new value of a key, or its removal.
    pub(super) fn became(&mut self, key: &Key, text: Option<&[u8]>, at_us: u64, until_us: Option<u64>) {
        self.last += 1;
        let text = text.map(|text| String::from_utf8_lossy(text).into_owned());
        self.keys.entry(key.clone()).or_default().push(Version { order: self.last, at_us, text, until_us });
    }

    /// Returns the deadline of a key.
    pub(super) fn until_us(&self, key: &Key) -> Option<u64> {
        self.keys.get(key)?.last()?.until_us
    }

    /// Returns the fault of a read, if it has one.
    pub(super) fn fault(&self, read: &CachedRead) -> Option<String> {
        let versions = self.keys.get(&(read.database, read.key.clone().into_bytes())).map_or(&[][..], Vec::as_slice);
        let oldest = self.oldest(read, versions);
        let told = || format!("{} in {} was read as {:?} through the cache", read.key, read.database, read.text);
        let Some(text) = &read.text else {
            let may_be_gone = |version: &Version| {
                version.text.is_none() || version.until_us.is_some_and(|until_us| until_us <= read.ended_us)
            };
            let was_there = oldest.is_some_and(|oldest| !versions[oldest..].iter().any(may_be_gone));
            return was_there.then(|| format!("{}, and it was there since version {oldest:?}", told()));
        };
        let Some(seen) = versions.iter().rposition(|version| version.text.as_ref() == Some(text)) else {
            return Some(format!("{}, which it never was", told()));
        };
        if oldest.is_some_and(|oldest| seen < oldest) {
            return Some(format!("{}, version {seen}, and the client knew of version {oldest:?}", told()));
        }
        let is_late = read.is_hit && versions[seen].until_us.is_some_and(|until_us| until_us <= read.began_us);
        is_late.then(|| format!("{} when its time was over", told()))
    }

    /// Returns the oldest version that a read may return; none if it may return the state before the key's first value.
    fn oldest(&self, read: &CachedRead, versions: &[Version]) -> Option<usize> {
        let of_text = |text: &String| versions.iter().position(|version| version.text.as_ref() == Some(text));
        let own = read.behind.iter().filter_map(of_text).max();
        let heard = read.heard.iter().filter_map(|token| self.executed.get(token.as_bytes())).max();
        let told = versions.iter().rposition(|version| heard.is_some_and(|heard| version.order < *heard));
        let is_old = |version: &Version| read.is_prompt && version.at_us + PROMPT_US < read.began_us;
        own.max(told).max(versions.iter().rposition(is_old))
    }
}
