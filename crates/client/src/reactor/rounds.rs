//! The reactor's thread: round after round it takes its mail, gives turns to those who have something to do, and sleeps.

use std::any::Any;
use std::collections::HashMap;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use super::bell::{Arrival, Collapsed, Mail, Reactor, Work};
use super::poller::Events;
use super::state::{Readiness, State};
use super::timers::Timers;

/// How long is slept where the system does not say what has happened: then everybody looks.
const BLIND_PAUSE: Duration = Duration::from_millis(10);

/// A task and what it waits for.
struct Task {
    work: Work,
    collapsed: Collapsed,
    state: Rc<State>,
    /// It stands in the queue for a turn.
    is_queued: bool,
    /// The earliest time that it has entered.
    entered: Option<Instant>,
}

/// All tasks.
struct Rounds {
    reactor: &'static Reactor,
    tasks: HashMap<u64, Task>,
    queue: Vec<u64>,
    timers: Timers,
    /// Mail that is being read; its room is used again.
    mail: Mail,
}

/// Goes on until no task is left.
pub(super) fn run(reactor: &'static Reactor) {
    let (tasks, queue, timers, mail) = Default::default();
    let mut rounds = Rounds { reactor, tasks, queue, timers, mail };
    let mut events = Events::new();
    while rounds.take_mail() {
        for number in mem::take(&mut rounds.queue) {
            rounds.turn(number);
        }
        rounds.sleep(&mut events);
    }
}

impl Rounds {
    /// Reads the mail. False when there is nothing to be done any more, and whoever comes next needs another thread.
    fn take_mail(&mut self) -> bool {
        let mut mail = self.reactor.mail.lock();
        mem::swap(&mut mail.arrivals, &mut self.mail.arrivals);
        mem::swap(&mut mail.rung, &mut self.mail.rung);
        if self.tasks.is_empty() && self.mail.arrivals.is_empty() {
            self.mail.rung.clear();
            mail.is_read = false;
            return false;
        }
        drop(mail);
        for arrival in mem::take(&mut self.mail.arrivals) {
            self.admit(arrival);
        }
        for number in mem::take(&mut self.mail.rung) {
            self.report(number, Readiness::RUNG);
        }
        true
    }

    fn admit(&mut self, arrival: Arrival) {
        let Arrival { number, begin, collapsed } = arrival;
        let state = Rc::<State>::default();
        match catch_unwind(AssertUnwindSafe(|| begin(Rc::clone(&state)))) {
            Ok(work) => {
                let task = Task { work, collapsed, state, is_queued: true, entered: None };
                self.tasks.insert(number, task);
                self.queue.push(number);
            }
            Err(payload) => collapse(payload, collapsed),
        }
    }

    /// Something has happened to a task.
    fn report(&mut self, number: u64, ready: Readiness) {
        if let Some(task) = self.tasks.get_mut(&number) {
            task.state.ready.set(task.state.ready.get().with(ready));
            if !mem::replace(&mut task.is_queued, true) {
                self.queue.push(number);
            }
        }
    }

    fn turn(&mut self, number: u64) {
        let Some(task) = self.tasks.get_mut(&number) else { return };
        task.is_queued = false;
        let mut context = Context::from_waker(Waker::noop());
        let outcome = catch_unwind(AssertUnwindSafe(|| task.work.as_mut().poll(&mut context).is_pending()));
        if matches!(outcome, Ok(true)) {
            if task.state.passes.take() {
                task.is_queued = true;
                self.queue.push(number);
            }
            if let Some(until) = task.state.until.get()
                && task.entered.is_none_or(|entered| until < entered)
            {
                task.entered = Some(until);
                self.timers.enter(until, number);
            }
            return;
        }
        if let Some(Task { work, collapsed, .. }) = self.tasks.remove(&number) {
            // What a task leaves behind may panic when it is dropped.
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(work)));
            if let Err(payload) = outcome.map(drop).and(dropped) {
                collapse(payload, collapsed);
            }
        }
    }

    /// Sleeps until something has happened, or the next time has come.
    fn sleep(&mut self, events: &mut Events) {
        self.reactor.sleeps.store(true, Ordering::SeqCst);
        let timeout = if self.queue.is_empty() && !self.has_mail() {
            self.timers.next().map(|at| at.saturating_duration_since(Instant::now()))
        } else {
            Some(Duration::ZERO)
        };
        let outcome = self.reactor.poller.wait(events, timeout);
        self.reactor.sleeps.store(false, Ordering::SeqCst);
        for (number, ready) in events.drain() {
            self.report(number, ready);
        }
        if outcome.is_err() {
            thread::sleep(BLIND_PAUSE);
            let all = Readiness { readable: true, writable: true, hung_up: true, rung: true };
            for number in self.tasks.keys().copied().collect::<Vec<_>>() {
                self.report(number, all);
            }
        }
        self.call_due();
    }

    /// Whether somebody has written who did not see that this thread was about to sleep.
    fn has_mail(&self) -> bool {
        let mail = self.reactor.mail.lock();
        !mail.rung.is_empty() || !mail.arrivals.is_empty()
    }

    /// Gives a turn to those whose time has come, unless they have moved it on.
    fn call_due(&mut self) {
        if self.timers.next().is_none() {
            return;
        }
        let now = Instant::now();
        while let Some((at, number)) = self.timers.pop_due(now) {
            let Some(task) = self.tasks.get_mut(&number) else { continue };
            if task.entered != Some(at) {
                continue;
            }
            task.entered = None;
            let Some(until) = task.state.until.get() else { continue };
            if until > now {
                task.entered = Some(until);
                self.timers.enter(until, number);
            } else if !mem::replace(&mut task.is_queued, true) {
                self.queue.push(number);
            }
        }
    }
}

/// Tells whoever started a task why it is over.
fn collapse(payload: Box<dyn Any + Send>, collapsed: Collapsed) {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let why = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("without a word").to_owned();
    // What was thrown may throw again when it is dropped.
    mem::forget(payload);
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| collapsed(&why))) {
        mem::forget(payload);
    }
}
