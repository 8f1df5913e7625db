//! An engine in this process, behind the same handles.
//!
//! A call executes in the caller's thread, between two lines of its program: the request's bytes go into a session of the
//! engine and the reply's bytes come out. No socket, no thread, no queue. Several sessions are kept, so that threads that
//! call at the same time run at the same time; a session is opened when all others are busy, and each caller's own order
//! holds because a call returns answered. (CLIENT commands about "this connection" refer to one of the sessions.)
//!
//! A reply may be late, because the command blocks or CLIENT PAUSE holds it up. It then goes through the same pipe and reply
//! reader as on a connection. A thread that lives only until then takes it in: the engine wakes it when there is a reply, and
//! the thread itself checks timeouts.

pub(crate) mod clock;
mod deadline;
pub(crate) mod engines;
mod synced;
#[cfg(test)]
mod tests;
mod wakeup;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use sleeve_server::boot;
use sleeve_server::{Engine, Local, Opt};
use sleeve_wire::frame::Scanner;

use crate::config::{Config, Endpoint, ErrorHook, Resend};
use crate::connection::no_such_database;
use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::Pipe;
use crate::pipe::asker::{Unit, left_ms};
use crate::pipe::driver_number::DriverNumber;
use crate::pipe::queued::Sent;
use crate::pipe::reply_reader::ReplyReader;
use crate::pipe::slot::{Completions, Driver, Flush, Handle, Payload, Source, Waiter};
use crate::pipe::timeout::{Phase, Situation};
use crate::pipe::transaction_state::TransactionState;
use crate::resp::request::EncodedRequest;
use crate::resp::request::level::Level;
use crate::resp::request::name::Name;
use crate::sys::callback;
use crate::sys::exact_clock_ms;
use crate::sys::lock::{Mutex, MutexGuard};
use clock::EngineClock;
use engines::EngineInstance;
use wakeup::{Wakeup, start};

/// The largest number of sessions that one client opens; if more callers call at the same time, they take turns.
const SESSIONS_MAX: usize = 8;

/// The longest sleep while replies are late, so that keys expire in an engine that has no other thread.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// The interval at which a closing client checks whether the last late reply has arrived.
const CLOSE_TICK: Duration = Duration::from_millis(2);

/// A session of the engine with its pipe and its reply reader.
struct Session {
    local: Local,
    clock: EngineClock,
    pipe: Pipe,
    reply_reader: ReplyReader,
    request: Vec<u8>,
    replies: Vec<u8>,
}

/// One client's access to an engine.
pub(crate) struct Embedded {
    config: Config,
    instance: Arc<EngineInstance>,
    databases: u32,
    sessions: [OnceLock<Mutex<Session>>; SESSIONS_MAX],
    closed: AtomicBool,
    /// True while a thread asks the engine for late replies.
    asking: AtomicBool,
    /// The event on which that thread sleeps.
    wakeup: Arc<Wakeup>,
    me: Weak<Embedded>,
    /// The number by which replies that were answered at once find this client.
    number: DriverNumber,
}

impl Embedded {
    /// Opens the engine that the configuration names, or a new one for this client alone.
    pub(crate) fn open(config: Config) -> Result<Arc<Self>, Error> {
        let instance = match &config.endpoint {
            Endpoint::Embedded(Some(name)) => EngineInstance::named(name, &config.settings)?,
            _ => EngineInstance::of_its_own(&config.settings)?,
        };
        let embedded = Self::enter(instance, config);
        if embedded.config.database >= embedded.databases {
            return Err(Error::unsent(
                ErrorKind::Connect,
                "the engine refused the connection: ERR DB index is out of range",
            ));
        }
        Ok(embedded)
    }

    /// Opens a new engine for this client alone.
    pub(crate) fn open_own(config: Config) -> Arc<Self> {
        Self::enter(EngineInstance::plain(), config)
    }

    /// Opens access to an existing engine.
    pub(crate) fn open_in(instance: Arc<EngineInstance>) -> Arc<Self> {
        Self::enter(instance, Config::new(Endpoint::Embedded(None)))
    }

    fn enter(instance: Arc<EngineInstance>, config: Config) -> Arc<Self> {
        let databases = u32::try_from(instance.engine.config.number(Opt::Databases)).unwrap_or(u32::MAX);
        let wakeup: Arc<Wakeup> = Arc::default();
        instance.clock.watch(wakeup.watcher());
        Arc::new_cyclic(|me: &Weak<Self>| Self {
            number: DriverNumber::enter(me.clone()),
            config,
            instance,
            databases,
            sessions: [const { OnceLock::new() }; SESSIONS_MAX],
            closed: AtomicBool::new(false),
            asking: AtomicBool::new(false),
            wakeup,
            me: me.clone(),
        })
    }

