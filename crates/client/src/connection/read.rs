//! The readers of a socket: the connection's task, a task of the application, or a caller that waits.
//!
//! A task or thread that is awake reads. One reader at a time holds the reply reader's lock, and only while it reads the
//! bytes that are there; wake-ups happen after it is released. There are three:
//!
//! - **The connection's task** reads if no other reader does.
//! - **A task that waits for an answer** reads for all tasks that do. To wake a task from a foreign thread costs more than
//!   the whole command, and to wake each of a hundred that wait costs a hundred times as much; a task that wakes its
//!   neighbours does it cheaply. And a reader that is always awake takes replies in crumbs. So when bytes arrive, and a task
//!   waits for one of the oldest replies, the reactor calls that task alone. Its turn comes after those of the ready tasks;
//!   then it reads the bytes that have arrived together, and answers the others. The requests that they send in their turns
//!   are left lying, and leave in one piece when the first of them has to wait. Nothing depends on it: the reactor looks
//!   again a moment later, and then reads and writes by itself the bytes that were left. If it had to, the runtime is busy
//!   with something else, and is not asked again for a while.
//! - **A thread that is alone on its connection** reads for itself. When it sends a command, waits for it, sends the next,
//!   and so on, the reply need not travel over the reactor's thread: that costs two switches a command (measured on loopback:
//!   26 us a round trip with them, 17 without). So when the connection's task has seen such a habit for a while it leaves the
//!   socket to the caller and waits to be woken. It takes the socket back in any of four cases: two commands are in flight at
//!   once; two threads wait; a task awaits a reply, instead of a thread that waits; or no caller has waited for a while. The
//!   caller that notices wakes it. Through shared memory the thread may have any number of commands in flight: to send costs
//!   no system call, so each leaves at once, and nothing is left to be written by the task.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::durability::tell_safe;
use super::link::Link;
use super::refusals::{await_writer, end_probe, put_off};
use super::state::Shared;
use crate::config::ErrorHook;
use crate::connect::socket::Socket;
use crate::error::Error;
use crate::pipe::reply_reader::{ErrorObserver, ReplyReader, Resumption};
use crate::pipe::slot::{Completions, Driver, Flush, Handle};
use crate::reactor::REPORTS_ONCE;
use crate::request::level::Level;
use crate::request::name::Name;
use crate::sys::fork::answered_to_parent;
use crate::sys::lock::MutexGuard;
use crate::sys::planted::{self, Fault};
use crate::sys::wake::wake_all;
use crate::sys::{clock_us, now};

/// Reads in a row before gathered requests are looked after again.
const READS_MAX: usize = 8;

/// The number of bytes in a row before other connections have their turns: a large reply is taken in pieces, so that it holds
/// up no other connection.
const TURN_BYTES_MAX: usize = 128 * 1024;

/// The text of a replica's error behind its code.
const READ_ONLY: &[u8] = b"write against a read only";

/// The reason why a connection has ended.
pub(crate) enum Cause {
    /// The client is gone and has its answers.
    Closed,
    /// The stream ended, or its bytes cannot be believed.
    Broken(String),
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

/// The rest of a read: whether there may be more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    None,
    Maybe,
}

/// The party that the socket is read for.
pub(crate) enum By<'a> {
    /// The connection's task, which watches the habit of the waiting callers.
    Task(&'a mut Habit),
    /// A task of the application, of those to which it was left.
    Awake,
    /// A thread that is alone on its connection, and looks again before it sleeps.
    Lone,
}

