//! Messages: who listens to what, one shared copy of what is published, and the letters that carry it between threads.
//!
//! What is published under the lock of a key's shard leaves when the lock is given back, in the order of the changes.

pub mod local_subscribers;
pub mod mail;
pub mod message;
pub mod pubsub;
pub mod subscription;
pub mod wakeups;
