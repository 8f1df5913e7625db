//! The lane: a second connection for large calls, so that small calls never wait behind them.
//!
//! A call takes the lane if its request is large, if earlier replies to calls of its kind were large (`sizes`), or if it has
//! to follow a call that has taken the lane (`order`, by the keys that each touches: `touch`). Every other call goes over the
//! shared connection as it does without lanes. That costs the read of one counter and, for a command that reads, a note of
//! the size of its reply.
//!
//! A call on the lane has two slots. Its caller waits for the first. The second belongs to the connection, and wakes the
//! thread that hands out answers (`work`). One thread at a time does so: the reader of either connection, or a caller. A
//! fence is a PING on the shared connection; when it is answered in any way, all calls that were sent before it are answered.
//! A reply that is lost with its connection is lost for the lane as well: a call is sent once, by the connection's own rules.
//!
//! The connection is opened when it is needed, and closed by a task of the reactor after an idle time. Any thread. The lock
//! of the state is never held while the lock of a connection is taken.

mod life;
pub(crate) mod options;
mod order;
mod sizes;
mod state;
#[cfg(test)]
mod tests;
mod touch;
mod work;

use std::any::Any;
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::config::QueueFull;
use crate::connection::metrics::Metrics;
use crate::error::{Error, ErrorKind};
use crate::lanes::options::LaneOptions;
use crate::pipe::queue::LongRequest;
use crate::pipe::queued::{Queued, Sent, runs_tasks};
use crate::pipe::slot::{Payload, Source};
use crate::reactor::TaskWaker;
use crate::reply::{Guard, Reply};
use crate::resp::decode::FromReply;
use crate::resp::request::name::Name;
use crate::resp::request::words::Words;
use crate::resp::request::{EncodedRequest, Request};
use crate::sys::lock::{self, Condvar, Mutex, MutexGuard};
use crate::sys::now;
use crate::transport::Transport;
use crate::transport::replicas::may_answer;
use crate::transport::reserve::Reserve;
use sizes::{Sizes, pattern};
use state::{Keeper, Pending, State};
use touch::{Touch, touch};

/// The state that all handles with lanes of one client share.
pub(crate) struct Lane {
    /// The transport of all other calls: the shared connection.
    transport: Transport,
    options: LaneOptions,
    /// The hasher that turns keys and patterns into numbers.
    hasher: RandomState,
    sizes: Mutex<Sizes>,
    /// The number of patterns that are remembered.
    patterns: AtomicUsize,
    /// The number of calls that have taken the lane and may still be executed.
    calls: AtomicUsize,
    state: Mutex<State>,
    /// The source of the slots for the replies to fences.
    landing: Mutex<Source>,
    /// The condition variable that is notified when a call was answered or has left.
    changed: Condvar,
}

/// A guard of a reply, which notes the size of the reply for its pattern.
struct Lesson {
    lane: Arc<Lane>,
    pattern: u64,
}

impl Guard for Lesson {
    fn answered(&self, payload: &Payload) {
        self.lane.learn(self.pattern, payload);
    }
}

impl Lane {
    pub(super) fn new(transport: Transport, options: LaneOptions) -> Arc<Self> {
        let landing = Mutex::new(Source::new(transport.driver()));
        let (hasher, sizes, patterns, calls) = Default::default();
        let (state, changed) = (Mutex::default(), Condvar::new());
        Arc::new(Self { transport, options, hasher, sizes, patterns, calls, state, landing, changed })
    }

    pub(super) fn options(&self) -> &LaneOptions {
        &self.options
    }

    /// Sends the request that `write` writes over the lane or the shared connection, and returns its reply.
    pub(crate) fn ask<T: FromReply>(
        self: &Arc<Self>,
        keeper: &Arc<impl Any + Send + Sync>,
        database: u32,
        write: impl FnOnce(&mut Request),
    ) -> Reply<T> {
        // An engine in this process answers within the call.
        if self.transport.is_local() {
            return self.transport.ask(database, write);
        }
        let hook = self.transport.error_hook();
        match Request::with(write, |request| self.send(keeper, database, request)) {
            Ok(Ok((Sent::Slot(handle), Some(lesson)))) => Reply::apart(handle, Box::new(lesson)),
            Ok(Ok((sent, _))) => Reply::sent(sent, hook),
            Ok(Err(error)) | Err(error) => Reply::failed(error, hook),
        }
    }

    fn send(
        self: &Arc<Self>,
        keeper: &Arc<impl Any + Send + Sync>,
        database: u32,
        request: EncodedRequest<'_>,
    ) -> Result<(Sent, Option<Lesson>), Error> {
        // A forked child must not touch its parent's calls.
        self.transport.check(database)?;
        let pattern = self.pattern(database, request);
        let is_large = request.bytes.len() >= self.options.large_min || self.expects_large(pattern);
        // A relaxed load suffices: a caller that has made a call on the lane before this one sees its own count.
        if is_large || self.calls.load(Ordering::Relaxed) > 0 {
            let touch = touch(request, database, &self.hasher);
            if self.state.lock().order.takes_lane(&touch, is_large) {
                return Ok((self.take_in(keeper, database, request, (touch, pattern))?, None));
            }
        }
        let sent = self.transport.send(database, request)?;
        Ok((sent, pattern.map(|pattern| Lesson { lane: Arc::clone(self), pattern })))
    }

