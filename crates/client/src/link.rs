//! One connection's life, seen from the callers: requests go in, and somebody writes them.
//!
//! A link is shared by every handle of a client and by its own thread (`io`). It holds the pipe under one short lock. A
//! caller encodes its request beforehand, takes the lock, pushes, and then, by what it finds:
//!
//! - nothing is in flight: the caller writes at once, outside the lock, because nobody will be faster;
//! - much is gathered: the caller writes it, which also slows down a caller that is faster than the network;
//! - something is in flight and little is gathered: it stays. Whoever waits for a reply writes what is gathered first, and
//!   the thread writes it after the replies that it is handling; if that thread sleeps, the second request to be gathered
//!   wakes it. So a burst costs one system call in many requests, and a lone request is never left lying.
//!
//! One thread at a time writes; what is gathered meanwhile, it or the link's thread takes along afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::time::{ClockId, clock_gettime};

use crate::callback;
use crate::config::{Config, QueueFull};
use crate::entry::Unit;
use crate::error::{Effect, Error, ErrorKind};
use crate::exchange::Exchange;
use crate::intake::Intake;
use crate::patience::Patience;
use crate::pipe::Pipe;
use crate::slot::{Completions, Handle, Source};
use crate::socket::{Bell, Socket};

/// Gathered bytes that a caller writes by itself rather than leave them to the thread.
const BURST_BYTES: usize = 16 * 1024;

/// What is under the lock.
pub(crate) struct Shared {
    pub(crate) pipe: Pipe,
    pub(crate) socket: Option<Arc<Socket>>,
    /// The socket takes no more at the moment; the thread waits for it.
    pub(crate) blocked: bool,
    /// The thread sleeps, or is about to, and must be woken for gathered requests.
    pub(crate) asleep: bool,
    /// The thread sleeps without an end, so it must also be woken to watch over a command timeout.
    pub(crate) unwatched: bool,
    /// No handle is left, or the client was closed: finish what is in the queue, then end.
    pub(crate) closing: bool,
    /// The thread has ended: nothing can be sent any more.
    pub(crate) ended: bool,
    /// Whether the first attempt to connect is over, and how it ended.
    pub(crate) first: Option<Result<(), Error>>,
    /// Callers that wait for room in the queue.
    waiting_for_room: usize,
    /// The socket is left to a caller that is alone here and reads for itself; see `lone`.
    pub(crate) lone: bool,
    /// Such a caller is reading.
    pub(crate) attended: bool,
    /// How often a thread has waited for a reply.
    pub(crate) waits: u32,
}

/// A connection, or the attempt to have one.
pub(crate) struct Link {
    pub(crate) config: Config,
    /// Whether a lost connection is made again.
    pub(crate) lasting: bool,
    pub(crate) shared: Mutex<Shared>,
    /// The reader's half. Its lock is taken before `shared`, never the other way round.
    pub(crate) intake: Mutex<Intake>,
    /// Told when the queue has room, when a writer has left, when the first attempt is over, when the thread has ended.
    pub(crate) changed: Condvar,
    pub(crate) bell: Bell,
    /// Wakes a lone caller that reads for itself.
    pub(crate) lone_bell: Bell,
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
    pub(crate) fn new(config: Config, lasting: bool) -> std::io::Result<Arc<Self>> {
        let (bell, lone_bell) = (Bell::new()?, Bell::new()?);
        Ok(Arc::new_cyclic(|link: &std::sync::Weak<Link>| Self {
            shared: Mutex::new(Shared {
                pipe: Pipe::new(config.database, Source::new(link.clone())),
                socket: None,
                blocked: false,
                asleep: false,
                unwatched: false,
                closing: false,
                ended: false,
                first: None,
                waiting_for_room: 0,
                lone: false,
                attended: false,
                waits: 0,
            }),
            lasting,
            intake: Mutex::new(Intake::default()),
            changed: Condvar::new(),
            bell,
            lone_bell,
            databases: AtomicU32::new(0),
            limit_ms: AtomicU32::new(limit_ms(config.command_timeout)),
            config,
        }))
    }

