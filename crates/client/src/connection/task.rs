//! The life of a connection, as a task of the reactor: connects, reads, and writes the bytes that are left for it.
//!
//! The task moves bytes and decides nothing about them: the reply reader decides on frames and their askers, the pipe on
//! order and loss. It runs no foreign code but wakers, holds no lock while it waits, and ends when its client is gone and
//! every command that was sent is answered. When the connection breaks it waits a little, longer each time, and connects
//! again.

mod renewal;
mod runtime_watch;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::durability;
use super::fail_pending::{cut, end, expire, fail, fail_by_panic};
use super::heartbeat::{Advice, InFlight, SilenceWatch};
use super::link::{Link, no_such_database};
use super::read::{By, Calls, Cause, Habit, LONE_TICK, Rest, read};
use super::refusals::resume_refused;
use super::state::Shared;
use crate::config::event::Event;
use crate::connection::connect::attempt::Attempt;
use crate::connection::connect::refusal::Refusal;
use crate::connection::connect::sentinel::search::reach;
use crate::connection::connect::sentinel::service::Follower;
use crate::connection::connect::socket::Socket;
use crate::pipe::asker::Asker;
use crate::pipe::slot::Completions;
use crate::reactor;
use crate::reactor::state::Readiness;
use crate::reactor::task_context::TaskContext;
use crate::sys::{chance, clock_ms, elapsed, now};
use renewal::Renewal;
use runtime_watch::RuntimeWatch;

/// The time for which an attempt to connect goes on, or refused commands are sent again, after the client is gone and has
/// left requests to be sent.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

/// The pause between two checks whether a caller still waits on a connection that is to be closed.
const CLOSING_LOOK: Duration = Duration::from_secs(1);

/// The time until the next check of a connection on which a caller was just reading.
const BUSY_LOOK: Duration = Duration::from_millis(20);

/// The pause between two checks whether a caller that was writing when the connection broke has given back the bytes.
const LENT_LOOK: Duration = Duration::from_millis(1);

/// The longest silence of a connection on which every call timed out, although the server is alive: a device in between has
/// lost the connection.
const EXPIRED_SILENCE_MAX: Duration = Duration::from_secs(30);

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Starts the task of a link. If it panics, every waiting caller gets an error, instead of waiting for ever.
pub(crate) fn start(link: Arc<Link>) -> io::Result<()> {
    let (task_waker, told) = (link.task_waker, Arc::clone(&link));
    reactor::start(task_waker, async move |context| live(&link, &context).await, move |why| fail_by_panic(&told, why))
}

/// Runs the whole life: connection after connection until no handle needs one.
async fn live(link: &Link, context: &TaskContext) {
    let mut failures = 0u32;
    let follower = link.health.follow(context.task_waker());
    loop {
        match establish(link, context, follower.as_ref()).await {
            Ok((socket, renewal)) => {
                let since = now();
                let mut done = Completions::default();
                let cause = serve(link, &socket, renewal, context, &mut done).await;
                link.finish(&mut done);
                let cause = match follower.as_ref().and_then(Follower::farewell) {
                    Some(why) if !matches!(cause, Cause::Closed) => Cause::Broken(why),
                    _ => cause,
                };
                disconnect(link, &socket, context, &cause).await;
                if matches!(cause, Cause::Closed) {
                    break;
                }
                // A connection that lasted longer than the pause before it is not counted as a failure.
                if elapsed(since) > pause(link, failures) {
                    failures = 0;
                }
            }
            Err(refusal) => refuse(link, refusal),
        }
        failures = failures.saturating_add(1);
        if ends_with_it(link) || !rest(link, context, failures, follower.as_ref()).await {
            break;
        }
        // The service has moved to another server, where no attempt has failed yet.
        if follower.as_ref().is_some_and(Follower::has_moved) {
            failures = 0;
        }
    }
    end(link);
}

