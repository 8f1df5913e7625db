//! One world: a client with its callers, a network and servers, and the events in it, step by step.
//!
//! In each step one actor acts: the reactor runs a round, a task of the application has a turn, or the network delivers bytes
//! that are due. If no actor has work, the clock advances to the time of the next step. Failures happen for a while; then
//! there are none any more, and all calls have to end.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::caller::{Caller, Shared};
use super::executor::Executor;
use super::model::{Model, Tally};
use super::network::{Network, Weather};
use super::server::Servers;
use super::tracking::PREFIX;
use crate::api::handles::Client;
use crate::cache::options::CacheOptions;
use crate::config::{Config, Endpoint, Protocol, Resend};
use crate::pipe::testing::{Dice, chunks_alive};
use crate::reactor::stepped::{Step, Stepped};
use crate::sys::clock_us;
use crate::sys::runtime::simulated as runtime;
use crate::sys::simulated::On;

/// The number of steps after which a world that has not ended counts as stuck.
const STEPS_MAX: u64 = 1_000_000;

/// The number of steps of the reactor in a row, without one of another actor, after which the world counts as stuck.
const ALONE_MAX: u64 = 2_000;

/// The longest time that a world lasts, in its own microseconds.
const LIFE_MAX_US: u64 = 600_000_000;

/// The reactor's number among the actors.
const REACTOR: usize = 2;

/// The failures that may happen in a world, and its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// The number of callers; below it the number of turns that each has.
    pub(super) callers: usize,
    pub(super) turns: usize,
    /// The number of servers: one, or several that are a cluster.
    pub(super) servers: usize,
    /// The time during which failures happen, in milliseconds.
    pub(super) trouble_ms: u64,
    pub(super) failures: &'static [Failure],
}

/// A failure that may happen in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// A connection is cut.
    Cut,
    /// A connection, or all connections to a server, deliver nothing for a while.
    Silence,
    /// The server is dead for a while.
    Death,
    /// The server loads its data for a while.
    Loading,
    /// The application's runtimes give no turns for a while, or one of them ends and its tasks go on in another.
    Stall,
    /// A slot of a cluster moves, key by key.
    Move,
}

pub(super) const ANY: &[Failure] =
    &[Failure::Cut, Failure::Cut, Failure::Silence, Failure::Death, Failure::Loading, Failure::Stall];

/// The failures in a cluster: mostly slots that move.
pub(super) const IN_CLUSTER: &[Failure] = {
    use Failure::{Cut, Death, Loading, Move, Silence, Stall};
    &[Move, Move, Move, Move, Move, Move, Move, Move, Cut, Silence, Death, Loading, Stall]
};

/// The failures outside of the server.
pub(super) const OUTSIDE: &[Failure] = &[Failure::Cut, Failure::Cut, Failure::Silence, Failure::Death, Failure::Stall];

/// A world with all of its actors.
pub(super) struct World {
    dice: Rc<RefCell<Dice>>,
    on: On,
    network: Rc<RefCell<Network>>,
    reactor: Stepped,
    executor: Executor,
    shared: Rc<Shared>,
    client: Option<Client>,
    manner: Manner,
    began_us: u64,
    clock_us: u64,
    steps: u64,
    /// The number of steps of the reactor since the last step of another actor.
    alone: u64,
    trace: u64,
    next_failure_us: u64,
    /// The server that is dead, with the time at which it restarts.
    back_us: Option<(usize, u64)>,
    is_calm: bool,
    chunks_before: isize,
}

