//! REPLCONF, PSYNC and SYNC: the commands of a replica to its primary.
//!
//! Until PSYNC or SYNC a replica is a client like any other, and the server only keeps the facts that it gives about itself.
//! From then on it gets no replies but the replication stream, which the worker that owns its connection sends
//! (`worker/replica_feeds`), and it reports its offset.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sleeve_wire::number;

use super::note_primary;
use crate::context::Cx;
use crate::context::locking;
use crate::context::session_state::Replies;
use crate::engine::replication::primary;
use crate::engine::replication::role_change;
use crate::engine::replication::{Beginning, Id, RdbFilter, Replica, Told};
use crate::host::log;
use crate::messaging::mail::Letter;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The greatest length of an address, in characters.
const ADDRESS_LEN_MAX: usize = 255;

/// REPLCONF \[option value ...\]
pub fn repl_conf(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if request.len().is_multiple_of(2) {
        return Err(Error::SYNTAX);
    }
    let replica = replica_of(cx);
    let mut told = replica.told.lock().clone();
    for at in (1..request.len()).step_by(2) {
        let (option, value) = (request.arg(at), request.arg(at + 1));
        match option.to_ascii_lowercase().as_slice() {
            b"ack" => {
                acknowledge(cx, &replica, request);
                return Ok(());
            }
            // GETACK is for replicas: a primary sends it within its stream.
            b"getack" => return Ok(()),
            _ => tell(&mut told, option, value)?,
        }
    }
    *replica.told.lock() = told;
    cx.reply().ok();
    Ok(())
}

/// Returns the facts about the client as a replica. They are kept from the first call on.
fn replica_of(cx: &mut Cx<'_>) -> Arc<Replica> {
    let client = &cx.state.client;
    Arc::clone(cx.state.replica.get_or_insert_with(|| Arc::new(Replica::new(client))))
}

/// Notes one fact that a replica gives about itself.
fn tell(told: &mut Told, option: &[u8], value: &[u8]) -> Outcome {
    let is_yes = || match number::parse_i64(value) {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        Some(_) => Err(Error::fixed("ERR value is out of range, value must between 0 and 1")),
        None => Err(Error::NOT_INTEGER),
    };
    match option.to_ascii_lowercase().as_slice() {
        b"listening-port" => {
            let port = number::parse_i64(value).ok_or(Error::NOT_INTEGER)?;
            told.port = u16::try_from(port).map_err(|_| Error::fixed("ERR value is out of range"))?;
        }
        b"ip-address" if value.len() > ADDRESS_LEN_MAX => {
            let len = value.len();
            return Err(Error::new(format!(
                "ERR REPLCONF ip-address provided by replica instance is too long: {len} bytes"
            )));
        }
        b"ip-address" => {
            let is_plain = !value.is_empty() && value.iter().all(u8::is_ascii_graphic);
            told.address = is_plain.then(|| String::from_utf8_lossy(value).into_owned());
        }
        b"capa" if value.eq_ignore_ascii_case(b"eof") => told.finds_end = true,
        b"capa" if value.eq_ignore_ascii_case(b"psync2") => told.knows_ids = true,
        b"capa" if value.eq_ignore_ascii_case(b"rdb13") => told.loads_newest = true,
        // The other capabilities of a replica make no difference here.
        b"capa" => {}
        b"version" => told.valkey = version_of(value),
        b"rdb-only" => told.snapshot_only = is_yes()?,
        b"rdb-filter-only" => {
            let mut words = value.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
            told.filter = RdbFilter::Nothing;
            words.try_for_each(|word| {
                if !word.eq_ignore_ascii_case(b"functions") {
                    return Err(Error::naming("ERR Unsupported rdb-filter-only option: {}", &[word]));
                }
                told.filter = RdbFilter::Functions;
                Ok(())
            })?;
        }
        _ => return Err(Error::naming("ERR Unrecognized REPLCONF option: {}", &[option])),
    }
    Ok(())
}

/// Reads a version, which only Valkey sends: 9.1.2 as 0x090102.
fn version_of(text: &[u8]) -> Option<u32> {
    let mut parts =
        text.split(|byte| *byte == b'.').map(|part| number::parse_i64(part).and_then(|n| u8::try_from(n).ok()));
    let [major, minor, patch] = [(); 3].map(|()| parts.next().flatten());
    Some(u32::from(major?) << 16 | u32::from(minor?) << 8 | u32::from(patch.unwrap_or(0)))
}

