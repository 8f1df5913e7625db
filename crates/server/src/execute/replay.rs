//! Applying an AOF or a primary's stream: effects as they stand in the journal, without a client.
//!
//! The checks that were made when an effect came about are not made again: no permission, no limit, no pause. The replay
//! records nothing in the journal by itself and keeps no reply. While an AOF is replayed, nothing expires and nothing is
//! evicted in its engine, because the AOF itself says which keys have gone: an expired key is still there for the effects
//! that follow, though the clock goes on. The commands between MULTI and EXEC are applied in one go when EXEC arrives, or
//! never.
//!
//! A replica's [`Replay`] applies its primary's journal as it arrives, while workers serve clients. The applied bytes go into
//! this server's own journal unchanged, under the locks under which they were applied: so a thread that has all locks finds
//! the data as it is at the journal's end.
//!
//! The thread that loads an AOF, or that follows a primary, calls this; only one thread at a time.

mod one;
mod refused;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sleeve_wire::commands::{Command, Row};
use sleeve_wire::request::{Args, Batch, Limits, Parser};

use super::serve_blocked;
use super::{call, lock, unknown_command, unknown_subcommand};
use crate::commands::transaction;
use crate::context::key_change::Pending;
use crate::context::lookahead::{Found, Lookahead};
use crate::context::session_state::{Input, Origin, SessionState, Transaction};
use crate::context::{Cx, ThreadContext};
use crate::engine::Engine;
use crate::engine::clients::client_info::{ClientInfo, ClientSocket};
use crate::engine::journal::BatchBuffer;
use crate::engine::observe::stats::Counters;
use crate::engine::readiness::Hindrance;
use crate::host::clock::{Clock, Instant};
use crate::host::dice::Dice;
use crate::host::waiting;
use crate::messaging::mail::Mailbox;
use crate::request::error::Error;
use crate::request::output::Output;
use crate::request::{KeyAt, Parts, Request};
use one::{put_into_journal, run, show, stays};
pub use refused::Refused;
use refused::{CommandSource, REPLACED, may_be_sent, pass_over, pass_over_unrun};

/// The most requests that are cut out of the bytes before they are applied.
const REQUESTS_MAX: usize = 512;

/// The time that a replica waits before it tries again to take locks that a long script holds.
const PAUSE: Duration = Duration::from_millis(1);

/// The applier of an AOF, or of a primary's stream, to an engine.
#[derive(Debug)]
pub struct Replay {
    engine: Arc<Engine>,
    state: SessionState,
    parser: Parser,
    batch: Batch,
    lookahead: Lookahead,
    output: Output,
    /// The counters of the applied commands. For an AOF no statistic shows them; for a primary's stream INFO does.
    counters: Arc<Counters>,
    dice: Dice,
    batch_buffer: BatchBuffer,
    /// The offset behind the last whole request.
    offset: u64,
    /// The transaction that has MULTI and no EXEC yet.
    open: Option<Open>,
    /// The commands come from a primary, and their bytes are copied into this server's journal.
    is_copying: bool,
    /// The number of the replication role for which the stream is copied: copying ends when the role has changed.
    task: u64,
    /// The primary has asked for this replica's offset (REPLCONF GETACK).
    is_asked: bool,
    /// A pause holds the next request.
    is_held: bool,
    /// Refuses to pass over any command, even if the options allow it.
    is_strict: bool,
}

#[derive(Debug)]
struct Open {
    multi_at: u64,
    queued_at: Vec<u64>,
    /// The bytes from MULTI on, if they are to be copied into this server's journal.
    bytes: Vec<u8>,
}

impl Replay {
    /// Begins to apply an AOF's commands, the first of which stands at `offset`. Nothing expires in the engine until the
    /// [`Replay`] is dropped.
    pub fn begin(engine: &Arc<Engine>, offset: u64) -> Self {
        engine.persistence.is_replaying.store(true, Ordering::Relaxed);
        Self::new(engine, offset, Arc::default(), false)
    }

