//! The spine: find, gate, lock, run, record. The only way a command runs.
//!
//! The requests of a batch are prepared ahead in groups (`lookahead`) and run in order, each under the locks that its row
//! asks for.

pub mod active_expiry;
pub mod gates;
pub mod replay;
pub mod scratch;
pub mod serve_blocked;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sleeve_wire::commands::{Command, Reach, Row};
use sleeve_wire::request::Args;

use crate::commands as families;
use crate::commands::transaction;
use crate::config::Opt;
use crate::context::command_log;
use crate::context::key_change::Pending;
use crate::context::locking;
use crate::context::lookahead::Found;
use crate::context::publish;
use crate::context::session_state::{Replies, SessionState};
use crate::context::worker_handoff::WorkerHandoff;
use crate::context::{Cx, ThreadContext};
use crate::host::log;
use crate::messaging::mail::Letter;
use crate::request::error;
use crate::request::error::Error;
use crate::request::output::Mark;
use crate::request::{KeyAt, Parts, Request};
use scratch::Scratch;

/// Runs the requests of the batch, which lie in `buffer`, and appends their replies to its output. Returns how many
/// were run: fewer than all when the peer is to be closed, when it waits for a key, or when a pause holds the next one.
pub fn batch(state: &mut SessionState, scratch: &mut Scratch, buffer: &[u8], others: &mut dyn WorkerHandoff) -> usize {
    let Scratch { engine, counters, dice, now, clock, batch_buffer, batch, lookahead, output, pending, .. } = scratch;
    let thread_context = ThreadContext { engine, counters, dice, now: *now, clock: *clock, batch_buffer };
    let mut cx = Cx::new(thread_context, state, output, pending, call);
    cx.others = Some(others);
    let mut run = 0;
    'groups: while run < batch.len() {
        if run != 0 {
            cx.look_at_clock();
            check_owed(&mut cx);
        }
        lookahead.fill((batch, buffer), run, &mut cx);
        lookahead.sample((batch, buffer), run, counters);
        for (found, keys) in lookahead.group() {
            if cx.state.closing || !step(&mut cx, found, batch.get(run, buffer), keys) {
                break 'groups;
            }
            run += 1;
            if cx.state.blocked.is_some() {
                break 'groups;
            }
        }
    }
    check_owed(&mut cx);
    cx.timer.settle(cx.engine, cx.counters);
    let Pending { letters, wakeups, .. } = &*cx.pending;
    if !(letters.is_empty() && wakeups.mailboxes.is_empty() && wakeups.changed.is_empty()) {
        let own = Arc::clone(&cx.state.client);
        serve_blocked::post_letters(&mut cx, Some(&own.mailbox));
    }
    cx.locks.clear();
    let shown = cx.locks.recorder.shown_offset();
    #[cfg(debug_assertions)]
    let shown = if cx.locks.recorder.pieces() == 0 && cx.engine.debug.reads_do_not_wait.load(Ordering::Relaxed) {
        0
    } else {
        shown
    };
    cx.state.journal.shown_offset = cx.state.journal.shown_offset.max(shown);
    cx.out.shown = cx.out.shown.max(shown);
    run
}

/// Checks, between two commands, whether the client is owed more replies than its output buffer limit allows.
#[inline]
fn check_owed(cx: &mut Cx<'_>) {
    if cx.out.is_full() {
        cx.cut_replies();
    }
}

