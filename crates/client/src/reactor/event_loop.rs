//! The reactor's thread: in each round it takes the submissions, gives turns to the tasks that are ready, and sleeps.
//!
//! A turn polls a task once. Within a round no task has two turns, so a task that is always ready holds up no other. A panic
//! ends the task that it came from; a panic of the rounds themselves ends all tasks, and the next submission starts a new
//! thread. The reactor's thread alone.

use std::any::Any;
use std::collections::HashMap;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use super::poller::Events;
use super::state::{Readiness, TaskCells};
use super::timers::Timers;
use super::waker::{NewTask, OnPanic, Reactor, Submissions, Work};
use crate::sys::callback;
use crate::sys::now;

/// The length of a sleep if the system cannot report events: then every task has a turn.
const BLIND_PAUSE: Duration = Duration::from_millis(10);

/// The pause between two attempts to start the callback thread, if the system refused to create it.
const LATE_PAUSE: Duration = Duration::from_millis(50);

/// A task and the events that it waits for.
struct Task {
    work: Work,
    on_panic: OnPanic,
    state: Rc<TaskCells>,
    /// True while the task stands in the queue for a turn.
    is_queued: bool,
    /// The earliest time that is entered in the timers for the task.
    entered: Option<Instant>,
    /// A later time that is entered in the timers as well; it counts once the earlier one has passed.
    later: Option<Instant>,
}

impl Task {
    /// Schedules a turn for the task at this time, unless an earlier one is scheduled.
    fn enter(&mut self, until: Instant, number: u64, timers: &mut Timers) {
        if self.entered.is_none_or(|entered| until < entered) {
            self.later = self.entered.replace(until).or(self.later);
            timers.enter(until, number);
        }
    }
}

/// All tasks.
pub(super) struct EventLoop {
    reactor: &'static Reactor,
    tasks: HashMap<u64, Task>,
    queue: Vec<u64>,
    /// The queue of the present round; its memory is used again in the next round.
    turns: Vec<u64>,
    timers: Timers,
    /// The submissions that are being taken; the buffer is used again.
    submissions: Submissions,
}

/// Runs rounds until no task is left.
pub(super) fn run(reactor: &'static Reactor) {
    let mut event_loop = EventLoop::new(reactor);
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| event_loop.go_on())) {
        event_loop.give_up(&reason(payload));
    }
}

impl EventLoop {
    pub(super) fn new(reactor: &'static Reactor) -> Self {
        let (tasks, queue, turns, timers, submissions) = Default::default();
        Self { reactor, tasks, queue, turns, timers, submissions }
    }

    fn go_on(&mut self) {
        let mut events = Events::new();
        while self.round() {
            let timeout = self.fall_asleep();
            let outcome = self.reactor.poller.wait(&mut events, timeout);
            self.wake_up(outcome, &mut events);
        }
    }

    /// Takes the submissions, and gives turns to the tasks that are ready. Returns false when no task is left.
    pub(super) fn round(&mut self) -> bool {
        if !self.take_submissions() {
            return false;
        }
        mem::swap(&mut self.turns, &mut self.queue);
        let mut turns = mem::take(&mut self.turns);
        turns.drain(..).for_each(|number| self.turn(number));
        self.turns = turns;
        true
    }

    /// Ends the thread after a panic of the rounds themselves. The owners of the present tasks are notified; the next
    /// submission starts a new thread.
    fn give_up(&mut self, why: &str) {
        let mut submissions = self.reactor.submissions.lock();
        submissions.is_read = false;
        submissions.woken.clear();
        let new_tasks = mem::take(&mut submissions.new_tasks);
        drop(submissions);
        for (_, task) in self.tasks.drain() {
            tell(task.on_panic, why);
            _ = drop_caught(task.work);
        }
        for NewTask { begin, on_panic, .. } in self.submissions.new_tasks.drain(..).chain(new_tasks) {
            tell(on_panic, why);
            _ = drop_caught(begin);
        }
    }

    /// Takes the submissions. Returns false when no task is left; the next submission then needs another thread.
    fn take_submissions(&mut self) -> bool {
        let mut submissions = self.reactor.submissions.lock();
        mem::swap(&mut submissions.new_tasks, &mut self.submissions.new_tasks);
        mem::swap(&mut submissions.woken, &mut self.submissions.woken);
        if self.tasks.is_empty() && self.submissions.new_tasks.is_empty() {
            self.submissions.woken.clear();
            submissions.is_read = false;
            return false;
        }
        drop(submissions);
        let Submissions { mut new_tasks, mut woken, .. } = mem::take(&mut self.submissions);
        new_tasks.drain(..).for_each(|new_task| self.admit(new_task));
        woken.drain(..).for_each(|number| self.report(number, Readiness::WOKEN));
        self.submissions = Submissions { new_tasks, woken, is_read: false };
        true
    }

    fn admit(&mut self, new_task: NewTask) {
        let NewTask { number, begin, on_panic } = new_task;
        let state = Rc::<TaskCells>::default();
        match catch_unwind(AssertUnwindSafe(|| begin(Rc::clone(&state)))) {
            Ok(work) => {
                let task = Task { work, on_panic, state, is_queued: true, entered: None, later: None };
                self.tasks.insert(number, task);
                self.queue.push(number);
            }
            Err(payload) => tell(on_panic, &reason(payload)),
        }
    }