    /// Begins to apply a primary's stream and to copy it to the end of this server's journal. Nothing expires while the
    /// engine is a replica. `database` is the database that is selected at the present end of the journal.
    pub fn copy(engine: &Arc<Engine>, database: u32) -> Self {
        let mut replay = Self::new(engine, engine.journal.end(), engine.observe.stats.open(), true);
        replay.state.database = database;
        replay
    }

    fn new(engine: &Arc<Engine>, offset: u64, counters: Arc<Counters>, is_copying: bool) -> Self {
        let socket =
            ClientSocket { address: "log:0".into(), local_address: "log:0".into(), descriptor: -1, is_tls: false };
        let client = engine.clients.list.describe(socket, Arc::new(Mailbox::new(|| ())), 0);
        let state = SessionState {
            origin: Origin { is_replaying: true, denies_blocking: true, ..Origin::default() },
            ..SessionState::new(client, engine.acl.default_user())
        };
        Self {
            engine: Arc::clone(engine),
            state,
            parser: Parser::new(),
            batch: Batch::new(),
            lookahead: Lookahead::default(),
            output: Output::default(),
            counters,
            dice: engine.identity.dice(),
            batch_buffer: BatchBuffer::default(),
            offset,
            open: None,
            is_copying,
            task: engine.replication.role.number(),
            is_asked: false,
            is_held: false,
            is_strict: false,
        }
    }

    /// Assigns the commands that are applied from now on to this task. CLIENT LIST and MONITOR show `client` as their sender.
    pub fn go_on_for(&mut self, task: u64, client: Arc<ClientInfo>) {
        self.task = task;
        self.state.client = client;
    }