/// Takes one request through the gates and runs or queues it. False when a pause holds it.
#[inline]
fn step(cx: &mut Cx<'_>, found: Found, args: Args<'_>, keys: &[KeyAt]) -> bool {
    let pieces = cx.locks.recorder.pieces();
    if !cx.is_ordinary && cx.state.replies == Replies::SkipNext {
        cx.state.replies = Replies::Skip;
    }
    let mark;
    match found {
        Found::Command(row) => {
            let parts = Parts { row, args, key_places: keys };
            let request = parts.request();
            let verdict = gates::pass(cx, &request);
            // The messages that the gates have pushed are not part of the reply.
            mark = cx.out.mark();
            let is_held = match verdict {
                Ok(gates::Verdict::Run) => !run(cx, request),
                Ok(gates::Verdict::Hold) => true,
                Ok(gates::Verdict::Queue) => {
                    queue(cx, &request);
                    false
                }
                Err(error) => {
                    reject(cx, Some(row), error);
                    false
                }
            };
            if is_held {
                // The gates may have evicted keys and noted invalidations for this client.
                push_own(cx);
                return false;
            }
        }
        _ => {
            mark = cx.out.mark();
            match found {
                Found::Unknown if is_cross_protocol(args) => cx.state.closing = true,
                Found::UnknownSubcommand(_) => reject(cx, None, unknown_subcommand(args)),
                Found::Arity(row) => reject(cx, Some(row), Error::arity(row.full_name)),
                Found::Unknown | Found::Command(_) => reject(cx, None, unknown_command(args)),
            }
        }
    }
    let may_change_client = !row_of(found).is_some_and(|row| row.is_of_data);
    if may_change_client || !cx.is_ordinary {
        keep_back(cx, mark, row_of(found));
    }
    if cx.locks.recorder.pieces() != pieces {
        cx.out.note_write(mark);
        cx.state.journal.has_written = true;
    }
    push_own(cx);
    if may_change_client || !cx.is_ordinary {
        if cx.state.tracking.is_some() {
            publish::forget_caching(cx, row_of(found));
        }
        cx.is_ordinary = cx.state.is_ordinary();
    }
    true
}

/// Drops the bytes that were written since the mark, if they are a reply that the client has suppressed (CLIENT REPLY).
fn keep_back(cx: &mut Cx<'_>, mark: Mark, row: Option<&'static Row>) {
    // The output of SUBSCRIBE and its like is no reply but a message, which is always sent.
    let is_message = std::mem::take(&mut cx.is_message);
    match cx.state.replies {
        // A blocked command is answered later, and its reply is skipped then.
        _ if cx.state.blocked.is_some() => {}
        Replies::On | Replies::SkipNext => {}
        Replies::Off if is_message => {}
        Replies::Off => cx.out.rewind(mark),
        Replies::Skip => {
            if !is_message {
                cx.out.rewind(mark);
            }
            cx.state.replies = cx.state.usual_replies();
        }
        Replies::Stream => refuse_reply_to_replica(cx, mark, row),
    }
}

/// Closes a replica that got a reply to a command, as in Redis: the reply would stand in the middle of the replication
/// stream. Only the reply to the command that made the client a replica is sent.
#[cold]
fn refuse_reply_to_replica(cx: &mut Cx<'_>, mark: Mark, row: Option<&'static Row>) {
    let begins = row.is_some_and(|row| matches!(row.id, Command::PSync | Command::Sync));
    if begins || cx.out.mark() == mark {
        return;
    }
    let (client, name) = (Arc::clone(&cx.state.client), row.map_or("<unknown>", |row| row.full_name));
    if let Some(error) = cx.out.error_since(mark) {
        let error = String::from_utf8_lossy(error.strip_prefix(b"ERR ").unwrap_or(error));
        let error = log::user_data(&error);
        log::warning(&format!(
            "== CRITICAL == This master is sending an error to its replica: '{error}' after processing the command '{name}'"
        ));
    }
    cx.out.rewind(mark);
    cx.state.closing = true;
    log::warning(&format!(
        "Replica generated a reply to command '{name}', disconnecting it: {}",
        client.socket.address
    ));
    cx.pending.post(&client.mailbox, Letter::Close(client.id));
}

/// Sends the messages that the client has published to itself, so that none of them remains for the next client.
#[inline]
fn push_own(cx: &mut Cx<'_>) {
    if !(cx.pending.wakeups.own.is_empty() && cx.pending.wakeups.invalid.is_empty()) {
        publish::push_own(cx);
    }
}

fn row_of(found: Found) -> Option<&'static Row> {
    match found {
        Found::Command(row) | Found::UnknownSubcommand(row) | Found::Arity(row) => Some(row),
        Found::Unknown => None,
    }
}

