//! Sending: requests with deadlines of their own, long ones, gathered ones, transactions, those of a cluster and of a cache;
//! and the bound on the queue.
//!
//! A caller that sends many bytes waits for room, for no longer than its command may take. A caller that waits for an answer
//! does so after the call, so that no thread that runs async tasks is held up: such a request is queued beyond the bound, up
//! to twice the bound, and a caller that drops the reply waits for room then. Requests that were gathered before they arrive
//! here were admitted then: they neither wait for room nor are refused.
//!
//! A deadline is kept in the pipe as a time on the wrapping clock of milliseconds, no later than any command may take. The
//! task sleeps until the next deadline that it knows, so only a request with an earlier one wakes it. Any thread.

use std::time::{Duration, Instant};

use super::link::Link;
use super::state::Shared;
use crate::config::QueueFull;
use crate::error::{Error, ErrorKind};
use crate::pipe::asker::{Asker, LIMIT_MS_MAX, Time, Unit, issued};
use crate::pipe::cached_read::Read;
use crate::pipe::queue::{LONG_MIN, LongRequest};
use crate::pipe::queued::{Queued, Sent, runs_tasks};
use crate::pipe::routed::Routed;
use crate::pipe::slot::{Completions, Handle};
use crate::pipe::transaction_state::TransactionState;
use crate::resp::request::EncodedRequest;
use crate::resp::request::name::Name;
use crate::sys::lock::{self, MutexGuard};
use crate::sys::planted::{self, Fault};
use crate::sys::{clock_ms, exact_clock_ms, now};

/// The reason why a request was not sent; if it may be sent to another node, with the request itself.
pub(crate) enum Unsent {
    /// The queue has no room for it.
    Full(Routed),
    /// The connection has ended.
    Ended(Routed),
    /// The error for the caller.
    Refused(Error),
}

/// The deadline of a wait for room.
pub(super) struct RoomDeadline {
    pub(super) until: Option<Instant>,
    /// The command timeout; it counts if no earlier deadline was given.
    limit: Option<Duration>,
}

/// Requests of one connection.
impl Link {
    /// Sends a request as `send` does, with a deadline, which also counts while it waits for room, or for a connection.
    pub(crate) fn send_until(
        &self,
        database: u32,
        request: EncodedRequest<'_>,
        deadline: Instant,
    ) -> Result<Option<Handle>, Error> {
        self.check(database)?;
        if deadline <= now() {
            return Err(self.too_late(request.name));
        }
        let due_ms = self.due_ms(deadline);
        if request.bytes.len() >= LONG_MIN {
            return self.send_long(database, request, Some(due_ms));
        }
        let mut shared = self.shared.lock();
        if !self.has_room(&shared, request.bytes.len()) {
            return Ok(None);
        }
        let (handle, is_next) = shared.pipe.push_due(database, request, due_ms);
        self.pushed_due(shared, is_next);
        Ok(Some(handle))
    }

    /// Sends a long request as `send` and `send_until` do. It is copied without the lock, so that no other caller waits
    /// during the copy.
    #[cold]
    pub(super) fn send_long(
        &self,
        database: u32,
        request: EncodedRequest<'_>,
        due_ms: Option<u32>,
    ) -> Result<Option<Handle>, Error> {
        self.check(database)?;
        let long = LongRequest::of(request.bytes);
        let time = due_ms.map_or_else(|| Time::Issued(clock_ms()), Time::Due);
        let mut shared = self.shared.lock();
        if !self.has_room(&shared, request.bytes.len()) {
            return Ok(None);
        }
        let (handle, is_next) = shared.pipe.push_long(database, request.name, long, time);
        self.pushed_due(shared, is_next);
        Ok(Some(handle))
    }

    /// Decides which thread writes, as `pushed` does, for a request with a deadline of its own. If no earlier deadline is
    /// known (`is_next`), the task has to be woken if it sleeps.
    pub(super) fn pushed_due(&self, mut shared: MutexGuard<'_, Shared>, is_next: bool) {
        let wakes = is_next && !shared.is_awake() && !planted::has(Fault::ForgetsDeadline);
        if wakes {
            shared.wake_up();
        }
        self.pushed(shared);
        if wakes {
            self.task_waker.wake();
        }
    }