/// Returns whether the link ends when this connection is lost; then it is given to no further caller.
fn ends_with_it(link: &Link) -> bool {
    let mut shared = link.shared.lock();
    if !link.is_lasting() {
        shared.end();
    }
    !link.is_lasting()
}

/// Connects, greets, and releases the gathered requests.
async fn establish(
    link: &Link,
    context: &TaskContext,
    follower: Option<&Follower>,
) -> Result<(Arc<Socket>, Renewal), Refusal> {
    let mut tick = || {
        let slice = tend(link);
        let shared = link.shared.lock();
        if let Some(time) = shared.closing_for() {
            let left = FAREWELL_MAX.saturating_sub(time);
            return (!shared.pipe.is_idle() && !left.is_zero()).then(|| slice.min(left));
        }
        Some(slice)
    };
    let mut attempt = Attempt::new(link.config.connect_timeout, &mut tick);
    let (socket, greeting) = reach(follower, &link.config, context, &mut attempt).await?;
    link.server.databases.store(greeting.databases, Ordering::Relaxed);
    link.server.pings.store(greeting.pings, Ordering::Relaxed);
    link.server.speaks_resp3.store(greeting.speaks_resp3, Ordering::Relaxed);
    let mut done = Completions::default();
    let mut shared = link.shared.lock();
    shared.wake_up();
    shared.pipe.queue.refuse_databases(greeting.databases, &no_such_database(), &mut done);
    shared.pipe.connect();
    shared.connected(socket.clone());
    link.ask_to_track(&mut shared);
    shared.first.get_or_insert(Ok(()));
    link.announce(&mut shared);
    drop(link.write(shared));
    link.tell(|endpoint| Event::Connected { endpoint });
    link.finish(&mut done);
    Ok((socket, Renewal::after(greeting.renews_after)))
}

/// Works on the queue while there is no connection: fails the commands that timed out, and returns the time until the next
/// timeout. A caller that sends the first command in that time wakes the task.
fn tend(link: &Link) -> Duration {
    let mut done = Completions::default();
    let mut shared = link.shared.lock();
    let left = expire(link, &mut shared, &mut done);
    shared.fall_asleep(left.is_none() && link.limit_ms().is_some());
    drop(shared);
    link.finish(&mut done);
    left.unwrap_or(Duration::MAX)
}

/// Reads and writes until the connection ends.
async fn serve(
    link: &Link,
    socket: &Socket,
    mut renewal: Renewal,
    context: &TaskContext,
    done: &mut Completions,
) -> Cause {
    let watch = match context.watch(socket) {
        Ok(watch) => watch,
        Err(error) => return error.into(),
    };
    let (mut habit, mut silence_watch) =
        (Habit::default(), SilenceWatch::new(&link.config, &link.health, &link.server.idle_limit));
    let (mut calls, mut runtime_watch) = (Calls::default(), RuntimeWatch::new());
    // Bytes that were left to callers on the last connection are lost with it.
    link.caller_reads.take_left();
    // `unread`: there may be bytes that are not reported again; `hung_up`: they may be the end of the stream.
    let (mut unread, mut hung_up) = (false, false);
    loop {
        let renewal_left = renewal.proceed(link, context.task_waker());
        let leaves_to_tasks = calls.until().is_some();
        let watches = (&mut habit, &mut silence_watch, &mut runtime_watch);
        let sleep = match prepare(link, watches, leaves_to_tasks, done) {
            Ok(sleep) => sleep,
            Err(cause) => return cause,
        };
        link.finish(done);
        unread |= sleep.unread;
        let armed = socket.flush().and_then(|()| match sleep.lone || sleep.by_runtime {
            true => watch.disarm(),
            false => watch.arm(sleep.blocked || socket.has_residue()),
        });
        if let Err(error) = armed {
            return error.into();
        }
        let ready = if unread && !sleep.lone {
            context.yield_now().await;
            Readiness { readable: true, ..Readiness::default() }
        } else {
            let timeout = sleep.timeout.into_iter().chain(renewal_left).min();
            let until = timeout.and_then(|timeout| now().checked_add(timeout));
            context.wait(until.into_iter().chain(calls.until()).min()).await
        };
        let mut shared = link.shared.lock();
        shared.wake_up();
        if let Some(why) = shared.fault.take() {
            return Cause::Broken(why);
        }
        // Bytes that a lone caller may not have read are still in the socket.
        unread &= sleep.lone;
        unread |= std::mem::take(&mut shared.is_unread);
        let is_lone = shared.is_lone();
        drop(shared);
        hung_up |= ready.hung_up;
        unread |= calls.take_back(link) || hung_up;
        // A timeout may be due, of a call whose answer has arrived and which the runtime did not read.
        unread |= runtime_watch.is_due() || (sleep.by_runtime && !ready.is_any());
        if is_lone || (!unread && (!ready.readable || calls.leave_to_task(link))) {
            continue;
        }
        match read_beside_runtime(link, socket, hung_up, (&mut habit, &mut runtime_watch), done) {
            Ok(rest) => unread = rest == Rest::Maybe,
            Err(cause) => {
                note_idle_end(link, &silence_watch);
                return cause;
            }
        }
    }
}

