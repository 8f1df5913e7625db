//! Keyspace notifications: events about keys, published to channels that are named after the key and after the event.
//!
//! The code that changes a key notifies in Redis's words, once, behind the change. The option `notify-keyspace-events` says
//! which classes of events are published, and under which of the two names; while it is empty an event costs one relaxed
//! load. An event is published under the lock of its key's shard, so the events of one key come in their true order.

pub use crate::config::events::EventClass;
use crate::config::events::{KEYEVENT, KEYSPACE};
use crate::config::{ClientClass, Config, Opt};
use crate::engine::Engine;
use crate::messaging::message::Kind;
use crate::messaging::pubsub::Own;
use crate::messaging::wakeups::Wakeups;

/// The place where an event happens: the engine, the client that caused it if it has subscriptions itself, and the wake-ups
/// for the time when the locks have been given back.
pub type By<'a> = (&'a Engine, Option<Own<'a>>, &'a mut Wakeups);

/// Returns whether events of this class are published at all.
#[inline]
pub fn is_wanted(config: &Config, class: EventClass) -> bool {
    let bits = config.number(Opt::NotifyKeyspaceEvents) as u32;
    bits & class as u32 != 0 && bits & (KEYSPACE | KEYEVENT) != 0
}

/// Publishes an event about a key, if events of its class are wanted.
#[inline]
pub fn publish(by: By<'_>, database: u32, (class, event): (EventClass, &'static str), key: &[u8]) {
    if is_wanted(&by.0.config, class) {
        publish_wanted(by, database, event, key);
    }
}

#[cold]
fn publish_wanted((engine, own, wakeups): By<'_>, database: u32, event: &'static str, key: &[u8]) {
    let bits = engine.config.number(Opt::NotifyKeyspaceEvents) as u32;
    let bytes_max = engine.config.output_limit(ClientClass::Pubsub).hard_bytes;
    if bits & KEYSPACE != 0 {
        let channel = [format!("__keyspace@{database}__:").as_bytes(), key].concat();
        engine.pubsub.publish((Kind::Channel, &channel), event.as_bytes(), (own, &mut *wakeups, bytes_max));
    }
    if bits & KEYEVENT != 0 {
        let channel = format!("__keyevent@{database}__:{event}");
        engine.pubsub.publish((Kind::Channel, channel.as_bytes()), key, (own, wakeups, bytes_max));
    }
}
