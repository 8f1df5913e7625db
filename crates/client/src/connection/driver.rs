//! The calls of waiting callers on their connection: a task or thread that is about to wait writes, and may read.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::durability::tell_safe;
use super::link::Link;
use super::read::{By, LONE_TICK, Rest, end_reading, is_for_one, leave_rest, read, read_left, report};
use super::state::Shared;
use crate::config::ErrorHook;
use crate::connection::connect::socket::Socket;
use crate::error::Error;
use crate::pipe::slot::{Completions, Driver, Flush, Handle, Waiter};
use crate::reactor::REPORTS_ONCE;
use crate::resp::request::level::Level;
use crate::resp::request::name::Name;
use crate::sys::runtime::{self, RuntimeId};
use crate::sys::{answered_to_parent, now};

/// Counts a wait. Returns whether the runtime of the calling task reads; any other reader is ended by a waiter from elsewhere.
#[inline]
fn count_wait(link: &Link, shared: &mut Shared, is_task: bool) -> bool {
    let runtime = if is_task { runtime::current() } else { None };
    let (tasks, pipe) = (&mut shared.tasks, &shared.pipe);
    tasks.count(runtime, || pipe.unanswered());
    let reader = shared.reading_runtime();
    if reader.is_some() && reader != runtime {
        link.end_runtime(shared, false);
    }
    reader.is_some() && reader == runtime
}

/// Lets the runtime of the calling task read from now on, if only its tasks wait.
#[inline]
fn offer_to_runtime(link: &Link, shared: &mut Shared) {
    if let Some(runtime) = shared.tasks.next_reader(|| shared.pipe.unanswered()) {
        leave_to_runtime(link, shared, runtime);
    }
}

#[cold]
fn leave_to_runtime(link: &Link, shared: &mut Shared, runtime: RuntimeId) {
    let is_alone = link.caller_reads.threads.load(Ordering::Relaxed) == 0 && shared.is_read_by_task();
    let is_blocking = link.tenure.is_blocking.load(Ordering::Relaxed);
    if !is_alone || is_blocking || !REPORTS_ONCE || !suits(shared) {
        return;
    }
    let Some(socket) = shared.socket().cloned() else { return };
    if link.runtime_reader.watch(&socket) {
        shared.tasks.begin();
        shared.leave_to_runtime(runtime);
        link.task_waker.wake();
    } else {
        shared.tasks.end(true);
    }
}

/// Returns whether the state of a connection lets a runtime read.
pub(super) fn suits(shared: &Shared) -> bool {
    let is_clear = |socket: &Arc<Socket>| !socket.shares_memory() && !socket.has_residue();
    shared.is_wanted_alone() && !shared.is_full() && shared.socket().is_some_and(is_clear)
}

impl Driver for Link {
    fn flush(&self, waiter: Waiter) -> Flush {
        if !self.process.is_this() {
            return Flush::Lost;
        }
        let mut shared = self.shared.lock();
        shared.is_offered = false;
        self.end_lone(&mut shared);
        let is_read_here = count_wait(self, &mut shared, waiter != Waiter::Other);
        if shared.may_write() {
            if waiter == Waiter::FreshTask && (shared.tasks.in_company || shared.pipe.queue.is_burst()) {
                // Other tasks are about to gather more requests, which one system call can send together. One task polls
                // again to make it; if it does not, the connection's task writes, or the drop of its turn does.
                let will_be_written = std::mem::replace(&mut shared.tasks.will_be_written, true);
                if will_be_written && (is_read_here || shared.looks_soon()) {
                    return Flush::Done;
                }
                return Flush::Yield;
            }
            shared = self.write(shared);
        }
        if !is_read_here {
            offer_to_runtime(self, &mut shared);
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
        count_wait(self, &mut shared, false);
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
            // Another thread reads; it stops when it has its own answer.
            self.end_lone(&mut shared);
        }
        while shared.is_lone() && !handle.is_done() {
            let Some((socket, event)) = shared.socket().cloned().zip(self.caller_reads.event.get()) else { return };
            shared.begin_reading();
            drop(shared);
            // The task may have left the socket to this caller while it hands out the caller's answer. This lock waits until
            // it has, because nothing else reports that.
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
