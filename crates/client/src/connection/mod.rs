//! One connection's life, seen from the callers: requests go in, and somebody writes them.
//!
//! A link is shared by every handle of a client and by a task of the reactor (`life`). It holds the pipe under one short lock. A
//! caller encodes its request beforehand, takes the lock, pushes, and then, by what it finds:
//!
//! - nothing is in flight: the caller writes at once, outside the lock, because nobody will be faster; unless tasks have
//!   just been woken together (`awake_reader`), whose requests leave together too;
//! - much is gathered: the caller writes it, which also slows down a caller that is faster than the network;
//! - something is in flight and little is gathered: it stays. Whoever waits for a reply writes what is gathered first, and
//!   the task writes it after the replies that it is handling; if that task waits, the second request to be gathered
//!   wakes it. So a burst costs one system call in many requests, and a lone request is never left lying.
//!
//! One thread at a time writes; what is gathered meanwhile, it or the link's task takes along afterwards.

pub(crate) mod awake_reader;
pub(crate) mod inline_reader;
mod leased;
pub(crate) mod life;
pub(crate) mod probe;
pub(crate) mod receive;
pub(crate) mod shared;
pub(crate) mod silence;
pub(crate) mod synced;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::config::{Config, QueueFull};
use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::Pipe;
use crate::pipe::in_flight::Unit;
use crate::pipe::queued::{Queued, Sent, runs_tasks};
use crate::pipe::reply_reader::Intake;
use crate::pipe::slot::{Completions, FIRST_CONNECTION, Source};
use crate::pipe::timeout::Situation;
use crate::pipe::transaction_state::Exchange;
use crate::process::callback;
use crate::process::fork::{Process, inherited};
use crate::reactor::Bell;
use crate::request::Written;
use crate::request::name::Name;
use crate::sys::{Event, clock_ms};
use probe::Vitals;
use shared::Shared;

/// Gathered bytes that a caller writes by itself rather than leave them to the task.
const BURST_BYTES: usize = 16 * 1024;

/// A connection, or the attempt to have one.
pub(crate) struct Link {
    pub(crate) config: Config,
    /// Whether a lost connection is made again. Changes under the lock of `shared`.
    pub(crate) lasting: AtomicBool,
    /// Where it was made, and where alone it may be used.
    pub(crate) process: Process,
    /// What is known of the server by all of a client's connections.
    pub(crate) vitals: Arc<Vitals>,
    /// Whether the server may be asked whether it is still there.
    pub(crate) pings: AtomicBool,
    /// Whether it is for commands that wait on the server, one at a time.
    pub(crate) patient: AtomicBool,
    /// Why the task has ended against its will.
    pub(crate) collapsed: OnceLock<String>,
    pub(crate) shared: Mutex<Shared>,
    /// The reader's half. Its lock is taken before `shared`, never the other way round.
    pub(crate) intake: Mutex<Intake>,
    /// Told when the queue has room, when a writer has left, when the first attempt is over, when the task has ended.
    pub(crate) changed: Condvar,
    pub(crate) bell: Bell,
    /// Wakes a lone caller that reads for itself; made when there is one for the first time.
    pub(crate) lone_bell: OnceLock<Event>,
    /// The number of the connection that is there, or comes next: as the pipe has it.
    pub(crate) connection: AtomicU32,
    /// Whether anybody may wait until something is synced: see `synced`.
    pub(crate) syncs: AtomicBool,
    /// Whether what has come is left to whoever is awake: see `awake_reader`.
    left: AtomicBool,
    /// Databases that the server has; 0 while nobody knows.
    pub(crate) databases: AtomicU32,
    /// How long a command may take, in milliseconds; 0 for as long as it takes.
    limit_ms: AtomicU32,
}

/// The longest time that the wrapping clock can watch over, in milliseconds: twelve days.
const LIMIT_MS_MAX: u32 = u32::MAX / 4;

fn limit_ms(limit: Option<Duration>) -> u32 {
    limit.map_or(0, |limit| u32::try_from(limit.as_millis()).unwrap_or(u32::MAX).clamp(1, LIMIT_MS_MAX))
}

impl Link {
    pub(crate) fn new(config: Config, lasting: bool, vitals: Arc<Vitals>) -> std::io::Result<Arc<Self>> {
        let bell = Bell::new()?;
        Ok(Arc::new_cyclic(|link: &std::sync::Weak<Link>| Self {
            shared: Mutex::new(Shared::new(Pipe::new(config.database, Source::new(link.clone())))),
            lasting: AtomicBool::new(lasting),
            process: Process::this(),
            vitals,
            pings: AtomicBool::new(false),
            patient: AtomicBool::new(false),
            collapsed: OnceLock::new(),
            intake: Mutex::new(Intake::default()),
            changed: Condvar::new(),
            bell,
            lone_bell: OnceLock::new(),
            connection: AtomicU32::new(FIRST_CONNECTION),
            syncs: AtomicBool::new(false),
            left: AtomicBool::new(false),
            databases: AtomicU32::new(0),
            limit_ms: AtomicU32::new(limit_ms(config.command_timeout)),
            config,
        }))
    }