    /// Sends one request.
    #[inline]
    pub(crate) fn send(&self, database: u32, request: &[u8]) -> Result<Handle, Error> {
        self.check(database)?;
        let now_ms = self.now_ms();
        let mut shared = self.admit(request.len())?;
        let handle = shared.pipe.push(database, request, now_ms);
        self.pushed(shared);
        Ok(handle)
    }

    /// Sends several requests with nothing in between.
    pub(crate) fn send_units(&self, units: Vec<Unit>, bytes: &[u8]) -> Result<(), (Error, Vec<Unit>)> {
        if let Err(error) = units.iter().try_for_each(|unit| self.check(unit.database)) {
            return Err((error, units));
        }
        match self.admit(bytes.len()) {
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
        let admitted = self.check(database).and_then(|()| self.admit(request.len()));
        match admitted {
            Ok(mut shared) => {
                shared.pipe.push_exchange(exchange, database, request, self.now_ms());
                self.pushed(shared);
            }
            Err(error) => exchange.fail(&error, &mut Completions::default()),
        }
    }

    /// Whether the server has this database.
    #[inline]
    fn check(&self, database: u32) -> Result<(), Error> {
        let databases = self.databases.load(Ordering::Relaxed);
        if database < databases || databases == 0 { Ok(()) } else { Err(no_such_database()) }
    }

    /// Milliseconds on a coarse clock of no particular start, which wraps.
    pub(crate) fn now_ms(&self) -> u32 {
        if self.limit_ms.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let now = clock_gettime(ClockId::MonotonicCoarse);
        (now.tv_sec as u32).wrapping_mul(1000).wrapping_add((now.tv_nsec / 1_000_000) as u32)
    }

    /// How long a command may take in milliseconds, small enough for the wrapping clock.
    pub(crate) fn limit_ms(&self) -> Option<u32> {
        let limit_ms = self.limit_ms.load(Ordering::Relaxed);
        (limit_ms > 0).then_some(limit_ms)
    }

    /// The next command may wait on the server for this long, beside the command timeout.
    pub(crate) fn be_patient(&self, patience: Patience) {
        let limit = match patience {
            Patience::Endless => None,
            Patience::For(time) => self.config.command_timeout.and_then(|timeout| timeout.checked_add(time)),
        };
        // What is longer than the clock can watch over is not watched.
        let limit_ms = limit_ms(limit.filter(|limit| limit.as_millis() < u128::from(LIMIT_MS_MAX)));
        if self.limit_ms.swap(limit_ms, Ordering::Relaxed) != limit_ms {
            self.bell.ring();
        }
    }

    /// The lock, once the queue has room for `length` bytes.
    #[inline]
    fn admit(&self, length: usize) -> Result<MutexGuard<'_, Shared>, Error> {
        let shared = self.shared.lock();
        let has_room = shared.pipe.queued() + length <= self.config.queue_bytes_max;
        if has_room && !shared.closing && !shared.ended { Ok(shared) } else { self.admit_slowly(shared, length) }
    }

