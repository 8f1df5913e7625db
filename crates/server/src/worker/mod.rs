//! One worker: connections with their sessions, a driver that carries their bytes, and the thread that serves them.
//!
//! A worker waits, serves everything that the wait brought, and reads its mail; between times it takes its share of the
//! background work in short slices. It executes where the bytes arrive: no request is ever handed to another thread.
//!
//! A session that runs is out of its place, in the hands of the thread that runs it, which lends it the worker in the
//! meantime ([`LentWorker`]). If a script runs for long, the worker goes to a fresh thread, which goes on serving; the thread
//! of the script keeps the session and its locks, brings the session back when it is done (`detached`), and ends. So a
//! function that may run a session takes the worker by value, and gives it back unless it has gone.
//!
//! Replies leave one after the other when all that one wake-up has brought has been executed. Sent at once, each would wake
//! its peer by itself; sent together, they find it awake, which saves the kernel's work. Outputs that are long or share
//! values are sent at once all the same, and so is the only reply of a wake-up: it would be held for nothing.

mod connections;
mod detached;
mod held_replies;
mod holding;
mod journal_followers;
mod journal_pushes;
mod large_requests;
mod limits;
mod mail_handler;
mod replica_feeds;
#[cfg(test)]
pub(crate) mod stepped;
#[cfg(test)]
mod tests;
mod tick;
mod tls;
mod tls_channels;
mod worker_pool;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use crate::config::Opt;
use crate::context::others::Others;
use crate::engine::Engine;
use crate::engine::replication::Replica;
use crate::execute::active_expiry::Expiry;
use crate::execute::scratch::Scratch;
use crate::host::clock::{self, Clocks, Instant};
use crate::host::{crash, log};
use crate::messaging::local_subscribers::LocalSubscribers;
use crate::messaging::mail::Letter;
use crate::net::{Driver, Event, Listener, Sending, Token};
use crate::request::output::Output;
use crate::session::{LARGE_REQUEST_BYTES, Session};
use held_replies::HeldReplies;
use tls_channels::Channels;
use worker_pool::{DetachedSession, Member, Returned};

pub use worker_pool::{Doors, WorkerPool};

/// Bytes that one receive takes at most.
const BUFFER_LEN: usize = 128 * 1024;

/// The most replies that wait for the end of a wake-up, and the most buffers that are kept.
const SEND_QUEUE_MAX: usize = 64;

/// Replies that are longer do not wait, and longer buffers are not kept.
const WAITING_BYTES_MAX: usize = 16 * 1024;

/// The bytes that one client must have held for the allocator to be asked for them.
const LARGE_BYTES: usize = 4 * 1024 * 1024;

/// Connections with their sessions, and the state that a thread needs to serve them, except its own scratch.
#[derive(Debug)]
pub struct Worker {
    number: usize,
    engine: Arc<Engine>,
    pool: Arc<WorkerPool>,
    home: Arc<Member>,
    driver: Driver,
    clocks: Clocks,
    /// By token; one that runs is not in its place.
    sessions: Vec<Option<Box<Session>>>,
    channels: Channels,
    /// The tokens of clients, by the client's id.
    tokens: HashMap<u64, Token>,
    /// The deadlines of blocked clients, monotonic milliseconds, each with its id.
    deadlines: BTreeSet<(u64, u64)>,
    /// The subscriptions of its clients.
    subscribers: LocalSubscribers,
    /// Replies that are to be sent at the end of the wake-up, with their connections.
    send_queue: Vec<(Token, Output)>,
    /// The largest offset of the journal that any of these replies shows.
    send_queue_shown: u64,
    /// Empty outputs, to be used again.
    spare_outputs: Vec<Output>,
    held: HeldReplies,
    /// Its replicas, with their connections.
    feeds: Vec<(Token, Arc<Replica>)>,
    /// Sessions that another thread still runs.
    detached: Vec<DetachedSession>,
    /// Letters for their clients, by id.
    kept: VecDeque<(u64, Letter)>,
    /// Mail that has not been read yet.
    letters: VecDeque<Letter>,
    /// There is mail that arrived while other mail was read.
    is_mail_left: bool,
    expiry: Expiry,
    next_tick_ms: u64,
    next_idle_check_ms: u64,
    /// A large output was sent, and the allocator may keep its memory.
    owes_purge: bool,
    /// Accepting has failed, and the log says so.
    is_refusing: bool,
    /// There was no thread to take it over, and the log says so.
    is_alone: bool,
    /// It is not wanted any more, and had no clients at its last tick.
    is_done: bool,
    stopping: bool,
}

