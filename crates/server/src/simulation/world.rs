//! The simulation's world: servers, clients and the network between them. It advances in small random steps.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::rc::Rc;

use super::client::{Client, KEYS};
use super::failures::Failure;
use super::model::{Owed, Told, keys_after};
use super::network::Network;
use super::node::{Node, port};
use crate::config::Opt;
use crate::host::clock::Instant;
use crate::host::dice::Dice;
use crate::host::log;
use crate::host::simulated::{On, Task};

/// The maximum number of rounds that the tasks of a dead server take to end.
const ROUNDS_MAX: usize = 20_000;

/// The parameters of a world.
#[derive(Clone, Copy)]
pub struct Manner {
    /// The number of servers. The first is the primary, and the fourth follows the third.
    pub servers: usize,
    /// The number of steps before the world is left alone.
    pub steps: usize,
    /// Connections are cut.
    pub cuts: bool,
    /// The fsync policy of the AOFs; none for a random one.
    pub policy: Option<&'static str>,
    /// The failures of servers that may occur.
    pub failures: &'static [Failure],
}

/// The stage of a server's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Up,
    /// The server was told to end.
    Ending,
    /// The worker has ended, and the other activities are ending.
    Leaving,
    Down,
}

/// The writes that a server had when it became the primary.
///
/// Other servers have them from the primary before it, or from their own time as the primary, and may have them on disk
/// before this server does. This server sends them only after its own AOF has them, and is responsible for them from then on.
#[derive(Clone, Copy)]
pub(super) struct Inherited {
    /// The number of writes.
    pub writes: usize,
    /// The offset of the end of the server's journal.
    pub offset: u64,
}

/// The writes that replicas had when a primary was lost that starts again as the primary.
pub(super) struct Lost {
    /// The number of each replica, and the order of its writes.
    pub had: Vec<(usize, Vec<u64>)>,
}

/// The simulated world: servers, clients and network.
pub struct World {
    on: On,
    pub(super) dice: Dice,
    now: Instant,
    pub(super) network: Rc<RefCell<Network>>,
    pub(super) nodes: Vec<Node>,
    pub(super) stages: Vec<Stage>,
    /// The running tasks. They are not dropped: after a failure, suspended tasks stay as they are.
    tasks: ManuallyDrop<Vec<Task>>,
    clients: Vec<Client>,
    /// The number of the server to which clients write.
    pub(super) primary: usize,
    /// The primary is handing its role over.
    pub(super) is_handing_over: bool,
    pub(super) owed: Owed,
    /// The fsync policy is `always`: replies are sent only after the disk has the changes that they show.
    pub(super) is_always: bool,
    pub(super) lost: Option<Lost>,
    /// The order of the writes at the primary.
    pub(super) order: Vec<u64>,
    /// The writes that the primary had when it became the primary; none if it has loaded all of its data since.
    pub(super) inherited: Option<Inherited>,
    /// The number of the last requested write.
    pub(super) number: u64,
    transactions: Vec<u64>,
    pub(super) manner: Manner,
    /// The server with an AOF that is not written for a while; none if there is no such server.
    slow: Option<usize>,
}

impl World {
    /// Returns the world of this seed.
    pub fn new(seed: u64, manner: Manner) -> Self {
        let dice = Dice::new(seed);
        let network = Rc::new(RefCell::new(Network::default()));
        network.borrow_mut().reachable = vec![false; manner.servers];
        let wires = Rc::clone(&network);
        let connect = move |from: usize, host: &str, _: u16| {
            let to = host.strip_prefix('n').and_then(|number| number.parse().ok()).unwrap_or(usize::MAX);
            wires.borrow_mut().connect(from, to)
        };
        let now = Instant { wall_us: 1_700_000_000_000_000, monotonic_us: 1_000_000_000 };
        let on = On::begin(now, Box::new(connect));
        let policy = manner.policy.unwrap_or(["always", "everysec", "no"][dice.below(3)]);
        let options = options(&dice, policy);
        let mut nodes: Vec<Node> = (0..manner.servers).map(|number| Node::new(number, options.clone())).collect();
        for (number, node) in nodes.iter_mut().enumerate().skip(1) {
            node.follows = Some(if number == 3 { 2 } else { 0 });
        }
        let mut world = Self {
            on,
            dice,
            now,
            network,
            stages: vec![Stage::Down; manner.servers],
            nodes,
            tasks: ManuallyDrop::new(Vec::new()),
            clients: (0..3).map(|_| Client::default()).collect(),
            primary: 0,
            is_handing_over: false,
            owed: Owed::default(),
            is_always: policy == "always",
            lost: None,
            order: Vec::new(),
            inherited: None,
            number: 0,
            transactions: Vec::new(),
            manner,
            slow: None,
        };
        (0..manner.servers).for_each(|number| world.start(number));
        world
    }

