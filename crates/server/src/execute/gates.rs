//! The reasons to refuse, queue or hold a command, in the order in which Redis tries them.
//!
//! They are checked for each request before a lock is taken. So each check reads a value that seldom changes, and the code
//! that runs if a reason is found is cold. Only the pause is checked again under the locks (`execute`). No gate changes data,
//! except that the memory gate evicts keys. All gates run on the thread that executes.

use std::sync::atomic::Ordering;

use sleeve_wire::commands::{Command, Flags, Row};
use sleeve_wire::reply::Protocol;
use sleeve_wire::request::Args;

use crate::config::Opt;
use crate::context::Cx;
use crate::context::eviction;
use crate::context::eviction::Room;
use crate::context::locking;
use crate::context::permission;
use crate::context::publish;
use crate::context::slot_gate;
use crate::engine::cluster::Cluster;
use crate::engine::persistence::snapshot::walk;
use crate::engine::readiness::Hindrance;
use crate::engine::readiness::PauseScope;
use crate::request::Request;
use crate::request::error::Error;

/// The outcome for a command that no gate refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The command runs now, unless a pause holds it: the executor checks that once more, with the locks held.
    Run,
    /// The command waits for EXEC.
    Queue,
    /// The command waits for the end of a pause, and so do all later requests of the client.
    Hold,
}

/// Returns the verdict on a request, or the error that refuses it. The checks stand in Redis's order; if several would
/// refuse, the first one is the answer. Each check is a function below, except for the user's permissions, which EXEC and
/// scripts check too (`permission`).
#[inline]
pub fn pass(cx: &mut Cx<'_>, request: &Request<'_>) -> Result<Verdict, Error> {
    protected_command(cx, request)?;
    inside_multi(cx, request)?;
    if cx.state.login.unrestricted_at != cx.engine.acl.epoch() {
        permission::pass(cx, request)?;
    }
    if cx.engine.lifecycle.readiness.refuses_nothing() {
        memory(cx, request)?;
        listening(cx, request)?;
    } else {
        refuse_hindered(cx, request)?;
    }
    busy(cx, request)?;
    if cx.is_ordinary {
        return Ok(Verdict::Run);
    }
    from_replica(cx, request)?;
    Ok(if cx.state.multi.transaction.is_none() || ends_or_steers_transaction(request.row.id) {
        Verdict::Run
    } else if is_held(cx, request) {
        Verdict::Hold
    } else {
        Verdict::Queue
    })
}

/// `enable-debug-command` guards DEBUG, and `enable-module-command` the commands that would load modules.
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

/// Refuses commands for slots that this node of a cluster does not serve, and those that another hindrance refuses.
#[inline(never)]
fn refuse_hindered(cx: &mut Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    if let Some(cluster) = cx.engine.cluster.get() {
        refuse_other_slots(cx, cluster, request)?;
    }
    if cx.engine.lifecycle.readiness.refuses_only_slots() {
        memory(cx, request)?;
        return listening(cx, request);
    }
    refuse_unready(cx, request)
}

fn refuse_other_slots(cx: &mut Cx<'_>, cluster: &Cluster, request: &Request<'_>) -> Result<(), Error> {
    let is_in_transaction = cx.state.multi.transaction.is_some();
    if !is_in_transaction && cx.state.origin.is_asking() {
        cx.state.origin.pass_asking();
    }
    if slot_gate::is_served(cluster, request) || cx.state.origin.is_replaying {
        return Ok(());
    }
    let writes = Asked::of(cx, request).any.contains(Flags::WRITE);
    let will_queue = is_in_transaction && !ends_or_steers_transaction(request.row.id);
    slot_gate::pass(cx, cluster, request, (writes, will_queue))
}

/// Returns whether a request, with its locks held, has to wait for the end of a pause.
///
/// # Errors
/// This is a node of a cluster, and the slot of the request has left since the gates were passed, or its keys have.
#[inline(never)]
pub fn check_locked(cx: &Cx<'_>, request: &Request<'_>) -> Result<bool, Error> {
    if let Some(cluster) = cx.engine.cluster.get()
        && !slot_gate::is_served(cluster, request)
        && !cx.state.origin.is_replaying
    {
        slot_gate::pass_locked(cx, cluster, request, Asked::of(cx, request).any.contains(Flags::WRITE))?;
    }
    Ok(is_held(cx, request))
}

/// Refuses commands that may not run while the data is loaded, while the disk fails, while replicas are too few, or on a
/// replica. The memory gate and the gate for RESP2 subscribers are called here too, because their place in the order is
/// between these.
#[cold]
fn refuse_unready(cx: &mut Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    let asked = Asked::of(cx, request);
    let writes = asked.any.contains(Flags::WRITE);
    if cx.engine.lifecycle.readiness.has(Hindrance::Follows) && cx.engine.cluster.get().is_none() {
        redirect(cx, asked)?;
    }
    memory(cx, request)?;
    let readiness = &cx.engine.lifecycle.readiness;
    // As in Redis: a client that asks with PING whether the server works gets this error too.
    if request.row.id == Command::Ping || writes {
        readiness.check_disk()?;
    }
    if writes {
        readiness.check_replicas()?;
        readiness.check_role()?;
    }
    listening(cx, request)?;
    if readiness.has(Hindrance::Stale) && asked.lacking.contains(Flags::STALE) {
        return Err(Error::NO_PRIMARY);
    }
    if readiness.has(Hindrance::Loading) && asked.lacking.contains(Flags::LOADING) {
        return Err(Error::LOADING);
    }
    if readiness.has(Hindrance::LoadingBeside) && asked.any.contains(Flags::NO_ASYNC_LOADING) {
        return Err(Error::LOADING);
    }
    Ok(())
}