    /// Sends one request.
    #[inline]
    pub(crate) fn send(&self, database: u32, request: Written<'_>) -> Result<Sent, Error> {
        self.check(database)?;
        let now_ms = self.now_ms();
        let mut shared = self.shared.lock();
        if !self.has_room(&shared, request.bytes.len()) {
            return self.send_slowly(shared, database, request);
        }
        let handle = shared.pipe.push(database, request, now_ms);
        self.pushed(shared);
        Ok(Sent::Slot(handle))
    }

    #[cold]
    fn send_slowly(&self, shared: MutexGuard<'_, Shared>, database: u32, request: Written<'_>) -> Result<Sent, Error> {
        let deadline = self.config.command_timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let (mut shared, fits) = self.admit(shared, request.name, request.bytes.len(), deadline)?;
        let handle = shared.pipe.push(database, request, self.now_ms());
        self.pushed(shared);
        Ok(if fits { Sent::Slot(handle) } else { Sent::Queued(Queued::new(handle, deadline)) })
    }

    /// Sends several requests with nothing in between.
    pub(crate) fn send_units(&self, units: Vec<Unit>, bytes: &[u8]) -> Result<(), (Error, Vec<Unit>)> {
        let checked = units.iter().try_for_each(|unit| self.check(unit.database));
        let name = units.first().map_or(Name::UNKNOWN, |unit| unit.target.name());
        match checked.and_then(|()| self.admit_many(name, bytes.len())) {
            Ok(mut shared) => {
                shared.pipe.push_units(units, bytes, self.now_ms());
                self.pushed(shared);
                Ok(())
            }
            Err(error) => Err((error, units)),
        }
    }

    /// Sends a transaction.
    pub(crate) fn send_exchange(&self, mut exchange: Exchange, database: u32, request: &[u8]) {
        let name = exchange.name().unwrap_or(Name::UNKNOWN);
        match self.check(database).and_then(|()| self.admit_many(name, request.len())) {
            Ok(mut shared) => {
                shared.pipe.push_exchange(exchange, database, request, self.now_ms());
                self.pushed(shared);
            }
            Err(error) => exchange.fail(&error, &mut Completions::default()),
        }
    }

    /// Whether this process has the connection, and the server this database.
    #[inline]
    fn check(&self, database: u32) -> Result<(), Error> {
        if !self.process.is_this() {
            return Err(inherited());
        }
        let databases = self.databases.load(Ordering::Relaxed);
        if database < databases || databases == 0 { Ok(()) } else { Err(no_such_database()) }
    }

    /// Milliseconds on a coarse clock of no particular start, which wraps.
    pub(crate) fn now_ms(&self) -> u32 {
        if self.limit_ms.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        clock_ms()
    }

    /// How long a command may take in milliseconds, small enough for the wrapping clock.
    pub(crate) fn limit_ms(&self) -> Option<u32> {
        let limit_ms = self.limit_ms.load(Ordering::Relaxed);
        (limit_ms > 0).then_some(limit_ms)
    }

    /// What is known now, for whom time is up.
    pub(crate) fn situation<'a>(&'a self, trouble: Option<&'a str>, limit: Option<Duration>) -> Situation<'a> {
        Situation { endpoint: &self.config.endpoint, limit, trouble }
    }

    /// Tells the commands that were issued too long before `now_ms` that their time is up.
    pub(crate) fn expire(&self, shared: &mut Shared, limit_ms: u32, now_ms: u32, done: &mut Completions) {
        let limit = Duration::from_millis(limit_ms.into());
        let (pipe, trouble) = shared.pipe_and_trouble();
        let situation = self.situation(trouble, Some(limit));
        pipe.expire(now_ms.wrapping_sub(limit_ms), &situation, done);
    }

    /// What is said to a caller who waits no longer for the answer to a command of this name.
    pub(crate) fn give_up(&self, name: Name) -> Error {
        let shared = self.shared.lock();
        self.situation(shared.trouble(), None).timed_out(name, shared.phase(), Effect::Unknown)
    }

    /// Whether a request of this length may be queued at once.
    #[inline]
    fn has_room(&self, shared: &Shared, length: usize) -> bool {
        shared.pipe.queued() + length <= self.config.queue_bytes_max && shared.is_wanted()
    }

