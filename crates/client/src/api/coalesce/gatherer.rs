//! The gatherer: takes calls in, sends the gathered calls, and hands out their answers.
//!
//! All state lies under one short lock. The work that takes longer (making requests, sending them, splitting replies, waking
//! the waiting callers) is done without it, by one thread at a time, so that the calls leave in the order in which they were
//! taken in. A thread that finds another at work leaves its calls to that thread, which checks again before it ends. The
//! working thread may be a caller with the call that filled the gathering, a thread that reads replies, or the timer.
//!
//! Calls leave in these cases. With a delay: when the first of them has waited for that time. Without a delay: when no
//! gathered call is in flight. In any case: when there are many, or when `flush` is called.

use std::hash::RandomState;
use std::mem;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use sleeve_wire::commands::Command;

use super::call::Call;
use super::flight::{ArrivedReply, Outgoing, PreparedGathering, Receivers, SentGathering};
use super::split::{hand_out, is_refusal};
use super::state::{GathererState, Work};
use super::timer::Timer;
use crate::api::coalesce::options::CoalesceOptions;
use crate::api::origin::Origin;
use crate::config::{ErrorHook, QueueFull};
use crate::error::{Error, ErrorKind};
use crate::pipe::asker::LATE_SHARE;
use crate::pipe::queued::{Queued, Sent, runs_tasks};
use crate::pipe::slot::{Completions, Driver, Flush, Handle, Payload, Source, Waiter};
use crate::reactor::TaskWaker;
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::resp::request::blocking_commands;
use crate::resp::request::level::Level;
use crate::resp::request::name::Name;
use crate::resp::request::{EncodedRequest, Request};
use crate::sys::Process;
use crate::sys::lock::{self, Condvar, Mutex, MutexGuard};
use crate::sys::now;
use crate::transport::reserve::Reserve;

/// The state that all clones of a handle share.
pub(crate) struct Gatherer {
    pub(super) origin: Arc<Origin>,
    options: CoalesceOptions,
    /// The process in which the gatherer was made; only there calls are gathered.
    process: Process,
    /// The hasher that turns keys into numbers.
    hasher: RandomState,
    state: Mutex<GathererState>,
    /// The source of the slots for the answers to merged commands. Only the sending thread takes it.
    landing: Mutex<Source>,
    /// The condition variable that is notified when gathered calls have left or were answered.
    changed: Condvar,
    timer: OnceLock<Timer>,
}

/// Returns the greatest difference between the issue times of calls that become one command: so small a part of a call's
/// timeout that the timeout of the last one serves all.
fn spread_ms(limit: Option<Duration>) -> u32 {
    limit.map_or(u32::MAX, |limit| u32::try_from(limit.as_millis()).unwrap_or(u32::MAX) / LATE_SHARE)
}

impl Gatherer {
    pub(super) fn new(origin: Arc<Origin>, options: CoalesceOptions) -> Arc<Self> {
        // A call that waited to be merged for all of its timeout would have no time left for the answer.
        let delay_max = origin.transport.config().command_timeout.map_or(Duration::MAX, |limit| limit / 2);
        let options = CoalesceOptions { delay: options.delay.min(delay_max), ..options };
        let gatherer = Arc::new_cyclic(|me: &std::sync::Weak<Self>| Self {
            options,
            process: Process::this(),
            hasher: RandomState::new(),
            state: Mutex::new(GathererState::new(Source::new(me.clone()), options.delay.is_zero())),
            landing: Mutex::new(Source::new(origin.transport.driver())),
            changed: Condvar::new(),
            timer: OnceLock::new(),
            origin,
        });
        gatherer.origin.enter(Arc::downgrade(&gatherer) as std::sync::Weak<dyn Reserve>);
        gatherer
    }

    /// Sends the request that `write` writes, merged with others if it can be, and returns its reply.
    #[inline]
    pub(super) fn ask<T: FromReply>(self: &Arc<Self>, database: u32, write: impl FnOnce(&mut Request)) -> Reply<T> {
        let hook = self.origin.transport.error_hook();
        match Request::with(write, |request| self.send(database, request)) {
            Ok(Ok(sent)) => Reply::sent(sent, hook),
            Ok(Err(error)) | Err(error) => Reply::failed(error, hook),
        }
    }

