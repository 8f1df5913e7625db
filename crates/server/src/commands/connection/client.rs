//! CLIENT: the names of clients, the list of connected clients, and the commands that close, pause or silence a client.

use std::sync::atomic::Ordering;

use sleeve_wire::number;
use sleeve_wire::reply::Writer;

use super::client_filter::{ClientFilter, skip_of};
use crate::context::Cx;
use crate::context::session_state::{Input, Replies};
use crate::engine::clients::client_info::ClientInfo;
use crate::engine::readiness::PauseScope;
use crate::engine::replication::primary;
use crate::engine::replication::role_change;
use crate::messaging::mail::Letter;
use crate::request::Request;
use crate::request::error::{Error, Outcome};
use crate::request::output::Output;

/// CLIENT ID
pub fn id(cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    let id = cx.state.client.id as i64;
    cx.reply().integer(id);
    Ok(())
}

/// CLIENT GETNAME
pub fn get_name_reply(cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    let name = cx.state.client.names.lock().client.clone();
    if name.is_empty() {
        cx.reply().null()
    } else {
        cx.reply().bulk(name.as_bytes())
    }
    Ok(())
}

/// CLIENT SETNAME connection-name
pub fn set_name_reply(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    set_name(cx, request.arg(2))?;
    cx.reply().ok();
    Ok(())
}

/// Sets the name of this connection; an empty name removes it.
pub fn set_name(cx: &mut Cx<'_>, name: &[u8]) -> Outcome {
    let name = plain_text(name)
        .ok_or(Error::fixed("ERR Client names cannot contain spaces, newlines or special characters."))?;
    cx.state.client.names.lock().client = name;
    Ok(())
}

/// CLIENT SETINFO LIB-NAME name | LIB-VER version
pub fn set_info(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (attribute, value) = (request.arg(2), plain_text(request.arg(3)));
    let refusal =
        |attribute| Error::new(format!("ERR {attribute} cannot contain spaces, newlines or special characters."));
    if attribute.eq_ignore_ascii_case(b"lib-name") {
        cx.state.client.names.lock().library = value.ok_or_else(|| refusal("lib-name"))?;
    } else if attribute.eq_ignore_ascii_case(b"lib-ver") {
        cx.state.client.names.lock().library_version = value.ok_or_else(|| refusal("lib-ver"))?;
    } else {
        return Err(Error::naming("ERR Unrecognized option '{}'", &[attribute]));
    }
    cx.reply().ok();
    Ok(())
}

