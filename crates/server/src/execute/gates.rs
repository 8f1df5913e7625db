//! The reasons to refuse, queue or hold a command, in the order in which Redis tries them.
//!
//! Asked for each request before a lock is taken, so each of them is a look at something that seldom changes; what there is to
//! say when the look finds something is cold. A pause alone is asked again under the locks (`execute`). A gate changes nothing
//! but memory, which makes room. On the thread that executes.

use std::sync::atomic::Ordering;

use sleeve_wire::commands::{Command, Flags, Row};
use sleeve_wire::reply::Protocol;
use sleeve_wire::request::Args;

use crate::config::Opt;
use crate::context::locking;
use crate::context::permission;
use crate::context::{Cx, Room};
use crate::engine::pause::PauseScope;
use crate::engine::readiness::Hindrance;
use crate::request::Request;
use crate::request::error::Error;

/// What becomes of a command that nothing forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It runs now, unless a pause holds it: whoever runs it asks once more, with the locks held.
    Run,
    /// It waits for EXEC.
    Queue,
    /// It waits for the end of a pause, and so does everything behind it.
    Hold,
}

/// What becomes of a request, or why it is refused. The table of reasons; each is a function below, but for the
/// user's permissions, which EXEC and scripts ask for too.
#[inline]
pub fn pass(cx: &mut Cx<'_>, request: &Request<'_>) -> Result<Verdict, Error> {
    protected_command(cx, request)?;
    if cx.state.unrestricted_at != cx.engine.acl.epoch() {
        permission::pass(cx, request)?;
    }
    ready(cx, request)?;
    busy(cx, request)?;
    inside_multi(cx, request)?;
    memory(cx, request)?;
    if cx.is_ordinary {
        return Ok(Verdict::Run);
    }
    listening(cx, request)?;
    Ok(if cx.state.transaction.is_none() || ends_or_steers_transaction(request.row.id) {
        Verdict::Run
    } else if is_held(cx, request) {
        Verdict::Hold
    } else {
        Verdict::Queue
    })
}

/// `enable-debug-command` guards DEBUG, and `enable-module-command` what would load modules.
#[inline]
fn protected_command(cx: &Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    if request.row.flags.contains(Flags::PROTECTED) { guard(cx, request.row) } else { Ok(()) }
}

#[cold]
fn guard(cx: &Cx<'_>, row: &Row) -> Result<(), Error> {
    let (option, command, option_name) = match row.parent {
        Some(Command::Module) => (Opt::EnableModuleCommand, "MODULE", "enable-module-command"),
        _ => (Opt::EnableDebugCommand, "DEBUG", "enable-debug-command"),
    };
    if cx.engine.config.access(option).allows(cx.is_local()) {
        return Ok(());
    }
    Err(Error::new(format!(
        "ERR {command} command not allowed. If the {option_name} option is set to \"local\", you can run it from a local \
         connection, otherwise you need to set this option in the configuration file, and then restart the server."
    )))
}

/// While the data is loaded, the disk fails or replicas are too few, and on a replica, not everything may run.
#[inline]
fn ready(cx: &Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    if cx.engine.readiness.refuses_nothing() { Ok(()) } else { refuse_unready(cx, request) }
}

#[cold]
fn refuse_unready(cx: &Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    let readiness = &cx.engine.readiness;
    let writes = writes(cx, request);
    if readiness.has(Hindrance::Follows) {
        redirect(cx, request, writes)?;
    }
    if readiness.has(Hindrance::ReadOnly) && writes {
        return Err(Error::READ_ONLY);
    }
    if readiness.has(Hindrance::Stale) && lacks(cx, request, Flags::STALE) {
        return Err(Error::NO_PRIMARY);
    }
    if readiness.has(Hindrance::Loading) && lacks(cx, request, Flags::LOADING) {
        return Err(Error::LOADING);
    }
    if readiness.has(Hindrance::LoadingBeside) && has(cx, request, Flags::NO_ASYNC_LOADING) {
        return Err(Error::LOADING);
    }
    // As in Redis: who asks whether the server is well hears it too.
    if request.row.id == Command::Ping || writes {
        readiness.check_disk()?;
    }
    if writes { readiness.check_replicas() } else { Ok(()) }
}

