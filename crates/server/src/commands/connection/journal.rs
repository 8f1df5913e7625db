//! CLIENT JOURNAL: a connection that gets messages about how far its replies show the journal, and how far the disk and the
//! replicas have it.

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
        // It has seen data that is not there any more, and offsets of another journal: no message could cover that.
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

/// Ends the messages about the journal. A client that leaves RESP3 cannot receive them either.
pub fn end(cx: &Cx<'_>) {
    cx.state.client.settings.follows_journal.store(false, Ordering::Relaxed);
    cx.state.client.settings.follows_replicas.store(false, Ordering::Relaxed);
}
