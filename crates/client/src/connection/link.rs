//! One connection's life, as callers use it: requests go in, and one thread writes them.
//!
//! A link is shared by every handle of a client and by a task of the reactor (`task`). It holds the pipe under one short
//! lock. A caller encodes its request beforehand, takes the lock, pushes, and then acts by the state that it finds:
//!
//! - nothing is in flight: the caller writes at once, outside the lock, because no other thread will be faster; except if
//!   tasks have just been woken together (`read`), because their requests leave together too;
//! - much is gathered: the caller writes it, which also slows down a caller that is faster than the network;
//! - some requests are in flight and little is gathered: the request stays, unless a lone thread sends through shared memory
//!   (`read`). A caller that waits for a reply writes the gathered requests first, and the task writes them after the replies
//!   that it is handling. If the task waits, the second request to be gathered wakes it. So a burst costs one system call for
//!   many requests, and a lone request is never left unsent.
//!
//! One thread at a time writes. Requests that are gathered in that time are written afterwards, by it or by the link's task.
//!
//! The other state under the lock is in `state`; the connection's traffic is counted in its ledger.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use super::heartbeat::IdleLimit;
use super::probe::ServerHealth;
use super::readers::caller::CallerReads;
use super::readers::runtime::RuntimeReader;
use super::state::Shared;
use super::tracker::Tracker;
use crate::config::Config;
use crate::config::event;
use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::Pipe;
use crate::pipe::asker::limit_ms;
use crate::pipe::ledger::Ledger;
use crate::pipe::queue::LONG_MIN;
use crate::pipe::reply_reader::ReplyReader;
use crate::pipe::slot::{Completions, FIRST_CONNECTION, Handle, Source};
use crate::pipe::timeout::{Phase, Situation};
use crate::reactor::TaskWaker;
use crate::resp::request::EncodedRequest;
use crate::resp::request::name::Name;
use crate::sys::callback;
use crate::sys::lock::{Condvar, Mutex, MutexGuard};
use crate::sys::runtime;
use crate::sys::trace;
use crate::sys::{Process, inherited};
use crate::sys::{clock_ms, clock_us};

/// The number of gathered bytes from which on a caller writes them itself, rather than leave them to the task.
const BURST_BYTES: usize = 16 * 1024;

/// The terms on which a connection is owned: by a client for all of its life, or by one caller for a while.
#[derive(Default)]
pub(crate) struct Tenure {
    /// True if a lost connection is made again. It changes under the lock of `shared`.
    pub(super) is_lasting: AtomicBool,
    /// True for the connection to a node of a cluster: callers share it although it is not made again when it is lost.
    pub(crate) is_common: AtomicBool,
    /// True if the connection is for commands that wait on the server, one at a time.
    pub(super) is_blocking: AtomicBool,
    /// The time that a command may take, in milliseconds; 0 for no limit.
    pub(super) limit_ms: AtomicU32,
}

/// The facts that the server at the other end has stated, in the greeting and since.
#[derive(Default)]
pub(super) struct ServerFacts {
    /// The number of databases; 0 while it is unknown.
    pub(super) databases: AtomicU32,
    /// True if the server may be sent PING.
    pub(super) pings: AtomicBool,
    /// True if the present connection speaks RESP3.
    pub(super) speaks_resp3: AtomicBool,
    /// The time after which it closes idle connections, which only a close states.
    pub(super) idle_limit: Arc<IdleLimit>,
}