/// Reads the bytes that have arrived. If a runtime is to read them, has not read for a while, and there are some, it has lost
/// the socket: no caller waits for a runtime that does not run.
fn read_beside_runtime(
    link: &Link,
    socket: &Socket,
    hung_up: bool,
    (habit, runtime_watch): (&mut Habit, &mut RuntimeWatch),
    done: &mut Completions,
) -> Result<Rest, Cause> {
    let received = || link.reply_reader.lock().bytes_total;
    let suspect = runtime_watch.is_due().then(&received).filter(|before| runtime_watch.check(*before));
    let outcome = read(link, socket, hung_up, By::Task(habit), done);
    if suspect.is_some_and(|before| received() != before) {
        link.end_runtime(&mut link.shared.lock(), true);
    }
    outcome
}

/// Teaches the time after which the server closes idle connections, if it has closed this one while nothing was in flight.
fn note_idle_end(link: &Link, silence_watch: &SilenceWatch) {
    let is_idle = {
        let shared = link.shared.lock();
        shared.pipe.is_idle() && !shared.is_closing()
    };
    if let Some(reply_reader) = link.reply_reader.try_lock().filter(|_| is_idle) {
        silence_watch.learn(reply_reader.bytes_total);
    }
}

/// The conditions that end the task's wait.
struct Wait {
    /// True if the socket takes no more bytes; room in it ends the wait.
    blocked: bool,
    timeout: Option<Duration>,
    /// True if a lone caller has left bytes unread, or may have.
    unread: bool,
    /// True if a lone caller reads its replies itself; only its waker and a short time end the wait.
    lone: bool,
    /// True if a runtime reads; the task checks now and then whether it does.
    by_runtime: bool,
}