    /// Returns the time at which a request that is sent now times out, on the wrapping clock: at its deadline, or at the
    /// command timeout if that is earlier.
    pub(crate) fn due_ms(&self, deadline: Instant) -> u32 {
        due_ms(deadline, self.limit_ms())
    }

    /// Sends one request for which the queue had no room at first. It may have a deadline of its own.
    #[cold]
    pub(crate) fn send_when_there_is_room(
        &self,
        database: u32,
        request: EncodedRequest<'_>,
        own: Option<Instant>,
    ) -> Result<Sent, Error> {
        let (room_deadline, long) = (self.room_deadline(own), LongRequest::if_long(request.bytes));
        let (mut shared, fits) =
            self.admit(self.shared.lock(), request.name, request.bytes.len(), &room_deadline, true)?;
        if own.is_some() {
            shared.wake_up();
            self.task_waker.wake();
        }
        let time = own.map_or_else(|| Time::Issued(clock_ms()), |own| Time::Due(self.due_ms(own)));
        let handle = match (long, time) {
            (Some(long), time) => shared.pipe.push_long(database, request.name, long, time).0,
            (None, Time::Issued(now_ms)) => shared.pipe.push(database, request, now_ms),
            (None, Time::Due(due_ms)) => shared.pipe.push_due(database, request, due_ms).0,
        };
        self.pushed(shared);
        self.tracker.observed_one(request);
        Ok(if fits { Sent::Slot(handle) } else { Sent::Queued(Queued::new(handle, room_deadline.until)) })
    }

    /// Sends several requests without another request between them.
    pub(crate) fn send_units(&self, units: Vec<Unit>, bytes: &[u8]) -> Result<(), (Error, Vec<Unit>)> {
        let checked = units.iter().try_for_each(|unit| self.check(unit.database));
        let name = units.first().map_or(Name::UNKNOWN, |unit| unit.target.name());
        match checked.and_then(|()| self.admit_many(name, bytes.len())) {
            Ok(mut shared) => {
                shared.pipe.push_units(units, bytes, clock_ms());
                self.pushed(shared);
                self.tracker.observed(bytes);
                Ok(())
            }
            Err(error) => Err((error, units)),
        }
    }

    /// Sends a transaction.
    pub(crate) fn send_transaction(&self, transaction: TransactionState, database: u32, request: &[u8]) {
        let name = transaction.name().unwrap_or(Name::UNKNOWN);
        match self.check(database).and_then(|()| self.admit_many(name, request.len())) {
            Ok(mut shared) => {
                let execution = self.tracker.execution(&transaction);
                shared.pipe.push_transaction(transaction, database, request, clock_ms());
                self.pushed(shared);
                self.tracker.observed(execution.as_deref().unwrap_or(request));
            }
            Err(error) => self.refuse_transaction(transaction, &error),
        }
    }

    /// Fails the replies of a transaction that is not sent.
    pub(crate) fn refuse_transaction(&self, mut transaction: TransactionState, error: &Error) {
        let mut done = Completions::default();
        transaction.fail(error, &mut done);
        self.finish(&mut done);
    }

    /// Sends several requests without another request between them, each with the time at which it was issued. It never
    /// waits, so that a thread that reads replies may call it.
    pub(crate) fn send_gathered(&self, units: Vec<Unit>, bytes: &[u8]) -> Result<(), (Error, Vec<Unit>)> {
        if let Err(error) = units.iter().try_for_each(|unit| self.check(unit.database)) {
            return Err((error, units));
        }
        let mut shared = self.shared.lock();
        // These requests were admitted before the client was closed.
        if shared.has_ended() {
            drop(shared);
            return Err((Error::closed(&self.ended()), units));
        }
        let is_next = shared.pipe.push_issued(units, bytes, clock_ms(), self.limit_ms());
        self.pushed_due(shared, is_next);
        self.tracker.observed(bytes);
        Ok(())
    }