    /// Runs all steps of the world, and then leaves it alone until all servers have the same data.
    ///
    /// # Errors
    /// The condition that does not hold.
    pub fn live(&mut self) -> Result<(), String> {
        for step in 0..self.manner.steps {
            self.step()?;
            if step % 4 == 0 {
                self.check()?;
            }
        }
        self.calm_down()
    }

    /// Hands the role of the primary over, and cuts the connection that is used for it after this number of bytes. Returns
    /// the number of bytes that the connection has carried.
    ///
    /// # Errors
    /// The condition that does not hold.
    pub fn hand_over_once(&mut self, cut_behind: u64) -> Result<u64, String> {
        self.calm_down()?;
        self.network.borrow_mut().cuts.push_back(cut_behind);
        self.hand_over()?;
        for _ in 0..50 {
            self.round(5_000)?;
            self.check()?;
        }
        let carried = self.network.borrow().carried();
        self.calm_down()?;
        if self.primary == 0 { Err("the role was not handed over".to_owned()) } else { Ok(carried) }
    }

    /// Ends all servers and their tasks. Returns the numbers of all acknowledgements to clients.
    ///
    /// # Errors
    /// A task does not end.
    pub fn end(&mut self) -> Result<Told, String> {
        (0..self.nodes.len()).try_for_each(|number| self.kill(number, true))?;
        Ok(self.owed.told)
    }

    /// Writes and reads, and cuts the first connection between servers after this number of bytes. Then leaves the world
    /// alone until all servers have the same data. Returns the number of bytes that a connection has carried.
    ///
    /// # Errors
    /// The condition that does not hold.
    pub fn write_much(&mut self, cut_behind: u64) -> Result<u64, String> {
        self.network.borrow_mut().cuts.push_back(cut_behind);
        for round in 0..150 {
            self.round(5_000)?;
            if round % 4 == 0 {
                self.act();
            }
        }
        let carried = self.network.borrow().carried();
        self.calm_down().map(|()| carried)
    }

    /// Makes one small step of a server, a client, a task or the network.
    fn step(&mut self) -> Result<(), String> {
        let servers = self.nodes.len();
        match self.dice.below(1_000) {
            0..=299 => self.step_worker(self.dice.below(servers)),
            300..=549 if !self.tasks.is_empty() => {
                let index = self.dice.below(self.tasks.len());
                self.resume_unless_slow(index);
            }
            300..=799 => {
                let count = self.network.borrow().len();
                if count != 0 {
                    let (index, direction) = (self.dice.below(count), self.dice.below(2));
                    self.network.borrow_mut().carry(index, direction, &self.dice);
                }
            }
            800..=859 => {
                let time_us = [20, 300, 2_000, 15_000, 120_000][self.dice.below(5)];
                self.pass(time_us);
            }
            860..=949 => self.act(),
            950..=989 => self.round(1_000)?,
            990..=993 => self.slow = if self.slow.is_some() { None } else { Some(self.dice.below(servers)) },
            994..=996 if self.manner.cuts => self.network.borrow_mut().cut(&self.dice),
            _ if !self.manner.failures.is_empty() => self.fail()?,
            _ => {}
        }
        self.settle()
    }

    /// Makes a random client send a request.
    fn act(&mut self) {
        self.hear();
        let index = self.dice.below(self.clients.len());
        let Self { clients, network, primary, dice, number, transactions, .. } = self;
        clients[index].act((&mut *network.borrow_mut(), *primary), dice, number, transactions);
    }

    /// Runs every worker and task once, carries all bytes, and lets this time pass.
    pub(super) fn round(&mut self, time_us: u64) -> Result<(), String> {
        (0..self.nodes.len()).for_each(|number| self.step_worker(number));
        (0..self.tasks.len()).rev().for_each(|index| self.resume_unless_slow(index));
        self.network.borrow_mut().carry_all();
        self.settle()?;
        self.pass(time_us);
        Ok(())
    }

    /// Advances the clocks.
    pub(super) fn pass(&mut self, time_us: u64) {
        self.now.monotonic_us += time_us;
        self.now.wall_us += time_us as i64;
        self.on.set_now(self.now);
    }