fn config(dice: &mut Dice, manner: &Manner) -> Config {
    let servers = manner.servers;
    let place = |number: usize| (format!("10.0.0.{number}"), 6379);
    let (host, port) = place(1);
    let seeds = || (1..=servers).map(place).collect();
    let endpoint = if servers == 1 { Endpoint::Tcp { host, port } } else { Endpoint::Cluster(seeds()) };
    let mut config = Config::new(endpoint);
    config.command_timeout = [Some(30), Some(300), Some(3_000), None][dice.roll(4)].map(Duration::from_millis);
    let is_quiet = manner.failures.is_empty();
    config.connect_timeout = Duration::from_millis([if is_quiet { 1_000 } else { 20 }, 500, 5_000][dice.roll(3)]);
    config.silence_max = [Some(200), Some(2_000), Some(5_000)][dice.roll(3)].map(Duration::from_millis);
    config.retry.resend = [Resend::Reads, Resend::Overwrites, Resend::Nothing][dice.roll(3)];
    config.protocol = if dice.roll(4) == 0 { Protocol::Resp2 } else { Protocol::Resp3 };
    config.retry.backoff_max = Duration::from_millis(200);
    config
}

/// Draws the options of a cache: its bound in bytes, which is small in some worlds, and whether servers broadcast.
fn cache_options(dice: &mut Dice) -> CacheOptions {
    let options = CacheOptions::new().bytes_max(if dice.roll(3) == 0 { 8 * 500 } else { 1 << 20 });
    if dice.roll(3) == 0 { options.broadcast([PREFIX]) } else { options }
}

impl World {
    pub(super) fn new(seed: u64, manner: Manner) -> Self {
        let dice = Rc::new(RefCell::new(Dice::new(seed)));
        let servers = Servers::new(Rc::clone(&dice), manner.servers, manner.servers > 1);
        let (began_us, weather, config) = {
            let mut dice = dice.borrow_mut();
            // The clock begins so that its milliseconds wrap within some worlds.
            let began_us = (1 << 32) * 1000 - dice.roll(2_000_000) as u64;
            let has_trouble = !manner.failures.is_empty();
            let cuts = if has_trouble { [0, 2, 6][dice.roll(3)] } else { 0 };
            let weather = Weather {
                delay_us: [5, 300, 5_000][dice.roll(3)],
                cuts,
                slow: if has_trouble { [0, 3][dice.roll(2)] } else { 0 },
            };
            (began_us, weather, config(&mut dice, &manner))
        };
        let network = Rc::new(RefCell::new(Network::new(Rc::clone(&dice), servers, weather)));
        let connecting = Rc::clone(&network);
        let connect = Box::new(move |address: &_| connecting.borrow_mut().connect(address, clock_us()));
        let on = On::begin(began_us, seed, connect);
        let runtimes = (seed / 8 % 3) as usize;
        let (chunks_before, reactor, executor) = (chunks_alive(), Stepped::new(), Executor::new(runtimes));
        let client = Client::open_with(config).expect("a client");
        let reports = network.borrow().servers.speaks_resp3 && client.config().protocol == Protocol::Resp3;
        // No runtime reads a connection that has a cache.
        let has_cache = reports && (runtimes == 0 || !(seed / 24).is_multiple_of(3));
        let shared = Rc::new(Shared {
            cache: has_cache.then(|| cache_options(&mut dice.borrow_mut())),
            is_single: manner.servers == 1,
            dice: Rc::clone(&dice),
            timers: Rc::clone(&executor.timers),
            model: RefCell::new(Model::new(manner.failures.is_empty(), keeps_order(&manner))),
            tokens: RefCell::default(),
        });
        Self {
            dice,
            on,
            network,
            reactor,
            executor,
            shared,
            client: Some(client),
            manner,
            began_us,
            clock_us: began_us,
            steps: 0,
            alone: 0,
            trace: 0,
            next_failure_us: began_us,
            back_us: None,
            is_calm: manner.failures.is_empty(),
            chunks_before,
        }
    }