/// Redirects a client to the primary, if this is a replica and the client understands redirects: for every command that
/// writes, and for one that reads unless the client has asked to read from the replica.
fn redirect(cx: &Cx<'_>, asked: Asked) -> Result<(), Error> {
    let client = &cx.state.client;
    if !client.settings.redirects.load(Ordering::Relaxed) || cx.state.origin.is_replaying {
        return Ok(());
    }
    let reads = !client.settings.reads_replicas.load(Ordering::Relaxed) && asked.any.contains(Flags::READONLY);
    match cx.engine.replication.role.link() {
        Some(link) if asked.any.contains(Flags::WRITE) || reads => Err(Error::redirect(&link.primary.to_string())),
        _ => Ok(()),
    }
}

/// The flags that a request is judged by: its own and, for EXEC, those that the queued commands had when they were queued.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// The flags that at least one of the commands has.
    any: Flags,
    /// The flags of [`ALLOWING`] that at least one of the commands lacks.
    lacking: Flags,
}

impl Asked {
    fn of(cx: &Cx<'_>, request: &Request<'_>) -> Self {
        let own = effective_flags(cx, request.row, request.args);
        let asked = Self { any: own, lacking: ALLOWING.without(own) };
        match &cx.state.multi.transaction {
            Some(queued) if request.row.id == Command::Exec => {
                Self { any: own.or(queued.flags), lacking: asked.lacking.or(queued.lacking) }
            }
            _ => asked,
        }
    }
}

/// The flags that let a command run while data is loaded, or on a replica with stale data.
const ALLOWING: Flags = Flags::LOADING.or(Flags::STALE);

/// Adds the flags of a command that is about to be queued to those that EXEC is judged by.
pub fn note_queued(cx: &mut Cx<'_>, request: &Request<'_>) {
    let flags = effective_flags(cx, request.row, request.args);
    if let Some(transaction) = &mut cx.state.multi.transaction {
        transaction.flags = transaction.flags.or(flags);
        transaction.lacking = transaction.lacking.or(ALLOWING.without(flags));
    }
}

/// Returns the flags of a command. For a call of a script that declares flags of its own, returns the script's.
fn effective_flags(cx: &Cx<'_>, row: &Row, args: Args<'_>) -> Flags {
    if !row.runs_script() {
        return row.flags;
    }
    let named = cx.engine.scripts.flags_of_call(row.id, args.get(1).unwrap_or_default());
    named.map_or(row.flags, |flags| flags.of_command(row.flags))
}

/// Refuses commands while a script has held its shards for longer than `busy-reply-threshold`: then only commands that end
/// the script or need no data may run. Before that time, a command that needs a shard waits for its lock.
#[inline]
fn busy(cx: &Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    if cx.engine.scripts.running.is_any() { beside_script(cx, request) } else { Ok(()) }
}

#[cold]
fn beside_script(cx: &Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    let Err(busy) = locking::check(cx.engine) else { return Ok(()) };
    if may_run_beside(request) { Ok(()) } else { Err(busy) }
}

/// Returns whether a request ends a script that runs for long, or needs no data.
fn may_run_beside(request: &Request<'_>) -> bool {
    let is_allowed = request.row.flags.contains(Flags::ALLOW_BUSY) && request.key_places.is_empty();
    let waits = |word: &[u8]| [&b"save"[..], b"now", b"force"].iter().any(|known| word.eq_ignore_ascii_case(known));
    let is_gentle_end = request.row.id == Command::Shutdown && request.args.from(1).iter().all(waits);
    is_allowed && !is_gentle_end
}

/// Evicts keys if `maxmemory` is reached, and refuses commands that may grow the data if too little could be evicted. Keys
/// are evicted for every command, because clients take memory too.
#[inline]
fn memory(cx: &mut Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    let bytes_max = cx.engine.config.memory(Opt::Maxmemory);
    let estimate = &cx.engine.keyspace.estimate;
    if bytes_max == 0 || (cx.engine.estimated_bytes() <= bytes_max && !estimate.is_exceeded()) {
        return Ok(());
    }
    make_room(cx, request, bytes_max)
}

