//! The actions of the state machine on this server, in their order: the role, the data, the clients' pause, messages.
//! (The actions on links are the bus's own.)

use std::sync::Arc;

use sleeve_cluster::action::LogLevel;

use crate::config::{ClientClass, Opt};
use crate::engine::Engine;
use crate::engine::clients::blocking::Waiter;
use crate::engine::cluster::{Cluster, view_change};
use crate::engine::journal::BatchBuffer;
use crate::engine::keyspace::all_shards;
use crate::engine::readiness::Hold;
use crate::engine::replication::role::Address;
use crate::engine::replication::role_change;
use crate::host::clock::Instant;
use crate::host::log;
use crate::messaging::message::Kind;
use crate::messaging::wakeups::Wakeups;
use crate::session::local::Local;

/// Shows the present view to the workers, and returns its version.
pub(super) fn show(engine: &Engine, cluster: &Cluster) -> u64 {
    let buffer = BatchBuffer::default();
    let _locks = all_shards::lock_all(engine, &buffer);
    show_locked(engine, cluster)
}

/// Shows the present view. All shards are locked, so no older view takes its place.
fn show_locked(engine: &Engine, cluster: &Cluster) -> u64 {
    let view = cluster.state.lock().view();
    let version = view.version;
    view_change::show(engine, view);
    version
}

/// Follows a primary, and shows the view in which this node is its replica, so that no write is accepted between the two.
/// Returns the version of the view.
pub(super) fn follow(engine: &Arc<Engine>, cluster: &Cluster, primary: Address) -> u64 {
    let buffer = BatchBuffer::default();
    let locks = all_shards::lock_all(engine, &buffer);
    let version = show_locked(engine, cluster);
    let is_new = role_change::follow_primary(engine, primary.clone());
    drop(locks);
    if is_new {
        log::notice(&format!("REPLICAOF {primary} enabled (by the cluster)"));
        note_primary(engine, &[primary.host.as_bytes(), primary.port.to_string().as_bytes()]);
    }
    if let Err(why) = engine.replication.role.start() {
        log::warning(&format!("The thread that follows the primary cannot start: {why}"));
    }
    version
}

/// Becomes a primary, and shows the view in which this node is one, so that no request for its slots is refused between the
/// two. Returns the version of the view.
pub(super) fn lead(engine: &Engine, cluster: &Cluster, now: Instant) -> u64 {
    let buffer = BatchBuffer::default();
    let locks = all_shards::lock_all(engine, &buffer);
    let is_new = role_change::lead(engine, now);
    let version = show_locked(engine, cluster);
    drop(locks);
    if is_new {
        log::notice("MASTER MODE enabled (by the cluster)");
        note_primary(engine, &[b"no", b"one"]);
    }
    version
}

/// Notes the primary of this server for CONFIG GET, and resumes the clients that were held when the primary changed.
pub(super) fn note_primary(engine: &Engine, words: &[&[u8]]) {
    if let Err(why) = engine.config.assign(Opt::Replicaof, words) {
        log::warning(&format!("CONFIG GET will not know the primary of this server: {why}"));
    }
    engine.clients.post_resume();
}

/// Holds the clients that write, or lets them go on. When it returns, each write that had begun before a hold is in the
/// journal, so its end is the offset that the replica has to reach.
pub(super) fn hold_writes(engine: &Engine, is_held: bool) {
    engine.clients.pause.hold_writes(Hold::Failover, is_held);
    if is_held {
        let buffer = BatchBuffer::default();
        drop(all_shards::lock_all(engine, &buffer));
    } else {
        engine.clients.post_resume();
    }
}

/// Removes all keys, as FLUSHALL does.
pub(super) fn flush_all(engine: &Arc<Engine>) {
    let mut session = Local::open_unobserved(engine);
    session.trust();
    let mut replies = Vec::new();
    if session.exchange(b"FLUSHALL SYNC\r\n", &mut replies).is_err() || !replies.starts_with(b"+OK") {
        log::warning(&format!("The keys cannot be removed: {}", String::from_utf8_lossy(&replies).trim_end()));
    }
}

/// Sends the replies to commands of which the actions are carried out.
pub(super) fn reply(engine: &Engine, replies: Vec<(Arc<Waiter>, String)>) {
    for (waiter, text) in replies {
        engine.answer(&waiter, |reply| reply.simple(&text));
    }
}

/// Delivers a message to this server's subscribers.
pub(super) fn publish(engine: &Engine, channel: &[u8], message: &[u8], is_sharded: bool) {
    let kind = if is_sharded { Kind::Shard } else { Kind::Channel };
    let bytes_max = engine.config.output_limit(ClientClass::Pubsub).hard_bytes;
    let mut wakeups = Wakeups::default();
    engine.pubsub.publish((kind, channel), message, (None, &mut wakeups, bytes_max));
    wakeups.ring(None);
}

/// Writes a line to the server log.
pub(super) fn write_log(level: LogLevel, line: &str) {
    match level {
        LogLevel::Verbose => log::verbose(line),
        LogLevel::Notice => log::notice(line),
        LogLevel::Warning => log::warning(line),
    }
}
