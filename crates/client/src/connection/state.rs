//! The state of a link under its lock: the connection's progress, whether a handle still needs it, how its task waits, and
//! which party reads.
//!
//! The four change independently of each other. The owner of the lock has all of them. A transition wakes no task itself; if
//! the task has to be woken, the comment says so, and the caller does it. Pure data.

use std::sync::Arc;
use std::time::Duration;

use super::readers::task_waits::TaskWaits;
use crate::connection::connect::socket::Socket;
use crate::error::Error;
use crate::pipe::Pipe;
use crate::pipe::ledger::Ledger;
use crate::pipe::timeout::Phase;
use crate::reactor::TaskWaker;
use crate::reactor::lifetime::Progress;
use crate::sys::clock_us;
use crate::sys::runtime::RuntimeId;

/// The progress of the connection.
enum Wire {
    /// The connection is down: none was made yet, or the last one was lost; with the reason, if an attempt has failed.
    Down(Option<String>),
    /// The connection is open in both directions.
    Up {
        socket: Arc<Socket>,
        /// True if the socket takes no more bytes at the moment; the task waits until it does.
        is_full: bool,
    },
}

/// The need for the connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Wanted,
    /// As `Wanted`, while the sent requests are reported to a cache.
    Observed,
    /// The last handle was dropped, or the client was closed: the connection ends when the queue is empty.
    Closing {
        since_us: u64,
    },
    /// The task has ended: no request can be sent any more.
    Ended,
}

/// The way in which the connection's task waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sleep {
    /// The task runs, or was woken.
    Awake,
    /// The task waits, or is about to, and must be woken for gathered requests.
    Asleep,
    /// The task waits for no longer than a moment, and then writes the gathered requests.
    Soon,
    /// The task waits without an end, so that it must also be woken to watch over a command timeout.
    Unwatched,
}

/// The party that reads the socket; see `read`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Task,
    /// The socket is left to a caller that is alone on the connection; at the moment it does not read.
    Caller,
    /// The caller reads.
    CallerReading,
    /// The caller still reads, and has to give the socket back to the task.
    CallerLeaving,
    /// The runtime of the tasks that wait.
    Runtime(RuntimeId),
}

/// The state of a link under its lock.
pub(crate) struct Shared {
    pub(crate) pipe: Pipe,
    pub(crate) ledger: Ledger,
    wire: Wire,
    life: Life,
    sleep: Sleep,
    reader: Reader,
    /// The outcome of the first attempt to connect, once that has ended.
    pub(crate) first: Option<Result<(), Error>>,
    /// The tasks to wake when the first attempt or the task has ended, for waiting async code.
    pub(crate) watchers: Vec<TaskWaker>,
    /// The number of callers that wait for room in the queue.
    pub(crate) waiting_for_room: usize,
    /// The number of times that a thread has waited for a reply.
    pub(crate) waits: u32,
    /// True if a thread that waits, and is alone, may take the socket.
    pub(crate) is_offered: bool,
    /// The tasks of the application that wait for replies.
    pub(super) tasks: TaskWaits,
    /// True if a reading caller has left bytes unread.
    pub(crate) is_unread: bool,
    /// The reason why the connection is broken, as a reading caller has found.
    pub(crate) fault: Option<String>,
    /// The error with which the server refused the commands that wait to be sent again.
    pub(crate) refusal: Option<String>,
}

impl Shared {
    pub(crate) fn new(pipe: Pipe) -> Self {
        Self {
            pipe,
            ledger: Ledger::default(),
            wire: Wire::Down(None),
            life: Life::Wanted,
            sleep: Sleep::Awake,
            reader: Reader::Task,
            first: None,
            watchers: Vec::new(),
            waiting_for_room: 0,
            waits: 0,
            is_offered: false,
            tasks: TaskWaits::default(),
            is_unread: false,
            fault: None,
            refusal: None,
        }
    }
}