/// Writes the gathered requests, fails the commands that timed out, and returns the conditions of the next wait.
fn prepare(
    link: &Link,
    (habit, silence_watch, runtime_watch): (&mut Habit, &mut SilenceWatch, &mut RuntimeWatch),
    leaves_to_tasks: bool,
    done: &mut Completions,
) -> Result<Wait, Cause> {
    let sync_left = durability::review(link, done);
    let mut shared = link.shared.lock();
    let watched = watch(link, &mut shared, silence_watch)?;
    // The socket may have got room before the writer that found it full noted that; then the room is not reported again.
    if shared.is_full() && shared.socket().is_some_and(|socket| socket.has_room()) {
        shared.set_full(false);
    }
    let pause_left = if shared.pipe.refusals.is_pausing() { resume_refused(&mut shared) } else { None };
    if shared.may_write() && !leaves_to_tasks {
        shared = link.write(shared);
    }
    if shared.is_closing() && shared.pipe.is_idle() && durability::owes_no_sync(link) {
        return Err(Cause::Closed);
    }
    habit.review(&mut shared);
    let has_residue = || shared.socket().is_some_and(|socket| socket.has_residue());
    let lone = shared.is_lone() && !shared.is_full() && !has_residue() && !shared.is_closing();
    if !lone {
        link.end_lone(&mut shared);
    }
    let (by_runtime, check_left) = runtime_watch.prepare(link, &mut shared);
    let command_left = expire(link, &mut shared, done);
    // A caller that has just got an answer may send again at once, without waking the task.
    let limit = link.limit_ms().map(|limit_ms| Duration::from_millis(limit_ms.into()));
    let nap = silence_watch.nap(limit);
    // If every request in flight has timed out, no timeout is watched.
    let has_waiting = limit.is_none() && !shared.pipe.is_idle();
    let is_watched =
        command_left.is_some() || sync_left.is_some() || nap.is_some() || has_waiting || check_left.is_some();
    if leaves_to_tasks {
        shared.doze();
    } else {
        shared.fall_asleep(!is_watched && !lone && (watched.is_some() || limit.is_some() || by_runtime));
    }
    // A lone caller need not wake the task for a command with an earlier deadline.
    let lone_tick = lone.then(|| limit.map_or(LONE_TICK, |limit| LONE_TICK.min(limit)));
    // The rest of a large write waits only for the turns of the other tasks.
    let rest = (shared.may_write() && !leaves_to_tasks).then_some(Duration::ZERO);
    let timeout = command_left
        .into_iter()
        .chain(watched)
        .chain(sync_left)
        .chain(nap)
        .chain(lone_tick)
        .chain(check_left)
        .chain(rest)
        .chain(pause_left)
        .min();
    Ok(Wait { blocked: shared.is_full(), timeout, unread: std::mem::take(&mut shared.is_unread), lone, by_runtime })
}

/// Checks whether the server is still there, and returns the time until the next check.
fn watch(link: &Link, shared: &mut Shared, silence_watch: &mut SilenceWatch) -> Result<Option<Duration>, Cause> {
    let flight = match shared.pipe.is_idle() {
        true => InFlight::Nothing,
        false if link.tenure.is_blocking.load(Ordering::Relaxed) => InFlight::Waiting,
        false => InFlight::Commands,
    };
    // If a lone caller holds the lock, it is reading bytes of the server, so there is no silence.
    let Some(received) = link.reply_reader.try_lock().map(|reply_reader| reply_reader.bytes_total) else {
        return Ok(Some(BUSY_LOOK));
    };
    let waited = shared.pipe.oldest_ms().map(|issued_ms| clock_ms().wrapping_sub(issued_ms));
    let advice = silence_watch.look(received, flight, waited.map(|ms| Duration::from_millis(ms.into())));
    if flight != InFlight::Nothing {
        let silence = silence_watch.silence();
        let is_abandoned = shared.is_closing() && shared.pipe.is_abandoned();
        if (is_abandoned && silence > FAREWELL_MAX) || (shared.is_closing() && shared.pipe.is_expired()) {
            return Err(Cause::Closed);
        }
        // The server may refuse the requests for ever, and no caller waits for them.
        let is_too_long = shared.closing_for().is_some_and(|time| time > FAREWELL_MAX);
        if is_too_long && shared.pipe.refusals.is_refusing() && shared.pipe.is_forgotten() {
            return Err(Cause::Closed);
        }
        if silence > EXPIRED_SILENCE_MAX && shared.pipe.is_expired() {
            return Err(Cause::Broken("nothing came on it any more".to_owned()));
        }
    }
    match advice {
        // A closing connection checks more often whether it may end.
        Advice::Sleep(time) if shared.is_closing() => Ok(Some(time.unwrap_or(CLOSING_LOOK).min(CLOSING_LOOK))),
        Advice::Sleep(time) => Ok(time),
        Advice::GiveUp(why) => Err(Cause::Broken(why)),
        Advice::Ask => {
            if link.server.pings.load(Ordering::Relaxed) && !shared.is_closing() {
                shared.pipe.push_unasked(Asker::Nobody, PING, clock_ms());
            }
            Ok(Some(Duration::ZERO))
        }
    }
}