/// Locks the keys that the row names, calls the command, and unlocks. Returns false if a pause holds the request. A pause
/// begins with all locks held, and the check is made with the request's locks held, so no write is under way once a pause has
/// begun.
#[inline]
fn run(cx: &mut Cx<'_>, request: Request<'_>) -> bool {
    cx.state.row = Some(request.row);
    if let Err(error) = lock(cx, &request) {
        reject(cx, Some(request.row), error);
        return true;
    }
    if cx.engine.clients.pause.is_begun() || !cx.engine.lifecycle.readiness.is_full() {
        match gates::check_locked(cx, &request) {
            Ok(false) => {}
            Ok(true) => {
                cx.locks.clear();
                return false;
            }
            Err(error) => {
                cx.locks.clear();
                reject(cx, Some(request.row), error);
                return true;
            }
        }
    }
    call(cx, request);
    if !cx.pending.marked.is_empty() {
        serve_blocked::marked(cx);
    }
    cx.locks.end_command();
    true
}

/// Takes the locks that a request needs: the only place where that is decided, by the row's reach.
#[inline]
fn lock(cx: &mut Cx<'_>, request: &Request<'_>) -> Result<(), Error> {
    match (request.row.reach, request.key_places) {
        (Reach::Named, [key]) => locking::lock_key(cx, key.hash),
        (Reach::Named, []) if request.row.id == Command::Exec => transaction::lock(cx),
        (Reach::Named, []) => {
            cx.locks.clear();
            Ok(())
        }
        (Reach::Each, _) => locking::lock_each(cx),
        (Reach::Named, keys) => locking::lock_keys(cx, keys.iter().map(|key| key.hash)),
        (Reach::All, _) if request.row.runs_script() => locking::lock_script(cx, request),
        (Reach::All, _) => locking::lock_all(cx),
    }
}

/// Runs one command with its locks held and records its effect: the request as it came, unless the command has recorded its
/// effect as other commands. Always inline, because every request passes through here.
#[inline(always)]
pub fn call(cx: &mut Cx<'_>, request: Request<'_>) {
    let (mark, owed_bytes) = (cx.out.mark(), cx.out.len());
    let began_ticks = begin(cx, &request);
    let is_monitored = cx.engine.pubsub.monitors.load(Ordering::Relaxed) != 0;
    if is_monitored && request.row.runs_script() {
        // Monitors see the command that runs a script before the script's own commands.
        publish::show_to_monitors(cx, &request);
    }
    let outcome = families::run(cx, request);
    if is_monitored && !request.row.runs_script() {
        publish::show_to_monitors(cx, &request);
    }
    end(cx, &request, began_ticks);
    let counters = &cx.counters.commands[request.row.id as usize];
    if let Err(error) = outcome {
        cx.out.rewind(mark);
        counters.failed.add(1);
        cx.refuse(&error);
    }
    let reply_bytes = cx.out.len().saturating_sub(owed_bytes);
    if cx.timer.may_be_large(request.args.buffer_len() + reply_bytes) {
        command_log::note_size(cx, &request, reply_bytes, began_ticks);
    }
    if began_ticks.is_some() && cx.out.is_full() {
        cx.cut_reply(mark);
    }
    if cx.state.tracking.is_some() {
        publish::remember_reads(cx, &request);
    }
    if cx.state.origin.serving.is_none() {
        // A request that is served for a blocked client is not counted here: it was counted when the client began to wait.
        counters.calls.add(1);
        cx.counters.executed.add(1);
    }
}

/// Begins a command: it has no changes and no record yet. Returns the time in ticks if this command has to be timed by
/// itself.
#[inline]
fn begin(cx: &mut Cx<'_>, request: &Request<'_>) -> Option<u64> {
    if cx.timer.count(request.row, cx.engine, cx.counters) {
        cx.state.is_news |= !request.row.is_of_data;
    }
    begin_unmeasured(cx);
    cx.timer.start(request)
}

/// Begins a command that is not timed.
#[inline]
fn begin_unmeasured(cx: &mut Cx<'_>) {
    cx.pending.changes = 0;
    cx.locks.recorder.begin_command();
}