    /// Returns the offset behind the last whole request.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the offset of a MULTI that has no EXEC yet, if there is one: nothing from there on was applied.
    pub fn open_transaction(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.multi_at)
    }

    /// Returns whether the primary has asked for this replica's offset since the last call.
    pub fn take_asked(&mut self) -> bool {
        std::mem::take(&mut self.is_asked)
    }

    /// Returns whether CLIENT PAUSE held the next request when bytes were applied last.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Forgets the received bytes behind the end of the journal, which were not applied: the primary will send them again.
    pub fn rewind(&mut self) {
        self.parser = Parser::new();
        (self.open, self.state.multi.transaction) = (None, None);
        self.offset = self.engine.journal.end();
    }

    /// Applies the whole requests in `bytes`, and returns how many bytes they take. The caller passes the rest again with the
    /// next call. A replica stops before the first request that a pause holds.
    ///
    /// # Errors
    /// Returned for the first piece that is no request, and for the first command that is refused and not passed over. All
    /// requests before it were applied, nothing behind it was, and the replay cannot go on.
    pub fn apply(&mut self, bytes: &[u8], now: Instant) -> Result<usize, Refused> {
        let mut used = 0;
        self.is_held = false;
        while used < bytes.len() {
            let rest = &bytes[used..];
            let mut batch = std::mem::take(&mut self.batch);
            batch.clear();
            let limits = Limits { bulk_len_max: i64::MAX, requests_max: REQUESTS_MAX, ..Limits::default() };
            let parsed = self.parser.parse(rest, &limits, &mut batch);
            let count = batch.len();
            let whole = parsed.as_ref().copied().unwrap_or_else(|_| {
                // The parser reports an error without the ends of the requests before it, so these are parsed again alone.
                let limits = Limits { requests_max: count, ..limits };
                Parser::new().parse(rest, &limits, &mut Batch::new()).unwrap_or(0)
            });
            let applied = self.apply_batch(&batch, rest.get(..whole).unwrap_or_default(), now);
            self.batch = batch;
            if let Applied::HeldAt(at) = applied? {
                // Requests that were parsed behind the held one will be parsed again.
                (self.parser, self.is_held) = (Parser::new(), true);
                self.offset += at as u64;
                return Ok(used + at);
            }
            self.offset += whole as u64;
            match parsed {
                Ok(0) if count == 0 => break,
                Ok(bytes) => used += bytes,
                Err(error) => {
                    let error = String::from_utf8_lossy(&error.message()).into_owned();
                    return Err(Refused { offset: self.offset, command: String::new(), error, is_replaced: false });
                }
            }
        }
        Ok(used)
    }

    /// Applies requests as [`Replay::apply`] does, but never passes over a command that is refused.
    ///
    /// # Errors
    /// As [`Replay::apply`].
    pub fn apply_strictly(&mut self, bytes: &[u8], now: Instant) -> Result<usize, Refused> {
        self.is_strict = true;
        let applied = self.apply(bytes, now);
        self.is_strict = false;
        applied
    }

    fn apply_batch(&mut self, batch: &Batch, bytes: &[u8], now: Instant) -> Result<Applied, Refused> {
        let Self { engine, state, lookahead, output, counters, dice, batch_buffer, offset, open, is_copying, .. } =
            self;
        let thread_context = ThreadContext { engine, counters, dice, now, clock: Clock::Machine, batch_buffer };
        let mut pending = Pending::default();
        let mut cx = Cx::new(thread_context, state, output, &mut pending, call);
        cx.locks.recorder.mute();
        let source = match (*is_copying, self.is_strict) {
            (_, true) => CommandSource::Strict,
            (true, false) => CommandSource::Primary,
            (false, false) => CommandSource::Log,
        };
        let mut applying =
            Applying { open, is_copying: *is_copying, source, task: self.task, is_asked: &mut self.is_asked };
        let (mut next, mut copied, mut end) = (0, 0, Applied::Whole);
        'groups: while next < batch.len() {
            let group_end = lookahead.fill((batch, bytes), next, &mut cx);
            for ((found, keys), index) in lookahead.group().zip(next..group_end) {
                let (args, start) = (batch.get(index, bytes), batch.start(index));
                let at = *offset + start as u64;
                let request_end = batch.end(index).unwrap_or(start);
                // Bytes between two requests would be missing in this server's journal, and all later offsets would differ
                // from the primary's.
                let is_one = bytes.get(start) == Some(&b'*') && (start == copied || !applying.is_copying);
                let applied = match bytes.get(copied..request_end) {
                    Some(bytes) if is_one => applying.request(&mut cx, (found, args, keys), RawRequest { bytes, at }),
                    _ => Err(no_request(*offset + copied as u64, args)),
                };
                cx.out.clear();
                if applied? == Applied::HeldAt(0) {
                    end = Applied::HeldAt(copied);
                    break 'groups;
                }
                copied = request_end;
            }
            next = group_end;
        }
        cx.timer.settle(cx.engine, cx.counters);
        serve_blocked::post_letters(&mut cx, None);
        if *is_copying {
            cx.state.publish(Input::default(), now.wall_ms());
            if copied != bytes.len() && end == Applied::Whole {
                return Err(no_request(*offset + copied as u64, Args::new(bytes, &[])));
            }
        }
        Ok(end)
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if self.is_copying {
            self.engine.observe.stats.close(&self.counters);
        } else {
            self.engine.persistence.is_replaying.store(false, Ordering::Relaxed);
        }
    }
}

fn no_request(at: u64, args: Args<'_>) -> Refused {
    Refused::of(at, args, &Error::fixed("ERR this is no request: one begins with '*'"))
}

/// The extent to which the bytes were applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Applied {
    /// All of the bytes.
    Whole,
    /// The bytes before this position, where a request begins that a pause holds.
    HeldAt(usize),
}

/// A request as it came, and its offset.
#[derive(Clone, Copy)]
struct RawRequest<'b> {
    bytes: &'b [u8],
    at: u64,
}