    /// Notes an event of a task, and queues the task for a turn.
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
            if let Some(until) = task.state.until.get() {
                task.enter(until, number, &mut self.timers);
            }
            return;
        }
        if let Some(Task { work, on_panic, .. }) = self.tasks.remove(&number) {
            // The remains of a task may panic when they are dropped, and so may the callback that would have told of it.
            let dropped = drop_caught(work);
            match outcome.map_err(reason).and(dropped) {
                Err(why) => tell(on_panic, &why),
                Ok(()) => _ = drop_caught(on_panic),
            }
        }
    }

    /// Announces that the thread sleeps, and returns the longest duration of the sleep: until the next timer is due.
    pub(super) fn fall_asleep(&mut self) -> Option<Duration> {
        self.reactor.sleeps.store(true, Ordering::SeqCst);
        // Without a task the thread has nothing to wait for but its own end.
        let timeout = if self.queue.is_empty() && !self.tasks.is_empty() && !self.has_submissions() {
            self.timers.next().map(|at| at.saturating_duration_since(now()))
        } else {
            Some(Duration::ZERO)
        };
        match callback::catch_up() {
            true => timeout,
            false => Some(timeout.map_or(LATE_PAUSE, |timeout| timeout.min(LATE_PAUSE))),
        }
    }

    /// Gives turns to the tasks with an event, or with a timer that is due.
    pub(super) fn wake_up(&mut self, outcome: io::Result<()>, events: &mut Events) {
        self.reactor.sleeps.store(false, Ordering::SeqCst);
        for (number, ready) in events.drain() {
            self.report(number, ready);
        }
        if outcome.is_err() {
            thread::sleep(BLIND_PAUSE);
            let all = Readiness { readable: true, writable: true, hung_up: true, woken: true };
            for number in self.tasks.keys().copied().collect::<Vec<_>>() {
                self.report(number, all);
            }
        }
        self.call_due();
    }

    /// Returns whether there is a submission from a thread that did not see the announcement of this thread's sleep.
    fn has_submissions(&self) -> bool {
        let submissions = self.reactor.submissions.lock();
        !submissions.woken.is_empty() || !submissions.new_tasks.is_empty()
    }

    /// Gives a turn to each task with a timer that is due, unless the task has moved its timer to a later time.
    fn call_due(&mut self) {
        if self.timers.next().is_none() {
            return;
        }
        let now = now();
        while let Some((at, number)) = self.timers.pop_due(now) {
            let Some(task) = self.tasks.get_mut(&number) else { continue };
            if task.entered != Some(at) {
                continue;
            }
            task.entered = task.later.take();
            let Some(until) = task.state.until.get() else { continue };
            if until > now {
                task.enter(until, number, &mut self.timers);
            } else if !mem::replace(&mut task.is_queued, true) {
                self.queue.push(number);
            }
        }
    }
}

/// Returns the message of a panic.
fn reason(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let why = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("without a word").to_owned();
    // The panic's payload may panic again when it is dropped.
    mem::forget(payload);
    why
}

/// Reports to the owner of a task the reason why the task has ended.
fn tell(on_panic: OnPanic, why: &str) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| on_panic(why))) {
        mem::forget(payload);
    }
}

/// Drops a value, and returns the message of the panic if its drop panicked.
fn drop_caught<T>(thing: T) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| drop(thing))).map_err(reason)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "needs an event descriptor")]
    fn a_task_whose_times_come_and_go_has_few_of_them_entered() {
        let reactor: &'static Reactor = Box::leak(Box::new(Reactor::new().expect("a reactor")));
        let mut event_loop = EventLoop::new(reactor);
        let begin = |state: Rc<TaskCells>| {
            let mut turns = 0;
            Box::pin(std::future::poll_fn(move |_| {
                turns += 1;
                let far = Instant::now() + Duration::from_secs(3600 + turns % 7);
                state.until.set(Some(if turns % 2 == 0 { Instant::now() } else { far }));
                std::task::Poll::Pending
            })) as Work
        };
        event_loop.admit(NewTask { number: 1, begin: Box::new(begin), on_panic: Box::new(|_| {}) });
        for _ in 0..1000 {
            event_loop.turn(1);
            event_loop.call_due();
        }
        assert!(event_loop.timers.len() < 16, "{} times are entered", event_loop.timers.len());
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs an event descriptor")]
    fn when_the_rounds_panic_all_are_told_and_the_next_has_a_thread() {
        let reactor: &'static Reactor = Box::leak(Box::new(Reactor::new().expect("a reactor")));
        let (sender, receiver) = channel();
        let arrive = |number: u32| {
            let sender = sender.clone();
            let on_panic = Box::new(move |why: &str| sender.send((number, why.to_owned())).expect("the test waits"));
            let mut submissions = reactor.submissions.lock();
            let begin = Box::new(|_| Box::pin(std::future::pending()) as Work);
            submissions.new_tasks.push(NewTask { number: number.into(), begin, on_panic });
            submissions.is_read = true;
        };
        let mut event_loop = EventLoop::new(reactor);
        arrive(1);
        assert!(event_loop.take_submissions());
        arrive(2);
        event_loop.give_up("on purpose");
        let told: Vec<_> = receiver.try_iter().collect();
        assert_eq!(told, [(1, "on purpose".to_owned()), (2, "on purpose".to_owned())]);
        assert!(!reactor.submissions.lock().is_read);
    }
}