    #[cold]
    fn admit_slowly<'a>(
        &'a self,
        mut shared: MutexGuard<'a, Shared>,
        length: usize,
    ) -> Result<MutexGuard<'a, Shared>, Error> {
        loop {
            if shared.closing || shared.ended {
                return Err(Error::closed(self.ended()));
            }
            // A request that is longer than the whole queue may be may go alone.
            if shared.pipe.queued() + length <= self.config.queue_bytes_max || shared.pipe.queued() == 0 {
                return Ok(shared);
            }
            if self.config.queue_full == QueueFull::Fail {
                let message = format!("{} bytes of requests are unanswered already", shared.pipe.queued());
                return Err(Error::unsent(ErrorKind::QueueFull, format!("{message}, so the command was not sent")));
            }
            if shared.pipe.can_write() && !shared.blocked {
                shared = self.write(shared);
                continue;
            }
            shared.waiting_for_room += 1;
            self.changed.wait(&mut shared);
            shared.waiting_for_room -= 1;
        }
    }

    /// Decides who writes what has just been gathered.
    #[inline]
    fn pushed<'a>(&'a self, mut shared: MutexGuard<'a, Shared>) {
        if shared.lone && (shared.pipe.in_flight() > 0 || shared.pipe.is_burst()) {
            self.end_lone(&mut shared);
        }
        if shared.pipe.can_write() && !shared.blocked {
            if shared.pipe.in_flight() == 0 || shared.pipe.gathered() >= BURST_BYTES {
                shared = self.write(shared);
            }
            if shared.asleep && shared.pipe.is_burst() && shared.pipe.can_write() {
                return self.wake(shared);
            }
        }
        if shared.unwatched {
            self.wake(shared);
        }
    }

    /// Wakes the thread, without the lock.
    pub(crate) fn wake(&self, mut shared: MutexGuard<'_, Shared>) {
        (shared.asleep, shared.unwatched) = (false, false);
        drop(shared);
        self.bell.ring();
    }

    /// Gives the socket back to the thread, if a lone caller has it.
    pub(crate) fn end_lone(&self, shared: &mut Shared) {
        if shared.lone {
            (shared.lone, shared.asleep) = (false, false);
            self.bell.ring();
            if shared.attended {
                self.lone_bell.ring();
            }
        }
    }

    /// Writes what may be written, with the lock released meanwhile.
    pub(crate) fn write<'a>(&'a self, mut shared: MutexGuard<'a, Shared>) -> MutexGuard<'a, Shared> {
        // A second round takes along what was gathered during the first; more than that is the thread's, or another's.
        for _ in 0..2 {
            let Some(socket) = shared.socket.clone() else { break };
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
                    shared.blocked = true;
                    self.changed.notify_all();
                    return shared;
                }
            };
            shared.pipe.wrote(bytes, count);
            if !shared.pipe.is_connected() || shared.closing {
                self.changed.notify_all();
            }
            shared.blocked = count < length;
            if shared.blocked {
                break;
            }
        }
        // Whoever gathered while this wrote has left it to this; if it does not write it now, the thread must.
        if shared.asleep && (shared.blocked || shared.pipe.can_write()) {
            (shared.asleep, shared.unwatched) = (false, false);
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

    /// Lets the thread finish the queue and end, and waits for it for at most this long.
    pub(crate) fn close(&self, wait: Option<Duration>) -> Result<(), Error> {
        let mut shared = self.shared.lock();
        shared.closing = true;
        self.changed.notify_all();
        (shared.asleep, shared.unwatched) = (false, false);
        self.bell.ring();
        let Some(wait) = wait else { return Ok(()) };
        let deadline = std::time::Instant::now() + wait;
        while !shared.ended {
            if self.changed.wait_until(&mut shared, deadline).timed_out() {
                return Err(Error::new(ErrorKind::Timeout, Effect::Unknown, "some commands are still not answered"));
            }
        }
        Ok(())
    }

    /// Ends the connection at once: what is on its way is lost, and what was never written is not sent.
    pub(crate) fn abort(&self) {
        let mut shared = self.shared.lock();
        shared.closing = true;
        let never_sent = match &shared.socket {
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

    /// Whether nothing is on its way and the connection is still there, or still to be made.
    pub(crate) fn is_idle(&self) -> bool {
        // A command whose SELECT alone was answered has left the pipe, but not the intake.
        let intake = self.intake.lock();
        let shared = self.shared.lock();
        shared.pipe.is_idle() && intake.pending.is_empty() && !shared.ended
    }

    /// Whether the connection is there, or will be.
    pub(crate) fn is_open(&self) -> bool {
        !self.shared.lock().ended
    }

    /// Why nothing can be sent any more.
    pub(crate) fn ended(&self) -> &'static str {
        if self.lasting { "the client was closed" } else { "the leased connection was lost" }
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
