//! A worker: connections with their sessions, a driver that carries their bytes, and the thread that serves them.
//!
//! A worker waits, serves all events that the wait has returned, and reads its mail; between waits it does its share of the
//! background work in short slices. It executes requests where their bytes arrive: no request is ever handed to another
//! thread.
//!
//! A running session is out of its place, in the hands of the thread that runs it. During that time the thread lends the
//! worker to the session ([`LentWorker`]). If a script runs for long, the worker goes to a new thread, which goes on serving.
//! The thread of the script keeps the session and its locks, brings the session back when it is done (`long_script`), and
//! ends. So a function that may run a session takes the worker by value, and returns it unless it has been handed over. All
//! other work for clients is done by their [`Connections`].

mod connections;
mod cron;
mod journal_followers;
mod limits;
mod long_script;
mod mail;
mod outbox;
mod pool;
mod replica_feeds;
mod replies;
mod reply_gate;
#[cfg(test)]
pub(crate) mod stepped;
#[cfg(test)]
mod tests;
mod tls_channels;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use crate::config::Opt;
use crate::context::worker_handoff::WorkerHandoff;
use crate::engine::Engine;
use crate::execute::active_expiry::Expiry;
use crate::execute::scratch::Scratch;
use crate::host::clock::{self, Clocks, Instant};
use crate::host::{crash, log};
use crate::messaging::mail::Letter;
use crate::net::{Driver, Event, Listener, Token};
use crate::session::{LARGE_REQUEST_BYTES, Session};
use connections::Connections;
use pool::{Member, Returned};
use tls_channels::warn_of_handshake;

pub use pool::{Doors, WorkerPool};

/// The most bytes that one receive takes.
const BUFFER_LEN: usize = 128 * 1024;

/// Connections with their sessions, and the state that a thread needs to serve them, except its own scratch.
#[derive(Debug)]
pub struct Worker {
    number: usize,
    engine: Arc<Engine>,
    pool: Arc<WorkerPool>,
    connections: Connections,
    clocks: Clocks,
    /// Mail that has not been read yet.
    letters: VecDeque<Letter>,
    /// More mail arrived while mail was being read.
    is_mail_left: bool,
    expiry: Expiry,
    next_tick_ms: u64,
    next_idle_check_ms: u64,
    /// Accepting has failed, and that was logged.
    is_refusing: bool,
    /// There was no thread that could take the worker over, and that was logged.
    is_alone: bool,
    /// The worker is not wanted any more, and had no clients at its last tick.
    is_done: bool,
    stopping: bool,
}

/// The beginning and the end of a worker, and the thread that serves it.
impl Worker {
    /// Makes worker `number` of its pool, which has admitted it.
    pub fn new(engine: &Arc<Engine>, pool: Arc<WorkerPool>, number: usize, driver: Driver) -> Self {
        let (workers, home) = (pool.wanted(), pool.member(number));
        Self {
            number,
            engine: Arc::clone(engine),
            pool,
            connections: Connections::new(engine, home, driver),
            clocks: Clocks::default(),
            letters: VecDeque::new(),
            is_mail_left: false,
            expiry: Expiry::new(number, workers),
            next_tick_ms: 0,
            next_idle_check_ms: 0,
            is_refusing: false,
            is_alone: false,
            is_done: false,
            stopping: false,
        }
    }

    /// Also accepts connections from this listener.
    ///
    /// # Errors
    /// The errors of the kernel.
    pub fn listen(&mut self, listener: Arc<Listener>) -> io::Result<()> {
        self.connections.driver.listen(listener)
    }

    /// Starts the thread that serves until a letter tells it to stop; [`WorkerPool::wait`] waits for its end. If the thread
    /// ends for another reason, the engine ends too: the pool would give every new connection to a worker that is not served.
    ///
    /// # Errors
    /// The errors of the kernel: too many threads.
    pub fn spawn(self) -> io::Result<()> {
        Box::new(self).start().map_err(|(_, error)| error)
    }

