//! The readers of a socket: the connection's task, a task of the application or its runtime, or a thread that waits.
//!
//! A task or thread that is awake reads. One reader at a time holds the reply reader's lock, and only while it reads the
//! bytes that have arrived; wake-ups happen after it is released. There are four readers:
//!
//! - **The connection's task** reads if no other reader does.
//! - **A task that waits for an answer** reads for all tasks that do. To wake a task from a foreign thread costs more than
//!   the whole command, and to wake each of a hundred waiting tasks costs a hundred times as much; a task that wakes its
//!   neighbours does it cheaply. And a reader that is always awake takes few replies at a time. So when bytes arrive, and a
//!   task waits for one of the oldest replies, the reactor calls that task alone. Its turn comes after those of the ready
//!   tasks; then it reads the bytes that have arrived together, and answers the others. The requests that they send in their
//!   turns stay gathered, and leave in one piece when the first of these tasks has to wait. Nothing depends on the called
//!   task: the reactor checks again a moment later, and then reads and writes by itself the bytes that were left. If it had
//!   to, the runtime is busy with other work, and is not asked again for a while.
//! - **The runtime of the waiting tasks** reads if all of them run in one (`readers::runtime`).
//! - **A thread that is alone on its connection** reads for itself. If it sends a command, waits for it, sends the next, and
//!   so on, the reply need not travel over the reactor's thread: that costs two switches a command (measured on loopback: 26
//!   us a round trip with them, 17 without). So when the connection's task has seen such a habit for a while it leaves the
//!   socket to the caller and waits to be woken. It takes the socket back in any of four cases: two commands are in flight at
//!   once; two threads wait; a task awaits a reply, instead of a thread that waits; or no caller has waited for a while. The
//!   caller that notices wakes it. Through shared memory the thread may have any number of commands in flight: to send costs
//!   no system call, so each leaves at once, and the task has nothing to write.

use std::io;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::link::Link;
use super::readers::runtime::Reads;
use super::refusals::{await_writer, end_probe, put_off};
use super::state::Shared;
use crate::connection::connect::socket::Socket;
use crate::error::Error;
use crate::pipe::reply_reader::{ErrorObserver, ReplyReader, Resumption};
use crate::pipe::slot::Completions;
use crate::reactor::REPORTS_ONCE;
use crate::sys::lock::MutexGuard;
use crate::sys::planted::{self, Fault};
use crate::sys::wake::wake_all;
use crate::sys::{clock_us, now};

/// The number of reads in a row before gathered requests are written again.
const READS_MAX: usize = 8;

/// The number of bytes in a row before other connections have their turns: a large reply is taken in pieces, so that it holds
/// up no other connection.
const TURN_BYTES_MAX: usize = 128 * 1024;

/// The text of a replica's error behind its code.
const READ_ONLY: &[u8] = b"write against a read only";

/// The reason why a connection has ended.
pub(crate) enum Cause {
    /// The client was closed, and all its calls are answered.
    Closed,
    /// The stream ended, or its bytes cannot be trusted.
    Broken(String),
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

/// The state after a read: whether there may be more bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    None,
    Maybe,
}

/// The party on behalf of which the socket is read.
pub(crate) enum By<'a> {
    /// The connection's task, which watches the habit of the waiting callers.
    Task(&'a mut Habit),
    /// A task of the application to which the bytes were left.
    Awake,
    /// A thread that is alone on its connection, and checks again before it sleeps.
    Lone,
    /// The runtime of the tasks that wait.
    Runtime,
}