/// Reads the received bytes and answers the askers. A stream that has hung up is read to its end: that is not reported again.
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
        let room = reply_reader.room();
        let room_length = room.len();
        let count = match socket.receive_between(room, looks_again) {
            Ok(0) => return Err(Cause::Broken("the server closed it".to_owned())),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // Behind bells that were rung for nothing the end is still to come.
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

/// Takes the entries that these replies belong to out of the pipe.
fn take(link: &Link, reply_reader: &mut ReplyReader, bytes: usize, replies: usize, habit: Option<&mut Habit>) -> bool {
    let now_us = clock_us();
    let mut shared = link.shared.lock();
    shared.in_company = replies > 1;
    if reply_reader.has_refusals() {
        await_writer(&mut shared, replies);
    }
    let (waiting, was_probing) =
        (shared.pipe.in_flight(), shared.pipe.refusals.is_held() && shared.pipe.refusals.is_probing());
    let enough = shared.pipe.take(replies, &mut reply_reader.pending);
    if planted::has(Fault::SwapsReplies) && reply_reader.pending.len() > 1 {
        reply_reader.pending.swap(0, 1);
    }
    let answered = (&reply_reader.pending, waiting - shared.pipe.in_flight());
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

/// Sends the requests that must be sent because of a reply. They are back in the pipe before the reply reader is released: a
/// thread that cuts the connection finds them in one of the two.
fn resume(link: &Link, reply_reader: MutexGuard<'_, ReplyReader>, next: Resumption) {
    let mut shared = link.shared.lock();
    shared.pipe.resume(next.asker, next.frames, next.database, next.request, next.time);
    drop(reply_reader);
    if !shared.is_full() {
        drop(link.write(shared));
    }
}

/// The time that a called task has to come; so long the gathered requests may be left lying.
const CALL_TIMEOUT: Duration = Duration::from_micros(200);

/// The most times that no task is called after several did not come.
const PAUSE_MAX: u32 = 1024;

/// The connection task's memory of the tasks that it has called.
#[derive(Default)]
pub(crate) struct Calls {
    /// The time until which the last one may come.
    until: Option<Instant>,
    /// The number of calls in a row that no task answered.
    missed: u32,
    /// The number of times that no task is called.
    pause: u32,
}

impl Calls {
    /// Returns the time until which the gathered requests and the received bytes are left to the tasks that are awake.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Decides about received bytes. Returns whether they are left to a task.
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

    /// Returns whether the time of the task that was called has passed, and it did not come.
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
fn read_left(link: &Link) {
    // Bytes on the socket of a parent process are the parent's.
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

/// Leaves the rest of a caller's reading to the task: the task learns in no other way of the bytes that TLS has
/// decrypted.
fn leave_rest(link: &Link) {
    let mut shared = link.shared.lock();
    shared.is_unread = true;
    link.end_lone(&mut shared);
    link.wake(shared);
}

/// Ends a caller's reading. If the caller gives the socket back, the task looks once more.
fn end_reading(link: &Link) -> MutexGuard<'_, Shared> {
    let mut shared = link.shared.lock();
    if !shared.end_reading() {
        shared.is_unread = true;
        shared.wake_up();
        link.task_waker.wake();
    }
    shared
}

/// Reports that a caller that reads has found the connection broken: its task handles the loss.
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

/// The number of times that the task finds that no caller has waited before it assumes that none will.
const IDLE_LOOKS_MAX: u32 = 10;

/// Waits in a row, each for the only reply there was, that make a habit.
const LONE_AFTER: u32 = 16;

/// The most replies that make a habit, if earlier habits did not hold.
const LONE_AFTER_MAX: u32 = 16 * 1024;

/// The task's memory of how callers wait for replies.
pub(crate) struct Habit {
    /// Waits that had been counted when the task last looked.
    waits: u32,
    /// Replies in a row that arrived alone and were waited for.
    streak: u32,
    /// The number of replies that make a habit: more if it did not hold for as long as it took to be seen.
    enough: u32,
    /// Waits that had been counted when the socket was offered to a caller, until the task reads again.
    left_at: Option<u32>,
    /// True if the habit held when the task last looked.
    settled: bool,
    /// The number of times in a row that it has looked and no caller had waited.
    idle_looks: u32,
}

impl Default for Habit {
    fn default() -> Self {
        Self { waits: 0, streak: 0, enough: LONE_AFTER, left_at: None, settled: false, idle_looks: 0 }
    }
}

impl Habit {
    /// Watches the habit of the callers, before the task hands out some replies: are they one reply that a thread waits for?
    /// If that is a habit, the socket is offered to the next caller that waits.
    fn watch(&mut self, link: &Link, shared: &mut Shared, replies: usize) {
        if let Some(left_at) = self.left_at.take() {
            let has_held = shared.waits.wrapping_sub(left_at) >= self.enough;
            self.enough = if has_held { LONE_AFTER } else { (self.enough * 2).min(LONE_AFTER_MAX) };
        }
        // A SELECT may have been answered ahead of it. A caller that begins to wait when its reply is there already counts
        // for the next one.
        self.streak = match shared.waits.wrapping_sub(self.waits) {
            1 | 2 if (replies <= 2 && shared.pipe.is_idle()) || shared.shares_memory() => self.streak + 1,
            // A caller that has several commands in flight waits for some of them only.
            0 if shared.shares_memory() => self.streak,
            _ => 0,
        };
        self.waits = shared.waits;
        if self.streak >= self.enough {
            self.streak = 0;
            // A caller that waits on the server for long has nothing to gain.
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

/// Returns whether one thread may read the replies in flight for itself: no other caller waits for any of them, and it
/// need not write for others.
fn is_for_one(shared: &Shared) -> bool {
    let may_be_several = shared.shares_memory() || shared.pipe.in_flight() <= 1;
    may_be_several && shared.pipe.queue.gathered() == 0 && !shared.pipe.is_awaited()
}

impl ErrorObserver for Link {
    fn refused(&self, error: &[u8]) {
        // A script may begin its own errors as it likes.
        let turns_away = error.windows(READ_ONLY.len()).any(|words| words == READ_ONLY);
        if error.starts_with(b"READONLY ") && turns_away {
            report(self, Cause::Broken("the server takes no writes any more, so another is the primary".to_owned()));
        }
    }
}

impl Driver for Link {
    fn flush(&self, may_yield: bool) -> Flush {
        if !self.process.is_this() {
            return Flush::Lost;
        }
        let mut shared = self.shared.lock();
        shared.is_offered = false;
        self.end_lone(&mut shared);
        if shared.may_write() {
            if may_yield && (shared.in_company || shared.pipe.queue.is_burst()) {
                // Other tasks are about to gather more, and one system call will do for all. One comes again to make it; should
                // it not, the connection's task does.
                if std::mem::replace(&mut shared.will_be_written, true) && shared.looks_soon() {
                    return Flush::Done;
                }
                return Flush::Yield;
            }
            drop(self.write(shared));
        }
        Flush::Done
    }

    fn read(&self) {
        read_left(self);
    }

    fn wait_for_room(&self, deadline: Option<Instant>, is_task: bool) {
        self.await_room(deadline, is_task);
    }

    fn lost(&self) -> Option<Error> {
        (!self.process.is_this()).then(answered_to_parent)
    }

    fn attend(&self, handle: &Handle, deadline: Option<Instant>) {
        read_left(self);
        let mut shared = self.shared.lock();
        shared.waits = shared.waits.wrapping_add(1);
        self.caller_reads.threads.fetch_add(1, Ordering::Relaxed);
        if shared.may_write() {
            shared = self.write(shared);
        }
        if std::mem::take(&mut shared.is_offered)
            && self.caller_reads.threads.load(Ordering::Relaxed) == 1
            && is_for_one(&shared)
            && shared.leave_to_caller()
        {
            self.task_waker.wake();
        }
        if shared.is_lone() && !shared.is_unattended() {
            // Another thread reads, which leaves when it has its own answer.
            self.end_lone(&mut shared);
        }
        while shared.is_lone() && !handle.is_done() {
            let Some((socket, event)) = shared.socket().cloned().zip(self.caller_reads.event.get()) else { return };
            shared.begin_reading();
            drop(shared);
            // The task may have left the socket to this caller while it hands out its answer, of which nothing else tells.
            drop(self.reply_reader.lock());
            if handle.is_done() {
                shared = end_reading(self);
                continue;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(now()));
            let ready = socket.wait(event, left.map_or(LONE_TICK, |left| left.min(LONE_TICK)));
            let mut done = Completions::default();
            let outcome = match ready {
                Ok(ready) if ready.readable => read(self, &socket, ready.hung_up, By::Lone, &mut done),
                Ok(ready) if ready.woken => {
                    event.clear();
                    Ok(Rest::None)
                }
                Ok(_) => Ok(Rest::None),
                Err(error) => Err(error.into()),
            };
            self.finish(&mut done);
            match outcome {
                Ok(Rest::None) => {}
                Ok(Rest::Maybe) => leave_rest(self),
                Err(cause) => report(self, cause),
            }
            shared = end_reading(self);
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
        }
    }

    fn leave(&self) {
        self.caller_reads.threads.fetch_sub(1, Ordering::Relaxed);
    }

    fn given_up(&self, name: Name) -> Error {
        self.give_up(name)
    }

    fn safe(&self, level: Level, name: Name, sent_on: u32) -> Result<Handle, Error> {
        tell_safe(self, level, name, sent_on)
    }

    fn error_hook(&self) -> Option<ErrorHook> {
        self.config.hooks.error.clone()
    }
}