/// REPLCONF ACK offset \[FACK offset\]: there is never a reply. If the client is no replica, the command is ignored.
fn acknowledge(cx: &Cx<'_>, replica: &Arc<Replica>, request: Request<'_>) {
    let offset = |at: usize| request.args.get(at).and_then(number::parse_i64).and_then(|n| u64::try_from(n).ok());
    let Some(applied) = offset(2).filter(|_| replica.is_registered()) else { return };
    let says_synced = request.args.get(3).is_some_and(|word| word.eq_ignore_ascii_case(b"fack"));
    let synced = if says_synced { offset(4) } else { None };
    primary::acknowledge_for(cx.engine, replica, applied, synced, cx.now);
}

/// PSYNC id offset \[FAILOVER\]
pub fn psync(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let Some(next) = number::parse_i64(request.arg(2)) else {
        let address = &cx.state.client.socket.address;
        log::warning(&format!("Replica {address} asks for synchronization but with a wrong offset"));
        return Err(Error::NOT_INTEGER);
    };
    // A replica sends the number of the next byte that it wants, counted from 1.
    let offset = next.checked_sub(1).and_then(|offset| u64::try_from(offset).ok());
    let wanted = Id::parse(request.arg(1)).zip(offset);
    if request.args.get(3).is_some_and(|word| word.eq_ignore_ascii_case(b"failover")) && !cx.state.is_replica() {
        take_over(cx, wanted.map(|(id, _)| id))?;
    }
    begin(cx, wanted, false)
}

/// Takes over the role of the primary at the primary's request (FAILOVER); `id` is the replication id of its stream.
fn take_over(cx: &mut Cx<'_>, id: Option<Id>) -> Outcome {
    let (engine, now) = (cx.engine, cx.now);
    let ids = &engine.replication.ids;
    log::warning(&format!(
        "Failover request received for replid {}.",
        id.map_or_else(String::new, |id| id.to_string())
    ));
    if !engine.replication.role.is_replica() {
        let previous = ids.second().map(|(second, _)| second);
        if previous.is_some_and(|own| id == previous && engine.replication.failover.has_taken(own)) {
            // The primary has asked before, and lost the connection before it received the answer.
            return Ok(());
        }
        return Err(Error::fixed("ERR PSYNC FAILOVER can't be sent to a master."));
    }
    if id != Some(ids.id()) {
        return Err(Error::fixed("ERR PSYNC FAILOVER replid must match my replid."));
    }
    locking::lock_all(cx)?;
    let leads = role_change::lead(engine, now);
    cx.locks.clear();
    if leads {
        id.iter().for_each(|id| engine.replication.failover.note_taken(*id));
        log::notice(&format!("MASTER MODE enabled (failover request from '{}')", cx.state.client.socket.address));
        note_primary(cx, &[b"no", b"one"]);
    }
    Ok(())
}

/// SYNC
pub fn sync(cx: &mut Cx<'_>) -> Outcome {
    begin(cx, None, true)
}

fn begin(cx: &mut Cx<'_>, wanted: Option<(Id, u64)>, is_silent: bool) -> Outcome {
    let client = Arc::clone(&cx.state.client);
    if client.socket.descriptor < 0 {
        return Err(Error::fixed("ERR a replica needs a connection, which a program that embeds the engine has not"));
    }
    let role = &cx.engine.replication.role;
    if role.is_replica() && !role.is_connected() {
        return Err(Error::fixed("NOMASTERLINK Can't SYNC while not connected with my master"));
    }
    let replica = replica_of(cx);
    if replica.is_registered() {
        // The client is being fed as a replica already, and gets no replies.
        return Ok(());
    }
    // A transaction may have closed the replica's last connection (CLIENT KILL). Once all locks are held, that transaction
    // has ended and its writes are in the stream. Without this wait the replica would continue at an offset before them.
    locking::lock_all(cx)?;
    cx.locks.clear();
    replica.is_silent.store(is_silent, Ordering::Relaxed);
    let told = replica.told.lock().clone();
    let address = told.address.as_deref().unwrap_or(&client.socket.address).to_owned();
    log::notice(&format!("Replica {address} (port {}) asks for synchronization", told.port));
    match primary::admit_replica(cx.engine, &replica, wanted, cx.now) {
        Beginning::Continues(id) => {
            log::notice("Partial resynchronization request accepted.");
            let text = if told.knows_ids { format!("CONTINUE {id}") } else { "CONTINUE".to_owned() };
            cx.reply().simple(&text);
        }
        Beginning::Anew => log::notice("Full resync requested by replica"),
    }
    cx.state.is_news = true;
    // That was the last reply; from here on the replica gets the stream, in which messages have no place.
    cx.state.unsubscribe_all(cx.engine);
    cx.state.stop_tracking(cx.engine);
    client.settings.follows_journal.store(false, Ordering::Relaxed);
    cx.state.replies = Replies::Stream;
    cx.pending.post(&client.mailbox, Letter::Feed(client.id));
    Ok(())
}
