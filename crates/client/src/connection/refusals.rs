//! Commands that the server has refused for the moment: the connection waits, and sends them again.
//!
//! The pipe (`pipe/retry`) decides which commands are sent again, and after which pause; the connection's task ends the
//! pause, whichever reader has read the refusal. A connection that is not made again when it is lost belongs to one caller,
//! which may be within a transaction that it writes by hand: it gets the error at once.
//!
//! A server that has become a replica replies READONLY. If the server always has the same address, that error goes only to
//! the caller. If Sentinels know the primary, the connection ends, and they are asked again. Commands in flight are lost with
//! it, except those that were refused, which go to the new primary.

use std::thread;
use std::time::Duration;

use super::link::Link;
use super::state::Shared;
use crate::config::Resend;
use crate::pipe::reply_reader::ReplyReader;
use crate::sys::exact_clock_ms;
use crate::sys::lock::MutexGuard;

/// The number of times that the reader yields while a writer has the bytes of requests that were refused.
const YIELDS_MAX: u32 = 10_000;

/// Waits for the writer to give back the bytes of requests with replies that have arrived already.
#[cold]
pub(super) fn await_writer(shared: &mut MutexGuard<'_, Shared>, replies: usize) {
    for _ in 0..YIELDS_MAX {
        if shared.pipe.has_bytes_of(replies) {
            return;
        }
        // The writer's socket does not block.
        MutexGuard::unlocked(shared, thread::yield_now);
    }
}

/// Handles refusals among the replies that were just taken in.
#[cold]
pub(super) fn put_off(link: &Link, shared: &mut Shared, reply_reader: &mut ReplyReader) {
    let refusals = reply_reader.take_refusals();
    if refusals.is_empty() {
        return;
    }
    let retries = link.is_lasting() && link.config.retry.resend != Resend::Nothing;
    if shared.pipe.put_off(&mut reply_reader.pending, refusals, exact_clock_ms(), link.limit_ms(), retries) {
        shared.refusal = reply_reader.refusal.take().map(|error| error.message().to_owned());
        link.end_lone(shared);
        shared.wake_up();
        link.task_waker.wake();
    }
}

/// Ends a probe, which was answered: the reader of the answer may be a caller, so the task writes the requests that were
/// held back.
#[cold]
pub(super) fn end_probe(link: &Link, shared: &mut Shared) {
    if !shared.pipe.refusals.is_refusing() {
        shared.refusal = None;
    }
    link.end_lone(shared);
    shared.wake_up();
    link.task_waker.wake();
}

/// Releases the requests that were refused if the pause has ended; otherwise returns the time that is left.
pub(super) fn resume_refused(shared: &mut Shared) -> Option<Duration> {
    let left_ms = shared.pipe.pause_left_ms(exact_clock_ms())?;
    if left_ms > 0 {
        return Some(Duration::from_millis(left_ms.into()));
    }
    shared.pipe.refusals.end_pause();
    None
}
