//! The state of a link under its lock: the connection's progress, whether a handle still needs it, how its task waits, and
//! which party reads.
//!
//! The four change independently of each other. The owner of the lock has all of them; a transition wakes no task, which is
//! the caller's part if the comment says so. Pure data.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::connect::socket::Socket;
use crate::error::Error;
use crate::pipe::Pipe;
use crate::pipe::ledger::Ledger;
use crate::pipe::timeout::Phase;
use crate::reactor::TaskWaker;
use crate::reactor::lifetime::Progress;
use crate::sys::{Event, clock_us};

/// The progress of the connection.
enum Wire {
    /// There is none: none yet, or none any more; and why, as far as an attempt has reported one.
    Down(Option<String>),
    /// Bytes go both ways.
    Up {
        socket: Arc<Socket>,
        /// The socket takes no more at the moment; the task waits until it does.
        is_full: bool,
    },
}

/// The need for the connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Wanted,
    /// As `Wanted`, while the sent requests are reported to a cache.
    Observed,
    /// The last handle is gone, or the client was closed: the queue is finished, and then the connection ends.
    Closing {
        since_us: u64,
    },
    /// The task has ended: nothing can be sent any more.
    Ended,
}

/// The way in which the connection's task waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sleep {
    /// The task runs, or is to be woken.
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
    /// The socket is left to a caller that is alone here; at the moment none reads.
    Caller,
    /// A caller reads.
    CallerReading,
    /// A caller reads that is to give the socket back to the task.
    CallerLeaving,
}

/// The reading by callers of their own replies, without the link's lock; see `read`.
#[derive(Default)]
pub(crate) struct CallerReads {
    /// The event that wakes a lone caller that reads its replies itself; made when there is one for the first time.
    pub(super) event: OnceLock<Event>,
    /// The number of threads that wait for replies.
    pub(super) threads: AtomicU32,
    /// True if the received bytes are left to the tasks that are awake.
    left: AtomicBool,
}

impl CallerReads {
    /// Returns whether a lone caller can be woken.
    pub(super) fn has_event(&self) -> bool {
        self.event.get().is_some() || Event::new().is_ok_and(|event| self.event.set(event).is_ok())
    }

    /// Wakes the lone caller that reads, if there is one.
    pub(super) fn wake(&self) {
        if let Some(event) = self.event.get() {
            event.raise();
        }
    }

    /// Leaves the received bytes to the tasks that are awake.
    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    /// Returns whether the received bytes are left to the tasks that are awake.
    #[inline]
    pub(super) fn is_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    /// Takes over the reading of the bytes that were left. Returns false if another reader has.
    pub(super) fn take_left(&self) -> bool {
        self.left.swap(false, Ordering::AcqRel)
    }
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
    /// Woken when the first attempt has ended and when the task has ended, for async code that waits for that.
    pub(crate) watchers: Vec<TaskWaker>,
    /// Callers that wait for room in the queue.
    pub(crate) waiting_for_room: usize,
    /// The number of times that a thread has waited for a reply.
    pub(crate) waits: u32,
    /// A thread that waits, and is alone, may take the socket.
    pub(crate) is_offered: bool,
    /// True if the last replies arrived together: the callers that wait for them are about to go on together.
    pub(crate) in_company: bool,
    /// True if a task is about to come again, to write the requests that others have gathered by then.
    pub(crate) will_be_written: bool,
    /// A caller that reads has left something.
    pub(crate) is_unread: bool,
    /// The reason why the connection is broken, as a caller that reads has found.
    pub(crate) fault: Option<String>,
    /// The error with which the server turned away the commands that wait to be sent again.
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
            in_company: false,
            will_be_written: false,
            is_unread: false,
            fault: None,
            refusal: None,
        }
    }
}

/// The wire.
impl Shared {
    /// Sets the socket that the gathered requests go to from now on.
    pub(crate) fn connected(&mut self, socket: Arc<Socket>) {
        self.wire = Wire::Up { socket, is_full: false };
        self.ledger.connected();
        (self.in_company, self.is_unread, self.fault) = (false, false, None);
    }

    /// Notes that there is no connection, and why.
    pub(crate) fn disconnected(&mut self, why: String) {
        self.wire = Wire::Down(Some(why));
    }

    pub(crate) fn socket(&self) -> Option<&Arc<Socket>> {
        match &self.wire {
            Wire::Up { socket, .. } => Some(socket),
            Wire::Down(_) => None,
        }
    }

    /// Notes that the socket was found to take more, or not to.
    #[inline]
    pub(crate) fn set_full(&mut self, now: bool) {
        if let Wire::Up { is_full, .. } = &mut self.wire
            && *is_full != now
        {
            *is_full = now;
            self.ledger.full(now, clock_us());
        }
    }

