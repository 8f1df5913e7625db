//! A discrete-event simulation of workers, each on a processor of its own, that lock shards.
//!
//! A worker always has a batch of requests to do. It works without a lock, looks ahead with each shard of the batch locked
//! once, and then executes request by request: the shards of its keys are locked in order and given back together, but a
//! single shard is kept while the next request wants the same. Whoever finds a shard taken spins in the order of arrival, and
//! sleeps when that takes too long; who then gives it back wakes the first, which has to try again. A shard that another
//! worker had last costs a hand-over. The journal is one more lock, taken with the shards still locked.
//!
//! What it leaves out: memory bandwidth, caches that two workers share, the kernel's own locks, and any unevenness of load.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::figures::{Command, LOOK_AHEAD};
use super::keys::Keys;
use crate::bench::filling::Noise;

/// Simulated time of all workers together, in nanoseconds; before it an eighth of it does not count, until queues have their
/// length.
const LENGTH: u64 = 32_000_000;

/// What is simulated.
#[derive(Debug)]
pub struct Setting<'a> {
    pub workers: usize,
    pub shards: usize,
    pub command: &'a Command,
    pub keys: &'a Keys,
    pub hand_over_ns: u64,
    /// How long a worker spins before it sleeps.
    pub spin_ns: u64,
    /// What it costs to wake one, and after how long it runs.
    pub wake_ns: (u64, u64),
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Commands a second.
    pub rate: f64,
    /// The share of the workers' time in which they wait for a lock.
    pub waiting: f64,
}

/// Runs it.
pub fn simulate(setting: &Setting<'_>) -> Outcome {
    let mut simulation = Simulation::new(setting);
    let length = LENGTH / setting.workers as u64;
    simulation.run_until(length / 8);
    (simulation.done, simulation.waited) = (0, 0);
    simulation.run_until(length / 8 + length);
    Outcome {
        rate: simulation.done as f64 * 1e9 / length as f64,
        waiting: (simulation.waited as f64 / LENGTH as f64).min(1.0),
    }
}

/// What a worker does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Work(u64),
    Take(usize),
    Give(usize),
    /// A command is done.
    Done,
}

/// What happens to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// It goes on.
    Goes,
    /// It has spun for long enough, if it spins since the time that is given.
    SpunSince(u64),
}

#[derive(Debug, Default)]
struct Lock {
    is_taken: bool,
    /// Whose cache it is in.
    last: Option<usize>,
    /// Who spins, and since when.
    spinning: VecDeque<(usize, u64)>,
    sleeping: VecDeque<(usize, u64)>,
}

struct Simulation<'a> {
    setting: &'a Setting<'a>,
    noise: Noise,
    /// In the order of time, and of their making where that is the same.
    events: BinaryHeap<Reverse<(u64, u64, usize, Event)>>,
    events_made: u64,
    steps: Vec<VecDeque<Step>>,
    /// The shards, and behind them the journal.
    locks: Vec<Lock>,
    done: u64,
    waited: u64,
}

impl<'a> Simulation<'a> {
    fn new(setting: &'a Setting<'a>) -> Self {
        let mut simulation = Self {
            setting,
            noise: Noise(3),
            events: BinaryHeap::new(),
            events_made: 0,
            steps: (0..setting.workers).map(|_| VecDeque::new()).collect(),
            locks: (0..=setting.shards).map(|_| Lock::default()).collect(),
            done: 0,
            waited: 0,
        };
        for worker in 0..setting.workers {
            let start = simulation.noise.next() % (setting.command.outside_ns * setting.command.depth as u64);
            simulation.push(start, worker, Event::Goes);
        }
        simulation
    }

    fn push(&mut self, at: u64, worker: usize, event: Event) {
        self.events_made += 1;
        self.events.push(Reverse((at, self.events_made, worker, event)));
    }

    fn run_until(&mut self, end: u64) {
        while let Some(&Reverse((at, _, worker, event))) = self.events.peek()
            && at < end
        {
            self.events.pop();
            match event {
                Event::Goes => self.go(worker, at),
                Event::SpunSince(since) => self.sleep(worker, since),
            }
        }
    }