/// A connection, or the attempts to make one.
pub(crate) struct Link {
    pub(crate) config: Config,
    pub(crate) tenure: Tenure,
    /// The process in which it was made; only that process may use it.
    pub(crate) process: Process,
    /// The knowledge of the server that all of a client's connections share.
    pub(crate) health: Arc<ServerHealth>,
    pub(super) server: ServerFacts,
    /// The message of the panic that has ended the task, if one has.
    pub(super) panicked: OnceLock<String>,
    pub(crate) shared: Mutex<Shared>,
    /// The receiving half of the pipe. Its lock is taken before `shared`, never the other way round.
    pub(super) reply_reader: Mutex<ReplyReader>,
    /// The condition variable that is notified when the queue has room, when a writer has finished, and when the first
    /// attempt or the task has ended.
    pub(super) changed: Condvar,
    pub(super) task_waker: TaskWaker,
    pub(super) caller_reads: CallerReads,
    pub(super) runtime_reader: RuntimeReader,
    /// The number of the present connection, or of the next one, as the pipe has it.
    pub(crate) connection: AtomicU32,
    /// True if callers may wait until a write is synced: see `durability`.
    pub(super) syncs: AtomicBool,
    pub(super) tracker: Tracker,
    /// The latency from which on a reply is reported as slow, in microseconds; none if none is reported.
    pub(super) slow_us: Option<u64>,
}

/// Returns the latency from which on a reply is reported as slow, if the configuration asks for that.
fn slow_us(config: &Config) -> Option<u64> {
    let slow_after = config.hooks.slow_after.filter(|_| config.hooks.event.is_some() || cfg!(feature = "tracing"))?;
    Some(u64::try_from(slow_after.as_micros()).unwrap_or(u64::MAX))
}

impl Link {
    pub(crate) fn new(config: Config, lasting: bool, health: Arc<ServerHealth>) -> std::io::Result<Arc<Self>> {
        let task_waker = TaskWaker::new()?;
        let limit_ms = limit_ms(config.command_timeout).into();
        let tenure = Tenure { is_lasting: lasting.into(), limit_ms, ..Tenure::default() };
        Ok(Arc::new_cyclic(|link: &Weak<Link>| Self {
            shared: Mutex::new(Shared::new(Pipe::new(config.database, Source::new(link.clone())))),
            tenure,
            process: Process::this(),
            reply_reader: Mutex::new(ReplyReader::new(health.error_observer(link), config.limits.reply_bytes_max)),
            health,
            server: ServerFacts::default(),
            panicked: OnceLock::new(),
            changed: Condvar::new(),
            task_waker,
            caller_reads: CallerReads::default(),
            runtime_reader: RuntimeReader::new(Weak::clone(link) as _),
            connection: AtomicU32::new(FIRST_CONNECTION),
            syncs: AtomicBool::new(false),
            tracker: Tracker::default(),
            slow_us: slow_us(&config),
            config,
        }))
    }

    /// Sends one request. Returns none if the queue has no room for it: see `send`.
    #[inline]
    pub(crate) fn send(&self, database: u32, request: EncodedRequest<'_>) -> Result<Option<Handle>, Error> {
        if request.bytes.len() >= LONG_MIN {
            return self.send_long(database, request, None);
        }
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

    /// Fails if the connection belongs to another process, or the server does not have this database.
    #[inline]
    pub(crate) fn check(&self, database: u32) -> Result<(), Error> {
        if !self.process.is_this() {
            return Err(inherited());
        }
        let databases = self.server.databases.load(Ordering::Relaxed);
        if database < databases || databases == 0 { Ok(()) } else { Err(no_such_database()) }
    }

    /// Returns whether a request of this length may be queued at once, without a report to a cache. If not, see `send`.
    #[inline]
    pub(super) fn has_room(&self, shared: &Shared, length: usize) -> bool {
        self.fits(shared, length) && shared.is_wanted_alone()
    }

    /// Returns whether the queue has room for a request of this length.
    #[inline]
    pub(super) fn fits(&self, shared: &Shared, length: usize) -> bool {
        shared.pipe.queue.held + length <= self.config.limits.queue_bytes_max
    }

    /// Returns the time that a command may take, in milliseconds, small enough for the wrapping clock.
    pub(crate) fn limit_ms(&self) -> Option<u32> {
        let limit_ms = self.tenure.limit_ms.load(Ordering::Relaxed);
        (limit_ms > 0).then_some(limit_ms)
    }

    /// Decides which thread writes the bytes that have just been gathered.
    #[inline]
    pub(super) fn pushed<'a>(&'a self, mut shared: MutexGuard<'a, Shared>) {
        if !shared.is_read_by_task() {
            shared = match self.pushed_beside_reader(shared) {
                Some(shared) => shared,
                None => return,
            };
        }
        if shared.pipe.in_flight() > 0 && !shared.is_asleep() && shared.pipe.queue.gathered() < BURST_BYTES {
            return;
        }
        if shared.may_write() {
            if (shared.pipe.in_flight() == 0 && !shared.looks_soon()) || shared.pipe.queue.gathered() >= BURST_BYTES {
                shared = self.write(shared);
            }
            if shared.is_asleep() && shared.pipe.queue.is_burst() && shared.pipe.can_write() {
                return self.wake(shared);
            }
        }
        if shared.is_unwatched() {
            self.wake(shared);
        }
    }