    /// Starts a new thread that serves the worker, or returns the worker.
    fn start(self: Box<Self>) -> Result<(), (Box<Self>, io::Error)> {
        let (engine, pool) = (Arc::clone(&self.engine), Arc::clone(&self.pool));
        let name = format!("worker-{}", self.number);
        // A value that has been moved into a thread that does not start would be lost.
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
        // The previous thread may have left the worker within a wake-up, with replies in the outbox.
        self.connections.depart(&mut scratch);
        let mut served = self.read_mail(&mut scratch);
        if let Some(worker) = &mut served {
            // Letters that arrived before this have caused no wake-up.
            worker.is_mail_left = worker.has_letters() | worker.connections.settle(&mut worker.clocks, &mut scratch);
        }
        while let Some(worker) = served {
            self = worker;
            if self.is_over() {
                self.end();
                break;
            }
            served = self.round(&mut scratch, &mut buffer)?;
        }
        Ok(())
    }

    /// Returns whether the worker has been told to stop, and waits for no session that another thread still runs. The scripts
    /// of such sessions notice that and end; but if the engine has failed, these sessions may never come back.
    fn is_over(&self) -> bool {
        self.stopping && (self.connections.long_scripts.is_empty() || self.engine.failure().is_some())
    }

    /// Closes all connections and ends the worker.
    fn end(&mut self) {
        self.connections.close_all();
        if self.pool.leave(&self.connections.home) {
            self.engine.outlive_workers();
        }
    }

    /// Returns whether its mailbox has letters.
    #[inline]
    fn has_letters(&self) -> bool {
        self.connections.home.mailbox.has_letters.load(Ordering::Relaxed)
    }
}

/// A wake-up of a thread that serves a worker. It tells the time of the thread by phase: receiving and parsing, executing,
/// answering; and how long requests wait for others that came with them. For that, the ticks are read when the worker wakes
/// and before it waits again; all other numbers are counted anyway.
struct WakeUp {
    /// The number of events that the wait has returned.
    events: usize,
    /// The deadline of the first blocked client, as it was before the wait.
    first_deadline_ms: u64,
    began_us: u64,
    began_ticks: u64,
    /// The ticks of execution and the number of commands that were counted before the wake-up.
    executing_ticks: u64,
    executed: u64,
}

impl WakeUp {
    /// Begins a wake-up at this time.
    #[inline]
    fn begin(now: Instant, scratch: &mut Scratch, events: usize, first_deadline_ms: u64) -> Self {
        scratch.now = now;
        let (executing_ticks, executed) = (scratch.counters.executing_ticks.get(), scratch.counters.executed.get());
        let (began_us, began_ticks) = (now.monotonic_us, clock::ticks());
        Self { events, first_deadline_ms, began_us, began_ticks, executing_ticks, executed }
    }

    /// Sets the time at which another part of the wake-up begins, and counts how long its requests have waited.
    #[inline]
    fn note_later(&self, now: Instant, scratch: &mut Scratch) {
        scratch.now = now;
        scratch.counters.waiting_us.add(now.monotonic_us.saturating_sub(self.began_us));
    }

    /// Counts how long the wake-up took and, if commands ran in it, the time of each phase.
    #[inline]
    fn end(&self, scratch: &Scratch) {
        let (ticks, counters) = (clock::ticks(), &scratch.counters);
        let cycle_ticks = ticks.saturating_sub(self.began_ticks);
        counters.cycles.add(1);
        counters.cycle_ticks.add(cycle_ticks);
        scratch.engine.observe.stats.note_cycle(cycle_ticks, counters.executed.get() - self.executed);
        let settled_ticks = counters.settled_ticks.get();
        if settled_ticks > self.began_ticks {
            let executed_ticks = counters.executing_ticks.get() - self.executing_ticks;
            counters.reading_ticks.add((settled_ticks - self.began_ticks).saturating_sub(executed_ticks));
            counters.writing_ticks.add(ticks.saturating_sub(settled_ticks));
        }
    }
}

/// The event loop.
impl Worker {
    /// Waits for the first event or deadline, and serves it.
    fn round(self: Box<Self>, scratch: &mut Scratch, buffer: &mut [u8]) -> io::Result<Option<Box<Self>>> {
        let wakes_ms = self.next_tick_ms.min(self.connections.first_deadline_ms());
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
        let first_deadline_ms = self.connections.first_deadline_ms();
        self.connections.driver.set_busy_polling(self.engine.config.flag(Opt::IoBusyPoll));
        let count = self.connections.driver.wait(timeout_ms)?;
        let wake_up = WakeUp::begin(self.clocks.read(), scratch, count, first_deadline_ms);
        if !self.connections.feeds.is_empty() {
            // While the worker is awake, it checks the journal for new bytes by itself.
            self.engine.journal.forget_owner(&self.connections.home.mailbox);
        }
        let worker = self.serve_events(&wake_up, scratch, buffer);
        wake_up.end(scratch);
        Ok(worker)
    }

