//! What a link has under its lock: how far the connection has come, whether anybody still wants it, how its task waits, and who
//! reads.
//!
//! The four change independently of each other. Whoever has the lock has all of them; a transition wakes nobody, which is the
//! caller's part where it says so. Pure data.

use std::sync::Arc;
use std::time::Duration;

use crate::connect::socket::Socket;
use crate::error::Error;
use crate::pipe::Pipe;
use crate::pipe::ledger::Ledger;
use crate::pipe::timeout::Phase;
use crate::reactor::TaskWaker;
use crate::reactor::lifetime::Progress;
use crate::sys::clock_us;

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
    Closing {
        since_us: u64,
    },
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
    pub(crate) ledger: Ledger,
    wire: Wire,
    life: Life,
    sleep: Sleep,
    reader: Reader,
    /// Whether the first attempt to connect is over, and how it ended.
    pub(crate) first: Option<Result<(), Error>>,
    /// Woken when the first attempt is over and when the task has ended, for those who wait for that in async code.
    pub(crate) watchers: Vec<TaskWaker>,
    /// Callers that wait for room in the queue.
    pub(crate) waiting_for_room: usize,
    /// How often a thread has waited for a reply.
    pub(crate) waits: u32,
    /// A thread that waits, and is alone, may take the socket.
    pub(crate) is_offered: bool,
    /// Whether the last replies came together: those who wait for them are about to go on together.
    pub(crate) in_company: bool,
    /// A task is about to come again, to write what others have gathered by then.
    pub(crate) will_be_written: bool,
    /// A caller that reads has left something.
    pub(crate) is_unread: bool,
    /// Why the connection is broken, as a caller that reads has found.
    pub(crate) fault: Option<String>,
    /// What the server has said that turned commands away which wait to be sent again.
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
    /// What is gathered goes here from now on.
    pub(crate) fn connected(&mut self, socket: Arc<Socket>) {
        self.wire = Wire::Up { socket, is_full: false };
        self.ledger.connected();
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
        if let Wire::Up { is_full, .. } = &mut self.wire
            && *is_full != now
        {
            *is_full = now;
            self.ledger.full(now, clock_us());
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
            self.life = Life::Closing { since_us: clock_us() };
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

    /// As `is_wanted`, and no cache is told of what is sent.
    #[inline]
    pub(crate) fn is_wanted_alone(&self) -> bool {
        self.life == Life::Wanted
    }

    /// A cache is told of what is sent from now on.
    pub(crate) fn observe(&mut self) {
        if self.life == Life::Wanted {
            self.life = Life::Observed;
        }
    }

    /// Whether all ends when the queue is finished.
    pub(crate) fn is_closing(&self) -> bool {
        matches!(self.life, Life::Closing { .. })
    }

    /// For how long that has been so.
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

    /// Whether the task runs, or was told to.
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
    /// Whether the socket is left to a caller that reads for itself.
    #[inline]
    pub(crate) fn is_lone(&self) -> bool {
        matches!(self.reader, Reader::Caller | Reader::CallerReading)
    }

    /// Whether it is left to a caller and none reads.
    pub(crate) fn is_unattended(&self) -> bool {
        self.reader == Reader::Caller
    }

    /// Whether what is sent goes through memory, without a system call.
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

    /// Gives the socket back to the task, which is to be woken and to read: nothing else tells it of what a caller has left,
    /// nor the server that it has to ring. True when a caller reads, which is to be told as well.
    pub(crate) fn take_back(&mut self) -> bool {
        (self.is_unread, self.is_offered) = (true, false);
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

    /// The caller has read what there was. False where the socket is the task's again, which is to look once more: it may have
    /// read before this caller did for the last time.
    pub(crate) fn end_reading(&mut self) -> bool {
        self.reader = match self.reader {
            Reader::CallerReading | Reader::Caller => Reader::Caller,
            Reader::CallerLeaving | Reader::Task => Reader::Task,
        };
        self.reader == Reader::Caller
    }
}

/// What commands wait for.
impl Shared {
    /// What commands wait for that are neither answered nor failed, as far as that is the same for all.
    pub(crate) fn phase(&self) -> Phase {
        match self.pipe.gathered() {
            _ if !self.pipe.is_connected() => Phase::Connecting,
            0 => Phase::Answering,
            _ => Phase::Travelling,
        }
    }

    /// Why there is no connection, as far as an attempt has told; or why nothing leaves on it.
    pub(crate) fn trouble(&self) -> Option<&str> {
        let refusal = self.refusal.as_deref().filter(|_| self.pipe.is_refused());
        self.wire.trouble().or(refusal)
    }

    /// What is to be written and answered, what `trouble` says, and what has gone over it.
    pub(crate) fn parts(&mut self) -> (&mut Pipe, Option<&str>, &Ledger) {
        let refusal = self.refusal.as_deref().filter(|_| self.pipe.is_refused());
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
