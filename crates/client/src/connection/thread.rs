//! The thread of a connection: connects, reads, and writes what is left for it.
//!
//! It moves bytes and decides nothing about them: frames and their askers are the intake's, order and loss the pipe's. It
//! runs no foreign code but wakers, holds no lock while it sleeps, and ends when its client is gone and every command that
//! was sent is answered. When the connection breaks it waits a little, longer each time, and connects again.

use std::any::Any;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::inline_reader::{Habit, LONE_TICK};
use super::receive::{Cause, read};
use super::shared::Shared;
use super::silence::{Advice, Flight, Vigil};
use super::{Link, no_such_database};
use crate::connect::attempt::Attempt;
use crate::connect::dial::dial;
use crate::connect::handshake::{Refusal, greet};
use crate::connect::socket::{Readiness, Socket};
use crate::error::{Error, ErrorKind};
use crate::pipe::in_flight::Entry;
use crate::pipe::slot::Completions;

/// How long an attempt to connect goes on when the client is gone that has left something to be sent.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

/// Between two looks whether anybody still waits on a connection that is to be closed.
const CLOSING_LOOK: Duration = Duration::from_secs(1);

/// The shortest and the longest sleep while commands wait for a connection.
const TEND_MS: std::ops::RangeInclusive<u32> = 1..=50;

/// How long a connection may be silent on which everybody was told that time is up, though the server is there: somebody in
/// between has lost it.
const EXPIRED_SILENCE_MAX: Duration = Duration::from_secs(30);

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Starts the thread of a link.
pub(crate) fn start(link: Arc<Link>) -> io::Result<()> {
    let live = move || guard(&link, live);
    thread::Builder::new().name("sleeve-io".to_owned()).spawn(live).map(|_| ())
}

/// Should the thread panic, everybody who waits is told so, instead of waiting for ever.
fn guard(link: &Link, live: impl FnOnce(&Link)) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| live(link))) {
        let why = format!("the connection's thread panicked ({})", said(&*payload));
        // What was thrown may throw again when it is dropped.
        std::mem::forget(payload);
        // It is the first to say so, because there is one thread a link.
        let _ = link.collapsed.set(why.clone());
        if let Some(socket) = link.shared.lock().socket() {
            socket.shut();
        }
        let mut intake = link.intake.lock();
        let mut shared = link.shared.lock();
        shared.end();
        let lost = shared.pipe.cut(intake.cut());
        let mut unsynced = link.cut_syncs(&shared, &mut intake.synced, &why);
        shared.disconnected(why.clone());
        link.end_lone(&mut shared);
        drop((shared, intake));
        link.finish(&mut unsynced);
        fail(link, lost, &Error::disconnected(&why));
        end(link);
    }
}

fn said(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("without a word")
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
    let mut closing_since = None;
    let mut tick = || {
        let slice = tend(link);
        let shared = link.shared.lock();
        if shared.is_closing() {
            let since = *closing_since.get_or_insert_with(Instant::now);
            return slice.filter(|_| !shared.pipe.is_idle() && since.elapsed() < FAREWELL_MAX);
        }
        slice
    };
    let mut attempt = Attempt::new(link.config.connect_timeout, &mut tick);
    let socket = Arc::new(dial(&link.config, &link.bell, &mut attempt)?);
    let greeting = greet(&socket, &link.config, &mut attempt)?;
    link.databases.store(greeting.databases, Ordering::Relaxed);
    link.pings.store(greeting.pings, Ordering::Relaxed);
    let mut done = Completions::default();
    let mut shared = link.shared.lock();
    shared.pipe.refuse_databases(greeting.databases, &no_such_database(), &mut done);
    shared.pipe.connect();
    shared.connected(socket.clone());
    shared.first.get_or_insert(Ok(()));
    link.changed.notify_all();
    drop(link.write(shared));
    link.finish(&mut done);
    Ok(socket)
}

/// Without a connection: tells commands that their time is up, and says for how long nobody's will be.
fn tend(link: &Link) -> Option<Duration> {
    let mut done = Completions::default();
    let mut shared = link.shared.lock();
    let mut slice_ms = *TEND_MS.end();
    if let Some(limit_ms) = link.limit_ms() {
        let now_ms = link.now_ms();
        link.expire(&mut shared, limit_ms, now_ms, &mut done);
        link.made_room(&shared);
        let left_ms = shared.pipe.oldest_ms().map(|issued| limit_ms.saturating_sub(now_ms.wrapping_sub(issued)) + 1);
        // What is sent from now on is not over before its own limit.
        slice_ms = left_ms.unwrap_or(limit_ms).max(limit_ms / 16).clamp(*TEND_MS.start(), *TEND_MS.end());
    }
    drop(shared);
    link.finish(&mut done);
    Some(Duration::from_millis(slice_ms.into()))
}

