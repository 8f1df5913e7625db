//! Applying a log: effects as they stand in the journal, without a client.
//!
//! Nothing is asked that was asked when the effects came about: no permission, no limit, no pause. Nothing is recorded and
//! no reply is kept. While a [`Replay`] lives nothing expires and nothing is evicted in its engine, because the log itself
//! says what has gone; a key whose time is over is there for the effects that follow, though the clock goes on. What stands
//! between MULTI and EXEC is applied when EXEC comes, in one go, or never.
//!
//! Whoever loads a log, or follows another server, calls this from one thread at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sleeve_wire::commands::Command;
use sleeve_wire::request::{Args, Batch, Limits, Parser};

use super::serve_blocked;
use super::{call, lock, unknown_command, unknown_subcommand};
use crate::commands as families;
use crate::commands::transaction;
use crate::context::key_change::Pending;
use crate::context::lookahead::{Found, Lookahead};
use crate::context::session_state::{State, Transaction};
use crate::context::{AtHand, Cx};
use crate::engine::Engine;
use crate::engine::clients::client_info::NewClient;
use crate::engine::journal::Spare;
use crate::host::clock::{Clock, Instant};
use crate::host::dice::Dice;
use crate::messaging::mail::Mailbox;
use crate::observe::stats::Counters;
use crate::request::error::Error;
use crate::request::output::Output;
use crate::request::{KeyAt, Request};

/// Requests that are cut before they are applied.
const REQUESTS_MAX: usize = 512;

/// What applies a log to an engine.
#[derive(Debug)]
pub struct Replay {
    engine: Arc<Engine>,
    state: State,
    parser: Parser,
    batch: Batch,
    lookahead: Lookahead,
    output: Output,
    /// Nobody asks what a log has done, so it is counted nowhere.
    counters: Counters,
    dice: Dice,
    spare: Spare,
    /// Behind the last whole request.
    offset: u64,
    /// Where the MULTI stands that has not ended, and the requests behind it.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    multi_at: u64,
    queued_at: Vec<u64>,
}

/// A request of a log that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The offset of its first byte.
    pub offset: u64,
    /// Its name, or as much as is there of one.
    pub command: String,
    /// The error reply that a client would have got.
    pub error: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} at byte {} cannot be applied: {}", self.command, self.offset, self.error)
    }
}

impl std::error::Error for Refused {}

impl Refused {
    fn of(offset: u64, args: Args<'_>, error: &Error) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { offset, command: text(args.get(0).unwrap_or_default()), error: text(error.text()) }
    }
}

impl Replay {
    /// Begins to apply what stands from this offset on. Nothing expires in the engine until this is dropped.
    pub fn begin(engine: &Arc<Engine>, offset: u64) -> Self {
        engine.is_replaying.store(true, Ordering::Relaxed);
        let arrival = NewClient { address: "log:0".into(), local_address: "log:0".into(), descriptor: -1 };
        // Nobody lists it.
        let client = engine.clients.enter(arrival, Arc::new(Mailbox::new(|| ())), 0);
        engine.clients.leave(client.id);
        let state =
            State { is_replaying: true, denies_blocking: true, ..State::new(client, engine.acl.default_user()) };
        Self {
            engine: Arc::clone(engine),
            state,
            parser: Parser::new(),
            batch: Batch::new(),
            lookahead: Lookahead::default(),
            output: Output::default(),
            counters: Counters::default(),
            dice: engine.dice(),
            spare: Spare::default(),
            offset,
            open: None,
        }
    }

