//! The requests that get no answer, and their errors: they timed out, the connection is lost, or no more requests are sent.
//!
//! Called by the connection's task alone.

use std::time::Duration;

use super::durability;
use super::link::Link;
use super::read::Cause;
use super::state::Shared;
use crate::config::Resend;
use crate::config::event::Event;
use crate::error::{Error, ErrorKind};
use crate::pipe::Pipe;
use crate::pipe::asker::left_ms;
use crate::pipe::ledger::Ledger;
use crate::pipe::queue::Entry;
use crate::pipe::slot::Completions;
use crate::sys::{clock_ms, clock_us, exact_clock_ms};

/// Fails the commands that timed out, and returns the time until the next timeout; none while no command can time out.
pub(super) fn expire(link: &Link, shared: &mut Shared, done: &mut Completions) -> Option<Duration> {
    let (pipe, trouble, ledger) = shared.parts();
    let due_left = pipe.queue.next_due_ms.and_then(|_| expire_due(link, pipe, trouble, ledger, done));
    let limit_left = link.limit_ms().and_then(|limit_ms| expire_old(link, pipe, trouble, ledger, limit_ms, done));
    if done.has_some() && shared.is_lone() {
        // A caller that reads its own replies is woken only by this.
        link.caller_reads.wake();
    }
    link.made_room(shared);
    due_left.into_iter().chain(limit_left).min()
}

/// Fails the commands with deadlines of their own that timed out, as `expire` does.
#[cold]
fn expire_due(
    link: &Link,
    pipe: &mut Pipe,
    trouble: Option<&str>,
    ledger: &Ledger,
    done: &mut Completions,
) -> Option<Duration> {
    let now_ms = exact_clock_ms();
    pipe.expire_due(now_ms, &link.situation(trouble, None, Some(ledger)), done);
    // One millisecond is added, so that the deadline has passed when the wait ends.
    pipe.queue.next_due_ms.map(|due_ms| Duration::from_millis((left_ms(due_ms, now_ms) + 1).into()))
}

/// Fails the commands without deadlines of their own that timed out, as `expire` does.
fn expire_old(
    link: &Link,
    pipe: &mut Pipe,
    trouble: Option<&str>,
    ledger: &Ledger,
    limit_ms: u32,
    done: &mut Completions,
) -> Option<Duration> {
    let now_ms = clock_ms();
    let limit = Duration::from_millis(limit_ms.into());
    pipe.expire(now_ms.wrapping_sub(limit_ms), &link.situation(trouble, Some(limit), Some(ledger)), done);
    pipe.oldest_ms().map(|issued_ms| {
        // One millisecond is added, so that the coarse clock has passed the limit when the wait ends. And the wait has a
        // least length, so that the task does other work than checks.
        let left_ms = limit_ms.saturating_sub(now_ms.wrapping_sub(issued_ms)) + 1;
        Duration::from_millis(left_ms.max(limit_ms / 16).into())
    })
}

/// Handles the requests of a lost connection, each of which is kept or failed, unless a writer still has the bytes. Returns
/// whether it did.
pub(super) fn cut(link: &Link, cause: &Cause) -> bool {
    let why = match cause {
        Cause::Closed => "it was closed",
        Cause::Broken(why) => why,
    };
    let mut reply_reader = link.reply_reader.lock();
    let mut shared = link.shared.lock();
    if shared.pipe.is_lent() {
        return false;
    }
    // If the connection is not made again, no request is sent again.
    let resend = if link.is_lasting() && shared.is_wanted() { link.config.retry.resend } else { Resend::Nothing };
    let taken = reply_reader.cut();
    let blamed = usize::from(shared.pipe.blames_oldest() && taken.is_empty());
    let mut lost = shared.pipe.cut(taken, resend);
    shared.refusal = None;
    let mut unsynced = durability::cut(link, &shared, &mut reply_reader.durability, why);
    shared.disconnected(format!("the last one was lost: {why}"));
    let unanswered = lost.iter().filter(|entry| entry.asker.name().is_some()).count();
    shared.ledger.cut(unanswered, clock_us());
    link.end_lone(&mut shared);
    link.end_runtime(&mut shared, false);
    drop(shared);
    drop(reply_reader);
    if matches!(cause, Cause::Broken(_)) {
        link.tell(|endpoint| Event::Lost { endpoint, why: why.to_owned(), unanswered });
    }
    link.finish(&mut unsynced);
    let others = lost.split_off(blamed.min(lost.len()));
    fail(link, lost, &Error::protocol(why));
    fail(link, others, &Error::disconnected(why));
    true
}

/// Gives an error to the askers of these entries.
pub(super) fn fail(link: &Link, entries: Vec<Entry>, error: &Error) {
    let mut done = Completions::default();
    for mut entry in entries {
        entry.fail(error, &mut done);
    }
    link.finish(&mut done);
    link.made_room(&link.shared.lock());
}

/// Fails the link, because its task has panicked.
pub(super) fn fail_by_panic(link: &Link, why: &str) {
    let why = format!("the connection's task panicked ({why})");
    // A link has one task, so no other value was set before.
    let _ = link.panicked.set(why.clone());
    if let Some(socket) = link.shared.lock().socket() {
        socket.shut();
    }
    let mut reply_reader = link.reply_reader.lock();
    let mut shared = link.shared.lock();
    shared.end();
    let lost = shared.pipe.cut(reply_reader.cut(), Resend::Nothing);
    let mut unsynced = durability::cut(link, &shared, &mut reply_reader.durability, &why);
    shared.disconnected(why.clone());
    link.end_lone(&mut shared);
    drop((shared, reply_reader));
    link.finish(&mut unsynced);
    fail(link, lost, &Error::disconnected(&why));
    end(link);
}

/// Ends the link: every gathered request gets an error, because no more requests are sent.
pub(super) fn end(link: &Link) {
    let mut shared = link.shared.lock();
    shared.end();
    let never_sent = shared.pipe.queue.clear();
    shared.first.get_or_insert_with(|| Err(Error::unsent(ErrorKind::Closed, link.ended())));
    link.announce(&mut shared);
    drop(shared);
    fail(link, never_sent, &link.came_too_late());
}