/// Its beginning, and the thread that serves it.
impl Worker {
    /// Creates worker `number` of its pool, which has admitted it.
    pub fn new(engine: &Arc<Engine>, pool: Arc<WorkerPool>, number: usize, driver: Driver) -> Self {
        let (workers, home) = (pool.wanted(), pool.member(number));
        engine.clients.enter_mailbox(&home.mailbox);
        Self {
            number,
            engine: Arc::clone(engine),
            pool,
            home,
            driver,
            clocks: Clocks::default(),
            sessions: Vec::new(),
            channels: Channels::default(),
            tokens: HashMap::new(),
            deadlines: BTreeSet::new(),
            subscribers: LocalSubscribers::default(),
            send_queue: Vec::new(),
            send_queue_shown: 0,
            spare_outputs: Vec::new(),
            held: HeldReplies::default(),
            feeds: Vec::new(),
            detached: Vec::new(),
            kept: VecDeque::new(),
            letters: VecDeque::new(),
            is_mail_left: false,
            expiry: Expiry::new(number, workers),
            next_tick_ms: 0,
            next_idle_check_ms: 0,
            owes_purge: false,
            is_refusing: false,
            is_alone: false,
            is_done: false,
            stopping: false,
        }
    }

    /// Accepts from this listener too.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn listen(&mut self, listener: Arc<Listener>) -> io::Result<()> {
        self.driver.listen(listener)
    }

    /// Starts the thread that serves until a letter says stop; [`WorkerPool::wait`] waits for its end. When it ends for
    /// another reason, so does the engine: a pool that lacks a worker would give every new connection to the one that never
    /// looks.
    ///
    /// # Errors
    /// Those of the kernel: too many threads.
    pub fn spawn(self) -> io::Result<()> {
        Box::new(self).start().map_err(|(_, error)| error)
    }

    /// Starts a fresh thread that serves the worker, or gives the worker back.
    fn start(self: Box<Self>) -> Result<(), (Box<Self>, io::Error)> {
        let (engine, pool) = (Arc::clone(&self.engine), Arc::clone(&self.pool));
        let name = format!("worker-{}", self.number);
        // A value that has been moved into a thread that does not start is lost.
        let place = Arc::new(Mutex::new(Some(self)));
        let taken = Arc::clone(&place);
        let serve = move || {
            let worker = taken.lock().take();
            let served = worker.map_or(Ok(()), Self::serve);
            served.map_err(|error| format!("cannot wait for its clients: {error}"))
        };
        match engine.start_thread(&name, serve) {
            Ok(thread) => pool.enter(thread),
            Err(error) => return place.lock().take().map_or(Ok(()), |worker| Err((worker, error))),
        }
        Ok(())
    }

    fn serve(mut self: Box<Self>) -> io::Result<()> {
        let _handler_stack = crash::HandlerStack::give();
        let mut scratch = Scratch::new(&self.engine, Instant::now());
        let mut buffer = vec![0; BUFFER_LEN].into_boxed_slice();
        // Another thread may have left it in the middle of anything.
        self.depart(&mut scratch);
        let mut served = self.read_mail(&mut scratch);
        if let Some(worker) = &mut served {
            // Letters that arrived in between have caused no wake-up.
            worker.is_mail_left = worker.home.mailbox.has_letters.load(Ordering::Relaxed);
        }
        while let Some(worker) = served {
            self = worker;
            if self.stopping && !self.waits_for_away() {
                self.end();
                break;
            }
            served = self.round(&mut scratch, &mut buffer)?;
        }
        Ok(())
    }

    /// Waits for the first event or deadline, and serves it.
    fn round(self: Box<Self>, scratch: &mut Scratch, buffer: &mut [u8]) -> io::Result<Option<Box<Self>>> {
        let wakes_ms = self.next_tick_ms.min(self.first_deadline_ms());
        let timeout_ms = if self.is_mail_left { 0 } else { wakes_ms.saturating_sub(scratch.now.monotonic_ms()) };
        self.round_within(timeout_ms, scratch, buffer)
    }

    /// Waits for at most `timeout_ms`, and serves the events that have arrived.
    fn round_within(
        mut self: Box<Self>,
        timeout_ms: u64,
        scratch: &mut Scratch,
        buffer: &mut [u8],
    ) -> io::Result<Option<Box<Self>>> {
        let first_deadline_ms = self.first_deadline_ms();
        self.driver.set_busy_polling(self.engine.config.flag(Opt::IoBusyPoll));
        let count = self.driver.wait(timeout_ms)?;
        scratch.wake(self.clocks.read(), clock::ticks());
        if !self.feeds.is_empty() {
            self.look_after_stream();
        }
        let worker = self.wake_up(count, first_deadline_ms, scratch, buffer);
        scratch.note_phases(clock::ticks());
        Ok(worker)
    }

    #[inline]
    fn wake_up(
        mut self: Box<Self>,
        count: usize,
        first_deadline_ms: u64,
        scratch: &mut Scratch,
        buffer: &mut [u8],
    ) -> Option<Box<Self>> {
        for index in 0..count {
            // The work since the wake-up may have taken long, and a relative deadline counts from now.
            if index != 0 {
                scratch.wake_later(self.clocks.read());
            }
            let event = self.driver.event(index, buffer);
            self = self.handle(event, count == 1, scratch, buffer)?;
        }
        self.depart(scratch);
        if scratch.now.monotonic_ms() >= first_deadline_ms {
            self = self.time_out(scratch)?;
        }
        if scratch.now.monotonic_ms() >= self.next_tick_ms {
            self = self.tick(scratch)?;
        }
        // A letter that this thread has posted to itself has woken no thread. Letters that arrive while it reads wait until
        // it has looked after its connections: other threads may post without end.
        self.is_mail_left = self.home.mailbox.has_letters.load(Ordering::Relaxed) || !self.letters.is_empty();
        if self.is_mail_left {
            self = self.read_mail(scratch)?;
            self.is_mail_left = self.home.mailbox.has_letters.load(Ordering::Relaxed);
        }
        if !self.feeds.is_empty() {
            self.feed_replicas(scratch);
        }
        Some(self)
    }

    /// Handles an event, which may be the only one of the wake-up.
    #[inline]
    fn handle(
        mut self: Box<Self>,
        event: Event,
        is_lone: bool,
        scratch: &mut Scratch,
        buffer: &[u8],
    ) -> Option<Box<Self>> {
        if let Event::Received(token, _) | Event::Receivable(token) = event {
            self.hear_news_before(token, scratch);
        }
        match event {
            Event::Received(token, count) if self.is_sealed(token) => {
                return self.receive_sealed(token, &buffer[..count], scratch);
            }
            Event::Received(token, count) => {
                scratch.counters.reads.add(1);
                self = self.with_session(token, scratch, |session, scratch, others| {
                    session.receive(&buffer[..count], scratch, others);
                })?;
                if count >= LARGE_REQUEST_BYTES {
                    self.look_at_missing(token);
                }
                if is_lone { self.send(token, scratch) } else { self.send_later(token, scratch) }
            }
            Event::Receivable(token) => return self.receive_large(token, is_lone, scratch),
            Event::Sent(token, waiting) => {
                if let Some(session) = &self.sessions[token] {
                    session.state.client.activity.active_ms.store(scratch.now.wall_ms(), Ordering::Relaxed);
                }
                self.after_sending(token, waiting, scratch);
            }
            Event::Closed(token) if self.end_when_back(token) => {}
            Event::Closed(token) => self.close(token),
            Event::Accepted(accepted) => {
                self.is_refusing = false;
                accepted.into_iter().for_each(|accepted| self.place(accepted, scratch));
            }
            Event::AcceptFailed(error) => {
                if !std::mem::replace(&mut self.is_refusing, true) {
                    log::warning(&format!("Accepting client connection: {error}"));
                }
            }
            Event::Woken => {
                self.depart(scratch);
                return self.read_mail(scratch);
            }
            Event::Nothing => {}
        }
        Some(self)
    }
}