    /// A worker does its steps until one takes time.
    fn go(&mut self, worker: usize, now: u64) {
        loop {
            match self.steps[worker].pop_front() {
                None => self.begin_batch(worker),
                Some(Step::Done) => self.done += 1,
                Some(Step::Work(time)) => return self.push(now + time, worker, Event::Goes),
                Some(Step::Give(lock)) => self.give(lock, worker, now),
                Some(Step::Take(index)) => {
                    let lock = &mut self.locks[index];
                    if lock.is_taken {
                        lock.spinning.push_back((worker, now));
                        return self.push(now + self.setting.spin_ns, worker, Event::SpunSince(now));
                    }
                    let delay = self.hand(index, worker);
                    return self.push(now + delay, worker, Event::Goes);
                }
            }
        }
    }

    /// A lock becomes this worker's; what that takes.
    fn hand(&mut self, index: usize, worker: usize) -> u64 {
        let lock = &mut self.locks[index];
        lock.is_taken = true;
        let is_here = lock.last.replace(worker).is_none_or(|last| last == worker);
        if is_here { 0 } else { self.setting.hand_over_ns }
    }

    fn give(&mut self, index: usize, worker: usize, now: u64) {
        self.locks[index].is_taken = false;
        if let Some((next, since)) = self.locks[index].spinning.pop_front() {
            self.waited += now - since;
            let delay = self.hand(index, next);
            self.push(now + delay, next, Event::Goes);
        } else if let Some((next, since)) = self.locks[index].sleeping.pop_front() {
            let (cost, delay) = self.setting.wake_ns;
            self.waited += now + delay - since;
            self.steps[worker].push_front(Step::Work(cost));
            self.steps[next].push_front(Step::Take(index));
            self.push(now + delay, next, Event::Goes);
        }
    }

    /// A worker that spins since this time does so no longer.
    fn sleep(&mut self, worker: usize, since: u64) {
        for lock in &mut self.locks {
            if let Some(at) = lock.spinning.iter().position(|&spinner| spinner == (worker, since)) {
                lock.spinning.remove(at);
                lock.sleeping.push_back((worker, since));
                return;
            }
        }
    }

    fn begin_batch(&mut self, worker: usize) {
        let Setting { shards, command, .. } = *self.setting;
        let mut requests: Vec<Vec<usize>> = Vec::with_capacity(command.depth);
        for _ in 0..command.depth {
            let (one_in, _) = command.all_shards;
            if one_in > 0 && self.noise.next().is_multiple_of(one_in) {
                requests.push((0..shards).collect());
                continue;
            }
            let mut wanted: Vec<usize> = (0..command.keys).map(|_| self.shard()).collect();
            wanted.sort_unstable();
            wanted.dedup();
            requests.push(wanted);
        }
        let steps = &mut self.steps[worker];
        // What comes before and what comes after the execution.
        let saved = if shards == 1 { command.many_shards_ns } else { 0 };
        let outside = (command.outside_ns - saved) * command.depth as u64;
        steps.push_back(Step::Work(outside / 2));
        if command.depth > 1 {
            let mut all: Vec<usize> =
                requests.iter().filter(|wanted| wanted.len() <= command.keys).flatten().copied().collect();
            all.sort_unstable();
            for shard in all.chunk_by(|one, other| one == other) {
                let time = Step::Work(LOOK_AHEAD * shard.len() as u64);
                steps.extend([Step::Take(shard[0]), time, Step::Give(shard[0])]);
            }
        }
        for (index, wanted) in requests.iter().enumerate() {
            let is_script = wanted.len() > command.keys;
            let is_kept = |other: Option<&Vec<usize>>| wanted.len() == 1 && other == Some(wanted);
            if index == 0 || !is_kept(requests.get(index - 1)) {
                steps.extend(wanted.iter().map(|&shard| Step::Take(shard)));
            }
            let time = if is_script { command.all_shards.1 } else { command.inside_ns * command.keys as u64 };
            steps.push_back(Step::Work(time));
            if command.journal_ns > 0 {
                steps.extend([Step::Take(shards), Step::Work(command.journal_ns), Step::Give(shards)]);
            }
            steps.push_back(Step::Done);
            if !is_kept(requests.get(index + 1)) {
                steps.extend(wanted.iter().map(|&shard| Step::Give(shard)));
            }
        }
        steps.push_back(Step::Work(outside - outside / 2));
    }