#[cold]
fn make_room(cx: &mut Cx<'_>, request: &Request<'_>, bytes_max: u64) -> Result<(), Error> {
    if cx.engine.scripts.running.is_any() && locking::check(cx.engine).is_err() {
        // The script holds shards, and has begun its record in the journal: nothing is evicted while it runs.
        return Ok(());
    }
    cx.has_no_room = eviction::make_room(cx, bytes_max) == Room::Nothing;
    if !cx.pending.wakeups.invalid.is_empty() {
        // The client gets the invalidations of evicted keys before the reply to its next request.
        publish::push_own(cx);
    }
    if cx.has_no_room && may_grow(cx, request) { Err(Error::OUT_OF_MEMORY) } else { Ok(()) }
}

fn may_grow(cx: &Cx<'_>, request: &Request<'_>) -> bool {
    // The queue of a transaction takes memory too: while no memory is left, only the commands that end the transaction are
    // accepted.
    use Command::{Discard, Exec, Quit, Reset};
    let would_queue = cx.state.multi.transaction.is_some() && !matches!(request.row.id, Exec | Discard | Quit | Reset);
    would_queue || Asked::of(cx, request).any.contains(Flags::DENYOOM)
}

/// Refuses commands that Redis does not allow between MULTI and EXEC.
#[inline]
fn inside_multi(cx: &Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    if !cx.is_ordinary && cx.state.multi.transaction.is_some() && request.row.flags.contains(Flags::NO_MULTI) {
        return Err(Error::fixed("ERR Command not allowed inside a transaction"));
    }
    Ok(())
}

/// Refuses most commands of a RESP2 subscriber, which cannot tell replies from messages.
#[inline]
fn listening(cx: &Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    if cx.is_ordinary || cx.state.subscriptions.is_none() {
        return Ok(());
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

/// Refuses commands that need data if a replica or a monitor sends them: no pause holds these clients.
fn from_replica(cx: &Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    let is_meant = cx.state.is_monitor() || cx.state.is_replica();
    let of_data = Flags::WRITE.or(Flags::READONLY).or(Flags::MAY_REPLICATE);
    if is_meant && Asked::of(cx, request).any.intersects(of_data) {
        return Err(Error::fixed("ERR Replica can't interact with the keyspace"));
    }
    Ok(())
}

#[inline]
fn ends_or_steers_transaction(command: Command) -> bool {
    use Command::{Discard, Exec, Multi, Quit, Reset, Watch};
    matches!(command, Exec | Discard | Multi | Watch | Quit | Reset)
}

/// Returns whether a pause holds a request.
#[inline]
pub fn is_held(cx: &Cx<'_>, request: &Request<'_>) -> bool {
    (cx.engine.clients.pause.is_begun()
        || (!cx.engine.lifecycle.readiness.hinders_only_slots() && walk::may_hold_writes(cx.engine)))
        && is_held_now(cx, request)
}

#[cold]
fn is_held_now(cx: &Cx<'_>, request: &Request<'_>) -> bool {
    let readiness = &cx.engine.lifecycle.readiness;
    if cx.state.is_replica() {
        // The only commands that a replica sends concern replication.
        return false;
    }
    if readiness.has(Hindrance::Loading) && Asked::of(cx, request).lacking.contains(Flags::LOADING) {
        // The request has passed the gates before the loading began.
        return true;
    }
    if readiness.has(Hindrance::ReadOnly) && Asked::of(cx, request).any.contains(Flags::WRITE) {
        // The request has passed the gates before this server became a replica. It is held, and passes the gates again at
        // once.
        return true;
    }
    let is_behind = readiness.has(Hindrance::DiskBehind)
        || (readiness.has(Hindrance::SnapshotRuns) && walk::is_snapshot_behind(cx.engine));
    let held = cx.engine.clients.pause.held(cx.now.monotonic_ms()).or(is_behind.then_some(PauseScope::Writes));
    match held {
        None => false,
        // A shutdown holds all commands and waits for a running script, so the commands that may end the script are let
        // through.
        Some(PauseScope::All) => !(cx.engine.scripts.running.is_any() && may_run_beside(request)),
        Some(PauseScope::Writes) => is_held_as_write(cx, request),
    }
}

/// Returns whether CLIENT PAUSE on a replica holds a request of its primary, as in Redis: the replica stays at its offset.
#[inline]
pub fn is_stream_held(cx: &Cx<'_>, request: &Request<'_>) -> bool {
    cx.engine.clients.pause.is_begun() && is_stream_held_now(cx, request)
}

#[cold]
fn is_stream_held_now(cx: &Cx<'_>, request: &Request<'_>) -> bool {
    let is_queued_write = || {
        let mut queue = cx.state.multi.transaction.iter().flat_map(|transaction| transaction.queue.iter());
        request.row.id == Command::Exec && queue.any(|(row, _)| row.flags.intersects(CHANGING))
    };
    match cx.engine.clients.pause.asked_for(cx.now.monotonic_ms()) {
        None => false,
        Some(PauseScope::All) => true,
        Some(PauseScope::Writes) => is_held_as_write(cx, request) || is_queued_write(),
    }
}

/// The flags of the commands that a pause of writes holds.
const CHANGING: Flags = Flags::WRITE.or(Flags::MAY_REPLICATE);

fn is_held_as_write(cx: &Cx<'_>, request: &Request<'_>) -> bool {
    Asked::of(cx, request).any.intersects(CHANGING)
}
