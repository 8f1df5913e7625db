//! Feeding replicas: which bytes their connections are sent, and when.
//!
//! At the end of each wake-up every replica gets as many bytes as its connection takes, of its snapshot or of the journal.
//! The number of bytes that are handed to a connection and not taken is bounded, so that a replica that does not read costs
//! nothing but its position in the journal. No part of the journal is sent that may still be lost here: it has to be written
//! to the AOF, or fsynced, first, as the options demand for replies.
//!
//! The bytes of a snapshot may be bounded by time too (`repl-sync-rate`). A replica that has used its share up gets more when
//! the worker wakes again, at the latest for its periodic work, so that a changed rate counts for a transfer under way.
//!
//! While the worker sleeps, a letter notifies it of new bytes; while it is awake it checks by itself.

use std::sync::Arc;

use super::connections::Connections;
use crate::config::Opt;
use crate::engine::replication::{FeedLimits, Next, Replica, primary};
use crate::execute::scratch::Scratch;
use crate::host::log;
use crate::host::planted::{self, Fault};
use crate::messaging::mail::Letter;
use crate::net::Token;

/// The number of bytes handed to a connection and not taken, above which it gets no more.
const WINDOW_BYTES: usize = 256 << 10;

/// The number of times in a row that a replica gets more bytes before the clients of the worker have their turn. They wait
/// while the kernel copies the bytes.
const ROUNDS_MAX: usize = 2;

/// A replica and its connection.
type Feed = (Token, Arc<Replica>);

/// Feeds each replica the bytes that may be sent and that its connection takes.
#[cold]
pub(super) fn feed_replicas(connections: &mut Connections, scratch: &mut Scratch) {
    let engine = Arc::clone(&connections.engine);
    let end = engine.journal.end();
    // This also writes the journal to the AOF, even if no client waits for a reply.
    let sendable = if planted::has(Fault::SendsEarly) || engine.persistence.passes(&engine, end) {
        end
    } else {
        engine.persistence.passed().min(end)
    };
    let limits = FeedLimits {
        end: sendable,
        bytes_max: WINDOW_BYTES,
        sync_rate: engine.config.memory(Opt::ReplSyncRate),
        now_ms: scratch.now.monotonic_ms(),
    };
    let mut has_more = true;
    for _ in 0..ROUNDS_MAX {
        let feeds: Vec<Feed> = connections.feeds.clone();
        has_more = false;
        for (token, replica) in feeds {
            has_more |= feed(connections, token, &replica, limits);
        }
        if !has_more {
            break;
        }
        connections.send_queued(scratch);
    }
    for (token, replica) in connections.feeds.clone() {
        primary::spill_for(&engine, &replica, sendable);
        bound_lag(connections, token, &replica, end, scratch);
    }
    if connections.feeds.is_empty() {
        return;
    }
    let mailbox = &connections.home.mailbox;
    if has_more || engine.journal.tell_when_grown(end, mailbox) {
        mailbox.post_unheard(Letter::Stream);
    }
    let is_held_back = sendable < end && !engine.persistence.fails();
    if is_held_back && engine.persistence.tell_when_passed(end, mailbox) {
        mailbox.post_unheard(Letter::Stream);
    }
}

/// Sends a replica that is about to be closed the rest of the stream that it may get, as far as its connection takes it.
pub(super) fn send_rest(connections: &mut Connections, id: u64, scratch: &mut Scratch) {
    let Some(&(token, ref replica)) = connections.feeds.iter().find(|(_, replica)| replica.client.id == id) else {
        return;
    };
    let rest = replica.take_rest();
    if !rest.is_empty() {
        connections.queue(token, &Arc::new(rest));
        connections.send_queued(scratch);
    }
}

/// Hands a replica's connection the next bytes that may be sent; returns whether there were any.
fn feed(connections: &mut Connections, token: Token, replica: &Replica, limits: FeedLimits) -> bool {
    let mut has_more = false;
    if connections.sessions[token].as_ref().is_some_and(|session| session.state.closing) {
        return false;
    }
    while connections.driver.unsent(token) < WINDOW_BYTES {
        let mut bytes = Vec::new();
        match replica.next(limits, &mut bytes) {
            Next::Bytes => {
                has_more = true;
                connections.queue(token, &Arc::new(bytes));
            }
            Next::Nothing => break,
            Next::Done => {
                if let Some(session) = &mut connections.sessions[token] {
                    session.state.closing = true;
                }
                break;
            }
            Next::Lost => {
                log::warning(&format!(
                    "The snapshot for replica {} is not to be had; it begins anew.",
                    replica.client.socket.address
                ));
                connections.close(token);
                break;
            }
        }
    }
    has_more
}

/// Closes a replica that exceeds the output limit of its class of clients. The journal that is kept only for it counts; the
/// backlog, which is kept anyway, does not.
fn bound_lag(connections: &mut Connections, token: Token, replica: &Replica, end: u64, scratch: &Scratch) {
    let lag = Some(replica.lag(end)).filter(|lag| *lag > connections.engine.config.memory(Opt::ReplBacklogSize));
    let waiting = connections.driver.waiting(token) as u64 + lag.unwrap_or_default();
    let Some(session) = &mut connections.sessions[token] else { return };
    if session.state.closing && waiting == 0 {
        return connections.close_when_sent(token);
    }
    if session.is_output_exceeded(usize::try_from(waiting).unwrap_or(usize::MAX), scratch.now) {
        connections.close_for_output(token, scratch);
    }
}
