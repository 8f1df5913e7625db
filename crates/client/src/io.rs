//! The thread of a connection: connects, reads, and writes what is left for it.
//!
//! It moves bytes and decides nothing about them: frames and their askers are the intake's, order and loss the pipe's. It
//! runs no foreign code but wakers, holds no lock while it sleeps, and ends when its client is gone and every command that
//! was sent is answered. When the connection breaks it waits a little, longer each time, and connects again.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::entry::Entry;
use crate::error::{Error, ErrorKind};
use crate::handshake::{Refusal, greet};
use crate::link::{Link, no_such_database};
use crate::lone::{Habit, LONE_TICK};
use crate::read::{Cause, read};
use crate::slot::Completions;
use crate::socket::{Readiness, Socket, connect};

/// Starts the thread of a link.
pub(crate) fn start(link: Arc<Link>) -> io::Result<()> {
    thread::Builder::new().name("sleeve-io".to_owned()).spawn(move || live(&link)).map(|_| ())
}

/// The whole life: connection after connection until nobody wants one.
fn live(link: &Link) {
    let mut failures = 0u32;
    loop {
        match establish(link) {
            Ok(socket) => {
                let since = Instant::now();
                let mut done = Completions::default();
                let cause = serve(link, &socket, &mut done);
                link.finish(&mut done);
                disconnect(link, &socket, &cause);
                if matches!(cause, Cause::Closed) {
                    break;
                }
                // A connection that outlived the pause before it is no failure to be counted.
                if since.elapsed() > pause(link, failures) {
                    failures = 0;
                }
            }
            Err(refusal) => refuse(link, refusal),
        }
        failures = failures.saturating_add(1);
        if !link.lasting || !rest(link, failures) {
            break;
        }
    }
    end(link);
}

/// Connects, greets, and lets what is gathered go.
fn establish(link: &Link) -> Result<Arc<Socket>, Refusal> {
    let deadline = Instant::now() + link.config.connect_timeout;
    let socket = Arc::new(connect(&link.config, &link.bell)?);
    let greeting = greet(&socket, &link.config, deadline)?;
    link.databases.store(greeting.databases, Ordering::Relaxed);
    let mut done = Completions::default();
    let mut shared = link.shared.lock();
    shared.pipe.refuse_databases(greeting.databases, &no_such_database(), &mut done);
    shared.pipe.connect();
    shared.socket = Some(socket.clone());
    shared.blocked = false;
    shared.first.get_or_insert(Ok(()));
    link.changed.notify_all();
    drop(link.write(shared));
    link.finish(&mut done);
    Ok(socket)
}

/// Reads and writes until the connection is over.
fn serve(link: &Link, socket: &Socket, done: &mut Completions) -> Cause {
    let mut habit = Habit::default();
    loop {
        let sleep = match prepare(link, &mut habit, done) {
            Ok(sleep) => sleep,
            Err(cause) => return cause,
        };
        link.finish(done);
        if let Err(error) = socket.flush() {
            return error.into();
        }
        let ready = if sleep.lone {
            link.bell.wait(Some(LONE_TICK)).map(|()| Readiness { rung: true, ..Readiness::default() })
        } else {
            socket.wait(Some(&link.bell), sleep.blocked, sleep.timeout)
        };
        let ready = match ready {
            Ok(ready) => ready,
            Err(error) => return error.into(),
        };
        let mut shared = link.shared.lock();
        (shared.asleep, shared.unwatched) = (false, false);
        shared.blocked &= !ready.writable;
        drop(shared);
        if ready.rung {
            link.bell.hear();
        }
        if !ready.readable {
            continue;
        }
        match read(link, socket, done) {
            Ok(replies) => habit.watch(link, replies),
            Err(cause) => return cause,
        }
    }
}

/// How the thread sleeps.
struct Sleep {
    /// The socket takes no more; room in it ends the sleep.
    blocked: bool,
    timeout: Option<Duration>,
    /// A lone caller reads for itself; only the bell and a short time end the sleep.
    lone: bool,
}