/// A worker while one of its sessions runs, with the connection of that session; or the member that the session is to be
/// brought back to, once another thread has taken the worker over.
enum LentWorker {
    Here(Box<Worker>, Token),
    Gone(Arc<Member>),
}

impl Others for LentWorker {
    #[cold]
    fn hand_over(&mut self) {
        let Self::Here(worker, _) = self else { return };
        let gone = Self::Gone(Arc::clone(&worker.home));
        let Self::Here(mut worker, token) = std::mem::replace(self, gone) else { return };
        worker.leave_behind(token);
        if let Err((mut worker, error)) = worker.change_thread() {
            worker.stay_with(token);
            if !std::mem::replace(&mut worker.is_alone, true) {
                log::warning(&format!(
                    "No thread can be had to serve others while a script runs, so they wait: {error}"
                ));
            }
            *self = Self::Here(worker, token);
        }
    }

    #[cold]
    fn is_stopping(&self, is_long: bool) -> bool {
        match self {
            Self::Here(worker, _) => is_long && worker.home.mailbox.is_stopped(),
            Self::Gone(home) => home.mailbox.is_stopped(),
        }
    }
}

/// Running sessions, and sending the replies that they have written.
impl Worker {
    /// Runs a session, if there is one. Returns none when the worker has gone on without it; its output is handled there
    /// then.
    #[inline]
    fn with_session(
        mut self: Box<Self>,
        token: Token,
        scratch: &mut Scratch,
        run: impl FnOnce(&mut Session, &mut Scratch, &mut dyn Others),
    ) -> Option<Box<Self>> {
        let Some(mut session) = self.sessions[token].take() else { return Some(self) };
        let mut lent = LentWorker::Here(self, token);
        run(&mut session, scratch, &mut lent);
        match lent {
            LentWorker::Here(mut worker, _) => {
                worker.sessions[token] = Some(session);
                worker.close_if_cut(token, scratch);
                Some(worker)
            }
            LentWorker::Gone(home) => {
                home.bring_back(Returned { token, session, output: std::mem::take(&mut scratch.output) });
                None
            }
        }
    }