    /// Returns access to the same engine, with sessions of its own.
    pub(crate) fn separate(&self) -> Arc<Self> {
        Self::enter(self.instance.clone(), self.config.clone())
    }

    /// Returns the engine itself, and its clock.
    pub(crate) fn engine(&self) -> (&Arc<Engine>, &EngineClock) {
        (&self.instance.engine, &self.instance.clock)
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn driver(&self) -> Weak<dyn Driver> {
        self.me.clone() as Weak<dyn Driver>
    }

    /// Serves the engine at this address, too.
    pub(crate) fn listen(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        if self.instance.clock.is_manual() {
            return Err(io::Error::other("its clock stands; a testing::Engine has an address of its own"));
        }
        let server = boot::listen(&self.instance.engine, address)?;
        let bound = server.addresses().first().copied().unwrap_or(address);
        self.instance.servers.lock().push(server);
        Ok(bound)
    }

    /// Takes no more calls, and waits until late ones are answered, for at most this long.
    pub(crate) fn close(&self, wait: Option<Duration>) -> Result<(), Error> {
        self.closed.store(true, Ordering::Release);
        let Some(wait) = wait else { return Ok(()) };
        let deadline = Instant::now().checked_add(wait);
        // A caller that has got its timeout error needs no answer.
        while !self.open_sessions().all(|session| session.lock().pipe.is_expired()) {
            let left = deadline.map_or(SLEEP_MAX, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                let message = "some commands are still not answered";
                return Err(Error::new(ErrorKind::Timeout, Effect::Unknown, message));
            }
            // The wake-up goes to the thread that asks for late replies, so this thread checks at intervals.
            thread::sleep(left.min(CLOSE_TICK));
        }
        Ok(())
    }

    /// Returns whether all requests are answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.open_sessions().all(|session| session.lock().is_idle())
    }