    /// Returns whether the socket takes no more at the moment.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        matches!(self.wire, Wire::Up { is_full: true, .. })
    }

    /// Returns whether something is gathered that may be written now.
    #[inline]
    pub(crate) fn may_write(&self) -> bool {
        self.pipe.can_write() && !self.is_full()
    }
}

/// The life.
impl Shared {
    /// Notes that no handle needs the connection any more. The task is to be woken.
    pub(crate) fn close(&mut self) {
        if self.is_wanted() {
            self.life = Life::Closing { since_us: clock_us() };
        }
    }

    /// Notes that the task has ended.
    pub(crate) fn end(&mut self) {
        self.life = Life::Ended;
    }

    /// Returns whether more can be sent.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        matches!(self.life, Life::Wanted | Life::Observed)
    }

    /// Returns whether it is wanted, and the sent requests are reported to no cache.
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

    /// Returns whether all ends when the queue is finished.
    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.life, Life::Closing { .. })
    }

    /// Returns for how long the connection has been closing.
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
    /// Notes that the task is about to wait; it must also be woken to watch over a timeout if it would not do so by itself.
    pub(crate) fn fall_asleep(&mut self, is_unwatched: bool) {
        self.sleep = if is_unwatched { Sleep::Unwatched } else { Sleep::Asleep };
    }

    /// Notes that the task is about to wait, but for no longer than a moment.
    pub(crate) fn doze(&mut self) {
        self.sleep = Sleep::Soon;
    }

    /// Returns whether the task writes the gathered requests in a moment, unless another thread does before.
    #[inline]
    pub(crate) fn looks_soon(&self) -> bool {
        self.sleep == Sleep::Soon
    }

    /// Notes that the task runs, or is to be woken now.
    pub(crate) fn wake_up(&mut self) {
        self.sleep = Sleep::Awake;
    }

    /// Returns whether the task runs, or is to be woken.
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

/// The reader.
impl Shared {
    /// Returns whether the socket is left to a caller that reads its own replies.
    #[inline]
    pub(crate) fn is_lone(&self) -> bool {
        matches!(self.reader, Reader::Caller | Reader::CallerReading)
    }

    /// Returns whether it is left to a caller and none reads.
    pub(crate) fn is_unattended(&self) -> bool {
        self.reader == Reader::Caller
    }

    /// Returns whether requests are sent through memory, without a system call.
    #[inline]
    pub(crate) fn shares_memory(&self) -> bool {
        self.socket().is_some_and(|socket| socket.shares_memory())
    }

    /// Leaves the socket to a caller, unless another is still about to give it back. The task is to be woken, and then waits
    /// otherwise.
    pub(crate) fn leave_to_caller(&mut self) -> bool {
        let is_free = self.reader == Reader::Task;
        if is_free {
            self.reader = Reader::Caller;
            self.wake_up();
        }
        is_free
    }

    /// Gives the socket back to the task, which is to be woken and to read: nothing else tells it of the bytes that a caller
    /// has left, nor tells the server that it has to ring. Returns true if a caller reads, which is to be notified as well.
    pub(crate) fn take_back(&mut self) -> bool {
        (self.is_unread, self.is_offered) = (true, false);
        self.reader = match self.reader {
            Reader::Task | Reader::Caller => Reader::Task,
            Reader::CallerReading | Reader::CallerLeaving => Reader::CallerLeaving,
        };
        self.wake_up();
        self.reader == Reader::CallerLeaving
    }

    /// Notes that a caller to which the socket is left begins to read.
    pub(crate) fn begin_reading(&mut self) {
        self.reader = Reader::CallerReading;
    }

    /// Notes that the caller has read the received bytes. Returns false if the socket is the task's again; the task is to
    /// look once more, because it may have read before this caller did for the last time.
    pub(crate) fn end_reading(&mut self) -> bool {
        self.reader = match self.reader {
            Reader::CallerReading | Reader::Caller => Reader::Caller,
            Reader::CallerLeaving | Reader::Task => Reader::Task,
        };
        self.reader == Reader::Caller
    }
}

/// The phase of the waiting commands.
impl Shared {
    /// Returns the phase of the commands that are neither answered nor failed, as far as it is the same for all.
    pub(crate) fn phase(&self) -> Phase {
        match self.pipe.queue.gathered() {
            _ if !self.pipe.is_connected() => Phase::Connecting,
            0 => Phase::Answering,
            _ => Phase::Travelling,
        }
    }

    /// Returns the reason why there is no connection, as far as an attempt has reported one; or why nothing leaves on it.
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
