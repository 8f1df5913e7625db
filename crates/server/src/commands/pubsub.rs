//! SUBSCRIBE, PUBLISH and their family, MONITOR, and PUBSUB, which lists the channels and patterns that exist.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sleeve_cluster::packet::Message;
use sleeve_wire::reply::Writer;

use crate::context::Cx;
use crate::context::publish;
use crate::engine::cluster::{keeps_channels, slot_of};
use crate::messaging::mail::Letter;
use crate::messaging::message::Kind;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// Answers SUBSCRIBE, PSUBSCRIBE and SSUBSCRIBE.
pub fn subscribe(cx: &mut Cx<'_>, request: Request<'_>, kind: Kind) -> Outcome {
    if cx.state.origin.denies_blocking {
        // A script could never read the messages of its subscriptions.
        let name = request.row.name.to_uppercase();
        return Err(Error::new(format!("ERR {name} isn't allowed for a DENY BLOCKING client")));
    }
    for name in request.args.from(1).iter() {
        let subscriptions = cx.state.subscriptions.get_or_insert_default();
        if !subscriptions.contains(kind, name) {
            let (shared, since) = cx.engine.pubsub.subscribe(kind, name, &cx.state.client.mailbox);
            subscriptions.enter(kind, shared, since);
            // Other threads may need this number before the batch ends: a script later in the batch may take long.
            cx.state.client.listened[kind as usize].store(subscriptions.len(kind), Ordering::Relaxed);
            if kind == Kind::Shard {
                end_if_left(cx, name);
            }
        }
        confirm(cx, request.row.name, kind, Some(name));
    }
    Ok(())
}

/// Ends the subscription to a shard channel if its slot has left this node of a cluster since the gates were passed.
fn end_if_left(cx: &mut Cx<'_>, channel: &[u8]) {
    if cx.engine.cluster.get().is_some_and(|cluster| !keeps_channels(&cluster.view(), slot_of(channel))) {
        let letter = Letter::ShardChannelsLeft([Arc::from(channel)].into());
        cx.pending.post(&cx.state.client.mailbox, letter);
    }
}

/// Answers UNSUBSCRIBE, PUNSUBSCRIBE and SUNSUBSCRIBE.
pub fn unsubscribe(cx: &mut Cx<'_>, request: Request<'_>, kind: Kind) -> Outcome {
    let subscriptions = cx.state.subscriptions.as_ref();
    let names: Vec<Arc<[u8]>> = match request.len() {
        1 => subscriptions.map(|subscriptions| subscriptions.names(kind).cloned().collect()).unwrap_or_default(),
        _ => request.args.from(1).iter().map(Arc::from).collect(),
    };
    for name in &names {
        let listened = cx.state.subscriptions.as_mut();
        if listened.is_some_and(|subscriptions| subscriptions.strike_out(kind, name)) {
            cx.engine.pubsub.unsubscribe(kind, name, &cx.state.client.mailbox);
        }
        confirm(cx, request.row.name, kind, Some(name));
    }
    if names.is_empty() {
        confirm(cx, request.row.name, kind, None);
    }
    Ok(())
}

/// Confirms the change of one subscription, with the number of names that the client is subscribed to now. Shard channels are
/// counted apart.
fn confirm(cx: &mut Cx<'_>, word: &str, kind: Kind, name: Option<&[u8]>) {
    let len = |kind| cx.state.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.len(kind));
    let count = if kind == Kind::Shard { len(kind) } else { len(Kind::Channel) + len(Kind::Pattern) };
    // Inside EXEC the confirmation is part of an array, which CLIENT REPLY suppresses as a whole.
    cx.is_message = cx.state.multi.executing.is_none();
    let mut reply = cx.reply();
    reply.push(3);
    reply.bulk(word.as_bytes());
    reply.bulk_or_null(name);
    reply.integer(count as i64);
}

/// MONITOR. A client that is a monitor already gets no reply, as in Redis, and nor does a replica.
pub fn monitor(cx: &mut Cx<'_>) -> Outcome {
    if cx.state.is_replica() {
        return Ok(());
    }
    if !cx.may_block() {
        // The client would be shown commands among the replies of its transaction.
        return Err(Error::fixed("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    let subscriptions = cx.state.subscriptions.get_or_insert_default();
    if !subscriptions.contains(Kind::Monitor, b"") {
        let (name, since) = cx.engine.pubsub.subscribe(Kind::Monitor, b"", &cx.state.client.mailbox);
        subscriptions.enter(Kind::Monitor, name, since);
        cx.reply().ok();
    }
    Ok(())
}

/// Answers PUBLISH and SPUBLISH.
pub fn publish(cx: &mut Cx<'_>, request: Request<'_>, kind: Kind) -> Outcome {
    let receivers = publish::publish(cx, kind, request.arg(1), request.arg(2));
    if let Some(cluster) = cx.engine.cluster.get() {
        // The bus brings the message to the other nodes, replicas included.
        let (channel, message) = (request.arg(1).to_vec(), request.arg(2).to_vec());
        cluster.send(Message { channel, message, is_sharded: kind == Kind::Shard });
        cx.reply().integer(receivers as i64);
        return Ok(());
    }
    // Replicas get the client's spelling, as in Redis, unless the command has another name here (`rename-command`).
    let (name, sent) = (request.row.name.as_bytes(), request.arg(0));
    let name = if sent.eq_ignore_ascii_case(name) { sent } else { name };
    let words = std::iter::once(name).chain(request.args.iter().skip(1));
    cx.locks.recorder.send_to_replicas(words, request.len());
    cx.reply().integer(receivers as i64);
    Ok(())
}

/// Answers PUBSUB CHANNELS and PUBSUB SHARDCHANNELS.
pub fn channels(cx: &mut Cx<'_>, request: Request<'_>, kind: Kind) -> Outcome {
    if request.len() > 3 {
        return Err(Error::subcommand_syntax("PUBSUB", request.arg(1)));
    }
    let names = cx.engine.pubsub.names(kind, request.args.get(2));
    let mut reply = cx.reply();
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name));
    Ok(())
}

/// Answers PUBSUB NUMSUB and PUBSUB SHARDNUMSUB.
pub fn numsub(cx: &mut Cx<'_>, request: Request<'_>, kind: Kind) -> Outcome {
    let names = request.args.from(2);
    cx.reply().array(2 * names.len());
    for name in names.iter() {
        let listeners = cx.engine.pubsub.listeners(kind, name);
        let mut reply = cx.reply();
        reply.bulk(name);
        reply.integer(listeners as i64);
    }
    Ok(())
}

/// PUBSUB NUMPAT
pub fn numpat(cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    let patterns = cx.engine.pubsub.len(Kind::Pattern);
    cx.reply().integer(patterns as i64);
    Ok(())
}

/// Writes the reply of PING to a RESP2 subscriber, in the form of a message: such a client takes every reply for one.
pub fn pong(reply: &mut Writer<'_>, message: &[u8]) {
    reply.array(2);
    reply.bulk(b"pong");
    reply.bulk(message);
}