    /// Returns whether further requests can be sent.
    pub(crate) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Acquire)
    }

    /// Gives up late calls, and takes no more.
    pub(crate) fn abort(&self) {
        self.closed.store(true, Ordering::Release);
        self.give_up(&Error::disconnected("it was given up"));
        self.wakeup.wake();
    }

    /// Answers all late calls with this error.
    fn give_up(&self, error: &Error) {
        let mut done = Completions::default();
        for session in self.open_sessions() {
            let mut session = session.lock();
            if !session.is_idle() {
                session.renew(self, error, &mut done);
            }
        }
        self.finish(&mut done);
    }

    fn open_sessions(&self) -> impl Iterator<Item = &Mutex<Session>> {
        self.sessions.iter().filter_map(OnceLock::get)
    }

    /// Executes one request.
    #[inline]
    pub(crate) fn send(&self, database: u32, request: EncodedRequest<'_>) -> Result<Sent, Error> {
        self.check(database)?;
        let mut session = self.session();
        let has_begun = session.is_idle();
        if has_begun && let Some(payload) = session.answer(self, database, request.bytes) {
            return Ok(Sent::Ready(payload, self.number));
        }
        let handle = session.pipe.push(database, request, 0);
        self.take_in(session, has_begun);
        Ok(Sent::Slot(handle))
    }

    /// Returns the known state, for the text of timeout errors.
    fn situation(&self) -> Situation<'_> {
        Situation { endpoint: &self.config.endpoint, limit: None, trouble: None, ledger: None }
    }

    /// Executes several requests without another request of this session between them.
    pub(crate) fn send_units(&self, units: Vec<Unit>, bytes: &[u8]) -> Result<(), (Error, Vec<Unit>)> {
        if let Err(error) = units.iter().try_for_each(|unit| self.check(unit.database)) {
            return Err((error, units));
        }
        let mut session = self.session();
        session.pipe.push_units(units, bytes, 0);
        self.take_in(session, false);
        Ok(())
    }

    /// Executes a transaction.
    pub(crate) fn send_transaction(&self, mut transaction: TransactionState, database: u32, request: &[u8]) {
        if let Err(error) = self.check(database) {
            let mut done = Completions::default();
            transaction.fail(&error, &mut done);
            return self.finish(&mut done);
        }
        let mut session = self.session();
        session.pipe.push_transaction(transaction, database, request, 0);
        self.take_in(session, false);
    }

    #[inline]
    pub(crate) fn check(&self, database: u32) -> Result<(), Error> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::closed("the client was closed"));
        }
        if database < self.databases { Ok(()) } else { Err(no_such_database()) }
    }

    /// Returns an idle session, a new one, or a busy one once it is free.
    #[inline]
    fn session(&self) -> MutexGuard<'_, Session> {
        for session in &self.sessions {
            if let Some(session) = session.get_or_init(|| Mutex::new(Session::new(self))).try_lock() {
                return session;
            }
        }
        let [first, ..] = &self.sessions;
        first.get_or_init(|| Mutex::new(Session::new(self))).lock()
    }

    /// Executes the gathered requests, unless they were `executed` already, and completes the calls that are answered.
    fn take_in(&self, mut session: MutexGuard<'_, Session>, executed: bool) {
        let mut done = Completions::default();
        let outcome = session.run(executed, &mut done);
        let late = !session.is_idle();
        if let Err(error) = outcome {
            session.renew(self, &error, &mut done);
        }
        drop(session);
        self.finish(&mut done);
        if late {
            self.ask_later();
        }
    }

    /// Wakes the callers of completed calls, and reports the errors of forgotten calls.
    pub(crate) fn finish(&self, done: &mut Completions) {
        callback::report(done.finish(), self.config.hooks.error.as_ref());
    }

    /// Starts a thread that asks for late replies until there are none.
    fn ask_later(&self) {
        if self.asking.swap(true, Ordering::AcqRel) {
            return;
        }
        let (me, wakeup) = (self.me.clone(), self.wakeup.clone());
        let ask = move || {
            while let Some(embedded) = me.upgrade() {
                let Some(pause) = embedded.ask_all() else { return };
                drop(embedded);
                wakeup.sleep(pause);
            }
        };
        if let Err(error) = start(ask) {
            self.asking.store(false, Ordering::Release);
            // Without that thread the late replies would never arrive, because their callers do not ask the engine.
            self.give_up(&Error::disconnected(&format!(
                "the system gives no thread that would wait for the reply ({error}); raise the limit of threads, or use \
                 fewer"
            )));
        }
    }

    /// Asks every session for late replies, and returns the length of the next sleep; none if no reply is late, so that the
    /// thread ends.
    fn ask_all(&self) -> Option<Duration> {
        self.asking.store(false, Ordering::Release);
        let mut pause = None;
        for session in self.open_sessions() {
            if !session.lock().is_idle() {
                self.take_in_quietly(session.lock());
            }
            let session = session.lock();
            if !session.is_idle() {
                // A manual clock wakes the thread when it is advanced.
                let due = session.local.due_in_ms().filter(|_| !session.clock.is_manual());
                let due = due.map_or(SLEEP_MAX, Duration::from_millis);
                // One millisecond is added, so that the deadline has passed when the sleep ends.
                let over = session.pipe.queue.next_due_ms.map(|due_ms| left_ms(due_ms, exact_clock_ms()) + 1);
                let over = over.map_or(SLEEP_MAX, |left_ms| Duration::from_millis(left_ms.into()));
                pause = Some(due.min(over).min(pause.unwrap_or(SLEEP_MAX)));
            }
        }
        // If another thread has begun to ask in between, this one ends.
        pause.filter(|_| !self.asking.swap(true, Ordering::AcqRel))
    }

    fn take_in_quietly(&self, mut session: MutexGuard<'_, Session>) {
        let mut done = Completions::default();
        if let Err(error) = session.run(false, &mut done) {
            session.renew(self, &error, &mut done);
        }
        session.pipe.expire_due(exact_clock_ms(), &self.situation(), &mut done);
        drop(session);
        self.finish(&mut done);
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.number.remove();
        self.wakeup.wake();
    }
}

/// Returns the error for calls of a session that has ended: it was killed, or the engine has ended.
fn lost(local: &Local) -> Error {
    match local.failure() {
        None => Error::disconnected("the session was ended"),
        Some(reason) => Error::disconnected(&format!(
            "the engine has failed, so its data cannot be relied on ({reason}); open another engine, or restart the program"
        )),
    }
}

impl Driver for Embedded {
    fn flush(&self, _waiter: Waiter) -> Flush {
        Flush::Done
    }

    fn given_up(&self, name: Name) -> Error {
        self.situation().timed_out(name, Phase::Answering, Effect::Unknown)
    }