/// The common state of the requests of one batch.
struct Applying<'r> {
    open: &'r mut Option<Open>,
    is_copying: bool,
    source: CommandSource,
    task: u64,
    is_asked: &'r mut bool,
}

impl Applying<'_> {
    /// Applies or queues a request, unless a pause holds it: as for clients' requests, that is checked with its locks held.
    fn request(
        &mut self,
        cx: &mut Cx<'_>,
        (found, args, keys): (Found, Args<'_>, &[KeyAt]),
        piece: RawRequest<'_>,
    ) -> Result<Applied, Refused> {
        let refused = |error: Error| Refused::of(piece.at, args, &error);
        let row = match self.command(found, args) {
            Ok(row) => row,
            Err(error) => return self.pass_over_unrun(cx, args, error, piece).map(|()| Applied::Whole),
        };
        let parts = Parts { row, args, key_places: keys };
        let request = parts.request();
        match (row.id, self.open.as_mut()) {
            (Command::Multi | Command::Ping | Command::ReplConf, None) if stays(cx, &request, self.is_copying) => {
                return Ok(Applied::HeldAt(0));
            }
            (Command::Multi, None) => {
                let bytes = if self.is_copying { piece.bytes.to_vec() } else { Vec::new() };
                *self.open = Some(Open { multi_at: piece.at, queued_at: Vec::new(), bytes });
                cx.state.multi.transaction = Some(Transaction::default());
                self.count(cx, row);
                show(cx, &request);
            }
            (Command::Exec, Some(_)) => {
                self.patiently(cx, transaction::lock).map_err(refused)?;
                if stays(cx, &request, self.is_copying) {
                    return Ok(Applied::HeldAt(0));
                }
                let Some(mut open) = self.open.take() else { return Ok(Applied::Whole) };
                open.bytes.extend_from_slice(piece.bytes);
                self.execute(cx, &open.queued_at)?;
                self.count(cx, row);
                show(cx, &request);
                self.end(cx, &open.bytes, false);
            }
            (Command::Multi | Command::Exec, _) => {
                return Err(refused(Error::fixed("ERR MULTI and EXEC do not stand in pairs here")));
            }
            (_, Some(open)) => {
                open.queued_at.push(piece.at);
                if self.is_copying {
                    open.bytes.extend_from_slice(piece.bytes);
                }
                if let Some(transaction) = &mut cx.state.multi.transaction {
                    transaction.queue.push(row, args);
                }
            }
            (Command::Ping | Command::ReplConf, None) if self.is_copying => {
                if !self.is_wanted(cx) {
                    return Err(refused(REPLACED));
                }
                self.count(cx, row);
                show(cx, &request);
                *self.is_asked |= args.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"getack"));
                put_into_journal(cx, piece.bytes, true);
            }
            (_, None) => {
                self.patiently(cx, |cx| lock(cx, &request)).map_err(refused)?;
                if stays(cx, &request, self.is_copying) {
                    return Ok(Applied::HeldAt(0));
                }
                let is_passed_over = self.run(cx, request).map_err(refused)?;
                // A command that was passed over has changed nothing, so it stays out of the AOF.
                let did_nothing = is_passed_over && !row.runs_script();
                self.end(cx, piece.bytes, did_nothing || changes_no_data(row));
            }
        }
        Ok(Applied::Whole)
    }

    /// Returns the row of a command, if it is known and may be part of an AOF or of a primary's stream.
    fn command(&self, found: Found, args: Args<'_>) -> Result<&'static Row, Error> {
        match found {
            Found::Command(row) if self.is_copying && !may_be_sent(row) => {
                Err(Error::fixed("ERR no primary sends this to its replicas"))
            }
            Found::Command(row) => Ok(row),
            Found::Unknown => Err(unknown_command(args)),
            Found::UnknownSubcommand(_) => Err(unknown_subcommand(args)),
            Found::Arity(row) => Err(Error::arity(row.full_name)),
        }
    }

    /// Passes over a command that cannot even be tried, if the options allow that. Its bytes stay in the stream all the same.
    fn pass_over_unrun(
        &mut self,
        cx: &mut Cx<'_>,
        args: Args<'_>,
        error: Error,
        piece: RawRequest<'_>,
    ) -> Result<(), Refused> {
        let refused = |error: Error| Refused::of(piece.at, args, &error);
        pass_over_unrun(cx, self.source, error).map_err(refused)?;
        match self.open.as_mut() {
            Some(open) if self.is_copying => open.bytes.extend_from_slice(piece.bytes),
            None if self.is_copying => {
                if !self.is_wanted(cx) {
                    return Err(refused(REPLACED));
                }
                put_into_journal(cx, piece.bytes, true);
            }
            _ => {}
        }
        Ok(())
    }

    /// Runs a command, with its locks held; returns whether it could not be applied and was passed over.
    fn run(&self, cx: &mut Cx<'_>, request: Request<'_>) -> Result<bool, Error> {
        match run(cx, request, self.is_copying) {
            Ok(()) => Ok(false),
            Err(error) => pass_over(cx, self.source, request.row.full_name, error).map(|()| true),
        }
    }

    /// Applies the commands between MULTI and EXEC in one go, with the locks of all of them.
    fn execute(&self, cx: &mut Cx<'_>, queued_at: &[u64]) -> Result<(), Refused> {
        let Some(transaction) = cx.state.multi.transaction.take() else { return Ok(()) };
        cx.state.multi.executing = Some(transaction.queue.len() as i64);
        for (((row, args), places), at) in transaction.queue.iter().zip(&transaction.places).zip(queued_at) {
            let parts = Parts { row, args, key_places: &transaction.keys[places.clone()] };
            self.run(cx, parts.request()).map_err(|error| Refused::of(*at, args, &error))?;
        }
        cx.state.multi.executing = None;
        Ok(())
    }

    /// Counts a call that changes no data by itself; in an AOF nothing is counted.
    fn count(&self, cx: &Cx<'_>, row: &Row) {
        if self.is_copying {
            cx.counters.commands[row.id as usize].calls.add(1);
        }
    }

    /// Returns whether the engine still copies the applied stream. It is asked under locks where data is changed, because the
    /// thread that changes the primary, or ends the following, has all of them.
    fn is_wanted(&self, cx: &Cx<'_>) -> bool {
        cx.engine.replication.role.number() == self.task
    }

    /// Takes locks. A primary's stream waits here while a client's long script holds them, and while data is loaded again.
    fn patiently<'c>(
        &self,
        cx: &mut Cx<'c>,
        mut take: impl FnMut(&mut Cx<'c>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        loop {
            match take(cx) {
                Err(error) if self.is_copying && error.code() == "BUSY" => {}
                Ok(()) if self.is_copying && !self.is_wanted(cx) => {
                    cx.locks.clear();
                    return Err(REPLACED);
                }
                Ok(()) if self.is_copying && cx.engine.lifecycle.readiness.has(Hindrance::Loading) => cx.locks.clear(),
                taken => return taken,
            }
            waiting::sleep(PAUSE);
        }
    }

    /// Ends a change that other threads see as one step: puts its bytes into the journal and gives the locks back.
    fn end(&self, cx: &mut Cx<'_>, bytes: &[u8], is_for_replicas: bool) {
        if self.is_copying {
            put_into_journal(cx, bytes, is_for_replicas);
        }
        if !cx.pending.marked.is_empty() {
            serve_blocked::marked(cx);
        }
        cx.locks.end_command();
    }
}

/// Returns whether a command of a primary's stream changes no data. It stays out of the AOF: a server that loads the AOF would
/// move slots again that have moved on since.
fn changes_no_data(row: &Row) -> bool {
    matches!(row.id, Command::Publish | Command::SPublish | Command::ClusterSetSlot)
}

#[cfg(test)]
mod tests;
