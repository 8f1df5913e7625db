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
use crate::intake::Intake;
use crate::link::{Link, no_such_database};
use crate::slot::Completions;
use crate::socket::{Socket, connect};

/// Reads in a row before gathered requests are looked after again.
const READS_MAX: usize = 8;

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
                let cause = serve(link, &socket);
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

/// Why a connection is over.
enum Cause {
    /// The client is gone and has its answers.
    Closed,
    Broken(String),
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

/// Connects, greets, and lets what is gathered go.
fn establish(link: &Link) -> Result<Arc<Socket>, Refusal> {
    let deadline = Instant::now() + link.config.connect_timeout;
    let socket = Arc::new(connect(&link.config.endpoint, link.config.connect_timeout)?);
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
fn serve(link: &Link, socket: &Socket) -> Cause {
    let mut done = Completions::default();
    loop {
        let (blocked, timeout) = match prepare(link, &mut done) {
            Ok(sleep) => sleep,
            Err(cause) => return cause,
        };
        link.finish(&mut done);
        let ready = match socket.wait(Some(&link.bell), blocked, timeout) {
            Ok(ready) => ready,
            Err(error) => return error.into(),
        };
        let mut shared = link.shared.lock();
        (shared.asleep, shared.unwatched) = (false, false);
        if ready.writable {
            shared.blocked = false;
        }
        drop(shared);
        if ready.rung {
            link.bell.hear();
        }
        if ready.readable
            && let Err(cause) = read(link, socket, &mut done)
        {
            return cause;
        }
    }
}

/// Writes what is gathered, tells commands that their time is up, and says whether the socket takes no more and how long
/// to sleep.
fn prepare(link: &Link, done: &mut Completions) -> Result<(bool, Option<Duration>), Cause> {
    let mut shared = link.shared.lock();
    while shared.pipe.can_write() && !shared.blocked {
        shared = link.write(shared);
    }
    if shared.closing && shared.pipe.is_idle() && link.intake.try_lock().is_none_or(|intake| intake.pending.is_empty())
    {
        return Err(Cause::Closed);
    }
    shared.asleep = true;
    let blocked = shared.blocked;
    let Some(limit_ms) = link.limit_ms() else { return Ok((blocked, None)) };
    let now_ms = link.now_ms();
    shared.pipe.expire(now_ms.wrapping_sub(limit_ms), done);
    // One more, so that the coarse clock has passed the limit when the sleep ends.
    let left_ms = shared.pipe.oldest_ms().map(|issued| limit_ms.saturating_sub(now_ms.wrapping_sub(issued)) + 1);
    shared.unwatched = left_ms.is_none();
    Ok((blocked, left_ms.map(|left_ms| Duration::from_millis(left_ms.max(limit_ms / 8).into()))))
}

/// Reads what has come and answers who asked.
fn read(link: &Link, socket: &Socket, done: &mut Completions) -> Result<(), Cause> {
    let mut intake = link.intake.lock();
    for _ in 0..READS_MAX {
        let room = intake.room();
        let room_length = room.len();
        let count = match socket.receive(room) {
            Ok(0) => return Err(Cause::Broken("the server closed it".to_owned())),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let broken = |error: Error| Cause::Broken(error.to_string());
        let replies = intake.filled(count).map_err(broken)?;
        if !take(link, &mut intake, replies) {
            return Err(Cause::Broken("the server sent a reply that nobody asked for".to_owned()));
        }
        let resumption = intake.deliver(done).map_err(broken)?;
        if let Some(next) = resumption {
            let mut shared = link.shared.lock();
            shared.pipe.resume(next.asker, next.frames, next.database, next.request, link.now_ms());
            drop(link.write(shared));
        }
        link.finish(done);
        if count < room_length {
            return Ok(());
        }
    }
    Ok(())
}

/// Takes the entries that these replies belong to out of the pipe.
fn take(link: &Link, intake: &mut Intake, replies: usize) -> bool {
    let mut shared = link.shared.lock();
    let enough = shared.pipe.take(replies, &mut intake.pending, &mut intake.expected);
    link.made_room(&shared);
    enough
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