    /// Serves the events of a wake-up, and does the other work that is due.
    #[inline]
    fn serve_events(
        mut self: Box<Self>,
        wake_up: &WakeUp,
        scratch: &mut Scratch,
        buffer: &mut [u8],
    ) -> Option<Box<Self>> {
        for index in 0..wake_up.events {
            // The work since the wake-up may have taken long, and a relative deadline counts from the present time.
            if index != 0 {
                wake_up.note_later(self.clocks.read(), scratch);
            }
            let event = self.connections.driver.event(index, buffer);
            self = self.handle(event, wake_up.events == 1, scratch, buffer)?;
        }
        self.connections.depart(scratch);
        if scratch.now.monotonic_ms() >= wake_up.first_deadline_ms {
            self = self.time_out(scratch)?;
        }
        if scratch.now.monotonic_ms() >= self.next_tick_ms {
            self = self.tick(scratch)?;
        }
        // A letter that this thread has posted to itself has woken no thread. Letters that arrive while it reads wait until
        // it has served its connections again, because other threads may post without end.
        self.is_mail_left = self.has_letters() || !self.letters.is_empty();
        if self.is_mail_left {
            self = self.read_mail(scratch)?;
            self.is_mail_left = self.has_letters();
        }
        if !self.connections.feeds.is_empty() {
            replica_feeds::feed_replicas(&mut self.connections, scratch);
            self.is_mail_left = self.has_letters();
        }
        self.is_mail_left |= self.connections.settle(&mut self.clocks, scratch);
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
        if let Event::Received(token, _) | Event::Receivable(token) = event
            && self.connections.sessions[token].as_ref().is_some_and(|session| session.state.is_told())
            && self.has_letters()
        {
            // The client gets the messages and invalidations that were posted before its request first. So they reach it even
            // if the request ends its subscriptions.
            self.hear_news(scratch);
        }
        match event {
            Event::Received(token, count) if self.connections.channels.has(token) => {
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
                self.answer(token, is_lone, scratch);
            }
            Event::Receivable(token) => return self.receive_large(token, is_lone, scratch),
            Event::Sent(token, waiting) => {
                if let Some(session) = &self.connections.sessions[token] {
                    session.state.client.activity.active_ms.store(scratch.now.wall_ms(), Ordering::Relaxed);
                }
                self.connections.after_sending(token, waiting, scratch);
            }
            Event::Closed(token) if self.connections.long_scripts.end_when_back(token) => {}
            Event::Closed(token) => self.connections.close(token),
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
                self.connections.depart(scratch);
                return self.read_mail(scratch);
            }
            Event::Nothing => {}
        }
        Some(self)
    }
}

/// A worker while one of its sessions runs, with the connection of that session. Or, once another thread has taken the worker
/// over, the member to which the session has to be brought back.
enum LentWorker {
    Here(Box<Worker>, Token),
    Gone(Arc<Member>),
}

impl WorkerHandoff for LentWorker {
    #[cold]
    fn hand_over(&mut self) {
        let Self::Here(worker, _) = self else { return };
        let gone = Self::Gone(Arc::clone(&worker.connections.home));
        let Self::Here(mut worker, token) = std::mem::replace(self, gone) else { return };
        worker.connections.detach(token);
        if let Err((mut worker, error)) = worker.change_thread() {
            worker.connections.attach(token);
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
            Self::Here(worker, _) => is_long && worker.connections.home.mailbox.is_stopped(),
            Self::Gone(home) => home.mailbox.is_stopped(),
        }
    }
}