    /// Sends a command that may wait on the server. A command that waits gets a connection of its own, and the gathered calls
    /// are sent ahead of it.
    pub(super) fn ask_waiting<T: FromReply>(
        self: &Arc<Self>,
        database: u32,
        write: impl FnOnce(&mut Request),
    ) -> Reply<T> {
        let mut request = Request::empty();
        write(&mut request);
        if blocking_commands::of(&request).is_none() {
            return self.ask(database, |out| *out = request);
        }
        self.flush();
        self.origin.ask_waiting(database, None, |out| *out = request)
    }

    fn send(self: &Arc<Self>, database: u32, request: EncodedRequest<'_>) -> Result<Sent, Error> {
        let transport = &self.origin.transport;
        // A forked child must not touch its parent's gathered calls; the transport decides whether the child may use it at
        // all.
        if !self.process.is_this() {
            return transport.send(database, request);
        }
        transport.check(database)?;
        let call = Call::mergeable(request, database, &self.hasher);
        let state = self.state.lock();
        if state.is_closed {
            return Err(Error::closed("the client was closed"));
        }
        let call = match call {
            Some(call) => call.unless(|into| state.refused.contains(&into)),
            None if state.is_quiet() => {
                drop(state);
                return transport.send(database, request);
            }
            None => Call::alone(request, database, &self.hasher),
        };
        if call.merged.is_none() && state.gathering.is_clear_of(&call.touch, &state.marks, state.progress) {
            drop(state);
            return transport.send(database, request);
        }
        self.take_in(state, &call)
    }