    /// Sends one request as `send_gathered` does, if it was copied before. It leaves at once if it can. Returns the handle
    /// for its answer.
    pub(crate) fn send_copied(
        &self,
        database: u32,
        name: Name,
        request: LongRequest,
        issued_ms: u32,
    ) -> Result<Handle, Error> {
        self.check(database)?;
        let mut shared = self.shared.lock();
        if shared.has_ended() {
            drop(shared);
            return Err(Error::closed(&self.ended()));
        }
        let time = issued(issued_ms, clock_ms(), self.limit_ms());
        let (handle, is_next) = shared.pipe.push_long(database, name, request, time);
        self.pushed_due(shared, is_next);
        let shared = self.shared.lock();
        if shared.may_write() {
            drop(self.write(shared));
        }
        Ok(handle)
    }

    /// Sends a read for the cache with all of its requests, or gives it back.
    pub(crate) fn send_read(
        &self,
        database: u32,
        name: Name,
        requests: &[u8],
        read: Box<Read>,
    ) -> Result<(), (Error, Box<Read>)> {
        match self.check(database).and_then(|()| self.admit_many(name, requests.len())) {
            Ok(mut shared) => {
                let frames = read.frames();
                shared.pipe.gather(Asker::Read(read), frames, database, requests, Time::Issued(clock_ms()));
                self.pushed(shared);
                Ok(())
            }
            Err(error) => Err((error, read)),
        }
    }
}

/// Requests of a cluster: each keeps its bytes and its caller's end, so that it can be sent to another node.
///
/// Requests that the connection does not take any more, because it is lost and not made again, go back to their sender.
impl Link {
    /// Sends a request of a cluster for the first time, if there is room for it, and makes its handle. It never waits.
    #[inline]
    pub(crate) fn send_routed(&self, mut routed: Routed) -> Result<Handle, Unsent> {
        if let Err(error) = self.check(routed.database) {
            return Err(Unsent::Refused(error));
        }
        let mut shared = self.shared.lock();
        if !self.has_room(&shared, routed.bytes.len()) {
            let is_wanted = shared.is_wanted();
            return Err(if is_wanted { Unsent::Full(routed) } else { Unsent::Ended(routed) });
        }
        let (target, handle) = shared.pipe.pair(routed.name);
        routed.attach(target);
        self.push_routed(shared, [routed]);
        Ok(handle)
    }

    /// Sends a request as `send_routed` does, once there is room. It may have a deadline of its own.
    pub(crate) fn send_routed_when_there_is_room(
        &self,
        mut routed: Routed,
        own: Option<Instant>,
    ) -> Result<Sent, Unsent> {
        let room_deadline = self.room_deadline(own);
        let (mut shared, fits) =
            match self.admit(self.shared.lock(), routed.name, routed.bytes.len(), &room_deadline, true) {
                Ok(admitted) => admitted,
                Err(error) if matches!(error.kind(), ErrorKind::Closed | ErrorKind::Connect) => {
                    return Err(Unsent::Ended(routed));
                }
                Err(error) => return Err(Unsent::Refused(error)),
            };
        let (target, handle) = shared.pipe.pair(routed.name);
        routed.attach(target);
        self.push_routed(shared, [routed]);
        Ok(if fits { Sent::Slot(handle) } else { Sent::Queued(Queued::new(handle, room_deadline.until)) })
    }

    /// Sends requests of which the handles exist already, without another request between them. They neither wait for room
    /// nor are refused. All of them are returned if the connection is lost.
    pub(crate) fn resend_routed(&self, several: Vec<Routed>) -> Result<(), Vec<Routed>> {
        let shared = self.shared.lock();
        if !shared.is_wanted() {
            return Err(several);
        }
        self.push_routed(shared, several);
        Ok(())
    }

    fn push_routed(&self, mut shared: MutexGuard<'_, Shared>, several: impl IntoIterator<Item = Routed>) {
        let mut is_next = false;
        for routed in several {
            is_next |= shared.pipe.push_routed(routed);
        }
        self.pushed_due(shared, is_next);
    }
}

