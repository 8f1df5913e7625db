//! One connection's life, seen from the callers: requests go in, and somebody writes them.
//!
//! A link is shared by every handle of a client and by a task of the reactor (`life`). It holds the pipe under one short lock. A
//! caller encodes its request beforehand, takes the lock, pushes, and then, by what it finds:
//!
//! - nothing is in flight: the caller writes at once, outside the lock, because nobody will be faster; unless tasks have
//!   just been woken together (`reader`), whose requests leave together too;
//! - much is gathered: the caller writes it, which also slows down a caller that is faster than the network;
//! - something is in flight and little is gathered: it stays. Whoever waits for a reply writes what is gathered first, and
//!   the task writes it after the replies that it is handling; if that task waits, the second request to be gathered
//!   wakes it. So a burst costs one system call in many requests, and a lone request is never left lying.
//!
//! One thread at a time writes; what is gathered meanwhile, it or the link's task takes along afterwards.
//!
//! Four things change independently of each other under the lock: how far the connection has come (`Wire`), whether anybody
//! still wants it (`Life`), how its task waits (`Sleep`), and who reads (`Reader`). Whoever has the lock has all of them; a
//! transition wakes nobody, which is the caller's part where it says so.

pub(crate) mod deadline;
mod gathered;
pub(crate) mod life;
mod moved;
mod near;
mod owner;
pub(crate) mod probe;
pub(crate) mod reader;
pub(crate) mod room;
pub(crate) mod routed;
pub(crate) mod silence;
pub(crate) mod synced;
mod tracker;
mod unanswered;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::config::Config;
use crate::connect::socket::Socket;
use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::Pipe;
use crate::pipe::reply_reader::Intake;
use crate::pipe::slot::{Completions, FIRST_CONNECTION, Handle, Source};
use crate::process::callback;
use crate::process::fork::{Process, inherited};
use crate::reactor::Bell;
use crate::request::Written;
use crate::sys::{Event, clock_ms};
use probe::Vitals;
use tracker::Tracker;

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
    near: Tracker,
    /// Whether what has come is left to whoever is awake: see `reader`.
    left: AtomicBool,
    /// Databases that the server has; 0 while nobody knows.
    pub(crate) databases: AtomicU32,
    /// How long a command may take, in milliseconds; 0 for as long as it takes.
    limit_ms: AtomicU32,
}

/// The longest time that the wrapping clock can watch over, in milliseconds: twelve days.
pub(crate) const LIMIT_MS_MAX: u32 = u32::MAX / 4;

pub(crate) fn limit_ms(limit: Option<Duration>) -> u32 {
    limit.map_or(0, |limit| u32::try_from(limit.as_millis()).unwrap_or(u32::MAX).clamp(1, LIMIT_MS_MAX))
}

impl Link {
    pub(crate) fn new(config: Config, lasting: bool, vitals: Arc<Vitals>) -> std::io::Result<Arc<Self>> {
        let bell = Bell::new()?;
        Ok(Arc::new_cyclic(|link: &Weak<Link>| Self {
            shared: Mutex::new(Shared::new(Pipe::new(config.database, Source::new(link.clone())))),
            lasting: AtomicBool::new(lasting),
            process: Process::this(),
            intake: Mutex::new(Intake::with_witness(vitals.witness(link))),
            vitals,
            pings: AtomicBool::new(false),
            patient: AtomicBool::new(false),
            collapsed: OnceLock::new(),
            changed: Condvar::new(),
            bell,
            lone_bell: OnceLock::new(),
            connection: AtomicU32::new(FIRST_CONNECTION),
            syncs: AtomicBool::new(false),
            near: Tracker::default(),
            left: AtomicBool::new(false),
            databases: AtomicU32::new(0),
            limit_ms: AtomicU32::new(limit_ms(config.command_timeout)),
            config,
        }))
    }

    /// Sends one request. None where the queue has no room for it: see `room`.
    #[inline]
    pub(crate) fn send(&self, database: u32, request: Written<'_>) -> Result<Option<Handle>, Error> {
        self.check(database)?;
        let now_ms = clock_ms();
        let mut shared = self.shared.lock();
        if !self.has_room(&shared, request.bytes.len()) {
            return Ok(None);
        }
        let handle = shared.pipe.push(database, request, now_ms);
        self.pushed(shared);
        Ok(Some(handle))
    }