/// A replica sends who can follow to its primary: with all that writes, and with what reads unless the client wants that here.
fn redirect(cx: &Cx<'_>, request: &Request<'_>, writes: bool) -> Result<(), Error> {
    let client = &cx.state.client;
    if !client.redirects.load(Ordering::Relaxed) || cx.state.is_replaying {
        return Ok(());
    }
    let reads = !client.reads_replicas.load(Ordering::Relaxed) && has(cx, request, Flags::READONLY);
    match cx.engine.replication.role.link() {
        Some(link) if writes || reads => Err(Error::new(format!("REDIRECT {}", link.primary))),
        _ => Ok(()),
    }
}

/// Whether a request lacks a flag by itself, or because of what is in EXEC's queue.
fn lacks(cx: &Cx<'_>, request: &Request<'_>, flag: Flags) -> bool {
    any_row(cx, request, |row| !row.flags.contains(flag))
}

/// Whether a request has a flag by itself, or because of what is in EXEC's queue.
fn has(cx: &Cx<'_>, request: &Request<'_>, flag: Flags) -> bool {
    any_row(cx, request, |row| row.flags.contains(flag))
}

fn any_row(cx: &Cx<'_>, request: &Request<'_>, is_meant: impl Fn(&Row) -> bool) -> bool {
    let mut queue = cx.state.transaction.iter().flat_map(|transaction| transaction.queue.iter());
    is_meant(request.row) || (request.row.id == Command::Exec && queue.any(|(row, _)| is_meant(row)))
}

/// Whether a request changes data by itself: a write, or EXEC with one in its queue. Scripts are asked at each of theirs.
fn writes(cx: &Cx<'_>, request: &Request<'_>) -> bool {
    if request.row.id == Command::Exec {
        let mut queue = cx.state.transaction.iter().flat_map(|transaction| transaction.queue.iter());
        return queue.any(|(row, _)| row.flags.contains(Flags::WRITE));
    }
    request.row.flags.contains(Flags::WRITE)
}

/// While a script has all shards for longer than `busy-reply-threshold`, only what ends it or needs no data may run.
/// Before that, who needs a shard waits for its lock.
#[inline]
fn busy(cx: &Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    if cx.engine.scripts.running.is_any() { beside_script(cx, request) } else { Ok(()) }
}

#[cold]
fn beside_script(cx: &Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    let Err(busy) = locking::check(cx.engine) else { return Ok(()) };
    if may_run_beside(request) { Ok(()) } else { Err(busy) }
}

/// Whether a request ends a script that runs for long, or needs no data.
fn may_run_beside(request: &Request<'_>) -> bool {
    let is_allowed = request.row.flags.contains(Flags::ALLOW_BUSY) && request.key_places.is_empty();
    let is_gentle_end =
        request.row.id == Command::Shutdown && !request.args.iter().any(|word| word.eq_ignore_ascii_case(b"nosave"));
    is_allowed && !is_gentle_end
}

/// `maxmemory` guards against what may grow. Room is made for whatever comes, because clients take memory too.
#[inline]
fn memory(cx: &mut Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    let bytes_max = cx.engine.config.memory(Opt::Maxmemory);
    let estimate = &cx.engine.estimate;
    if bytes_max == 0 || (cx.engine.estimated_bytes() <= bytes_max && !estimate.is_exceeded()) {
        return Ok(());
    }
    match cx.make_room(bytes_max) {
        Room::Nothing if may_grow(cx, request) => Err(Error::OUT_OF_MEMORY),
        _ => Ok(()),
    }
}

fn may_grow(cx: &Cx<'_>, request: &Request<'_>) -> bool {
    if request.row.id == Command::Exec {
        let mut queue = cx.state.transaction.iter().flat_map(|transaction| transaction.queue.iter());
        return queue.any(|(row, _)| row.flags.contains(Flags::DENYOOM));
    }
    // A queue is memory too: while there is none left, only what ends the transaction may come.
    let would_queue = cx.state.transaction.is_some() && !ends_or_steers_transaction(request.row.id);
    would_queue || request.row.flags.contains(Flags::DENYOOM)
}

