//! The application's runtimes: tasks that wait for replies and for times, polled one by one in an order that the dice decide.
//!
//! A world has no runtime that the client knows, or one, or two; each of them may read sockets for the client. A runtime may
//! end, and its tasks go on in another. A task that was woken has its turn at once, a little later, or long after, because
//! runtimes have other work to do. All tasks may stand still for a while.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::pipe::testing::Dice;
use crate::sys::clock_us;
use crate::sys::runtime::simulated as runtime;

/// The waker of a task: whether the task was woken, and when.
struct Alarm {
    is_woken: AtomicBool,
    at_us: AtomicU64,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::Relaxed) {
            self.at_us.store(clock_us(), Ordering::Relaxed);
        }
    }
}

struct Task {
    work: Pin<Box<dyn Future<Output = ()>>>,
    alarm: Arc<Alarm>,
    /// The time at which the task has its turn; none if it was not woken.
    turn_us: Option<u64>,
    /// The runtime of the task among those that the client knows.
    runtime: usize,
}

/// The clock and the timers that the runtime offers to its tasks.
#[derive(Default)]
pub(super) struct Timers {
    entries: RefCell<Vec<(u64, Waker)>>,
    /// The time at which the task that has its turn was woken.
    woken_us: Cell<u64>,
}

impl Timers {
    /// Waits until the clock has reached this time.
    pub(super) async fn sleep_until(&self, at_us: u64) {
        poll_fn(|context| {
            if clock_us() >= at_us {
                return Poll::Ready(());
            }
            self.entries.borrow_mut().push((at_us, context.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    /// Returns the time at which the task that has its turn was woken: the end of its wait.
    pub(super) fn woken_us(&self) -> u64 {
        self.woken_us.get()
    }
}

/// The runtime of the application.
pub(super) struct Executor {
    tasks: Vec<Task>,
    pub(super) timers: Rc<Timers>,
    /// The time before which no task has a turn, and no runtime reads.
    stalled_until_us: u64,
    /// The time before which no runtime reads, although tasks have turns: another executor runs them.
    undriven_until_us: u64,
    /// The numbers of the runtimes that the client knows.
    runtimes: Vec<u64>,
    next_runtime: u64,
}

impl Executor {
    pub(super) fn new(runtimes: usize) -> Self {
        let (tasks, timers, stalled_until_us, undriven_until_us) = Default::default();
        let (runtimes_of, next_runtime) = (vec![0; runtimes], 1);
        let mut executor =
            Self { tasks, timers, stalled_until_us, undriven_until_us, runtimes: runtimes_of, next_runtime };
        (0..runtimes).for_each(|place| executor.start_runtime(place));
        executor
    }

    fn start_runtime(&mut self, place: usize) {
        runtime::start(self.next_runtime);
        self.runtimes[place] = self.next_runtime;
        self.next_runtime += 1;
    }

    /// Ends one of the runtimes, chosen by a number; its tasks go on in a fresh one.
    pub(super) fn replace_runtime(&mut self, choice: u64) {
        if !self.runtimes.is_empty() {
            let place = choice as usize / 4 % self.runtimes.len();
            runtime::end(self.runtimes[place]);
            self.start_runtime(place);
        }
    }

    pub(super) fn spawn(&mut self, work: impl Future<Output = ()> + 'static) {
        let alarm = Arc::new(Alarm { is_woken: AtomicBool::new(true), at_us: AtomicU64::new(clock_us()) });
        let runtime = self.tasks.len() % self.runtimes.len().max(1);
        self.tasks.push(Task { work: Box::pin(work), alarm, turn_us: None, runtime });
    }

    /// Makes all tasks stand still until this time.
    pub(super) fn stall(&mut self, until_us: u64) {
        self.stalled_until_us = until_us;
    }

    /// Makes the runtimes read nothing until this time.
    pub(super) fn leave_undriven(&mut self, until_us: u64) {
        self.undriven_until_us = until_us;
    }

    /// Returns whether all tasks have ended.
    pub(super) fn is_over(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Lets a runtime take its events, or gives a turn to one of the tasks that are due. Returns false when nothing is due.
    pub(super) fn step(&mut self, dice: &RefCell<Dice>) -> bool {
        let now_us = clock_us();
        let is_driven = self.stalled_until_us.max(self.undriven_until_us) <= now_us;
        if is_driven && self.runtimes.iter().any(|number| runtime::drive(*number)) {
            return true;
        }
        let due = self.timers.entries.borrow_mut().extract_if(.., |(at_us, _)| *at_us <= now_us).collect::<Vec<_>>();
        due.into_iter().for_each(|(_, waker)| waker.wake());
        let mut ready = Vec::new();
        for (index, task) in self.tasks.iter_mut().enumerate() {
            if !task.alarm.is_woken.load(Ordering::Relaxed) {
                continue;
            }
            let turn_us = *task.turn_us.get_or_insert_with(|| now_us + delay_us(&mut dice.borrow_mut()));
            if turn_us.max(self.stalled_until_us) <= now_us {
                ready.push(index);
            }
        }
        if ready.is_empty() {
            return false;
        }
        let index = ready[dice.borrow_mut().roll(ready.len())];
        let task = &mut self.tasks[index];
        task.turn_us = None;
        task.alarm.is_woken.store(false, Ordering::Relaxed);
        self.timers.woken_us.set(task.alarm.at_us.load(Ordering::Relaxed));
        let waker = Waker::from(Arc::clone(&task.alarm));
        let mut poll = || task.work.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let is_over = match self.runtimes.get(task.runtime) {
            Some(number) => runtime::in_turn(*number, poll),
            None => poll(),
        };
        if is_over {
            drop(self.tasks.swap_remove(index));
        }
        true
    }

    /// Returns the time at which the next task has its turn, if it is known.
    pub(super) fn next_us(&self) -> Option<u64> {
        let turns = self.tasks.iter().filter_map(|task| task.turn_us);
        let turns = turns.map(|turn_us| turn_us.max(self.stalled_until_us));
        let end_of_stall = Some(self.stalled_until_us).filter(|until_us| *until_us > clock_us());
        turns.chain(end_of_stall).chain(self.timers.entries.borrow().iter().map(|(at_us, _)| *at_us)).min()
    }
}

/// Returns a random delay between the wake-up of a task and its turn.
fn delay_us(dice: &mut Dice) -> u64 {
    match dice.roll(20) {
        0 => 150 + dice.roll(200) as u64,
        1 => dice.roll(5_000) as u64,
        2..6 => dice.roll(60) as u64,
        _ => 0,
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.runtimes.drain(..).for_each(runtime::end);
    }
}
