//! A change of the view: the workers see it, and clients that depend on slots which have left are told.
//!
//! Clients that wait for keys of such a slot get the error that redirects them, and subscriptions to its shard channels end
//! with a message that says so. A client that begins to wait looks at the marks of the slots behind the lock of its shard, so
//! none is missed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sleeve_cluster::state::View;
use sleeve_wire::commands::Flags;

use super::judgement::{SlotRequest, judge_waiting, keeps_channels};
use super::slot_of;
use crate::engine::Engine;
use crate::messaging::mail::Letter;
use crate::messaging::message::Kind;

/// Shows the workers a new view, and tells the clients that it concerns. Does nothing if the view is the present one. All
/// shards are locked.
pub fn show(engine: &Engine, view: View) {
    let Some(cluster) = engine.cluster.get() else { return };
    if let Some(view) = cluster.replace_view(view) {
        end_waits(engine, &view);
        end_subscriptions(engine, &view);
    }
}

/// Redirects the clients that wait in vain for a key.
fn end_waits(engine: &Engine, view: &View) {
    for waiter in engine.clients.blocking.all() {
        // A client that waits for other servers waits for no slot.
        let Some(key) = waiter.first_key() else { continue };
        let client = &waiter.client;
        let waiting = SlotRequest {
            slot: slot_of(&key.name),
            writes: waiter.row.flags.contains(Flags::WRITE),
            reads_replicas: client.settings.reads_replicas.load(Ordering::Relaxed),
            ..SlotRequest::default()
        };
        if let Err(refusal) = judge_waiting(view, &waiting) {
            engine.refuse(&waiter, &refusal.error(client.socket.is_tls));
        }
    }
}

/// Ends the subscriptions to shard channels that another shard serves, or none.
fn end_subscriptions(engine: &Engine, view: &View) {
    let is_gone = |channel: &Arc<[u8]>| !keeps_channels(view, slot_of(channel));
    let gone: Arc<[Arc<[u8]>]> = engine.pubsub.names(Kind::Shard, None).into_iter().filter(is_gone).collect();
    if !gone.is_empty() {
        let mailboxes = engine.clients.mailboxes();
        mailboxes.iter().for_each(|mailbox| mailbox.post(Letter::ShardChannelsLeft(Arc::clone(&gone))));
    }
}