    fn take_in<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, GathererState>,
        call: &Call<'_>,
    ) -> Result<Sent, Error> {
        let transport = &self.origin.transport;
        let length = call.request.bytes.len();
        let config = transport.config();
        let deadline = || config.command_timeout.and_then(|timeout| now().checked_add(timeout));
        if state.gathering.bytes + length > config.limits.queue_bytes_max && !state.gathering.is_empty() {
            state = self.wait_for_room(state, call.request.name, deadline())?;
            if state.is_closed {
                return Err(Error::closed("the client was closed"));
            }
        }
        let fills = state.gathering.calls + 1 >= self.options.calls_max
            || state.gathering.bytes + length >= self.options.bytes_max;
        if fills && config.limits.queue_full == QueueFull::Fail && transport.is_overfull() {
            let message = "too many bytes of requests are unanswered already, so the command was not sent";
            return Err(Error::unsent(ErrorKind::QueueFull, message));
        }
        if state.connection != transport.connection() {
            state.connection = transport.connection();
            let connection = state.connection;
            state.source.renew_for(connection);
            // A new connection may lead to another server, which may not refuse these commands.
            state.refused.clear();
        }
        let is_first = state.gathering.is_empty();
        let (target, handle) = state.source.pair(call.request.name);
        let GathererState { gathering, marks, progress, .. } = &mut *state;
        let now_ms = transport.now_ms();
        if is_first {
            gathering.spread_ms = spread_ms(config.command_timeout);
            gathering.since = (!self.options.delay.is_zero()).then(now);
        }
        gathering.add(call, target, now_ms, marks, progress);
        gathering.is_due |= fills;
        if state.may_leave() {
            self.work(state);
        } else {
            let is_unwatched = is_first && state.looks_at.is_none() && !state.is_untimed;
            drop(state);
            if is_unwatched {
                self.watch();
            }
        }
        if !fills {
            return Ok(Sent::Slot(handle));
        }
        // The rules are those of the transport: above twice the bound no caller goes on, and above the bound a caller that
        // forgets its reply waits.
        transport.as_driver().wait_for_room(deadline(), true);
        Ok(if transport.is_overfull() { Sent::Queued(Queued::new(handle, deadline())) } else { Sent::Slot(handle) })
    }

    /// Sends the gathered calls.
    pub(super) fn flush(self: &Arc<Self>) {
        if !self.process.is_this() {
            return;
        }
        let mut state = self.state.lock();
        state.gathering.is_due |= !state.gathering.is_empty();
        self.work(state);
    }

    /// Sends the calls that have waited for the delay, and returns the time of the next check.
    fn look(self: &Arc<Self>) -> Option<Instant> {
        let mut state = self.state.lock();
        // A time beyond the range of the machine's clock never passes.
        let next = state.gathering.since.and_then(|since| since.checked_add(self.options.delay));
        if next.is_none_or(|next| next > now()) {
            state.looks_at = next;
            return next;
        }
        state.gathering.is_due = true;
        state.gathering.since = None;
        // A gathering that is held back leaves when it may; the one that begins then is checked from now on.
        let again = now().checked_add(self.options.delay);
        state.looks_at = again;
        self.work(state);
        again
    }

    /// Continues without a timer, because it has failed: from now on no call waits for a delay.
    fn go_untimed(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.is_untimed = true;
        state.gathering.is_due |= !state.gathering.is_empty();
        self.work(state);
    }

    fn watch(self: &Arc<Self>) {
        let timer = self.timer.get_or_init(|| {
            let (me, panicked) = (Arc::downgrade(self), Arc::downgrade(self));
            let look = move || me.upgrade().map(|gatherer| gatherer.look());
            let give_up = move || panicked.upgrade().into_iter().for_each(|gatherer| gatherer.go_untimed());
            Timer::start(self.origin.transport.is_local(), look, give_up)
        });
        if !timer.wake() {
            self.go_untimed();
        }
    }

    /// Does all pending work, unless another thread is doing it.
    fn work<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, GathererState>) {
        if mem::replace(&mut state.is_worked, true) {
            return;
        }
        let mut done = Completions::default();
        while let Some(work) = state.next_work() {
            drop(state);
            match work {
                Work::HandOut { answers, answered } => {
                    let mut refused = Vec::new();
                    for answer in answers {
                        self.hand_out(answer, &mut refused, &mut done);
                    }
                    self.origin.transport.finish(&mut done);
                    state = self.state.lock();
                    state.refused.append(&mut refused);
                    state.settle(answered);
                }
                Work::Send { groups, sequence, merged } => {
                    let PreparedGathering { outgoing, awaited, alone, is_merged } =
                        PreparedGathering::of(groups, &mut self.landing.lock());
                    let mut flight = SentGathering { sequence, awaited };
                    self.listen(&mut flight);
                    self.send_outgoing(outgoing, &mut done);
                    state = self.state.lock();
                    state.progress.sent = sequence;
                    if !is_merged {
                        state.progress.merged = merged;
                    }
                    for (group, touch) in alone {
                        touch.keys().for_each(|key| state.marks.forget(key, sequence, group));
                    }
                    state.flights.push_back(flight);
                }
            }
            self.announce(&mut state);
        }
        state.is_worked = false;
        self.announce(&mut state);
    }

    /// Notifies the waiting callers that a gathered call has left or was answered.
    fn announce(&self, state: &mut GathererState) {
        if state.waiting > 0 {
            self.changed.notify_all();
        }
        state.task_wakers.drain(..).for_each(TaskWaker::wake);
    }

    /// Registers this gatherer to be woken when a command of the flight is answered.
    fn listen(self: &Arc<Self>, flight: &mut SentGathering) {
        let waker = Waker::from(Arc::clone(self));
        for awaited in &mut flight.awaited {
            // A command that is answered before this check is found without a wake-up.
            _ = awaited.handle.poll_ready(&mut Context::from_waker(&waker), false);
        }
    }

    fn hand_out(&self, answer: ArrivedReply, refused: &mut Vec<Command>, done: &mut Completions) {
        let ArrivedReply { payload, outcome } = answer;
        match outcome {
            Receivers::Whole(target) => target.complete(payload, done),
            Receivers::Parts(group) => {
                if let Some(rule) = group.rule.filter(|_| is_refusal(&payload)) {
                    refused.push(rule.into);
                }
                if let Some(again) = hand_out(payload, group, done) {
                    self.send_outgoing(Outgoing::one_by_one(again), done);
                }
            }
        }
    }

    fn send_outgoing(&self, outgoing: Outgoing, done: &mut Completions) {
        let Outgoing { bytes, units, .. } = outgoing;
        if let Err((error, units)) = self.origin.transport.send_gathered(units, &bytes) {
            for unit in units {
                unit.target.complete(Payload::Failed(error.clone()), done);
            }
            self.origin.transport.finish(done);
        }
    }

    /// Waits until the calls that are gathered or held back are within the bound on the queue, and returns the lock.
    fn wait_for_room<'a>(
        &'a self,
        mut state: MutexGuard<'a, GathererState>,
        name: Name,
        deadline: Option<Instant>,
    ) -> Result<MutexGuard<'a, GathererState>, Error> {
        let config = self.origin.transport.config();
        if config.limits.queue_full == QueueFull::Fail {
            let message = format!("{} bytes of calls are gathered already", state.gathering.bytes);
            return Err(Error::unsent(ErrorKind::QueueFull, format!("{message}, so the command was not sent")));
        }
        let bytes_max = config.limits.queue_bytes_max.saturating_mul(if runs_tasks() { 2 } else { 1 });
        while state.gathering.bytes > bytes_max {
            if !self.wait_for_change(&mut state, deadline) {
                let message = format!(
                    "{name} found no room among {} gathered bytes, so it was never sent",
                    state.gathering.bytes
                );
                return Err(Error::unsent(ErrorKind::Timeout, message));
            }
        }
        Ok(state)
    }

    /// Waits for a change. Returns false at the deadline.
    fn wait_for_change(&self, state: &mut MutexGuard<'_, GathererState>, deadline: Option<Instant>) -> bool {
        state.waiting += 1;
        let in_time = lock::wait_by(&self.changed, state, deadline);
        state.waiting -= 1;
        in_time
    }
}