    fn error_hook(&self) -> Option<ErrorHook> {
        self.config.hooks.error.clone()
    }

    fn safe(&self, level: Level, name: Name, _sent_on: u32) -> Result<Handle, Error> {
        synced::tell(self.engine().0, self.driver(), (level, name), self.config.command_timeout)
    }
}

impl Session {
    fn new(embedded: &Embedded) -> Self {
        let mut pipe = Pipe::new(0, Source::new(embedded.driver()));
        pipe.connect();
        let wakeup = embedded.wakeup.clone();
        let clock = embedded.instance.clock.clone();
        let local = clock.connect(&embedded.instance.engine, move || wakeup.wake());
        Self { local, clock, pipe, reply_reader: ReplyReader::default(), request: Vec::new(), replies: Vec::new() }
    }

    /// Returns whether all requests of the session are answered.
    fn is_idle(&self) -> bool {
        self.pipe.is_idle()
    }

    /// Executes one request directly, and returns its reply if it comes at once. Otherwise the request is executed or held
    /// up, and the part of its reply that has arrived is in `replies`.
    fn answer(&mut self, embedded: &Embedded, database: u32, request: &[u8]) -> Option<Payload> {
        self.replies.clear();
        let selects = self.pipe.database() != database;
        let outcome = if selects {
            self.request.clear();
            crate::pipe::queue::write_select(&mut self.request, database);
            self.request.extend_from_slice(request);
            self.clock.exchange(&mut self.local, &self.request, &mut self.replies)
        } else {
            self.clock.exchange(&mut self.local, request, &mut self.replies)
        };
        let mut rest = self.replies.as_slice();
        let mut payload = None;
        let mut before = usize::from(selects);
        while let Ok(Some(length)) = Scanner::new().scan(rest) {
            let (frame, after) = rest.split_at_checked(length)?;
            rest = after;
            if frame.first() == Some(&b'>') {
                continue;
            }
            if before == 0 {
                payload = Some(Payload::of(frame));
                break;
            }
            before -= 1;
        }
        if outcome.is_err() {
            // The session was killed; the next request gets another session.
            let error = lost(&self.local);
            self.renew(embedded, &error, &mut Completions::default());
            return Some(payload.unwrap_or(Payload::Failed(error)));
        }
        if payload.is_some() {
            self.pipe.set_database(database);
        }
        payload
    }

    /// Executes the gathered requests and hands out their replies.
    fn run(&mut self, mut executed: bool, done: &mut Completions) -> Result<(), Error> {
        if !executed {
            self.replies.clear();
        }
        loop {
            let mut ended = false;
            let lent = self.pipe.lend();
            let idle = lent.is_none();
            let (bytes, written) = lent.unwrap_or_default();
            if !executed {
                let rest = bytes.get(written..).unwrap_or_default();
                ended = self.clock.exchange(&mut self.local, rest, &mut self.replies).is_err();
            }
            if !idle {
                let length = bytes.len() - written;
                self.pipe.wrote(bytes, length);
            }
            executed = false;
            self.hand_out(done)?;
            if ended {
                return Err(lost(&self.local));
            }
            if !self.pipe.can_write() {
                return Ok(());
            }
        }
    }

    /// Hands the replies that have arrived to their callers.
    fn hand_out(&mut self, done: &mut Completions) -> Result<(), Error> {
        let mut rest = self.replies.as_slice();
        while !rest.is_empty() {
            let room = self.reply_reader.room();
            let count = room.len().min(rest.len());
            let (now, later) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            room.iter_mut().zip(now).for_each(|(to, from)| *to = *from);
            rest = later;
            let replies = self.reply_reader.filled(count)?;
            if !self.pipe.take(replies, &mut self.reply_reader.pending) {
                return Err(Error::protocol("the engine gave a reply that nobody asked for"));
            }
            if let Some(next) = self.reply_reader.deliver(done)? {
                self.pipe.resume(next.asker, next.frames, next.database, next.request, next.time);
            }
        }
        self.replies.clear();
        Ok(())
    }

    /// Opens another session; unanswered calls of the old one fail.
    fn renew(&mut self, embedded: &Embedded, error: &Error, done: &mut Completions) {
        let lost = self.pipe.cut(self.reply_reader.cut(), Resend::Nothing);
        for mut entry in lost.into_iter().chain(self.pipe.queue.clear()) {
            entry.asker.fail(error, done);
        }
        *self = Self::new(embedded);
    }
}