    /// Runs the world to its end.
    pub(super) fn live(mut self) -> Result<Tally, String> {
        let client = self.client.take().expect("a client");
        let databases = if self.manner.servers > 1 { 1 } else { self.dice.borrow_mut().roll(3) + 1 };
        for number in 0..self.manner.callers {
            let (shared, client) = (Rc::clone(&self.shared), client.clone());
            let caller = Caller { shared, client, databases, number, appends: Vec::new() };
            self.executor.spawn(caller.live(self.manner.turns));
        }
        self.go_on("the callers")?;
        self.make_calm();
        let (shared, number) = (Rc::clone(&self.shared), self.manner.callers);
        let reader = Caller { shared, client: client.clone(), databases, number, appends: Vec::new() };
        self.executor.spawn(reader.read_all_cached());
        self.go_on("the reader of all keys")?;
        let (shared, connections) = (Rc::clone(&self.shared), Rc::new(RefCell::new(0)));
        let counted = Rc::clone(&connections);
        self.executor.spawn(async move {
            let metrics = settle(&client, &shared).await;
            *counted.borrow_mut() = metrics;
            if let Err(error) = client.close_async(Duration::from_secs(20)).await {
                shared.model.borrow_mut().wrong(format!("the client was not closed: {error:?}"));
            }
        });
        self.go_on("who closes the client")?;
        self.end_reactor()?;
        let left = chunks_alive() - self.chunks_before;
        let mut model = self.shared.model.borrow_mut();
        if left != 0 {
            model.wrong(format!("{left} chunks of slots are left"));
        }
        model.compare(&self.network.borrow().servers);
        if let Some(wrong) = model.what_is_wrong() {
            return Err(wrong.clone());
        }
        model.tally.connections = *connections.borrow();
        model.tally.trace = self.trace;
        model.tally.runtime_reads = runtime::take_reads();
        let network = self.network.borrow();
        (model.tally.moved, model.tally.asked) = (network.servers.moved, network.servers.asked);
        Ok(model.tally.clone())
    }

    /// Runs steps until all tasks of the application have ended.
    fn go_on(&mut self, who: &str) -> Result<(), String> {
        while !self.executor.is_over() {
            self.step(who)?;
        }
        Ok(())
    }

    /// Ends all failures.
    fn make_calm(&mut self) {
        self.is_calm = true;
        self.network.borrow_mut().calm();
    }

    /// Runs steps until the reactor has no task left.
    fn end_reactor(&mut self) -> Result<(), String> {
        loop {
            match self.reactor.step() {
                Step::Ended => return Ok(()),
                _ => self.step("the reactor's tasks")?,
            }
        }
    }

    /// Lets one actor take a step, or advances the clock.
    fn step(&mut self, who: &str) -> Result<(), String> {
        self.steps += 1;
        if let Some(wrong) = self.shared.model.borrow().what_is_wrong() {
            return Err(wrong.clone());
        }
        let life_us = self.clock_us - self.began_us;
        if self.steps > STEPS_MAX || life_us > LIFE_MAX_US {
            return Err(format!("{who} do not come to an end: {} steps, {life_us} us", self.steps));
        }
        self.fail();
        self.network.borrow_mut().pull(self.clock_us);
        let first = self.dice.borrow_mut().roll(3);
        let mut sleeps = None;
        for actor in 0..3 {
            let actor = (first + actor) % 3;
            let has_acted = match actor {
                0 => self.network.borrow_mut().step(self.clock_us),
                1 => self.executor.step(&self.dice),
                _ => match self.reactor.step() {
                    Step::Done => true,
                    Step::Sleeps(until) => {
                        sleeps = until;
                        false
                    }
                    Step::Ended => false,
                },
            };
            if has_acted {
                self.alone = if actor == REACTOR { self.alone + 1 } else { 0 };
                if self.alone > ALONE_MAX {
                    return Err(format!("the reactor goes round in circles, {life_us} us after the beginning"));
                }
                self.note(actor as u64);
                let cost_us = self.dice.borrow_mut().roll(4) as u64;
                self.advance(self.clock_us + cost_us);
                return Ok(());
            }
        }
        let reactor_us = sleeps.map(|until| {
            let left = until.saturating_duration_since(crate::sys::now());
            self.clock_us + left.as_micros() as u64 + 1
        });
        let failure_us = (!self.is_calm).then_some(self.next_failure_us);
        let network_us = self.network.borrow().next_us(self.clock_us);
        let next = [reactor_us, failure_us, network_us, self.executor.next_us(), self.back_us.map(|(_, at_us)| at_us)];
        match next.into_iter().flatten().min() {
            Some(at_us) => self.advance(at_us.max(self.clock_us + 1)),
            None if self.has_ended() => {}
            None => return Err(format!("{who} wait for nothing")),
        }
        Ok(())
    }

