//! Messages: the subscriptions, one shared copy of each published message, and the letters that carry it between threads.
//!
//! A message that is published under the lock of a key's shard is sent when the lock is given back, in the order of the
//! changes.

pub mod local_subscribers;
pub mod mail;
pub mod message;
pub mod pubsub;
pub mod subscription;
pub mod wakeups;