    /// Whether this process has the connection, and the server this database.
    #[inline]
    pub(crate) fn check(&self, database: u32) -> Result<(), Error> {
        if !self.process.is_this() {
            return Err(inherited());
        }
        let databases = self.databases.load(Ordering::Relaxed);
        if database < databases || databases == 0 { Ok(()) } else { Err(no_such_database()) }
    }

    /// How long a command may take in milliseconds, small enough for the wrapping clock.
    pub(crate) fn limit_ms(&self) -> Option<u32> {
        let limit_ms = self.limit_ms.load(Ordering::Relaxed);
        (limit_ms > 0).then_some(limit_ms)
    }

    /// Decides who writes what has just been gathered.
    #[inline]
    fn pushed<'a>(&'a self, mut shared: MutexGuard<'a, Shared>) {
        if shared.is_lone() && (shared.pipe.in_flight() > 0 || shared.pipe.is_burst()) {
            self.end_lone(&mut shared);
        }
        if shared.pipe.in_flight() > 0 && !shared.is_asleep() && shared.pipe.gathered() < BURST_BYTES {
            return;
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
        let Some(socket) = shared.socket().cloned() else { return shared };
        // A second round takes along what was gathered during the first; more than that is the task's, or another's.
        for _ in 0..2 {
            let Some((bytes, written)) = shared.pipe.lend() else { break };
            let rest = bytes.get(written..).unwrap_or_default();
            let length = rest.len();
            let count = match MutexGuard::unlocked(&mut shared, || socket.send(rest)) {
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

/// How far the connection has come.
enum Wire {
    /// There is none: none yet, or none any more; and why, as far as an attempt has told.
    Down(Option<String>),
    /// Bytes go both ways.
    Up {
        socket: Arc<Socket>,
        /// The socket takes no more at the moment; the task waits until it does.
        is_full: bool,
    },
}

/// Whether anybody still wants the connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Wanted,
    /// As `Wanted`, while a cache is told of what is sent.
    Observed,
    /// No handle is left, or the client was closed: what is in the queue is finished, and then all ends.
    Closing,
    /// The task has ended: nothing can be sent any more.
    Ended,
}

/// How the connection's task waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sleep {
    /// It runs, or was told to.
    Awake,
    /// It waits, or is about to, and must be woken for gathered requests.
    Asleep,
    /// It waits for no longer than a moment, and then writes what was gathered.
    Soon,
    /// It waits without an end, so that it must also be woken to watch over a command timeout.
    Unwatched,
}

/// Who reads what comes on the socket; see `reader`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Task,
    /// The socket is left to a caller that is alone here; at the moment none reads.
    Caller,
    /// A caller reads.
    CallerReading,
    /// A caller reads that is to give the socket back to the task.
    CallerLeaving,
}

/// What a link has under its lock.
pub(crate) struct Shared {
    pub(crate) pipe: Pipe,
    wire: Wire,
    life: Life,
    sleep: Sleep,
    reader: Reader,
    /// Whether the first attempt to connect is over, and how it ended.
    pub(crate) first: Option<Result<(), Error>>,
    /// Rung when the first attempt is over and when the task has ended, for those who wait for that in async code.
    pub(crate) watchers: Vec<Bell>,
    /// Callers that wait for room in the queue.
    pub(crate) waiting_for_room: usize,
    /// How often a thread has waited for a reply.
    pub(crate) waits: u32,
    /// Whether the last replies came together: those who wait for them are about to go on together.
    pub(crate) in_company: bool,
    /// A task is about to come again, to write what others have gathered by then.
    pub(crate) will_be_written: bool,
    /// A caller that reads has left something.
    pub(crate) is_unread: bool,
    /// Why the connection is broken, as a caller that reads has found.
    pub(crate) fault: Option<String>,
}

impl Shared {
    pub(crate) fn new(pipe: Pipe) -> Self {
        Self {
            pipe,
            wire: Wire::Down(None),
            life: Life::Wanted,
            sleep: Sleep::Awake,
            reader: Reader::Task,
            first: None,
            watchers: Vec::new(),
            waiting_for_room: 0,
            waits: 0,
            in_company: false,
            will_be_written: false,
            is_unread: false,
            fault: None,
        }
    }
}

/// The wire.
impl Shared {
    /// What is gathered goes here from now on.
    pub(crate) fn connected(&mut self, socket: Arc<Socket>) {
        self.wire = Wire::Up { socket, is_full: false };
        (self.in_company, self.is_unread, self.fault) = (false, false, None);
    }