    /// Processes the results of the last step: new tasks, new connections, and ended workers.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        self.tasks.extend(self.on.started());
        for arrival in self.network.borrow_mut().arrivals() {
            if let Some(worker) = self.nodes[arrival.to].worker() {
                worker.accept(arrival.socket, arrival.address);
            }
        }
        for number in 0..self.nodes.len() {
            if self.stages[number] == Stage::Leaving && !self.has_tasks(number) {
                self.nodes[number].forget(|disk| {
                    disk.restart(Default::default());
                    disk.clone()
                });
                self.stages[number] = Stage::Down;
            }
        }
        self.nodes.iter().find_map(Node::fault).map_or(Ok(()), Err)
    }

    fn step_worker(&mut self, number: usize) {
        self.on.set_owner(number);
        if self.nodes[number].step() {
            self.stages[number] = Stage::Leaving;
            self.network.borrow_mut().reachable[number] = false;
            self.network.borrow_mut().cut_off(number);
            self.nodes[number].end_rest();
        }
    }

    /// Resumes a task, unless it belongs to an AOF on a slow disk.
    fn resume_unless_slow(&mut self, index: usize) {
        let Task { owner, name, .. } = &self.tasks[index];
        if self.slow != Some(*owner) || !name.starts_with("log") {
            self.resume(index);
        }
    }

    fn resume(&mut self, index: usize) {
        if self.tasks[index].resume() {
            self.tasks.swap_remove(index);
        }
    }

    fn has_tasks(&self, number: usize) -> bool {
        self.tasks.iter().any(|task| task.owner == number)
    }

    /// Reads the messages that have arrived at the clients.
    pub(super) fn hear(&mut self) {
        for client in &mut self.clients {
            client.hear().iter().for_each(|heard| self.owed.hear(heard, self.is_always));
        }
    }

    /// Starts a server that is down.
    pub(super) fn start(&mut self, number: usize) {
        log::notice(&format!("n{number} starts, and follows {:?}", self.nodes[number].follows));
        self.on.set_owner(number);
        let seed = self.dice.number();
        self.nodes[number].start(seed, self.now);
        self.network.borrow_mut().reachable[number] = true;
        self.stages[number] = Stage::Up;
    }

    /// Kills a server at once. A power cut also loses the bytes that its disk does not have.
    pub(super) fn kill(&mut self, number: usize, is_power: bool) -> Result<(), String> {
        log::notice(&format!("n{number} dies (power: {is_power})"));
        self.hear();
        self.network.borrow_mut().reachable[number] = false;
        self.network.borrow_mut().cut_off(number);
        let node = &mut self.nodes[number];
        node.disk.cut();
        self.on.set_owner(number);
        if let Some(worker) = node.worker() {
            worker.stop();
        }
        while node.worker().is_some() {
            node.step();
        }
        node.end_rest();
        for _ in 0..ROUNDS_MAX {
            self.tasks.extend(self.on.started());
            (0..self.tasks.len())
                .rev()
                .filter(|&index| self.tasks[index].owner == number)
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|index| self.resume(index));
            if !self.has_tasks(number) {
                break;
            }
            self.pass(1_000);
        }
        if let Some(task) = self.tasks.iter().find(|task| task.owner == number) {
            return Err(format!("n{number}: {} does not end", task.name));
        }
        let seed = self.dice.number();
        self.nodes[number].forget(|disk| {
            if is_power {
                return disk.survivors(seed, Default::default());
            }
            disk.restart(Default::default());
            disk.clone()
        });
        self.stages[number] = Stage::Down;
        Ok(())
    }

    /// Runs a command at a server.
    pub(super) fn ask(&mut self, number: usize, words: &[&str]) -> Option<Vec<u8>> {
        if !matches!(words[0], "MGET" | "DEBUG") {
            log::notice(&format!("n{number} is asked for {words:?}"));
        }
        self.on.set_owner(number);
        self.nodes[number].ask(self.now, words)
    }

    /// Makes a server follow another, now and after its next start.
    pub(super) fn follow(&mut self, number: usize, primary: usize) {
        self.nodes[number].follows = Some(primary);
        let (host, port) = (format!("n{primary}"), port(primary).to_string());
        self.ask(number, &["REPLICAOF", &host, &port]);
    }

    /// Returns the order of the writes at a server with loaded data.
    pub(super) fn order_at(&mut self, number: usize) -> Option<Vec<u64>> {
        self.nodes[number].order(self.now)
    }

    /// Checks all conditions, and returns the first that does not hold.
    pub(super) fn check(&mut self) -> Result<(), String> {
        self.hear();
        self.note_handed_over()?;
        let primary = self.primary;
        if self.stages[primary] != Stage::Up || self.is_handing_over {
            return Ok(());
        }
        let Some(order) = self.order_at(primary) else { return Ok(()) };
        match self.lost.take() {
            Some(Lost { had }) => {
                self.inherited = None;
                let ahead = had.iter().find(|(_, had)| !order.starts_with(had));
                if let Some((number, had)) = ahead {
                    return Err(format!("n{number} had {had:?}, of which n{primary} has lost some: {order:?}"));
                }
            }
            None if !order.starts_with(&self.order) => {
                return Err(format!("n{primary} had {:?} and has {order:?}", self.order));
            }
            None => {}
        }
        self.order = order;
        self.owed.missing(&self.order).map_or(Ok(()), |wrong| Err(format!("n{primary}: {wrong}")))?;
        let id = self.nodes[primary].loaded().map(|engine| engine.replication.ids.id());
        let end = self.nodes[primary].loaded().map(|engine| engine.journal.end());
        for number in 0..self.nodes.len() {
            let node = &self.nodes[number];
            let Some(engine) = node.loaded().filter(|_| self.stages[number] == Stage::Up) else { continue };
            let (own_id, own_end) = (engine.replication.ids.id(), engine.journal.end());
            if Some(own_id) == id && Some(own_end) > end {
                return Err(format!("n{number} is at {own_end}, and its primary at {end:?}"));
            }
            let Some(order) = self.order_at(number) else { continue };
            if Some(own_id) == id && !self.order.starts_with(&order) {
                return Err(format!("n{number} has {order:?}, and n{primary} {:?}", self.order));
            }
            self.check_keys(number, &order)?;
        }
        Ok(())
    }

    /// Checks that the keys of transactions have the values that these writes leave.
    fn check_keys(&mut self, number: usize, order: &[u64]) -> Result<(), String> {
        let names: Vec<String> = (0..KEYS).map(|key| format!("k{key}")).collect();
        let mut words = vec!["MGET"];
        words.extend(names.iter().map(String::as_str));
        let Some(reply) = self.ask(number, &words) else { return Ok(()) };
        let mut expected = format!("*{KEYS}\r\n");
        for value in keys_after(order, &self.transactions, KEYS) {
            expected += &value.map_or("$-1\r\n".to_owned(), |value| {
                let text = value.to_string();
                format!("${}\r\n{text}\r\n", text.len())
            });
        }
        if reply == expected.as_bytes() {
            return Ok(());
        }
        let reply = String::from_utf8_lossy(&reply);
        Err(format!("n{number} has {order:?}, and its keys are {reply:?} instead of {expected:?}"))
    }

    /// Leaves all servers alone until all have the same data.
    pub(super) fn calm_down(&mut self) -> Result<(), String> {
        self.network.borrow_mut().cuts.clear();
        self.slow = None;
        let mut wrong = String::new();
        for round in 0..6_000_u64 {
            self.heal();
            self.round(if round < 300 { 10_000 } else { 50_000 })?;
            if round % 20 == 0 {
                self.check()?;
            }
            // The interval differs from that of the signs of life, so that checks fall on different moments between two of them.
            if round > 60 && round % 7 == 0 {
                match self.differs() {
                    None => return Ok(()),
                    Some(why) => wrong = why,
                }
            }
        }
        Err(format!("all were left alone, and {wrong}"))
    }

    /// Returns the first difference between servers, if there is one.
    fn differs(&mut self) -> Option<String> {
        let now = self.now;
        let mut seen = Vec::new();
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let Some(engine) = node.loaded().cloned() else { return Some(format!("n{number} is not there")) };
            let role = &engine.replication.role;
            if role.is_replica() != (number != self.primary) || role.is_replica() && !role.is_connected() {
                return Some(format!("n{number} is {:?}", role.link()));
            }
            let digest = node.digest(now).map(|digest| String::from_utf8_lossy(&digest).into_owned());
            seen.push((engine.journal.end(), digest));
        }
        let first = &seen[0];
        seen.iter().any(|other| other != first).then(|| format!("the servers are at {seen:?}"))
    }
}

/// Returns the options of a world's servers.
fn options(dice: &Dice, policy: &str) -> Vec<(Opt, String)> {
    let any = |choices: &[&str]| choices[dice.below(choices.len())].to_owned();
    vec![
        (Opt::Appendfsync, policy.to_owned()),
        (Opt::ReplDisklessSync, any(&["yes", "no"])),
        (Opt::ReplBacklogSize, any(&["1mb", "3000"])),
        (Opt::RdbKeySaveDelay, any(&["0", "0", "400"])),
        (Opt::KeyLoadDelay, any(&["0", "0", "300"])),
        (Opt::ReplPingReplicaPeriod, any(&["1", "10"])),
        (Opt::ReplTimeout, any(&["15", "60"])),
        (Opt::ShutdownTimeout, any(&["0", "2"])),
    ]
}
