//! Whoever waits, reads: a caller that is alone on its connection needs no thread between itself and the socket.
//!
//! When one thread sends a command, waits for it, sends the next, and so on, the reply need not travel over the
//! reactor's thread: that costs two switches a command (measured on loopback: 26 us a round trip with them, 17
//! without). So when the connection's task has seen such a habit for a while it leaves the socket to the caller and
//! waits for its bell. It takes the socket back as soon as two commands are on their way at once, as somebody awaits in
//! a task instead of waiting on a thread, as a reply comes that nobody waits for, or as nothing more is sent: whoever
//! notices rings.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Link;
use super::receive::read;
use super::shared::Shared;
use crate::config::ErrorHook;
use crate::error::Error;
use crate::pipe::slot::{Completions, Driver, Flush, Handle};
use crate::process::fork::answered_to_parent;
use crate::request::name::Name;

/// How long the task leaves the socket alone before it looks whether the habit still holds.
pub(crate) const LONE_TICK: Duration = Duration::from_millis(20);

/// Waits in a row, each for the only reply there was, that make a habit.
const LONE_AFTER: u32 = 16;

/// What the task remembers of how replies are waited for.
#[derive(Default)]
pub(crate) struct Habit {
    /// Waits that had been counted when the task last looked.
    waits: u32,
    /// Replies in a row that came alone and were waited for.
    streak: u32,
    /// Whether the habit held when the task last looked.
    settled: bool,
}

impl Habit {
    /// The task has handed out some replies: were they one, and waited for by a thread?
    pub(crate) fn watch(&mut self, link: &Link, replies: usize) {
        let mut shared = link.shared.lock();
        // A SELECT may have been answered ahead of it.
        let lonely = replies <= 2 && shared.waits == self.waits.wrapping_add(1) && shared.pipe.is_idle();
        self.streak = if lonely { self.streak + 1 } else { 0 };
        self.waits = shared.waits;
        if self.streak >= LONE_AFTER {
            self.streak = 0;
            // Whoever waits on the server for long has nothing to gain.
            if !link.patient.load(Ordering::Relaxed) && link.has_lone_bell() {
                shared.leave_to_caller();
            }
        }
    }

    /// The task takes the socket back unless the habit still holds.
    pub(crate) fn review(&mut self, shared: &mut Shared) {
        // A habit that has only just begun is not judged yet.
        if self.settled && shared.is_unattended() {
            let idle = shared.waits == self.waits;
            if idle || shared.pipe.in_flight() != 0 {
                shared.take_back();
            }
        }
        self.settled = shared.is_lone();
        if self.settled {
            self.waits = shared.waits;
        }
    }
}

impl Driver for Link {
    fn flush(&self, may_yield: bool) -> Flush {
        if !self.process.is_this() {
            return Flush::Lost;
        }
        let mut shared = self.shared.lock();
        self.end_lone(&mut shared);
        if shared.may_write() {
            if may_yield && (shared.in_company || shared.pipe.is_burst()) {
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
        self.read_left();
    }

    fn wait_for_room(&self, deadline: Option<Instant>, is_task: bool) {
        self.await_room(deadline, is_task);
    }

    fn lost(&self) -> Option<Error> {
        (!self.process.is_this()).then(answered_to_parent)
    }

    fn attend(&self, handle: &Handle, deadline: Option<Instant>) {
        self.read_left();
        let mut shared = self.shared.lock();
        shared.waits = shared.waits.wrapping_add(1);
        if shared.may_write() {
            shared = self.write(shared);
        }
        while shared.is_lone() && !handle.is_done() {
            let Some((socket, bell)) = shared.socket().cloned().zip(self.lone_bell.get()) else { return };
            shared.begin_reading();
            drop(shared);
            let left = deadline.map_or(LONE_TICK, |deadline| deadline.saturating_duration_since(Instant::now()));
            let ready = socket.wait(bell, left.min(LONE_TICK));
            let mut done = Completions::default();
            let outcome = match ready {
                Ok(ready) if ready.readable => read(self, &socket, ready.hung_up, &mut done).map(|taken| taken.is_more),
                Ok(ready) if ready.rung => {
                    bell.clear();
                    Ok(false)
                }
                Ok(_) => Ok(false),
                Err(error) => Err(error.into()),
            };
            self.finish(&mut done);
            match outcome {
                Ok(false) => {}
                Ok(true) => self.leave_rest(),
                Err(cause) => self.report(cause),
            }
            shared = self.shared.lock();
            shared.end_reading();
            if left.is_zero() {
                return;
            }
        }
    }

    fn given_up(&self, name: Name) -> Error {
        self.give_up(name)
    }

    fn synced(&self, name: Name, sent_on: u32) -> Result<Handle, Error> {
        self.tell_synced(name, sent_on)
    }

    fn error_hook(&self) -> Option<ErrorHook> {
        self.config.error_hook.clone()
    }
}