    /// Returns whether no actor is left.
    fn has_ended(&mut self) -> bool {
        self.executor.is_over() && self.reactor.step() == Step::Ended
    }

    fn advance(&mut self, clock_us: u64) {
        self.clock_us = clock_us;
        self.on.set_clock_us(clock_us);
    }

    /// Adds a step to the hash by which two runs can be compared (FNV-1a).
    fn note(&mut self, actor: u64) {
        for number in [self.clock_us - self.began_us, actor, self.network.borrow().len() as u64] {
            self.trace = (self.trace ^ number).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    /// Begins a failure, or ends one, if that is due.
    fn fail(&mut self) {
        if let Some((node, at_us)) = self.back_us
            && at_us <= self.clock_us
        {
            self.network.borrow_mut().servers.set_down(node, false);
            self.back_us = None;
        }
        if self.is_calm || self.next_failure_us > self.clock_us {
            return;
        }
        if self.clock_us - self.began_us > self.manner.trouble_ms * 1000 {
            return self.make_calm();
        }
        let mut network = self.network.borrow_mut();
        let roll = |sides: usize| self.dice.borrow_mut().roll(sides);
        let failure = self.manner.failures[roll(self.manner.failures.len())];
        let until_us = self.clock_us + [2_000, 50_000, 1_000_000][roll(3)] + roll(1_000) as u64;
        match failure {
            Failure::Cut => network.cut_one(),
            Failure::Silence => network.silence(until_us),
            Failure::Death if self.back_us.is_none() => {
                let node = roll(network.servers.count());
                network.servers.set_down(node, true);
                network.cut_off(node);
                if self.manner.servers > 1 && roll(2) == 0 {
                    network.servers.fail_over(node);
                }
                self.back_us = Some((node, until_us));
            }
            Failure::Death => {}
            Failure::Loading => {
                let node = roll(network.servers.count());
                network.servers.load(node, until_us);
            }
            Failure::Move => network.servers.move_on(),
            Failure::Stall => {
                match until_us % 4 {
                    0 => self.executor.replace_runtime(until_us),
                    1 => self.executor.leave_undriven(until_us),
                    _ => {}
                }
                self.executor.stall(self.clock_us + roll(30_000) as u64);
            }
        }
        self.next_failure_us = self.clock_us + [1_000, 20_000, 300_000][roll(3)] + roll(1_000) as u64;
    }
}

/// Returns whether a world keeps the order of a caller's requests: no failure lets a server refuse a request and execute a
/// later one.
fn keeps_order(manner: &Manner) -> bool {
    !manner.failures.contains(&Failure::Loading) && !manner.failures.contains(&Failure::Move)
}

/// Waits until nothing is in flight, and returns the number of connections that were made.
async fn settle(client: &Client, shared: &Shared) -> u64 {
    for _ in 0..200 {
        let metrics = client.metrics();
        if metrics.iter().all(|metrics| metrics.in_flight == 0 && metrics.queued_bytes == 0) {
            return metrics.iter().map(|metrics| metrics.connections).sum();
        }
        shared.timers.sleep_until(clock_us() + 100_000).await;
    }
    let left: Vec<_> = client.metrics().iter().map(|metrics| (metrics.in_flight, metrics.queued_bytes)).collect();
    shared.model.borrow_mut().wrong(format!("commands and bytes are left though nobody waits: {left:?}"));
    0
}