/// Reads and writes until the connection is over.
fn serve(link: &Link, socket: &Socket, done: &mut Completions) -> Cause {
    let (mut habit, mut vigil) = (Habit::default(), Vigil::new(&link.config, &link.vitals));
    loop {
        let sleep = match prepare(link, &mut habit, &mut vigil, done) {
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
        shared.wake_up();
        if ready.writable {
            shared.set_full(false);
        }
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
fn prepare(link: &Link, habit: &mut Habit, vigil: &mut Vigil, done: &mut Completions) -> Result<Sleep, Cause> {
    let sync_left = link.review_syncs(done);
    let mut shared = link.shared.lock();
    let watched = watch(link, &mut shared, vigil)?;
    while shared.may_write() {
        shared = link.write(shared);
    }
    let answered = || link.intake.try_lock().is_none_or(|intake| intake.pending.is_empty());
    if shared.is_closing() && shared.pipe.is_idle() && answered() && link.owes_no_sync() {
        return Err(Cause::Closed);
    }
    habit.review(&mut shared);
    let lone = shared.is_lone() && !shared.is_full() && !shared.is_closing();
    if !lone {
        link.end_lone(&mut shared);
    }
    let mut left_ms = None;
    if let Some(limit_ms) = link.limit_ms() {
        let now_ms = link.now_ms();
        link.expire(&mut shared, limit_ms, now_ms, done);
        link.made_room(&shared);
        // One more, so that the coarse clock has passed the limit when the sleep ends.
        let left = shared.pipe.oldest_ms().map(|issued| limit_ms.saturating_sub(now_ms.wrapping_sub(issued)) + 1);
        left_ms = left.map(|left_ms| Duration::from_millis(left_ms.max(limit_ms / 16).into()));
    }
    let is_watched = left_ms.is_some() || sync_left.is_some() || !shared.pipe.is_idle();
    shared.fall_asleep(!is_watched && !lone && (watched.is_some() || link.limit_ms().is_some()));
    let timeout = left_ms.into_iter().chain(watched).chain(sync_left).min();
    Ok(Sleep { blocked: shared.is_full(), timeout, lone })
}

/// Looks whether the server is still there, and says when to look again.
fn watch(link: &Link, shared: &mut Shared, vigil: &mut Vigil) -> Result<Option<Duration>, Cause> {
    let flight = match shared.pipe.is_idle() {
        true => Flight::Nothing,
        false if link.patient.load(Ordering::Relaxed) => Flight::Waiting,
        false => Flight::Commands,
    };
    // Where a lone caller is taking something in, the server is there.
    let Some(received) = link.intake.try_lock().map(|intake| intake.bytes_total) else { return Ok(Some(LONE_TICK)) };
    let advice = vigil.look(received, flight);
    if flight != Flight::Nothing {
        let silence = vigil.silence();
        let is_abandoned = shared.is_closing() && shared.pipe.is_abandoned();
        if (is_abandoned && silence > FAREWELL_MAX) || (shared.is_closing() && shared.pipe.is_expired()) {
            return Err(Cause::Closed);
        }
        if silence > EXPIRED_SILENCE_MAX && shared.pipe.is_expired() {
            return Err(Cause::Broken("nothing came on it any more".to_owned()));
        }
    }
    match advice {
        // Who is on his way out looks more often whether he may go.
        Advice::Sleep(time) if shared.is_closing() => Ok(Some(time.unwrap_or(CLOSING_LOOK).min(CLOSING_LOOK))),
        Advice::Sleep(time) => Ok(time),
        Advice::GiveUp(why) => Err(Cause::Broken(why)),
        Advice::Ask => {
            if link.pings.load(Ordering::Relaxed) && !shared.is_closing() {
                shared.pipe.push_unasked(PING, link.now_ms());
            }
            Ok(Some(Duration::ZERO))
        }
    }
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
    let why = match cause {
        Cause::Closed => "it was closed",
        Cause::Broken(why) => why,
    };
    let mut unsynced = link.cut_syncs(&shared, &mut intake.synced, why);
    shared.disconnected(format!("the last one was lost: {why}"));
    link.end_lone(&mut shared);
    drop(shared);
    drop(intake);
    link.finish(&mut unsynced);
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
    shared.disconnected(refusal.error.message().to_owned());
    let error = refusal.at(&link.config.endpoint);
    shared.first.get_or_insert(Err(error.clone()));
    link.changed.notify_all();
    drop(shared);
    fail(link, refused, &error);
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
    // A time beyond what the machine can count is never over.
    let until = Instant::now().checked_add(pause(link, failures).mul_f64(share));
    loop {
        if link.shared.lock().is_closing() {
            return false;
        }
        let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return true;
        }
        let Some(slice) = tend(link) else { return false };
        link.bell.hear();
        if link.bell.wait(Some(left.min(slice))).is_err() {
            thread::sleep(slice);
        }
    }
}

/// Nothing will be sent any more: whatever is still gathered is told so.
fn end(link: &Link) {
    let mut shared = link.shared.lock();
    shared.end();
    let never_sent = shared.pipe.clear();
    shared.first.get_or_insert_with(|| Err(Error::unsent(ErrorKind::Closed, link.ended())));
    link.changed.notify_all();
    drop(shared);
    fail(link, never_sent, &Error::closed(&link.ended()));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::Config;
    use crate::config::Endpoint;
    use crate::pipe::queued::Sent;
    use crate::request::Written;
    use crate::request::name::Name;

    fn ping() -> Written<'static> {
        Written { bytes: PING, name: Name::UNKNOWN }
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs an event descriptor")]
    fn a_thread_that_panics_fails_what_waits_and_says_why() {
        let config = Config::new(Endpoint::Unix("/nonexistent".into()));
        let link = Link::new(config, true, Arc::default()).expect("a bell");
        let Ok(Sent::Slot(waiting)) = link.send(0, ping()) else { panic!("it is queued") };
        guard(&link, |_| panic!("on purpose"));
        for error in [
            waiting.take().ok().and_then(|payload| payload.into_error()),
            link.send(0, ping()).err(),
            link.wait_first().err(),
        ] {
            let error = error.expect("it failed");
            assert_eq!(error.kind(), ErrorKind::Closed);
            assert!(error.message().contains("panicked (on purpose)"), "{error}");
        }
        assert_eq!(link.close(Some(Duration::MAX)), Ok(()));
    }
}