    /// There is no connection, and why.
    pub(crate) fn disconnected(&mut self, why: String) {
        self.wire = Wire::Down(Some(why));
    }

    pub(crate) fn socket(&self) -> Option<&Arc<Socket>> {
        match &self.wire {
            Wire::Up { socket, .. } => Some(socket),
            Wire::Down(_) => None,
        }
    }

    /// The socket was found to take more, or not to.
    #[inline]
    pub(crate) fn set_full(&mut self, now: bool) {
        if let Wire::Up { is_full, .. } = &mut self.wire {
            *is_full = now;
        }
    }

    /// Whether the socket takes no more at the moment.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        matches!(self.wire, Wire::Up { is_full: true, .. })
    }

    /// Whether something is gathered that may be written now.
    #[inline]
    pub(crate) fn may_write(&self) -> bool {
        self.pipe.can_write() && !self.is_full()
    }
}

/// The life.
impl Shared {
    /// Nobody wants the connection any more. The task is to be told.
    pub(crate) fn close(&mut self) {
        if self.is_wanted() {
            self.life = Life::Closing;
        }
    }

    /// The task has ended.
    pub(crate) fn end(&mut self) {
        self.life = Life::Ended;
    }

    /// Whether more can be sent.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        matches!(self.life, Life::Wanted | Life::Observed)
    }

    /// Whether all ends when the queue is finished.
    pub(crate) fn is_closing(&self) -> bool {
        self.life == Life::Closing
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.life == Life::Ended
    }
}

/// The task's waits.
impl Shared {
    /// The task is about to wait; it must also be woken to watch over a timeout where it would not do so by itself.
    pub(crate) fn fall_asleep(&mut self, is_unwatched: bool) {
        self.sleep = if is_unwatched { Sleep::Unwatched } else { Sleep::Asleep };
    }

    /// The task is about to wait, but for no longer than a moment.
    pub(crate) fn doze(&mut self) {
        self.sleep = Sleep::Soon;
    }

    /// Whether the task writes what is gathered in a moment, unless somebody does before.
    #[inline]
    pub(crate) fn looks_soon(&self) -> bool {
        self.sleep == Sleep::Soon
    }

    /// The task runs, or is to be woken now.
    pub(crate) fn wake_up(&mut self) {
        self.sleep = Sleep::Awake;
    }

    #[inline]
    pub(crate) fn is_asleep(&self) -> bool {
        matches!(self.sleep, Sleep::Asleep | Sleep::Unwatched)
    }

    #[inline]
    pub(crate) fn is_unwatched(&self) -> bool {
        self.sleep == Sleep::Unwatched
    }
}

/// The reader.
impl Shared {
    /// Whether the socket is left to a caller that reads for itself.
    #[inline]
    pub(crate) fn is_lone(&self) -> bool {
        matches!(self.reader, Reader::Caller | Reader::CallerReading)
    }

    /// Whether it is left to a caller and none reads.
    pub(crate) fn is_unattended(&self) -> bool {
        self.reader == Reader::Caller
    }

    /// Leaves the socket to a caller.
    pub(crate) fn leave_to_caller(&mut self) {
        self.reader = match self.reader {
            Reader::Task | Reader::Caller => Reader::Caller,
            Reader::CallerReading | Reader::CallerLeaving => Reader::CallerReading,
        };
    }

    /// Gives the socket back to the task, which is to be woken. True when a caller reads, which is to be told as well.
    pub(crate) fn take_back(&mut self) -> bool {
        self.reader = match self.reader {
            Reader::Task | Reader::Caller => Reader::Task,
            Reader::CallerReading | Reader::CallerLeaving => Reader::CallerLeaving,
        };
        self.wake_up();
        self.reader == Reader::CallerLeaving
    }

    /// A caller to whom the socket is left begins to read.
    pub(crate) fn begin_reading(&mut self) {
        self.reader = Reader::CallerReading;
    }

    /// The caller has read what there was.
    pub(crate) fn end_reading(&mut self) {
        self.reader = match self.reader {
            Reader::CallerReading | Reader::Caller => Reader::Caller,
            Reader::CallerLeaving | Reader::Task => Reader::Task,
        };
    }
}