/// Running sessions.
impl Worker {
    /// Runs a session, if there is one. Returns None if another thread has taken the worker over; that thread handles the
    /// session's output.
    #[inline]
    fn with_session(
        mut self: Box<Self>,
        token: Token,
        scratch: &mut Scratch,
        run: impl FnOnce(&mut Session, &mut Scratch, &mut dyn WorkerHandoff),
    ) -> Option<Box<Self>> {
        let Some(mut session) = self.connections.sessions[token].take() else { return Some(self) };
        let mut lent = LentWorker::Here(self, token);
        run(&mut session, scratch, &mut lent);
        match lent {
            LentWorker::Here(mut worker, _) => {
                worker.connections.sessions[token] = Some(session);
                if scratch.output.take_cut() {
                    worker.connections.close_cut(token, scratch);
                }
                Some(worker)
            }
            LentWorker::Gone(home) => {
                home.bring_back(Returned { token, session, output: std::mem::take(&mut scratch.output) });
                None
            }
        }
    }

    /// Sends the replies that this connection's session has just written: at once, if its event is the only one of the
    /// wake-up, else at the end of the wake-up.
    #[inline]
    fn answer(&mut self, token: Token, is_lone: bool, scratch: &mut Scratch) {
        if is_lone { self.connections.send(token, scratch) } else { self.connections.send_later(token, scratch) }
    }

    /// Moves this worker to a new thread, or returns it.
    fn change_thread(mut self: Box<Self>) -> Result<(), (Box<Self>, io::Error)> {
        match self.connections.driver.change_thread() {
            Ok(()) => self.start(),
            Err(error) => Err((self, error)),
        }
    }

    /// Passes a session the plain bytes that were received over TLS.
    fn receive_sealed(mut self: Box<Self>, token: Token, bytes: &[u8], scratch: &mut Scratch) -> Option<Box<Self>> {
        let Some(channel) = self.connections.channels.get(token) else { return Some(self) };
        let opened = channel.open(bytes).map(|_| ());
        let plain = channel.take_plain();
        if opened.is_ok() && !plain.is_empty() {
            scratch.counters.reads.add(1);
            self =
                self.with_session(token, scratch, |session, scratch, others| session.receive(&plain, scratch, others))?;
        }
        let Connections { sessions, channels, .. } = &mut self.connections;
        let (Some(session), Some(channel)) = (&mut sessions[token], channels.get(token)) else { return Some(self) };
        channel.keep(plain);
        let has_ended = channel.has_ended();
        if let Err(error) = &opened
            && channel.is_handshaking()
        {
            warn_of_handshake(&session.state.client, error, bytes);
        }
        // The channel's alert about the fault is sent before the connection ends.
        session.state.closing |= opened.is_err() || has_ended;
        self.connections.send(token, scratch);
        if opened.is_err() || has_ended {
            self.connections.close(token);
        }
        Some(self)
    }

    /// If many bytes of a request are missing, has them received directly into the session's buffer.
    #[cold]
    fn look_at_missing(&mut self, token: Token) {
        if self.connections.sessions[token].as_ref().is_some_and(|session| session.missing() >= LARGE_REQUEST_BYTES) {
            self.connections.driver.receive_apart(token, true);
        }
    }

    /// Receives bytes of a large request into the session's buffer. Through the worker's buffer every byte would be copied
    /// once more, and a receive would take no more than that buffer holds. If the session wants no such bytes now, they take
    /// the usual way. Connections with TLS are excluded, because their bytes have to be decrypted.
    #[cold]
    fn receive_large(mut self: Box<Self>, token: Token, is_lone: bool, scratch: &mut Scratch) -> Option<Box<Self>> {
        let Some(room) = self.connections.sessions[token].as_mut().and_then(|session| session.room()) else {
            self.connections.driver.receive_apart(token, false);
            return Some(self);
        };
        let event = self.connections.driver.receive_into(token, room);
        let is_full = room.len() == room.capacity();
        let Event::Received(_, count) = event else { return self.handle(event, is_lone, scratch, &[]) };
        scratch.counters.reads.add(1);
        self = self.with_session(token, scratch, |session, scratch, others| {
            session.receive_kept(count, scratch, others);
        })?;
        let is_missing = self.connections.sessions[token].as_ref().is_some_and(|session| session.missing() != 0);
        if is_full || !is_missing {
            self.connections.driver.receive_apart(token, is_missing);
        }
        self.answer(token, is_lone, scratch);
        Some(self)
    }
}