/// The wake-up when a command that was sent is answered.
impl Wake for Gatherer {
    fn wake(self: Arc<Self>) {
        self.work(self.state.lock());
    }
}

impl Reserve for Gatherer {
    fn close(self: Arc<Self>) {
        if self.process.is_this() {
            self.state.lock().is_closed = true;
            self.flush();
        }
    }

    fn is_settled(&self, task_waker: TaskWaker) -> bool {
        if !self.process.is_this() {
            return true;
        }
        let mut state = self.state.lock();
        let is_settled = state.is_settled();
        if !is_settled {
            state.task_wakers.push(task_waker);
        }
        is_settled
    }

    fn settle(&self, deadline: Instant) {
        if self.process.is_this() {
            let mut state = self.state.lock();
            while !state.is_settled() && self.wait_for_change(&mut state, Some(deadline)) {}
        }
    }
}

/// The driver of the callers' slots. A caller waits for its answer on the client's transport, and its wait does not send
/// gathered calls.
impl Driver for Gatherer {
    fn flush(&self, waiter: Waiter) -> Flush {
        self.origin.transport.as_driver().flush(waiter)
    }

    fn read(&self) {
        self.origin.transport.as_driver().read();
    }

    fn attend(&self, handle: &Handle, deadline: Option<Instant>) {
        self.origin.transport.as_driver().attend(handle, deadline);
    }

    fn leave(&self) {
        self.origin.transport.as_driver().leave();
    }

    fn wait_for_room(&self, deadline: Option<Instant>, is_task: bool) {
        self.origin.transport.as_driver().wait_for_room(deadline, is_task);
    }

    fn lost(&self) -> Option<Error> {
        self.origin.transport.as_driver().lost()
    }

    fn given_up(&self, name: Name) -> Error {
        self.origin.transport.as_driver().given_up(name)
    }

    fn error_hook(&self) -> Option<ErrorHook> {
        self.origin.transport.as_driver().error_hook()
    }

    fn safe(&self, level: Level, name: Name, sent_on: u32) -> Result<Handle, Error> {
        self.origin.transport.as_driver().safe(level, name, sent_on)
    }
}

impl Drop for Gatherer {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.get() {
            timer.wake();
        }
    }
}