/// The progress of the connection.
impl Shared {
    /// Sets the socket that the gathered requests go to from now on.
    pub(crate) fn connected(&mut self, socket: Arc<Socket>) {
        self.wire = Wire::Up { socket, is_full: false };
        self.ledger.connected();
        (self.tasks.in_company, self.is_unread, self.fault) = (false, false, None);
    }

    /// Notes that there is no connection, with the reason.
    pub(crate) fn disconnected(&mut self, why: String) {
        self.wire = Wire::Down(Some(why));
    }

    pub(crate) fn socket(&self) -> Option<&Arc<Socket>> {
        match &self.wire {
            Wire::Up { socket, .. } => Some(socket),
            Wire::Down(_) => None,
        }
    }

    /// Notes whether the socket takes no more bytes at the moment.
    #[inline]
    pub(crate) fn set_full(&mut self, now: bool) {
        if let Wire::Up { is_full, .. } = &mut self.wire
            && *is_full != now
        {
            *is_full = now;
            self.ledger.full(now, clock_us());
        }
    }

    /// Returns whether the socket takes no more bytes at the moment.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        matches!(self.wire, Wire::Up { is_full: true, .. })
    }

    /// Returns whether requests are gathered that may be written now.
    #[inline]
    pub(crate) fn may_write(&self) -> bool {
        self.pipe.can_write() && !self.is_full()
    }
}

/// The need for the connection.
impl Shared {
    /// Notes that no handle needs the connection any more. The caller wakes the task.
    pub(crate) fn close(&mut self) {
        if self.is_wanted() {
            self.life = Life::Closing { since_us: clock_us() };
        }
    }

    /// Notes that the task has ended.
    pub(crate) fn end(&mut self) {
        self.life = Life::Ended;
    }

    /// Returns whether further requests can be sent.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        matches!(self.life, Life::Wanted | Life::Observed)
    }

    /// Returns whether further requests can be sent, and are reported to no cache.
    #[inline]
    pub(crate) fn is_wanted_alone(&self) -> bool {
        self.life == Life::Wanted
    }

    /// Notes that the requests that are sent from now on are reported to a cache.
    pub(crate) fn observe(&mut self) {
        if self.life == Life::Wanted {
            self.life = Life::Observed;
        }
    }

    /// Returns whether the connection ends when the queue is empty.
    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.life, Life::Closing { .. })
    }

    /// Returns the time for which the connection has been closing.
    pub(crate) fn closing_for(&self) -> Option<Duration> {
        let Life::Closing { since_us } = self.life else { return None };
        Some(Duration::from_micros(clock_us().saturating_sub(since_us)))
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.life == Life::Ended
    }
}

impl Progress for Shared {
    fn first(&self) -> Option<Result<(), Error>> {
        self.first.clone()
    }

    fn has_ended(&self) -> bool {
        Self::has_ended(self)
    }

    fn watchers(&mut self) -> &mut Vec<TaskWaker> {
        &mut self.watchers
    }
}

/// The task's waits.
impl Shared {
    /// Notes that the task is about to wait. If `is_unwatched`, it waits without an end, and must also be woken to watch a
    /// timeout.
    pub(crate) fn fall_asleep(&mut self, is_unwatched: bool) {
        self.sleep = if is_unwatched { Sleep::Unwatched } else { Sleep::Asleep };
    }

    /// Notes that the task is about to wait, but only for a moment.
    pub(crate) fn doze(&mut self) {
        self.sleep = Sleep::Soon;
    }

    /// Returns whether the task writes the gathered requests in a moment, unless another thread does before.
    #[inline]
    pub(crate) fn looks_soon(&self) -> bool {
        self.sleep == Sleep::Soon
    }

    /// Notes that the task runs, or is woken now.
    pub(crate) fn wake_up(&mut self) {
        self.sleep = Sleep::Awake;
    }