    /// The lock, for requests whose caller does not wait for an answer at once.
    fn admit_many(&self, name: Name, length: usize) -> Result<MutexGuard<'_, Shared>, Error> {
        let shared = self.shared.lock();
        if self.has_room(&shared, length) {
            return Ok(shared);
        }
        let deadline = self.config.command_timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.admit(shared, name, length, deadline).map(|(shared, _)| shared)
    }

    /// The lock, once a request may be queued, and whether it fits. One that does not is queued all the same while the queue
    /// is not twice as full as it should be: who waits for its answer, waits in his own way.
    fn admit<'a>(
        &'a self,
        mut shared: MutexGuard<'a, Shared>,
        name: Name,
        length: usize,
        deadline: Option<Instant>,
    ) -> Result<(MutexGuard<'a, Shared>, bool), Error> {
        loop {
            if !shared.is_wanted() {
                return Err(Error::closed(&self.ended()));
            }
            // A request that is longer than the whole queue may be may go alone.
            if self.has_room(&shared, length) || shared.pipe.queued() == 0 {
                return Ok((shared, true));
            }
            if self.config.queue_full == QueueFull::Fail {
                let message = format!("{} bytes of requests are unanswered already", shared.pipe.queued());
                return Err(Error::unsent(ErrorKind::QueueFull, format!("{message}, so the command was not sent")));
            }
            if shared.may_write() {
                shared = self.write(shared);
                continue;
            }
            if runs_tasks() || shared.pipe.queued() <= self.config.queue_bytes_max.saturating_mul(2) {
                return Ok((shared, false));
            }
            if !self.wait_for_change(&mut shared, deadline) {
                let situation = self.situation(shared.trouble(), self.config.command_timeout);
                return Err(situation.no_room(name, shared.phase()));
            }
        }
    }

    /// Waits until the queue has room, or nothing can be sent any more. A task's thread waits only while far too much is
    /// queued.
    pub(crate) fn await_room(&self, deadline: Option<Instant>, is_task: bool) {
        if !self.process.is_this() {
            return;
        }
        let queued_max = self.config.queue_bytes_max.saturating_mul(if is_task { 2 } else { 1 });
        let mut shared = self.shared.lock();
        while shared.pipe.queued() > queued_max && !shared.has_ended() {
            if shared.may_write() {
                shared = self.write(shared);
            } else if !self.wait_for_change(&mut shared, deadline) {
                return;
            }
        }
    }

    /// False when the time is up.
    fn wait_for_change(&self, shared: &mut MutexGuard<'_, Shared>, deadline: Option<Instant>) -> bool {
        shared.waiting_for_room += 1;
        let in_time = match deadline {
            Some(deadline) => !self.changed.wait_until(shared, deadline).timed_out(),
            None => {
                self.changed.wait(shared);
                true
            }
        };
        shared.waiting_for_room -= 1;
        in_time
    }

    /// Decides who writes what has just been gathered.
    #[inline]
    fn pushed<'a>(&'a self, mut shared: MutexGuard<'a, Shared>) {
        if shared.is_lone() && (shared.pipe.in_flight() > 0 || shared.pipe.is_burst()) {
            self.end_lone(&mut shared);
        }
        if shared.may_write() {
            if (shared.pipe.in_flight() == 0 && !shared.looks_soon()) || shared.pipe.gathered() >= BURST_BYTES {
                shared = self.write(shared);
            }
            if shared.is_asleep() && shared.pipe.is_burst() && shared.pipe.can_write() {
                return self.wake(shared);
            }
        }
        if shared.is_unwatched() {
            self.wake(shared);
        }
    }

    /// Wakes the task, without the lock.
    pub(crate) fn wake(&self, mut shared: MutexGuard<'_, Shared>) {
        shared.wake_up();
        drop(shared);
        self.bell.ring();
    }

    /// Whether a lone caller can be woken.
    fn has_lone_bell(&self) -> bool {
        self.lone_bell.get().is_some() || Event::new().is_ok_and(|event| self.lone_bell.set(event).is_ok())
    }

    /// Gives the socket back to the task, if a lone caller has it.
    pub(crate) fn end_lone(&self, shared: &mut Shared) {
        if shared.is_lone() {
            let is_read = shared.take_back();
            self.bell.ring();
            if is_read && let Some(bell) = self.lone_bell.get() {
                bell.raise();
            }
        }
    }

    /// Writes what may be written, with the lock released meanwhile.
    pub(crate) fn write<'a>(&'a self, mut shared: MutexGuard<'a, Shared>) -> MutexGuard<'a, Shared> {
        shared.will_be_written = false;
        // A second round takes along what was gathered during the first; more than that is the task's, or another's.
        for _ in 0..2 {
            let Some(socket) = shared.socket().cloned() else { break };
            let Some((bytes, written)) = shared.pipe.lend() else { break };
            let rest = bytes.get(written..).unwrap_or_default();
            let length = rest.len();
            let result = MutexGuard::unlocked(&mut shared, || socket.send(rest));
            let count = match result {
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
                Err(_) => {
                    // The reader takes what has still come, finds the end of the stream and does what is to be done.
                    socket.shut();
                    shared.pipe.wrote(bytes, 0);
                    shared.set_full(true);
                    self.changed.notify_all();
                    return shared;
                }
            };
            shared.pipe.wrote(bytes, count);
            if !shared.pipe.is_connected() || shared.is_closing() {
                self.changed.notify_all();
            }
            let is_full = count < length && socket.was_full();
            shared.set_full(is_full);
            if is_full {
                break;
            }
        }
        // Whoever gathered while this wrote has left it to this; if it does not write it now, the task must.
        if shared.is_asleep() && (shared.is_full() || shared.pipe.can_write()) {
            shared.wake_up();
            self.bell.ring();
        }
        shared
    }

    /// Room was made in the queue.
    pub(crate) fn made_room(&self, shared: &Shared) {
        if shared.waiting_for_room > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits until the first attempt to connect is over.
    pub(crate) fn wait_first(&self) -> Result<(), Error> {
        let mut shared = self.shared.lock();
        loop {
            match &shared.first {
                Some(result) => return result.clone(),
                None => self.changed.wait(&mut shared),
            }
        }
    }

    /// Lets the task finish the queue and end, and waits for it for at most this long.
    pub(crate) fn close(&self, wait: Option<Duration>) -> Result<(), Error> {
        if !self.process.is_this() {
            return wait.map_or(Ok(()), |_| Err(inherited()));
        }
        let mut shared = self.shared.lock();
        shared.close();
        self.changed.notify_all();
        shared.wake_up();
        self.bell.ring();
        let Some(wait) = wait else { return Ok(()) };
        // A time beyond what the machine can count is never over.
        let deadline = Instant::now().checked_add(wait);
        while !shared.has_ended() {
            if !self.wait_for_change(&mut shared, deadline) {
                let message = format!("some commands are still not answered by {}", self.config.endpoint);
                return Err(Error::new(ErrorKind::Timeout, Effect::Unknown, message));
            }
        }
        Ok(())
    }

    /// Ends the connection at once: what is on its way is lost, and what was never written is not sent.
    pub(crate) fn abort(&self) {
        if !self.process.is_this() {
            return;
        }
        let mut shared = self.shared.lock();
        shared.close();
        let never_sent = match shared.socket() {
            Some(socket) => {
                socket.shut();
                Vec::new()
            }
            None => shared.pipe.clear(),
        };
        drop(shared);
        self.changed.notify_all();
        self.bell.ring();
        let (error, mut done) = (Error::closed("the connection was given up"), Completions::default());
        never_sent.into_iter().for_each(|mut entry| entry.asker.fail(&error, &mut done));
        self.finish(&mut done);
    }

    /// Whether a lost connection is made again.
    pub(crate) fn is_lasting(&self) -> bool {
        self.lasting.load(Ordering::Relaxed)
    }

    /// Whether nothing is on its way and the connection is still there, or still to be made.
    pub(crate) fn is_idle(&self) -> bool {
        if !self.process.is_this() {
            return false;
        }
        // A command whose SELECT alone was answered has left the pipe, but not the intake.
        let intake = self.intake.lock();
        let shared = self.shared.lock();
        shared.pipe.is_idle() && intake.pending.is_empty() && !shared.has_ended()
    }

    /// Whether the connection is there, or will be.
    pub(crate) fn is_open(&self) -> bool {
        self.process.is_this() && !self.shared.lock().has_ended()
    }

    /// Why nothing can be sent any more.
    pub(crate) fn ended(&self) -> String {
        match self.collapsed.get() {
            Some(why) => why.clone(),
            None if self.is_lasting() => "the client was closed".to_owned(),
            None => "the leased connection was lost".to_owned(),
        }
    }

    /// Wakes whoever waited for what was completed, and reports the errors that nobody waits for. No lock may be held.
    pub(crate) fn finish(&self, done: &mut Completions) {
        let errors = done.finish();
        if let Some(hook) = &self.config.error_hook
            && !errors.is_empty()
        {
            let hook = hook.clone();
            callback::run(move || errors.iter().for_each(|error| hook(error)));
        }
    }
}

/// What a server says to SELECT, said before the command is sent.
pub(crate) fn no_such_database() -> Error {
    Error::new(ErrorKind::Server, Effect::None, "ERR DB index is out of range")
}