    /// Gives the socket back to the connection's task, if a runtime reads it.
    pub(super) fn end_runtime(&self, shared: &mut Shared, has_failed: bool) {
        if shared.reading_runtime().is_some() {
            shared.take_back();
            shared.tasks.end(has_failed);
            self.runtime_reader.stop();
            self.task_waker.wake();
        }
    }

    /// Decides which thread writes the bytes that have just been gathered, as `pushed` does, while another thread than the
    /// connection's task reads. Returns the lock if the decision is the same as otherwise.
    #[cold]
    fn pushed_beside_reader<'a>(&'a self, mut shared: MutexGuard<'a, Shared>) -> Option<MutexGuard<'a, Shared>> {
        if let Some(reader) = shared.reading_runtime() {
            if runtime::current() != Some(reader) {
                self.end_runtime(&mut shared, false);
                return Some(shared);
            }
            if shared.may_write()
                && ((shared.pipe.in_flight() == 0 && !shared.tasks.will_be_written)
                    || shared.pipe.queue.gathered() >= BURST_BYTES)
            {
                shared = self.write(shared);
            }
            if shared.is_unwatched() {
                self.wake(shared);
            }
            return None;
        }
        if shared.is_lone() && (shared.pipe.in_flight() > 0 || shared.pipe.queue.is_burst()) {
            if shared.may_write() && shared.shares_memory() {
                drop(self.write(shared));
                return None;
            }
            self.end_lone(&mut shared);
        }
        Some(shared)
    }

    /// Wakes the task, without the lock.
    pub(crate) fn wake(&self, mut shared: MutexGuard<'_, Shared>) {
        shared.wake_up();
        drop(shared);
        self.task_waker.wake();
    }

    /// Gives the socket back to the task, if a lone caller has it.
    pub(crate) fn end_lone(&self, shared: &mut Shared) {
        if shared.is_lone() {
            let is_read = shared.take_back();
            self.task_waker.wake();
            if is_read {
                self.caller_reads.wake();
            }
        }
    }

    /// Writes the bytes that may be written, with the lock released during the write.
    pub(crate) fn write<'a>(&'a self, mut shared: MutexGuard<'a, Shared>) -> MutexGuard<'a, Shared> {
        shared.tasks.will_be_written = false;
        let Some(socket) = shared.socket().cloned() else { return shared };
        // The second round writes the requests that were gathered during the first; any later ones are left to the task, or
        // another caller.
        for _ in 0..2 {
            let waiting = shared.pipe.in_flight();
            let Some((bytes, written)) = shared.pipe.lend() else { break };
            let departed = shared.pipe.in_flight() - waiting;
            let rest = bytes.get(written..).unwrap_or_default();
            let length = rest.len();
            let sent = if shared.is_lone() && socket.shares_memory() {
                // The lock stays taken, because no other thread waits for it for long. The clock is read after the send, when
                // the server is already at work.
                let sent = socket.send(rest);
                shared.ledger.departed(departed, clock_us());
                sent
            } else {
                shared.ledger.departed(departed, clock_us());
                MutexGuard::unlocked(&mut shared, || socket.send(rest))
            };
            let count = match sent {
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
                Err(_) => {
                    // The reader takes the bytes that have arrived before, finds the end of the stream and handles the loss.
                    socket.shut();
                    shared.pipe.wrote(bytes, 0);
                    shared.set_full(true);
                    self.changed.notify_all();
                    return shared;
                }
            };
            shared.pipe.wrote(bytes, count);
            shared.ledger.bytes_sent += count as u64;
            if !shared.pipe.is_connected() || shared.is_closing() {
                self.changed.notify_all();
            }
            let is_full = count < length && socket.was_full();
            shared.set_full(is_full);
            if is_full {
                break;
            }
        }
        // A caller that gathered a request during this write has left it to this thread; if this thread does not write it
        // now, the task must.
        if shared.is_asleep() && (shared.is_full() || shared.pipe.can_write()) {
            shared.wake_up();
            self.task_waker.wake();
        }
        shared
    }