/// Reads the received bytes and answers the askers. A stream that has hung up is read to its end, because that event is not
/// reported again.
pub(crate) fn read(
    link: &Link,
    socket: &Socket,
    hung_up: bool,
    mut by: By<'_>,
    done: &mut Completions,
) -> Result<Rest, Cause> {
    let looks_again = matches!(by, By::Lone);
    let mut taken = 0;
    for _ in 0..READS_MAX {
        let mut reply_reader = link.reply_reader.lock();
        // Another reader than the connection's task may have been given this socket before it was lost: its bytes do not
        // belong to the connection that has followed.
        if !matches!(by, By::Task(_)) && !is_present(link, socket) {
            return Ok(Rest::None);
        }
        let room = reply_reader.room();
        let room_length = room.len();
        let count = match socket.receive_between(room, looks_again) {
            Ok(0) => return Err(Cause::Broken("the server closed it".to_owned())),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // The wake-up was for bells without bytes; if the stream has hung up, its end is still to be read.
                return Ok(if hung_up { Rest::Maybe } else { Rest::None });
            }
            Err(error) => return Err(error.into()),
        };
        let broken = |error: Error| Cause::Broken(error.to_string());
        let replies = match reply_reader.filled(count) {
            Ok(replies) => replies,
            Err(error) => {
                if reply_reader.is_exceeded() {
                    link.shared.lock().pipe.blame_oldest();
                }
                return Err(broken(error));
            }
        };
        let habit = if let By::Task(habit) = &mut by { Some(&mut **habit) } else { None };
        if !take(link, &mut reply_reader, count, replies, habit) {
            reply_reader.distrust();
            return Err(Cause::Broken("the server sent a reply that nobody asked for".to_owned()));
        }
        if let Some(next) = reply_reader.deliver(done).map_err(broken)? {
            resume(link, reply_reader, next);
        } else {
            drop(reply_reader);
        }
        link.finish(done);
        if count < room_length && !hung_up {
            return Ok(Rest::None);
        }
        taken += count;
        if taken >= TURN_BYTES_MAX {
            break;
        }
    }
    Ok(Rest::Maybe)
}

/// Returns whether this is the socket of the present connection.
fn is_present(link: &Link, socket: &Socket) -> bool {
    link.shared.lock().socket().is_some_and(|present| std::ptr::eq(&raw const **present, socket))
}

/// Takes the entries that these replies belong to out of the pipe.
fn take(link: &Link, reply_reader: &mut ReplyReader, bytes: usize, replies: usize, habit: Option<&mut Habit>) -> bool {
    let now_us = clock_us();
    let mut shared = link.shared.lock();
    if reply_reader.has_refusals() {
        await_writer(&mut shared, replies);
    }
    let (waiting, was_probing) = (shared.pipe.in_flight(), shared.pipe.is_held() && shared.pipe.refusals.is_probing());
    let enough = shared.pipe.take(replies, &mut reply_reader.pending);
    // While a runtime reads, a single reply ends the company only if no other call is under way.
    let stays = shared.tasks.in_company && shared.reading_runtime().is_some() && !shared.pipe.is_idle();
    shared.tasks.in_company = replies > 1 || stays;
    if planted::has(Fault::SwapsReplies) && reply_reader.pending.len() > 1 {
        reply_reader.pending.swap(0, 1);
    }
    let answered = (&reply_reader.pending, waiting - shared.pipe.in_flight());
    shared.tasks.answered(answered.1);
    if let Some(slow) = shared.ledger.arrived(bytes, answered, now_us, link.slow_us) {
        link.tell(|endpoint| slow.told(endpoint));
    }
    if reply_reader.has_refusals() {
        put_off(link, &mut shared, reply_reader);
    }
    if was_probing && !shared.pipe.refusals.is_probing() {
        end_probe(link, &mut shared);
    }
    link.made_room(&shared);
    if let Some(habit) = habit.filter(|_| replies > 0) {
        habit.watch(link, &mut shared, replies);
    }
    enough
}

/// Sends the requests that must be sent because of a reply. They are back in the pipe before the reply reader's lock is
/// released, so that a thread that cuts the connection finds them in one of the two.
fn resume(link: &Link, reply_reader: MutexGuard<'_, ReplyReader>, next: Resumption) {
    let mut shared = link.shared.lock();
    shared.pipe.resume(next.asker, next.frames, next.database, next.request, next.time);
    drop(reply_reader);
    if !shared.is_full() {
        drop(link.write(shared));
    }
}

/// The time within which a called task has to read; for as long the gathered requests may stay unsent.
const CALL_TIMEOUT: Duration = Duration::from_micros(200);

/// The largest number of times that no task is called, after several called tasks did not read.
const PAUSE_MAX: u32 = 1024;

/// The connection task's memory of the tasks that it has called.
#[derive(Default)]
pub(crate) struct Calls {
    /// The time until which the task that was called last may read.
    until: Option<Instant>,
    /// The number of calls in a row after which no task read.
    missed: u32,
    /// The number of times for which no further task is called.
    pause: u32,
}