    /// The offset behind the last request that was whole.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The offset of the MULTI whose EXEC has not come, if there is one: nothing from there on was applied.
    pub fn open_transaction(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.multi_at)
    }

    /// Applies the requests that are whole in `bytes`, and returns how many bytes they take. The next call is given the
    /// bytes from there on.
    ///
    /// # Errors
    /// The first request that is none or that is refused; nothing behind it was applied. There is no going on.
    pub fn apply(&mut self, bytes: &[u8], now: Instant) -> Result<usize, Refused> {
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            let mut batch = std::mem::take(&mut self.batch);
            batch.clear();
            let limits = Limits { bulk_len_max: i64::MAX, requests_max: REQUESTS_MAX, ..Limits::default() };
            let parsed = self.parser.parse(rest, &limits, &mut batch);
            let applied = self.apply_batch(&batch, rest, now);
            let count = batch.len();
            self.batch = batch;
            applied?;
            match parsed {
                Ok(0) if count == 0 => break,
                Ok(bytes) => {
                    used += bytes;
                    self.offset += bytes as u64;
                }
                Err(error) => {
                    // Those before it were applied; where they end nobody has said.
                    let limits = Limits { requests_max: count, ..limits };
                    let good = Parser::new().parse(rest, &limits, &mut Batch::new()).unwrap_or(0);
                    let error = String::from_utf8_lossy(&error.message()).into_owned();
                    return Err(Refused { offset: self.offset + good as u64, command: String::new(), error });
                }
            }
        }
        Ok(used)
    }

    fn apply_batch(&mut self, batch: &Batch, bytes: &[u8], now: Instant) -> Result<(), Refused> {
        let Self { engine, state, lookahead, output, counters, dice, spare, offset, open, .. } = self;
        let at_hand = AtHand { engine, counters, dice, now, clock: Clock::Machine, spare };
        let mut pending = Pending::default();
        let mut cx = Cx::new(at_hand, state, output, &mut pending, call);
        cx.recorder().mute();
        let mut next = 0;
        while next < batch.len() {
            let end = lookahead.fill((batch, bytes), next, &mut cx);
            for ((found, keys), index) in lookahead.group().zip(next..end) {
                let (args, start) = (batch.get(index, bytes), batch.start(index));
                let at = *offset + start as u64;
                let applied = match bytes.get(start) {
                    Some(b'*') => apply_one(&mut cx, open, (found, args, keys), at),
                    _ => Err(Refused::of(at, args, &Error::fixed("ERR this is no request: one begins with '*'"))),
                };
                cx.out.clear();
                applied?;
            }
            next = end;
        }
        cx.settle_time();
        cx.post_letters(None);
        Ok(())
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.engine.is_replaying.store(false, Ordering::Relaxed);
    }
}

/// Applies or queues a request that stands at this offset.
fn apply_one(
    cx: &mut Cx<'_>,
    open: &mut Option<Open>,
    (found, args, keys): (Found, Args<'_>, &[KeyAt]),
    at: u64,
) -> Result<(), Refused> {
    let refused = |error: Error| Refused::of(at, args, &error);
    let row = match found {
        Found::Command(row) => row,
        Found::Unknown => return Err(refused(unknown_command(args))),
        Found::UnknownSubcommand(_) => return Err(refused(unknown_subcommand(args))),
        Found::Arity(row) => return Err(refused(Error::arity(row.full_name))),
    };
    match (row.id, open.as_mut()) {
        (Command::Multi, None) => {
            *open = Some(Open { multi_at: at, queued_at: Vec::new() });
            cx.state.transaction = Some(Transaction::default());
            Ok(())
        }
        (Command::Exec, Some(_)) => {
            transaction::lock(cx).map_err(refused)?;
            let queued_at = open.take().map(|open| open.queued_at).unwrap_or_default();
            execute(cx, &queued_at)
        }
        (Command::Multi | Command::Exec, _) => {
            Err(refused(Error::fixed("ERR MULTI and EXEC do not stand in pairs here")))
        }
        (_, Some(open)) => {
            open.queued_at.push(at);
            if let Some(transaction) = &mut cx.state.transaction {
                transaction.queue.push(row, args);
            }
            Ok(())
        }
        (_, None) => {
            let request = Request::new(row, args, keys);
            lock(cx, &request).and_then(|()| run(cx, request)).map_err(refused)?;
            end(cx);
            Ok(())
        }
    }
}

/// Applies what stands between MULTI and EXEC in one go, with the locks of all of it.
fn execute(cx: &mut Cx<'_>, queued_at: &[u64]) -> Result<(), Refused> {
    let Some(transaction) = cx.state.transaction.take() else { return Ok(()) };
    cx.state.executing = Some(transaction.queue.len() as i64);
    for (((row, args), places), at) in transaction.queue.iter().zip(&transaction.places).zip(queued_at) {
        let request = Request::new(row, args, &transaction.keys[places.clone()]);
        run(cx, request).map_err(|error| Refused::of(*at, args, &error))?;
    }
    cx.state.executing = None;
    end(cx);
    Ok(())
}

/// Runs a command under its locks.
fn run(cx: &mut Cx<'_>, request: Request<'_>) -> Result<(), Error> {
    cx.begin_unmeasured();
    let outcome = families::run(cx, request);
    cx.end(&request, None);
    outcome
}

/// Ends what was one step for everybody else.
fn end(cx: &mut Cx<'_>) {
    if !cx.pending.marked.is_empty() {
        serve_blocked::marked(cx);
    }
    cx.end_command();
}