/// Keeps the requests that never left, and fails those that did.
async fn disconnect(link: &Link, socket: &Socket, context: &TaskContext, cause: &Cause) {
    socket.shut();
    // The writer finds the socket shut, and gives the bytes back as soon as its thread runs.
    while !cut(link, cause) {
        context.wait(Some(now() + LENT_LOOK)).await;
    }
}

/// Handles the failure of an attempt to connect.
fn refuse(link: &Link, refusal: Refusal) {
    let mut shared = link.shared.lock();
    let refused = if refusal.permanent || !link.is_lasting() { shared.pipe.queue.clear() } else { Vec::new() };
    shared.disconnected(refusal.error.message().to_owned());
    link.server.idle_limit.forget();
    shared.ledger.refused += 1;
    let error = refusal.at(&link.config.endpoint);
    link.tell(|endpoint| Event::Refused { endpoint, error: error.clone() });
    shared.first.get_or_insert(Err(error.clone()));
    link.announce(&mut shared);
    drop(shared);
    fail(link, refused, &error);
}

/// Returns the longest pause after this number of failures in a row.
fn pause(link: &Link, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(20);
    link.config.retry.backoff_min.saturating_mul(1 << doublings).min(link.config.retry.backoff_max)
}

/// Waits before the next attempt, at random between half the pause and all of it, so that the clients of a restarted server
/// do not connect at the same moment. If the service moves to another server, the wait ends. Returns false if no handle needs
/// another connection.
async fn rest(link: &Link, context: &TaskContext, failures: u32, follower: Option<&Follower>) -> bool {
    let share = 0.5 + (chance() % 1024) as f64 / 2048.0;
    // A time beyond the range of the machine's clock never passes.
    let until = now().checked_add(pause(link, failures).mul_f64(share));
    loop {
        if link.shared.lock().is_closing() {
            return false;
        }
        let next = now().checked_add(tend(link));
        let is_over = until.is_some_and(|until| until <= now());
        if is_over || follower.is_some_and(Follower::has_moved) {
            // A pause of zero lets the other tasks have their turns.
            context.yield_now().await;
            return true;
        }
        context.wait(until.into_iter().chain(next).min()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::Config;
    use crate::config::Endpoint;
    use crate::error::ErrorKind;
    use crate::reactor::lifetime::Lifetime;
    use crate::resp::request::EncodedRequest;
    use crate::resp::request::name::Name;

    fn ping() -> EncodedRequest<'static> {
        EncodedRequest { bytes: PING, name: Name::UNKNOWN }
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs an event descriptor")]
    fn a_task_that_panics_fails_waiting_requests_with_the_reason() {
        let config = Config::new(Endpoint::Unix("/nonexistent".into()));
        let link = Link::new(config, true, Arc::default()).expect("a waker");
        let Ok(Some(waiting)) = link.send(0, ping()) else { panic!("it is queued") };
        let (sender, told) = std::sync::mpsc::channel();
        let panicking = Arc::clone(&link);
        let panicked = move |why: &str| {
            fail_by_panic(&panicking, why);
            sender.send(()).expect("the test waits");
        };
        reactor::start(link.task_waker, async move |_| panic!("on purpose"), panicked).expect("a thread");
        told.recv().expect("it is told");
        for error in [
            waiting.take().ok().and_then(|payload| payload.into_error()),
            link.send_when_there_is_room(0, ping(), None).err(),
            link.wait_first().err(),
        ] {
            let error = error.expect("it failed");
            assert_eq!(error.kind(), ErrorKind::Closed);
            assert!(error.message().contains("panicked (on purpose)"), "{error}");
        }
        assert_eq!(link.close(Some(Duration::MAX)), Ok(()));
    }
}