/// Reads a text of printable ASCII without spaces, which CLIENT LIST can show.
fn plain_text(bytes: &[u8]) -> Option<String> {
    bytes.iter().all(u8::is_ascii_graphic).then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// CLIENT INFO
pub fn info(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    publish_self(cx, &request);
    let text = cx.state.client.line(cx.now.wall_ms());
    cx.reply().verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// CLIENT LIST \[TYPE type\] \[ID id ...\]
pub fn list(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let filter = ClientFilter::of_list(request)?;
    publish_self(cx, &request);
    let clients = match &filter.ids {
        Some(ids) => ids.iter().filter_map(|&id| cx.engine.clients.list.find(id)).collect(),
        None => cx.engine.clients.list.all(),
    };
    let now_ms = cx.now.wall_ms();
    let admitted = clients.iter().filter(|client| filter.admits(client, now_ms));
    let text: String = admitted.map(|client| client.line(now_ms)).collect();
    cx.reply().verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// Publishes the calling client's fields of CLIENT LIST, which other threads read. Of its query buffer only this request
/// counts.
fn publish_self(cx: &Cx<'_>, request: &Request<'_>) {
    let bytes = request.args.multibulk_len();
    cx.state.publish(Input { bytes, spare: 0, argument_bytes: request.args.bytes_len() }, cx.now.wall_ms());
}

/// CLIENT KILL ip:port | option value ...
pub fn kill(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if request.len() == 3 {
        let address = String::from_utf8_lossy(request.arg(2)).into_owned();
        let filter = ClientFilter { address: Some(address), ..ClientFilter::default() };
        if close_matching(cx, &filter) == 0 {
            return Err(Error::fixed("ERR No such client"));
        }
        cx.reply().ok();
        return Ok(());
    }
    let mut filter = ClientFilter::of_kill(request)?;
    if let Some(name) = &filter.user
        && cx.engine.acl.get(name).is_none()
    {
        return Err(Error::naming("ERR No such user '{}'", &[name]));
    }
    if skip_of(request)? {
        filter.except = Some(cx.state.client.id);
    }
    let closed = close_matching(cx, &filter);
    cx.reply().integer(closed);
    Ok(())
}

fn close_matching(cx: &mut Cx<'_>, filter: &ClientFilter) -> i64 {
    let clients = cx.engine.clients.list.all();
    let mut closed = 0;
    let now_ms = cx.now.wall_ms();
    for client in clients.iter().filter(|client| filter.admits(client, now_ms)) {
        close(cx, client);
        closed += 1;
    }
    closed
}

/// Closes a client. The calling client is closed once it has the reply.
pub fn close(cx: &mut Cx<'_>, client: &ClientInfo) {
    // The client leaves the list at once, and cannot be killed again while its owner is busy.
    cx.engine.clients.list.leave(client.id);
    if client.id == cx.state.client.id {
        cx.state.closing = true;
    } else {
        if client.roles.is_replica.load(Ordering::Relaxed) {
            // The replica gets none of the writes of the rest of a transaction. It reconnects when the transaction has ended.
            role_change::end_replica(cx.engine, client.id);
        }
        cx.pending.post(&client.mailbox, Letter::Close(client.id));
    }
}

/// CLIENT PAUSE timeout \[WRITE | ALL\]
pub fn pause(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let held = match request.args.get(3) {
        _ if request.len() > 4 => return Err(Error::subcommand_syntax("CLIENT", request.arg(1))),
        None => PauseScope::All,
        Some(mode) if mode.eq_ignore_ascii_case(b"all") => PauseScope::All,
        Some(mode) if mode.eq_ignore_ascii_case(b"write") => PauseScope::Writes,
        Some(_) => return Err(Error::fixed("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let timeout_ms =
        number::parse_i64(request.arg(2)).ok_or(Error::fixed("ERR timeout is not an integer or out of range"))?;
    if timeout_ms < 0 {
        return Err(Error::fixed("ERR timeout is negative"));
    }
    // As in Redis, a pause that would end after the last possible date is refused, though dates do not matter here.
    timeout_ms.checked_add(cx.now.wall_ms()).ok_or(Error::fixed("ERR timeout is out of range"))?;
    // All shards are locked, and every write checks for a pause with its own locks held: so no write is under way now.
    cx.engine.clients.pause.begin(held, cx.now.monotonic_ms().saturating_add(timeout_ms as u64));
    cx.engine.clients.post_resume();
    cx.reply().ok();
    Ok(())
}

/// CLIENT UNPAUSE
pub fn unpause(cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    cx.engine.clients.pause.end();
    cx.engine.clients.post_resume();
    cx.reply().ok();
    Ok(())
}

/// CLIENT REPLY ON | OFF | SKIP
pub fn reply(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let mode = request.arg(2);
    if mode.eq_ignore_ascii_case(b"on") {
        cx.state.replies = cx.state.usual_replies();
        cx.reply().ok();
    } else if mode.eq_ignore_ascii_case(b"off") {
        cx.state.replies = Replies::Off;
    } else if mode.eq_ignore_ascii_case(b"skip") {
        if cx.state.replies != Replies::Off {
            cx.state.replies = Replies::SkipNext;
        }
    } else {
        return Err(Error::SYNTAX);
    }
    Ok(())
}

/// CLIENT NO-EVICT ON | OFF
pub fn no_evict(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let on = on_or_off(request.arg(2))?;
    cx.state.client.settings.no_evict.store(on, Ordering::Relaxed);
    cx.reply().ok();
    Ok(())
}

/// CLIENT NO-TOUCH ON | OFF
pub fn no_touch(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    cx.state.no_touch = on_or_off(request.arg(2))?;
    cx.state.client.settings.no_touch.store(cx.state.no_touch, Ordering::Relaxed);
    cx.reply().ok();
    Ok(())
}

/// CLIENT CAPA capability \[capability ...\]
///
/// As in Valkey, an unknown capability is ignored, and a capability is never taken back, not even by RESET.
pub fn capa(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if request.args.from(2).iter().any(|word| word.eq_ignore_ascii_case(b"redirect")) {
        cx.state.client.settings.redirects.store(true, Ordering::Relaxed);
    }
    cx.reply().ok();
    Ok(())
}

pub(super) fn on_or_off(word: &[u8]) -> Result<bool, Error> {
    match word {
        _ if word.eq_ignore_ascii_case(b"on") => Ok(true),
        _ if word.eq_ignore_ascii_case(b"off") => Ok(false),
        _ => Err(Error::SYNTAX),
    }
}

/// CLIENT UNBLOCK client-id \[TIMEOUT | ERROR\]
pub fn unblock(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if request.len() > 4 {
        return Err(Error::subcommand_syntax("CLIENT", request.arg(1)));
    }
    let is_error = match request.args.get(3) {
        None => false,
        Some(reason) if reason.eq_ignore_ascii_case(b"timeout") => false,
        Some(reason) if reason.eq_ignore_ascii_case(b"error") => true,
        Some(_) => return Err(Error::fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
    };
    let id = number::parse_i64(request.arg(2)).ok_or(Error::NOT_INTEGER)?;
    // A client that waits for work of this server, such as the save of nodes.conf, is not blocked in Redis.
    let waiter = cx.engine.clients.blocking.of_client(id as u64).filter(|waiter| waiter.waits_for_others());
    let claim = waiter.as_ref().and_then(|waiter| waiter.claim());
    let is_waiting = claim.is_some();
    if let (Some(waiter), Some(claim)) = (&waiter, claim) {
        claim.finish(&cx.engine.clients.blocking);
        let mut reply = Output::default();
        if is_error {
            Writer::new(&mut reply.bytes, waiter.protocol).error("UNBLOCKED client unblocked via CLIENT UNBLOCK");
            cx.engine.observe.stats.count_error("UNBLOCKED");
            cx.counters.errors_replied.add(1);
            cx.counters.commands[waiter.row.id as usize].failed.add(1);
        } else {
            waiter.on_timeout.write(&mut reply.bytes, waiter.protocol, |offset| primary::reached(cx.engine, offset));
        }
        let letter = Letter::Unblock { id: waiter.client.id, ticket: waiter.ticket, reply, is_refused: false };
        cx.pending.post(&waiter.client.mailbox, letter);
    }
    cx.reply().integer(i64::from(is_waiting));
    Ok(())
}
