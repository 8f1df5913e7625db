//! CLIENT JOURNAL: a connection that gets messages with offsets of the journal: up to which its replies show changes, and up
//! to which the disk and the replicas have them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sleeve_wire::reply::Protocol;

use super::client;
use crate::context::Cx;
use crate::engine::replication::primary;
use crate::messaging::mail::Letter;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// CLIENT JOURNAL ON \[REPLICAS\] | OFF
///
/// The worker that owns the connection sends the messages (`worker/journal_followers`).
pub fn journal(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let is_on = client::on_or_off(request.arg(2))?;
    let of_replicas = match request.args.get(3) {
        None => false,
        Some(word) if is_on && request.len() == 4 && word.eq_ignore_ascii_case(b"replicas") => true,
        Some(_) => return Err(Error::SYNTAX),
    };
    if is_on {
        begin(cx, of_replicas)?;
    } else {
        end(cx);
    }
    if !cx.state.closing {
        cx.reply().ok();
    }
    Ok(())
}

fn begin(cx: &mut Cx<'_>, of_replicas: bool) -> Outcome {
    if cx.state.protocol == Protocol::Resp2 {
        return Err(Error::fixed(
            "ERR CLIENT JOURNAL needs RESP3, in which a message cannot be taken for a reply: say HELLO 3 first",
        ));
    }
    let client = Arc::clone(&cx.state.client);
    if client.socket.descriptor < 0 {
        return Err(Error::fixed(
            "ERR CLIENT JOURNAL is for connections: a program that embeds the engine asks the engine itself",
        ));
    }
    if client.generation != cx.engine.clients.list.generation() {
        // The client has seen data that no longer exists, and offsets of another journal: no message could cover that, so it
        // is closed.
        cx.state.closing = true;
        return Ok(());
    }
    if of_replicas {
        client.settings.follows_replicas.store(true, Ordering::Relaxed);
        let shown = cx.locks.recorder.shown_offset().max(cx.state.journal.shown_offset);
        primary::ask_replicas_about(cx.engine, shown);
    }
    if !client.settings.follows_journal.swap(true, Ordering::Relaxed) {
        cx.pending.post(&client.mailbox, Letter::FollowJournal(client.id));
    }
    Ok(())
}

/// Ends the messages about the journal, at the client's request or because it leaves RESP3 and can no longer receive them.
pub fn end(cx: &Cx<'_>) {
    cx.state.client.settings.follows_journal.store(false, Ordering::Relaxed);
    cx.state.client.settings.follows_replicas.store(false, Ordering::Relaxed);
}