    /// Queues the replies that the session of this connection has just written, to leave with the others.
    #[inline]
    fn send_later(&mut self, token: Token, scratch: &mut Scratch) {
        let output = &mut scratch.output;
        if !output.plain().is_some_and(|bytes| (1..=WAITING_BYTES_MAX).contains(&bytes.len())) {
            return self.send(token, scratch);
        }
        self.send_queue_shown = self.send_queue_shown.max(output.shown);
        let spare = self.spare_outputs.pop().unwrap_or_default();
        self.send_queue.push((token, std::mem::replace(output, spare)));
        if self.send_queue.len() >= SEND_QUEUE_MAX {
            self.depart(scratch);
        }
    }

    /// Sends the queued replies.
    fn depart(&mut self, scratch: &mut Scratch) {
        if self.send_queue.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.send_queue);
        if std::mem::take(&mut self.send_queue_shown) != 0 || self.held.uses != 0 {
            self.hold_send_queue(&mut waiting, scratch);
        }
        self.send_together(&mut waiting, scratch);
        self.send_queue = waiting;
    }

    /// Sends replies that may leave, of several connections with one system call, and leaves the list empty.
    fn send_together(&mut self, waiting: &mut Vec<(Token, Output)>, scratch: &mut Scratch) {
        if waiting.len() > 1 {
            let (sends, bytes) = self.driver.send_together(waiting);
            scratch.counters.writes.add(sends as u64);
            scratch.counters.output_bytes.add(bytes as u64);
        }
        for (token, output) in waiting.drain(..) {
            let unused = std::mem::replace(&mut scratch.output, output);
            self.send_now(token, scratch);
            let mut sent = std::mem::replace(&mut scratch.output, unused);
            sent.bytes.shrink_to(WAITING_BYTES_MAX);
            self.spare_outputs.push(sent);
        }
    }

    /// Sends the replies that the session of this connection has just written, or holds them back.
    fn send(&mut self, token: Token, scratch: &mut Scratch) {
        if scratch.output.shown == 0 && self.held.uses == 0 {
            self.send_now(token, scratch)
        } else {
            self.send_unless_held(token, scratch)
        }
    }

    /// Sends the replies that the session of this connection has written.
    fn send_now(&mut self, token: Token, scratch: &mut Scratch) {
        if self.sessions[token].as_ref().is_some_and(|session| session.state.subscriptions.is_some()) {
            self.note_listener(token);
        }
        if self.is_sealed(token) {
            self.seal(token, &mut scratch.output);
        }
        let sending = if scratch.output.is_empty() {
            // There is no new output, but earlier output may still wait.
            scratch.output.shown = 0;
            Sending::Waiting(self.driver.waiting(token))
        } else {
            scratch.counters.writes.add(1);
            let len = scratch.output.len();
            scratch.counters.output_bytes.add(len as u64);
            if len >= LARGE_BYTES {
                self.note_large(len);
            }
            self.driver.send(token, &mut scratch.output)
        };
        debug_assert!(scratch.output.is_empty(), "the replies of one client would reach another");
        match sending {
            Sending::Done => self.after_sending(token, 0, scratch),
            Sending::Waiting(count) => self.after_sending(token, count, scratch),
            Sending::Broken => self.close(token),
        }
    }

    fn after_sending(&mut self, token: Token, waiting: usize, scratch: &mut Scratch) {
        let waiting = if self.held.uses == 0 { waiting } else { waiting + self.held.len(token) };
        let Some(session) = &mut self.sessions[token] else { return };
        let client = &session.state.client;
        client.memory.output.store(waiting, Ordering::Relaxed);
        client.memory.output_spare.store(if waiting == 0 { 0 } else { self.driver.spare(token) }, Ordering::Relaxed);
        if waiting == 0 && session.state.closing {
            return self.close_when_sent(token);
        }
        if let Some(deadline_ms) = session.deadline_ms() {
            self.deadlines.insert((deadline_ms, session.state.client.id));
        }
        if session.state.closing || session.is_held() {
            self.driver.hold(token, true);
        }
        if waiting != 0 || session.is_behind() {
            self.close_if_unread(token, waiting, scratch);
        }
        if self.engine.config.bounds_memory() {
            self.weigh(token, scratch);
        }
    }
}