/// Ends a command that began at `began_ticks`. A slow command is entered in the slow log and the latency monitor; one that
/// now waits for a key is checked when it is served instead. The changes are counted, and the request is recorded as it came
/// unless the command has recorded its effect as other commands. Always inline: it has one caller for clients.
#[inline(always)]
fn end(cx: &mut Cx<'_>, request: &Request<'_>, began_ticks: Option<u64>) {
    if let Some(began_ticks) = began_ticks
        && let Some(ticks) = cx.timer.slow(cx.engine, began_ticks)
        && cx.state.blocked.is_none()
    {
        command_log::enter_slow(cx, request, ticks);
    }
    if cx.pending.changes == 0 {
        // The command changed nothing, but keys that it found expired are recorded all the same.
        return cx.locks.recorder.end_piece();
    }
    cx.counters.changes.add(cx.pending.changes);
    if cx.engine.config.memory(Opt::Maxmemory) != 0 {
        cx.locks.weigh(&cx.engine.keyspace.estimate);
    }
    if cx.locks.recorder.needs_request() {
        cx.record_request(request);
    }
    cx.locks.recorder.end_piece();
    cx.pending.changes = 0;
}

/// Queues a command for EXEC, unless it is known already that EXEC will run nothing.
fn queue(cx: &mut Cx<'_>, request: &Request<'_>) {
    cx.state.row = Some(request.row);
    let is_doomed =
        cx.state.multi.watching.is_raised() || cx.state.multi.transaction.as_ref().is_some_and(|queued| queued.aborted);
    if !is_doomed {
        gates::note_queued(cx, request);
        if let Some(transaction) = &mut cx.state.multi.transaction {
            transaction.queue.push(request.row, request.args);
        }
        cx.state.is_news = true;
    }
    cx.reply().queued();
}

/// Answers a request that may not run. Between MULTI and EXEC this dooms the transaction; a refused EXEC ends it.
#[cold]
fn reject(cx: &mut Cx<'_>, row: Option<&'static Row>, error: Error) {
    if let Some(transaction) = &mut cx.state.multi.transaction {
        transaction.aborted = true;
    }
    if let Some(row) = row {
        cx.counters.commands[row.id as usize].rejected.add(1);
    }
    // CLIENT LIST shows the last command that was asked for, though it was refused.
    cx.state.row = row;
    if row.is_some_and(|row| row.id == Command::Exec) {
        cx.state.multi.transaction = None;
        cx.state.multi.watching.clear(cx.engine);
        cx.state.is_news = true;
        return cx.refuse(&error.exec_refused());
    }
    cx.refuse(&error);
}

/// Returns whether these words begin an HTTP request that a browser was tricked into sending to this server.
fn is_cross_protocol(args: Args<'_>) -> bool {
    let is = args.get(0).is_some_and(|name| name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:"));
    if is {
        log::warning(
            "A client sent POST or Host: as a command: a web browser was probably tricked into talking to this port \
             (cross-protocol scripting). Its connection is closed; check who can reach the port.",
        );
    }
    is
}

/// The most bytes of an unknown command that an error shows, as in Redis.
const SHOWN_BYTES: usize = 128;

/// Returns the error for a command that does not exist. Always inline: if the arguments were passed to a call, those of every
/// request would lie in memory.
#[inline(always)]
fn unknown_command(args: Args<'_>) -> Error {
    let mut rest = Vec::new();
    for arg in args.iter().skip(1) {
        if rest.len() >= SHOWN_BYTES {
            break;
        }
        let arg = &arg[..arg.len().min(SHOWN_BYTES - rest.len())];
        rest.extend_from_slice(&[b"'", error::shown(arg), b"' "].concat());
    }
    let name = args.get(0).unwrap_or_default();
    let name = &name[..name.len().min(SHOWN_BYTES)];
    Error::naming("ERR unknown command '{}', with args beginning with: {}", &[name, &rest])
}

/// Returns the error for a subcommand that does not exist. Always inline, as [`unknown_command`].
#[inline(always)]
fn unknown_subcommand(args: Args<'_>) -> Error {
    let container = args.get(0).unwrap_or_default().to_ascii_uppercase();
    let name = args.get(1).unwrap_or_default();
    let name = &name[..name.len().min(SHOWN_BYTES)];
    Error::naming("ERR unknown subcommand '{}'. Try {} HELP.", &[name, &container])
}