/// The bound on the queue.
impl Link {
    pub(super) fn room_deadline(&self, own: Option<Instant>) -> RoomDeadline {
        let limit = self.config.command_timeout;
        let until = limit.and_then(|limit| now().checked_add(limit));
        match own {
            Some(own) if until.is_none_or(|until| own < until) => RoomDeadline { until: Some(own), limit: None },
            _ => RoomDeadline { until, limit },
        }
    }

    /// Waits for room, and returns the lock, for requests with callers that do not wait for an answer at once.
    pub(super) fn admit_many(&self, name: Name, length: usize) -> Result<MutexGuard<'_, Shared>, Error> {
        let shared = self.shared.lock();
        if self.has_room(&shared, length) {
            return Ok(shared);
        }
        // No caller waits for room later, so the bound holds at once.
        self.admit(shared, name, length, &self.room_deadline(None), false).map(|(shared, _)| shared)
    }

    /// Waits until a request may be queued, and returns the lock, and whether the request fits within the bound. A request
    /// beyond the bound is queued all the same while the queue is below twice the bound; on a thread that runs async tasks
    /// even above that, if the caller waits for room or for its answer later (`waits_later`).
    pub(super) fn admit<'a>(
        &'a self,
        mut shared: MutexGuard<'a, Shared>,
        name: Name,
        length: usize,
        room_deadline: &RoomDeadline,
        waits_later: bool,
    ) -> Result<(MutexGuard<'a, Shared>, bool), Error> {
        loop {
            if !shared.is_wanted() {
                return Err(self.came_too_late());
            }
            // A request that is longer than the bound itself may be queued alone.
            if self.fits(&shared, length) || shared.pipe.queue.held == 0 {
                return Ok((shared, true));
            }
            if self.config.limits.queue_full == QueueFull::Fail {
                let message = format!("requests that are unanswered take {} bytes already", shared.pipe.queue.held);
                return Err(Error::unsent(ErrorKind::QueueFull, format!("{message}, so the command was not sent")));
            }
            if shared.may_write() {
                shared = self.write(shared);
                continue;
            }
            let is_far_too_full = shared.pipe.queue.held > self.config.limits.queue_bytes_max.saturating_mul(2);
            if !is_far_too_full || (waits_later && runs_tasks()) {
                return Ok((shared, false));
            }
            if !self.wait_for_change(&mut shared, room_deadline.until) && !self.fits(&shared, length) {
                let situation = self.situation(shared.trouble(), room_deadline.limit, Some(&shared.ledger));
                return Err(situation.no_room(name, shared.phase()));
            }
        }
    }

    /// Waits until the queue has room, or the link has ended. A thread that runs async tasks waits only while the queue is
    /// above twice the bound.
    pub(crate) fn await_room(&self, deadline: Option<Instant>, is_task: bool) {
        if !self.process.is_this() {
            return;
        }
        let queued_max = self.config.limits.queue_bytes_max.saturating_mul(if is_task { 2 } else { 1 });
        let mut shared = self.shared.lock();
        while shared.pipe.queue.held > queued_max && !shared.has_ended() {
            if shared.may_write() {
                shared = self.write(shared);
            } else if !self.wait_for_change(&mut shared, deadline) {
                return;
            }
        }
    }

    /// Waits for a change of the queue. Returns false at the deadline.
    pub(super) fn wait_for_change(&self, shared: &mut MutexGuard<'_, Shared>, deadline: Option<Instant>) -> bool {
        shared.waiting_for_room += 1;
        let in_time = lock::wait_by(&self.changed, shared, deadline);
        shared.waiting_for_room -= 1;
        in_time
    }

    /// Returns whether the queue is above its bound.
    pub(crate) fn is_overfull(&self) -> bool {
        self.shared.lock().pipe.queue.held > self.config.limits.queue_bytes_max
    }
}

/// Returns a deadline as a time on the wrapping clock: no later than `limit_ms` milliseconds from now.
pub(crate) fn due_ms(deadline: Instant, limit_ms: Option<u32>) -> u32 {
    let left = deadline.saturating_duration_since(now());
    let left_ms = u32::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX);
    exact_clock_ms().wrapping_add(left_ms.min(limit_ms.unwrap_or(LIMIT_MS_MAX)))
}
