//! FAILOVER: a primary hands its role over to one of its replicas, without the loss of a change.
//!
//! A separate thread does it. Clients that write are held until a replica has the complete stream: the replica that was
//! named, or the first one that catches up. Then this server follows that replica, and asks it with PSYNC ... FAILOVER to
//! become the primary. If the replica refuses, or a client aborts the failover before, this server becomes the primary again
//! and the held clients go on. Any thread may ask for the state.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::catching_up::CatchingUp;
use super::ids::Id;
use super::role::Address;
use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::journal::BatchBuffer;
use crate::engine::keyspace::all_shards;
use crate::engine::readiness::Hold;
use crate::engine::replication::role_change;
use crate::host::clock::{self, Instant};
use crate::host::log;
use crate::host::waiting::Condvar;
use crate::request::error::Error;

/// The interval of the checks whether a replica has the complete stream.
const LOOK: Duration = Duration::from_millis(5);

/// The arguments of FAILOVER.
#[derive(Debug, Clone, Default)]
pub struct Order {
    /// The replica that is to become the primary; None if any may.
    pub target: Option<Address>,
    /// The timeout in milliseconds; none for no timeout.
    pub timeout_ms: Option<u64>,
    /// After the timeout the target becomes the primary even without the complete stream.
    pub is_forced: bool,
}

/// The progress of a failover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    WaitingForSync,
    InProgress,
}

/// The running failover, if there is one.
#[derive(Debug, Default)]
pub struct Failover {
    running: Mutex<Option<Running>>,
    changed: Condvar,
    /// The stream of the primary that was the last to hand its role over to this server, if one has.
    taken: Mutex<Option<Id>>,
}

#[derive(Debug)]
struct Running {
    order: Order,
    stage: Stage,
    /// The number of the failover, by which its thread notices that it has ended.
    number: u64,
}

impl Failover {
    /// Returns the name of the state in INFO.
    pub fn word(&self) -> &'static str {
        match self.running.lock().as_ref().map(|running| running.stage) {
            None => "no-failover",
            Some(Stage::WaitingForSync) => "waiting-for-sync",
            Some(Stage::InProgress) => "failover-in-progress",
        }
    }

    /// Notes that the primary of this stream has handed its role over to this server.
    pub fn note_taken(&self, id: Id) {
        *self.taken.lock() = Some(id);
    }

    /// Returns whether the primary of this stream has handed its role over to this server.
    pub fn has_taken(&self, id: Id) -> bool {
        *self.taken.lock() == Some(id)
    }

    /// Returns whether a failover is running.
    pub fn is_running(&self) -> bool {
        self.running.lock().is_some()
    }

    /// Returns whether this server follows the chosen replica and has to ask it to become the primary.
    pub fn is_in_progress(&self) -> bool {
        self.running.lock().as_ref().is_some_and(|running| running.stage == Stage::InProgress)
    }

    fn is_waiting(&self, number: u64) -> bool {
        let running = self.running.lock();
        running.as_ref().is_some_and(|running| running.number == number && running.stage == Stage::WaitingForSync)
    }

    /// Waits for the next check, or until the failover is ended.
    fn wait(&self) {
        self.changed.wait_for(&mut self.running.lock(), LOOK);
    }
}

impl Failover {
    /// Begins to hand the role over. All shards are locked.
    ///
    /// # Errors
    /// The reason why that is not possible.
    pub fn begin(&self, engine: &Arc<Engine>, order: Order) -> Result<(), Error> {
        let Order { target, timeout_ms, is_forced } = &order;
        let (failover, replicas) = (self, engine.replication.replicas.all());
        if failover.is_running() {
            return Err(Error::fixed("ERR FAILOVER already in progress."));
        }
        if engine.replication.role.is_replica() {
            return Err(Error::fixed("ERR FAILOVER is not valid when server is a replica."));
        }
        if !engine.replication.role.can_follow() || replicas.iter().all(|replica| replica.state().is_none()) {
            return Err(Error::fixed("ERR FAILOVER requires connected replicas."));
        }
        if *is_forced && (timeout_ms.is_none() || target.is_none()) {
            return Err(Error::fixed("ERR FAILOVER with force option requires both a timeout and target HOST and IP."));
        }
        if let Some(target) = target {
            let replica = replicas.iter().find(|replica| replica.is_at(target));
            let replica = replica.ok_or(Error::fixed("ERR FAILOVER target HOST and PORT is not a replica."))?;
            if !replica.is_online() {
                return Err(Error::fixed("ERR FAILOVER target replica is not online."));
            }
        }
        let number = engine.identity.dice().number();
        engine.clients.pause.hold_writes(Hold::Failover, true);
        *failover.running.lock() = Some(Running { order, stage: Stage::WaitingForSync, number });
        let started = engine.detach_thread("failover", move |engine| {
            engine.replication.failover.hand_over(engine, number);
            Ok(())
        });
        started.map_err(|error| {
            self.end(engine);
            Error::new(format!("ERR The thread that hands over cannot start: {error}"))
        })
    }