    /// Returns whether the task runs, or was woken.
    #[inline]
    pub(crate) fn is_awake(&self) -> bool {
        self.sleep == Sleep::Awake
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

/// The party that reads.
impl Shared {
    /// Returns whether the socket is left to a caller that reads its own replies.
    #[inline]
    pub(crate) fn is_lone(&self) -> bool {
        matches!(self.reader, Reader::Caller | Reader::CallerReading)
    }

    /// Returns whether the socket is left to a caller that does not read at the moment.
    pub(crate) fn is_unattended(&self) -> bool {
        self.reader == Reader::Caller
    }

    /// Returns whether the connection's task reads.
    #[inline]
    pub(crate) fn is_read_by_task(&self) -> bool {
        self.reader == Reader::Task
    }

    /// Returns the runtime that reads, if one does.
    #[inline]
    pub(super) fn reading_runtime(&self) -> Option<RuntimeId> {
        if let Reader::Runtime(runtime) = self.reader { Some(runtime) } else { None }
    }

    /// Leaves the socket to a runtime. The caller of this function wakes the task, which then waits in another way.
    pub(super) fn leave_to_runtime(&mut self, runtime: RuntimeId) {
        self.reader = Reader::Runtime(runtime);
        self.wake_up();
    }

    /// Returns whether requests are sent through memory, without a system call.
    #[inline]
    pub(crate) fn shares_memory(&self) -> bool {
        self.socket().is_some_and(|socket| socket.shares_memory())
    }

    /// Leaves the socket to a caller, unless another caller has yet to give it back. The caller of this function wakes the
    /// task, which then waits in another way.
    pub(crate) fn leave_to_caller(&mut self) -> bool {
        let is_free = self.reader == Reader::Task;
        if is_free {
            self.reader = Reader::Caller;
            self.wake_up();
        }
        is_free
    }

    /// Gives the socket back to the task, which the caller of this function wakes to read: otherwise the task would not learn
    /// of the bytes that were left, nor would the server know that it has to ring. Returns true if a caller reads, which then
    /// has to be notified as well.
    pub(crate) fn take_back(&mut self) -> bool {
        (self.is_unread, self.is_offered) = (true, false);
        self.reader = match self.reader {
            Reader::Task | Reader::Caller | Reader::Runtime(_) => Reader::Task,
            Reader::CallerReading | Reader::CallerLeaving => Reader::CallerLeaving,
        };
        self.wake_up();
        self.reader == Reader::CallerLeaving
    }

    /// Notes that the caller to which the socket is left begins to read.
    pub(crate) fn begin_reading(&mut self) {
        self.reader = Reader::CallerReading;
    }

    /// Notes that the caller has read the received bytes. Returns false if the socket belongs to the task again; the task
    /// then checks it once more, because it may have read before this caller's last read.
    pub(crate) fn end_reading(&mut self) -> bool {
        self.reader = match self.reader {
            Reader::CallerReading | Reader::Caller => Reader::Caller,
            Reader::CallerLeaving | Reader::Task => Reader::Task,
            runtime @ Reader::Runtime(_) => runtime,
        };
        self.reader == Reader::Caller
    }
}

/// The phase of the unanswered commands.
impl Shared {
    /// Returns the phase of the commands that are neither answered nor failed, as far as it is the same for all.
    pub(crate) fn phase(&self) -> Phase {
        match self.pipe.queue.gathered() {
            _ if !self.pipe.is_connected() => Phase::Connecting,
            0 => Phase::Answering,
            _ => Phase::Travelling,
        }
    }

    /// Returns the reason why there is no connection, if an attempt has failed; or the reason why no request leaves on it.
    pub(crate) fn trouble(&self) -> Option<&str> {
        let refusal = self.refusal.as_deref().filter(|_| self.pipe.refusals.is_refusing());
        self.wire.trouble().or(refusal)
    }

    /// Returns the pipe, the text of `trouble`, and the ledger.
    pub(crate) fn parts(&mut self) -> (&mut Pipe, Option<&str>, &Ledger) {
        let refusal = self.refusal.as_deref().filter(|_| self.pipe.refusals.is_refusing());
        let trouble = self.wire.trouble().or(refusal);
        (&mut self.pipe, trouble, &self.ledger)
    }
}

impl Wire {
    fn trouble(&self) -> Option<&str> {
        match self {
            Self::Down(why) => why.as_deref(),
            Self::Up { .. } => None,
        }
    }
}