impl Calls {
    /// Returns the time until which the gathered requests and the received bytes are left to the tasks that are awake.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Decides whether a task is called to read received bytes. Returns whether they are left to it.
    pub(crate) fn leave_to_task(&mut self, link: &Link) -> bool {
        if !REPORTS_ONCE {
            return false;
        }
        if link.caller_reads.is_left() {
            return true;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        let Some(waker) = link.shared.lock().pipe.call_task() else { return false };
        link.caller_reads.leave();
        wake_all(std::iter::once(waker));
        self.until = Some(now() + CALL_TIMEOUT);
        true
    }

    /// Returns whether the called task has not read in time, and takes the bytes back then.
    pub(crate) fn take_back(&mut self, link: &Link) -> bool {
        if self.until.is_none_or(|until| until > now()) {
            return false;
        }
        self.until = None;
        let is_left = link.caller_reads.take_left();
        self.missed = if is_left { (self.missed + 1).min(PAUSE_MAX.ilog2()) } else { 0 };
        self.pause = (1 << self.missed) - 1;
        is_left && !planted::has(Fault::NeverReadsWhatWasLeft)
    }
}

/// Reads the received bytes, if they were left to the tasks that are awake.
pub(super) fn read_left(link: &Link) {
    // In a forked child the bytes on the socket belong to the parent.
    if !link.caller_reads.is_left() || !link.process.is_this() || !link.caller_reads.take_left() {
        return;
    }
    let Some(socket) = link.shared.lock().socket().cloned() else { return };
    let mut done = Completions::default();
    let outcome = read(link, &socket, false, By::Awake, &mut done);
    link.finish(&mut done);
    match outcome {
        Ok(Rest::None) => {}
        Ok(Rest::Maybe) => leave_rest(link),
        Err(cause) => report(link, cause),
    }
}

/// Leaves the bytes that a caller has not read to the task. The task must be told, because TLS may have decrypted them
/// already.
pub(super) fn leave_rest(link: &Link) {
    let mut shared = link.shared.lock();
    shared.is_unread = true;
    link.end_lone(&mut shared);
    link.wake(shared);
}

/// Ends a caller's reading. If the caller gives the socket back, the task checks it once more.
pub(super) fn end_reading(link: &Link) -> MutexGuard<'_, Shared> {
    let mut shared = link.shared.lock();
    if !shared.end_reading() {
        shared.is_unread = true;
        shared.wake_up();
        link.task_waker.wake();
    }
    shared
}

/// Reports that a reading caller has found the connection broken: its task handles the loss.
pub(super) fn report(link: &Link, cause: Cause) {
    let mut shared = link.shared.lock();
    if let Cause::Broken(why) = cause {
        shared.fault.get_or_insert(why);
    }
    link.end_lone(&mut shared);
    link.wake(shared);
}

/// The time for which the task leaves the socket alone before it checks whether the habit still holds.
pub(crate) const LONE_TICK: Duration = Duration::from_millis(100);

/// The number of times in a row that the task finds no waiting caller before it assumes that there will be none.
const IDLE_LOOKS_MAX: u32 = 10;

/// The number of waits in a row, each for the only reply in flight, that make a habit.
const LONE_AFTER: u32 = 16;

/// The largest number of replies that is required for a habit, after earlier habits did not hold.
const LONE_AFTER_MAX: u32 = 16 * 1024;

/// The task's memory of how callers wait for replies.
pub(crate) struct Habit {
    /// The number of waits that had been counted at the task's last check.
    waits: u32,
    /// The number of replies in a row that arrived alone and were waited for.
    streak: u32,
    /// The number of replies that make a habit. It grows if a habit ended sooner than it had taken to be noticed.
    enough: u32,
    /// The number of waits that had been counted when the socket was offered to a caller; none once the task reads again.
    left_at: Option<u32>,
    /// True if the habit held at the task's last check.
    settled: bool,
    /// The number of checks in a row at which no caller had waited.
    idle_looks: u32,
}

impl Default for Habit {
    fn default() -> Self {
        Self { waits: 0, streak: 0, enough: LONE_AFTER, left_at: None, settled: false, idle_looks: 0 }
    }
}

