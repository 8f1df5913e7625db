//! The bound on the queue: a caller that sends many bytes waits for room, and for no longer than its command may take.
//!
//! A caller that waits for an answer waits in its own way, so that no thread that runs tasks is held up: such a request is
//! queued beyond the bound, up to twice as much, and a caller that drops it waits instead.

use std::time::{Duration, Instant};

use super::{Link, Shared};
use crate::config::QueueFull;
use crate::error::{Error, ErrorKind};
use crate::pipe::in_flight::{Time, Unit};
use crate::pipe::queued::{Queued, Sent, runs_tasks};
use crate::pipe::segment::long::LongRequest;
use crate::pipe::slot::Completions;
use crate::pipe::transaction_state::TransactionState;
use crate::request::EncodedRequest;
use crate::request::name::Name;
use crate::sys::lock::{self, MutexGuard};
use crate::sys::{clock_ms, now};

/// The deadline of a wait for room.
pub(super) struct RoomDeadline {
    pub(super) until: Option<Instant>,
    /// The limit of all commands, where no earlier deadline was said.
    limit: Option<Duration>,
}

impl Link {
    pub(super) fn room_deadline(&self, own: Option<Instant>) -> RoomDeadline {
        let limit = self.config.command_timeout;
        let until = limit.and_then(|limit| now().checked_add(limit));
        match own {
            Some(own) if until.is_none_or(|until| own < until) => RoomDeadline { until: Some(own), limit: None },
            _ => RoomDeadline { until, limit },
        }
    }

    /// Sends one request for which the queue had no room when it was looked at. It may have a deadline of its own.
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
        self.near.observed_one(request);
        Ok(if fits { Sent::Slot(handle) } else { Sent::Queued(Queued::new(handle, room_deadline.until)) })
    }

    /// Sends several requests with nothing in between.
    pub(crate) fn send_units(&self, units: Vec<Unit>, bytes: &[u8]) -> Result<(), (Error, Vec<Unit>)> {
        let checked = units.iter().try_for_each(|unit| self.check(unit.database));
        let name = units.first().map_or(Name::UNKNOWN, |unit| unit.target.name());
        match checked.and_then(|()| self.admit_many(name, bytes.len())) {
            Ok(mut shared) => {
                shared.pipe.push_units(units, bytes, clock_ms());
                self.pushed(shared);
                self.near.observed(bytes);
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
                let execution = self.near.execution(&transaction);
                shared.pipe.push_transaction(transaction, database, request, clock_ms());
                self.pushed(shared);
                self.near.observed(execution.as_deref().unwrap_or(request));
            }
            Err(error) => self.refuse_transaction(transaction, &error),
        }
    }

    /// Tells the receivers of a transaction's answers that it is not sent.
    pub(crate) fn refuse_transaction(&self, mut transaction: TransactionState, error: &Error) {
        let mut done = Completions::default();
        transaction.fail(error, &mut done);
        self.finish(&mut done);
    }

    /// Returns the lock, for requests with callers that do not wait for an answer at once.
    pub(super) fn admit_many(&self, name: Name, length: usize) -> Result<MutexGuard<'_, Shared>, Error> {
        let shared = self.shared.lock();
        if self.has_room(&shared, length) {
            return Ok(shared);
        }
        // No caller waits on their behalf later.
        self.admit(shared, name, length, &self.room_deadline(None), false).map(|(shared, _)| shared)
    }

    /// Returns the lock, once a request may be queued, and whether it fits. A request that does not fit is queued all the
    /// same while the queue is not twice as full as it should be; on a thread that runs tasks even then, if the caller that
    /// waits for its answer `waits_later` in its own way.
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
            // A request that is longer than the whole queue may be may go alone.
            if self.fits(&shared, length) || shared.pipe.queued() == 0 {
                return Ok((shared, true));
            }
            if self.config.queue_full == QueueFull::Fail {
                let message = format!("requests that are unanswered take {} bytes already", shared.pipe.queued());
                return Err(Error::unsent(ErrorKind::QueueFull, format!("{message}, so the command was not sent")));
            }
            if shared.may_write() {
                shared = self.write(shared);
                continue;
            }
            let is_far_too_full = shared.pipe.queued() > self.config.queue_bytes_max.saturating_mul(2);
            if !is_far_too_full || (waits_later && runs_tasks()) {
                return Ok((shared, false));
            }
            if !self.wait_for_change(&mut shared, room_deadline.until) && !self.fits(&shared, length) {
                let situation = self.situation(shared.trouble(), room_deadline.limit, Some(&shared.ledger));
                return Err(situation.no_room(name, shared.phase()));
            }
        }
    }

    /// Waits until the queue has room, or nothing can be sent any more. A task's thread waits only while far too much is
    /// queued.
    pub(crate) fn await_room(&self, deadline: Option<Instant>, is_task: bool) {
        if !self.process.is_this() {
            return;
        }
        let queued_max = self.config.queue_bytes_max.saturating_mul(if is_task { 2 } else { 1 });
        let mut shared = self.shared.lock();
        while shared.pipe.queued() > queued_max && !shared.has_ended() {
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
}