/// Some commands make no sense between MULTI and EXEC.
#[inline]
fn inside_multi(cx: &Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    if !cx.is_ordinary && cx.state.transaction.is_some() && request.row.flags.contains(Flags::NO_MULTI) {
        return Err(Error::fixed("ERR Command not allowed inside a transaction"));
    }
    Ok(())
}

/// A client of RESP2 that listens cannot tell replies from messages, so it asks for little else; a replica and a monitor, which
/// no pause holds, for no data.
#[inline]
fn listening(cx: &Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    if cx.state.subscriptions.is_none() && cx.state.replica.is_none() {
        return Ok(());
    }
    if (cx.state.is_monitor() || cx.state.is_replica())
        && request.row.flags.intersects(Flags::WRITE.or(Flags::READONLY).or(Flags::MAY_REPLICATE))
    {
        return Err(Error::fixed("ERR Replica can't interact with the keyspace"));
    }
    if cx.state.protocol != Protocol::Resp2 || !cx.state.is_listening() {
        return Ok(());
    }
    use Command::{PSubscribe, PUnsubscribe, Ping, Quit, Reset, SSubscribe, SUnsubscribe, Subscribe, Unsubscribe};
    match request.row.id {
        PSubscribe | PUnsubscribe | Ping | Quit | Reset | SSubscribe | SUnsubscribe | Subscribe | Unsubscribe => Ok(()),
        _ => Err(Error::new(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this \
             context",
            request.row.full_name
        ))),
    }
}

#[inline]
fn ends_or_steers_transaction(command: Command) -> bool {
    use Command::{Discard, Exec, Multi, Quit, Reset, Watch};
    matches!(command, Exec | Discard | Multi | Watch | Quit | Reset)
}

/// Whether a pause holds a request.
#[inline]
pub fn is_held(cx: &Cx<'_>, request: &Request<'_>) -> bool {
    (cx.engine.pause.is_begun() || (!cx.engine.readiness.is_full() && cx.engine.may_hold_writes()))
        && is_held_now(cx, request)
}

#[cold]
fn is_held_now(cx: &Cx<'_>, request: &Request<'_>) -> bool {
    let readiness = &cx.engine.readiness;
    if cx.state.is_replica() {
        // What it says is about replication alone.
        return false;
    }
    if readiness.has(Hindrance::Loading) && lacks(cx, request, Flags::LOADING) {
        // It has passed the gates before the loading began.
        return true;
    }
    if readiness.has(Hindrance::ReadOnly) && writes(cx, request) {
        // It has passed them before this was a replica; it comes to them again at once.
        return true;
    }
    let is_behind = readiness.has(Hindrance::DiskBehind)
        || (readiness.has(Hindrance::SnapshotRuns) && cx.engine.is_snapshot_behind());
    let held = cx.engine.pause.held(cx.now.monotonic_ms()).or(is_behind.then_some(PauseScope::Writes));
    match held {
        None => false,
        // The end of the server holds all, and waits for a script: who may end that is heard.
        Some(PauseScope::All) => !(cx.engine.scripts.running.is_any() && may_run_beside(request)),
        Some(PauseScope::Writes) if request.row.id == Command::Exec => {
            let mut queue = cx.state.transaction.iter().flat_map(|transaction| transaction.queue.iter());
            queue.any(|(row, args)| may_write(cx, row, args))
        }
        Some(PauseScope::Writes) => may_write(cx, request.row, request.args),
    }
}

/// Whether a command writes, or may: a script, unless it says of itself that it does not.
fn may_write(cx: &Cx<'_>, row: &Row, args: Args<'_>) -> bool {
    let promises_none = || cx.engine.scripts.promises_no_writes(row.id, args.get(1).unwrap_or_default());
    row.flags.intersects(Flags::WRITE.or(Flags::MAY_REPLICATE)) && !promises_none()
}