    /// Notifies the callers that wait for room in the queue.
    pub(crate) fn made_room(&self, shared: &Shared) {
        if shared.waiting_for_room > 0 {
            self.changed.notify_all();
        }
    }

    /// Reports an event of the connection to the event hook.
    pub(crate) fn tell(&self, event: impl FnOnce(String) -> event::Event) {
        let hook = self.config.hooks.event.clone();
        if hook.is_some() || trace::is_collected() {
            let event = event(self.config.endpoint.to_string());
            callback::run(move || {
                trace::happened(&event, matches!(event, event::Event::Connected { .. }));
                hook.iter().for_each(|hook| hook(&event));
            });
        }
    }

    /// Wakes the waiters of the completed calls, and reports the errors of forgotten calls. No lock may be held.
    #[inline]
    pub(crate) fn finish(&self, done: &mut Completions) {
        let errors = done.finish();
        if !errors.is_empty() {
            callback::report(errors, self.config.hooks.error.as_ref());
        }
    }
}

/// The errors of callers that get no answer.
impl Link {
    /// Returns the known state of the connection, for the errors of callers that timed out.
    pub(crate) fn situation<'a>(
        &'a self,
        trouble: Option<&'a str>,
        limit: Option<Duration>,
        ledger: Option<&'a Ledger>,
    ) -> Situation<'a> {
        Situation { endpoint: &self.config.endpoint, limit, trouble, ledger }
    }

    /// Returns the error for a caller that no longer waits for the answer to a command of this name.
    pub(crate) fn give_up(&self, name: Name) -> Error {
        let shared = self.shared.lock();
        self.situation(shared.trouble(), None, Some(&shared.ledger)).timed_out(name, shared.phase(), Effect::Unknown)
    }

    /// Returns the error of a command of this name with a deadline that has passed before it was sent.
    pub(crate) fn too_late(&self, name: Name) -> Error {
        self.situation(None, None, None).timed_out(name, Phase::Sending, Effect::None)
    }

    /// Wakes the waiters for the end of the first attempt, or of the task.
    pub(crate) fn announce(&self, shared: &mut Shared) {
        self.changed.notify_all();
        shared.watchers.drain(..).for_each(TaskWaker::wake);
    }

    /// Returns whether a lost connection is made again.
    pub(crate) fn is_lasting(&self) -> bool {
        self.tenure.is_lasting.load(Ordering::Relaxed)
    }

    /// Returns the reason why no request can be sent any more.
    pub(crate) fn ended(&self) -> String {
        match self.panicked.get() {
            Some(why) => why.clone(),
            None if self.is_lasting() => "the client was closed".to_owned(),
            None if self.tenure.is_common.load(Ordering::Relaxed) => {
                format!("the connection to {} was lost", self.config.endpoint)
            }
            None => "the leased connection was lost".to_owned(),
        }
    }

    /// Returns the error for a caller with a command that was never sent, because the connection has ended. While a client is
    /// open, only its connections to nodes of a cluster can have ended.
    pub(crate) fn came_too_late(&self) -> Error {
        let error = Error::closed(&self.ended());
        match self.tenure.is_common.load(Ordering::Relaxed) && self.panicked.get().is_none() {
            true => Error::unsent(ErrorKind::Connect, error.message()),
            false => error,
        }
    }
}

/// Returns the error that a server would give to SELECT of a database that does not exist, for a command that is not sent.
pub(crate) fn no_such_database() -> Error {
    Error::new(ErrorKind::Server, Effect::None, "ERR DB index is out of range")
}