    /// Returns the pattern by which the size of the reply is remembered, if it may be large.
    fn pattern(&self, database: u32, request: EncodedRequest<'_>) -> Option<u64> {
        if !may_answer(request.name) {
            return None;
        }
        let place = request.name.row()?.keys.lone.unwrap_or(1);
        let (start, end) = Words::of(request.bytes).nth(place.into())?;
        Some(pattern(&self.hasher, request.name, database, request.bytes.get(start..end)?))
    }

    fn expects_large(&self, pattern: Option<u64>) -> bool {
        let known = pattern.filter(|_| self.patterns.load(Ordering::Relaxed) > 0);
        known.is_some_and(|pattern| self.sizes.lock().expects_large(pattern))
    }

    fn learn(&self, pattern: u64, payload: &Payload) {
        let is_large = payload.heap_bytes() >= self.options.large_min;
        if matches!(payload, Payload::Failed(_)) || (!is_large && self.patterns.load(Ordering::Relaxed) == 0) {
            return;
        }
        let mut sizes = self.sizes.lock();
        sizes.saw(pattern, is_large);
        self.patterns.store(sizes.len(), Ordering::Relaxed);
    }

    /// Puts a call on the lane.
    fn take_in(
        self: &Arc<Self>,
        keeper: &Arc<impl Any + Send + Sync>,
        database: u32,
        request: EncodedRequest<'_>,
        (touch, pattern): (Touch, Option<u64>),
    ) -> Result<Sent, Error> {
        let (name, length) = (request.name, request.bytes.len());
        let (copied, issued_ms) = (LongRequest::of(request.bytes), self.transport.now_ms());
        // This caller's earlier calls are in flight at this point, or answered.
        let is_clear = self.transport.is_idle();
        let config = self.transport.config();
        let deadline = config.command_timeout.and_then(|timeout| now().checked_add(timeout));
        let mut state = self.admit(name, length, deadline)?;
        let wire = self.wire(&mut state)?;
        let (target, handle) = wire.source.pair(name);
        state.bytes += length;
        let fits = state.bytes <= config.limits.queue_bytes_max || state.bytes == length;
        let keeper: Keeper = Arc::clone(keeper) as _;
        let pending = Pending { request: copied, name, database, length, issued_ms, target, pattern, keeper };
        state.order.enter(pending, touch, is_clear);
        self.calls.store(state.order.len(), Ordering::Relaxed);
        self.work(state);
        Ok(if fits { Sent::Slot(handle) } else { Sent::Queued(Queued::new(handle, deadline)) })
    }

    /// Waits until the request may take the lane, by the same rules as for the bound on the queue of a connection
    /// (`connection/send`), and returns the lock of the state.
    fn admit(&self, name: Name, length: usize, deadline: Option<Instant>) -> Result<MutexGuard<'_, State>, Error> {
        let config = self.transport.config();
        let mut state = self.state.lock();
        loop {
            if state.is_closed {
                return Err(Error::closed("the client was closed"));
            }
            if state.bytes == 0 || state.bytes + length <= config.limits.queue_bytes_max {
                return Ok(state);
            }
            let bytes = state.bytes;
            if config.limits.queue_full == QueueFull::Fail {
                let message = format!("{bytes} bytes of large requests are unanswered, so the command was not sent");
                return Err(Error::unsent(ErrorKind::QueueFull, message));
            }
            if bytes <= config.limits.queue_bytes_max.saturating_mul(2) || runs_tasks() {
                return Ok(state);
            }
            if !self.wait_for_change(&mut state, deadline) {
                let message = format!(
                    "{name} was never sent to {}: {bytes} bytes of large requests were unanswered",
                    config.endpoint
                );
                return Err(Error::unsent(ErrorKind::Timeout, message));
            }
        }
    }

    /// Waits until a call was answered or has left. Returns false if the deadline has passed.
    fn wait_for_change(&self, state: &mut MutexGuard<'_, State>, deadline: Option<Instant>) -> bool {
        state.waiting += 1;
        let in_time = lock::wait_by(&self.changed, state, deadline);
        state.waiting -= 1;
        in_time
    }

    /// Returns whether the lane was made in this process, and not in its parent.
    fn is_ours(&self) -> bool {
        self.transport.check_process().is_ok()
    }

    /// Returns the metrics of the lane's connection, if it ever had one.
    pub(super) fn metrics(&self) -> Option<Metrics> {
        if !self.is_ours() {
            return None;
        }
        let state = self.state.lock();
        let link = state.wire.as_ref().map(|wire| &wire.link).or(state.closed.as_ref()).cloned();
        drop(state);
        link.map(|link| Metrics::of(&link))
    }

    /// Returns the lane's connection, if it has one.
    pub(super) fn end_transport(&self) -> Option<Transport> {
        if !self.is_ours() {
            return None;
        }
        let state = self.state.lock();
        state.wire.as_ref().map(|wire| Transport::Remote(Arc::clone(&wire.link)))
    }
}

impl Reserve for Lane {
    fn close(self: Arc<Self>) {
        if self.is_ours() {
            self.state.lock().is_closed = true;
        }
    }

    fn is_settled(&self, task_waker: TaskWaker) -> bool {
        if !self.is_ours() {
            return true;
        }
        let mut state = self.state.lock();
        let is_settled = state.order.has_all_left();
        if !is_settled {
            state.task_wakers.push(task_waker);
        }
        is_settled
    }

    fn settle(&self, deadline: Instant) {
        if self.is_ours() {
            let mut state = self.state.lock();
            while !state.order.has_all_left() && self.wait_for_change(&mut state, Some(deadline)) {}
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(wire) = self.state.get_mut().wire.take() {
            // A close without a wait cannot fail.
            let _ = wire.link.close(None);
        }
    }
}