    /// The shard of a key that is drawn: its rank mixed (SplitMix64), as a hash would.
    fn shard(&mut self) -> usize {
        let rank = self.setting.keys.draw(&mut self.noise);
        (Noise(rank as u64).next() % self.setting.shards as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Setting, simulate};
    use crate::scaling::figures::Command;
    use crate::scaling::keys::Keys;

    const COMMAND: Command = Command {
        name: "",
        depth: 1,
        keys: 1,
        outside_ns: 900,
        inside_ns: 100,
        many_shards_ns: 0,
        journal_ns: 0,
        all_shards: (0, 0),
    };

    fn outcome(workers: usize, shards: usize, command: &Command, hand_over_ns: u64, spin_ns: u64) -> Outcome {
        let keys = Keys::zipf(0.0);
        simulate(&Setting { workers, shards, command, keys: &keys, hand_over_ns, spin_ns, wake_ns: (1_500, 8_000) })
    }

    #[track_caller]
    fn is_near(rate: f64, expected: f64, within: f64) {
        assert!((rate / expected - 1.0).abs() < within, "{rate} instead of {expected}");
    }

    #[test]
    fn one_worker_waits_for_nobody() {
        let alone = outcome(1, 1, &COMMAND, 300, 2_000);
        is_near(alone.rate, 1e6, 0.001);
        assert!(alone.waiting == 0.0);
    }

    #[test]
    fn spread_over_many_shards_workers_are_independent_but_for_hand_overs() {
        is_near(outcome(8, 4_096, &COMMAND, 0, 2_000).rate, 8e6, 0.01);
        // Seven of eight times another worker was there last.
        is_near(outcome(8, 1_024, &COMMAND, 100, 2_000).rate, 8e9 / (1_000.0 + 7.0 / 8.0 * 100.0), 0.02);
    }

    #[test]
    fn one_shard_is_worth_what_is_done_under_its_lock() {
        for workers in [16, 64] {
            let outcome = outcome(workers, 1, &COMMAND, 150, u64::MAX / 2);
            is_near(outcome.rate, 1e9 / (100.0 + 150.0), 0.01);
            assert!(outcome.waiting > 0.5);
        }
        // Two of them find it free: each is outside for longer than the other is inside.
        is_near(outcome(2, 1, &COMMAND, 150, 2_000).rate, 2e9 / (1_000.0 + 150.0), 0.01);
    }

    #[test]
    fn a_queue_that_sleeps_goes_on() {
        let (spinning, sleeping) = (outcome(16, 1, &COMMAND, 150, u64::MAX / 2), outcome(16, 1, &COMMAND, 150, 500));
        assert!(sleeping.rate > 1e5 && sleeping.rate <= spinning.rate, "{sleeping:?} beside {spinning:?}");
    }

    #[test]
    fn a_request_that_takes_all_shards_stops_everybody() {
        let script = Command { all_shards: (10, 10_000), ..COMMAND };
        let rate = outcome(16, 128, &script, 0, u64::MAX / 2).rate;
        assert!(rate < 1e9 / 1_000.0, "one in ten takes 10 us alone: {rate}");
    }

    #[test]
    fn a_batch_for_one_shard_locks_it_once() {
        let batch = Command { depth: 16, ..COMMAND };
        // The hand-over is paid for looking ahead and for executing.
        let expected = 1e9 / (15.0 + 100.0 + 2.0 * 160.0 / 16.0);
        is_near(outcome(64, 1, &batch, 160, u64::MAX / 2).rate, expected, 0.02);
    }

    #[test]
    fn the_same_seed_gives_the_same_again() {
        let journal = Command { journal_ns: 50, depth: 16, keys: 3, ..COMMAND };
        assert_eq!(outcome(8, 64, &journal, 150, 500), outcome(8, 64, &journal, 150, 500));
    }
}