/// Writes what is gathered, tells commands that their time is up, and says how to sleep.
fn prepare(link: &Link, habit: &mut Habit, done: &mut Completions) -> Result<Sleep, Cause> {
    let mut shared = link.shared.lock();
    while shared.pipe.can_write() && !shared.blocked {
        shared = link.write(shared);
    }
    let answered = || link.intake.try_lock().is_none_or(|intake| intake.pending.is_empty());
    if shared.closing && shared.pipe.is_idle() && answered() {
        return Err(Cause::Closed);
    }
    habit.review(&mut shared);
    let lone = shared.lone && !shared.blocked && !shared.closing;
    if shared.lone && !lone {
        link.end_lone(&mut shared);
    }
    shared.asleep = true;
    let blocked = shared.blocked;
    let Some(limit_ms) = link.limit_ms() else { return Ok(Sleep { blocked, timeout: None, lone }) };
    let now_ms = link.now_ms();
    shared.pipe.expire(now_ms.wrapping_sub(limit_ms), done);
    // One more, so that the coarse clock has passed the limit when the sleep ends.
    let left_ms = shared.pipe.oldest_ms().map(|issued| limit_ms.saturating_sub(now_ms.wrapping_sub(issued)) + 1);
    shared.unwatched = left_ms.is_none() && !lone;
    let timeout = left_ms.map(|left_ms| Duration::from_millis(left_ms.max(limit_ms / 8).into()));
    Ok(Sleep { blocked, timeout, lone })
}

/// Keeps what never left, and fails what did.
fn disconnect(link: &Link, socket: &Socket, cause: &Cause) {
    socket.shut();
    let mut intake = link.intake.lock();
    let mut shared = link.shared.lock();
    while shared.pipe.is_lent() {
        link.changed.wait_for(&mut shared, Duration::from_millis(1));
    }
    let lost = shared.pipe.cut(intake.cut());
    shared.socket = None;
    shared.blocked = false;
    link.end_lone(&mut shared);
    drop(shared);
    drop(intake);
    let why = match cause {
        Cause::Closed => "it was closed",
        Cause::Broken(why) => why,
    };
    fail(link, lost, &Error::disconnected(why));
}

/// Gives an error to whoever asked for these.
fn fail(link: &Link, entries: Vec<Entry>, error: &Error) {
    let mut done = Completions::default();
    for mut entry in entries {
        entry.asker.fail(error, &mut done);
    }
    link.finish(&mut done);
    link.made_room(&link.shared.lock());
}

/// An attempt to connect has failed.
fn refuse(link: &Link, refusal: Refusal) {
    let mut shared = link.shared.lock();
    let refused = if refusal.permanent || !link.lasting { shared.pipe.clear() } else { Vec::new() };
    shared.first.get_or_insert(Err(refusal.error.clone()));
    link.changed.notify_all();
    drop(shared);
    fail(link, refused, &refusal.error);
}

/// The longest pause after so many failures in a row.
fn pause(link: &Link, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(20);
    link.config.backoff_min.saturating_mul(1 << doublings).min(link.config.backoff_max)
}

/// Sleeps before the next attempt, at random between half the pause and all of it, so that a server that comes back is not
/// met by all its clients at once. False when nobody needs another connection.
fn rest(link: &Link, failures: u32) -> bool {
    // A fresh RandomState is seeded by the system; how seldom this runs makes its cost irrelevant.
    let share = 0.5 + (RandomState::new().hash_one(failures) % 1024) as f64 / 2048.0;
    let until = Instant::now() + pause(link, failures).mul_f64(share);
    loop {
        let mut done = Completions::default();
        let mut shared = link.shared.lock();
        if shared.closing {
            return false;
        }
        if let Some(limit_ms) = link.limit_ms() {
            shared.pipe.expire(link.now_ms().wrapping_sub(limit_ms), &mut done);
            link.made_room(&shared);
        }
        drop(shared);
        link.finish(&mut done);
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        link.bell.hear();
        if link.bell.wait(Some(left.min(Duration::from_millis(50)))).is_err() {
            thread::sleep(left);
        }
    }
}

/// Nothing will be sent any more: whatever is still gathered is told so.
fn end(link: &Link) {
    let mut shared = link.shared.lock();
    shared.ended = true;
    let never_sent = shared.pipe.clear();
    shared.first.get_or_insert_with(|| Err(Error::unsent(ErrorKind::Closed, link.ended())));
    link.changed.notify_all();
    drop(shared);
    fail(link, never_sent, &Error::closed(link.ended()));
}