impl Habit {
    /// Watches the habit of the callers, before the task hands out replies: is it a single reply that a thread waits for? If
    /// that is a habit, the socket is offered to the next caller that waits.
    fn watch(&mut self, link: &Link, shared: &mut Shared, replies: usize) {
        if let Some(left_at) = self.left_at.take() {
            let has_held = shared.waits.wrapping_sub(left_at) >= self.enough;
            self.enough = if has_held { LONE_AFTER } else { (self.enough * 2).min(LONE_AFTER_MAX) };
        }
        // A SELECT may have been answered ahead of the reply. A caller that begins to wait when its reply has already arrived
        // counts for the next one.
        self.streak = match shared.waits.wrapping_sub(self.waits) {
            1 | 2 if (replies <= 2 && shared.pipe.is_idle()) || shared.shares_memory() => self.streak + 1,
            // A caller with several commands in flight waits only for some of them.
            0 if shared.shares_memory() => self.streak,
            _ => 0,
        };
        self.waits = shared.waits;
        if self.streak >= self.enough {
            self.streak = 0;
            // A caller of a command that waits on the server for long gains nothing.
            if !link.tenure.is_blocking.load(Ordering::Relaxed) && link.caller_reads.has_event() {
                self.left_at = Some(shared.waits);
                shared.is_offered = true;
            }
        }
    }

    /// Takes the socket back for the task if a reply arrives that no caller waits for, or if no caller has waited for long.
    pub(crate) fn review(&mut self, shared: &mut Shared) {
        // A habit that has only just begun is not judged yet.
        let is_idle = self.settled && shared.is_unattended() && shared.waits == self.waits;
        self.idle_looks = if is_idle { self.idle_looks + 1 } else { 0 };
        if self.idle_looks > 0 && (shared.pipe.in_flight() > 0 || self.idle_looks > IDLE_LOOKS_MAX) {
            shared.take_back();
        }
        self.settled = shared.is_lone();
        if self.settled {
            self.waits = shared.waits;
        }
    }
}

/// Returns whether one thread may read the replies in flight for itself: no other caller waits for any of them, and it has no
/// requests of others to write.
pub(super) fn is_for_one(shared: &Shared) -> bool {
    let may_be_several = shared.shares_memory() || shared.pipe.in_flight() <= 1;
    may_be_several && shared.pipe.queue.gathered() == 0 && !shared.pipe.is_awaited()
}

/// The largest number of turns in a row in which the runtime reads, and of those that leave bytes, because a reply is large.
/// The connection's task goes on with the rest, so that the tasks of the runtime have their turns.
const RUNTIME_TURNS_MAX: usize = 64;
const RUNTIME_LARGE_MAX: usize = 4;

impl Reads for Link {
    /// Reads the arrived bytes in the runtime, and asks for the report of later ones.
    fn arrived(&self) {
        let Some(held) = self.runtime_reader.held().filter(|_| self.process.is_this()) else { return };
        let mut large = 0;
        for _ in 0..RUNTIME_TURNS_MAX {
            match held.poll_readable() {
                Poll::Pending => return,
                Poll::Ready(Err(_)) => break,
                Poll::Ready(Ok(())) => {}
            }
            let mut outcome = Ok(Rest::None);
            held.watched.read(|| {
                let mut done = Completions::default();
                outcome = read(self, &held.socket, false, By::Runtime, &mut done);
                self.finish(&mut done);
                matches!(outcome, Ok(Rest::None))
            });
            match outcome {
                Ok(Rest::None) => {}
                Ok(Rest::Maybe) => large += 1,
                Err(cause) => return report(self, cause),
            }
            if large == RUNTIME_LARGE_MAX {
                break;
            }
            // Requests that were gathered during the flight may have no task that comes back to write them. If one does, its
            // write has those of the tasks that are woken now too.
            let shared = self.shared.lock();
            if shared.may_write() && !shared.tasks.will_be_written {
                drop(self.write(shared));
            }
        }
        self.end_runtime(&mut self.shared.lock(), false);
    }
}

impl ErrorObserver for Link {
    fn refused(&self, error: &[u8]) {
        // A script may return an error with this code, so the words are compared as well.
        let turns_away = error.windows(READ_ONLY.len()).any(|words| words == READ_ONLY);
        if error.starts_with(b"READONLY ") && turns_away {
            report(self, Cause::Broken("the server takes no writes any more, so another is the primary".to_owned()));
        }
    }
}