    /// Aborts a running failover, and makes this server the primary again. Returns false if none is running. All shards are
    /// locked.
    pub fn abort(&self, engine: &Engine, why: &str, now: Instant) -> bool {
        let failover = self;
        let Some(Running { order, stage, .. }) = failover.running.lock().take() else { return false };
        let target = order.target.map_or(String::new(), |target| format!(" to {target}"));
        log::notice(&format!("FAILOVER{target} aborted: {why}"));
        if stage == Stage::InProgress {
            role_change::lead(engine, now);
        }
        self.end(engine);
        true
    }

    /// Notes that the replica has become the primary: this server is its replica now.
    pub fn note_done(&self, engine: &Engine) {
        let running = &self.running;
        let done = running.lock().take_if(|running| running.stage == Stage::InProgress);
        if let Some(Running { order: Order { target: Some(Address { host, port }), .. }, .. }) = done {
            let port = port.to_string();
            if let Err(why) = engine.config.assign(Opt::Replicaof, &[host.as_bytes(), port.as_bytes()]) {
                log::warning(&format!("CONFIG REWRITE will not know whom this server follows: {why}"));
            }
            self.end(engine);
        }
    }

    /// Notes that the replica has refused to become the primary. No shard is locked.
    pub fn note_refused(&self, engine: &Engine) {
        let buffer = BatchBuffer::default();
        let locks = all_shards::lock_all(engine, &buffer);
        self.abort(engine, "Failover target rejected psync request", Instant::now());
        drop(locks);
    }

    /// Lets the held clients go on.
    fn end(&self, engine: &Engine) {
        let failover = self;
        failover.running.lock().take();
        failover.changed.notify_all();
        role_change::note_role(engine);
        engine.clients.pause.hold_writes(Hold::Failover, false);
        engine.clients.post_resume();
    }

    /// Runs the thread of the failover with this number.
    fn hand_over(&self, engine: &Arc<Engine>, number: u64) {
        let (failover, begun_ms) = (self, clock::monotonic_ms());
        let mut catching_up = CatchingUp::default();
        while failover.is_waiting(number) {
            catching_up.ask(engine);
            if self.try_hand_over(engine, (number, begun_ms), &catching_up) {
                if let Err(why) = engine.replication.role.start() {
                    log::warning(&format!("The thread that follows the primary cannot start: {why}"));
                    self.note_refused(engine);
                }
                return;
            }
            failover.wait();
        }
    }

    /// Follows the replica that has the complete stream, if there is one; returns whether the thread's work is done.
    fn try_hand_over(&self, engine: &Engine, (number, begun_ms): (u64, u64), catching_up: &CatchingUp) -> bool {
        let failover = self;
        let Some(order) = failover.running.lock().as_ref().map(|running| running.order.clone()) else { return true };
        let is_late = order.timeout_ms.is_some_and(|timeout_ms| clock::monotonic_ms() - begun_ms >= timeout_ms);
        if !is_late && self.caught_up_replica(engine, &order, catching_up).is_none() {
            return false;
        }
        let buffer = BatchBuffer::default();
        let locks = all_shards::lock_all(engine, &buffer);
        if !failover.is_waiting(number) {
            return true;
        }
        let target = match order.target.clone().filter(|_| is_late && order.is_forced) {
            Some(target) => {
                log::notice(&format!("Failover to {target} time out exceeded, failing over."));
                Some(target)
            }
            // A client may have passed the gate before the hold began, and may have written before the locks were taken.
            None => self
                .caught_up_replica(engine, &order, catching_up)
                .filter(|_| catching_up.is_still_all(engine))
                .inspect(|target| log::notice(&format!("Failover target {target} is synced, failing over."))),
        };
        let Some(target) = target else {
            if is_late {
                self.abort(engine, "Replica never caught up before timeout", Instant::now());
            }
            return is_late;
        };
        if let Some(running) = failover.running.lock().as_mut() {
            running.stage = Stage::InProgress;
            running.order.target = Some(target.clone());
        }
        role_change::follow_primary(engine, target);
        drop(locks);
        true
    }

    /// Returns the address of the replica that may take over and has the complete stream.
    fn caught_up_replica(&self, engine: &Engine, order: &Order, catching_up: &CatchingUp) -> Option<Address> {
        let replicas = engine.replication.replicas.all();
        let is_meant = |address: &Address| order.target.as_ref().is_none_or(|target| target == address);
        let having_all =
            replicas.iter().filter(|replica| catching_up.has_all(replica) && catching_up.has_question(replica));
        having_all.map(|replica| replica.reached_at()).find(is_meant)
    }
}
