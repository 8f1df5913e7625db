//! A server's work for its replicas: it accepts them, begins snapshots for them, sends signs of life, and counts the good
//! replicas.
//!
//! The journal is kept for replicas from the first replica on, and until none has been connected for `repl-backlog-ttl`
//! seconds. Outside of that time replicas cost nothing. The stream then gets a new id, because the changes of that time are
//! in no stream. Any thread, with no shard locked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sleeve_disk::disk::Open;

use super::ids::Id;
use super::replica::Replica;
use super::transfer::Transfer;
use super::waiting::{Caller, WaitCondition};
use crate::config::{ClientClass, Opt};
use crate::engine::Engine;
use crate::engine::clients::blocking::{Reached, Waiter};
use crate::engine::readiness::Hindrance;
use crate::host::clock;
use crate::host::clock::Instant;
use crate::host::log;
use crate::messaging::mail::Letter;

/// Asks a replica how far it is.
const GETACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";
/// Shows replicas that the stream is alive.
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// The interval of the signs of life to replicas that wait for a snapshot, in milliseconds; as in Redis.
const SIGN_MS: u64 = 1_000;

/// The bytes that a replica may lag beyond the backlog before files are made for it: a replica that is slow for a moment
/// touches no disk.
const BRIEF_LAG_BYTES: u64 = 4 << 20;

/// The bytes that are left free below a replica's output buffer limit: room for one write to a file and for the bytes in its
/// connection.
const LIMIT_ROOM_BYTES: u64 = 2 << 20;

/// The way in which a replica begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// A partial sync: it goes on at its offset, with the stream of this id.
    Continues(Id),
    /// A full sync.
    Anew,
}

impl Engine {
    /// Lets a replica in, which asks to go on from an offset of the stream with an id, or for everything.
    pub fn admit_replica(&self, replica: &Arc<Replica>, wanted: Option<(Id, u64)>, now: Instant) -> Beginning {
        let (ids, replicas) = (&self.replication.ids, &self.replication.replicas);
        let now_ms = now.monotonic_ms();
        let known = wanted.filter(|(id, offset)| ids.has(*id, *offset));
        let follower = known.and_then(|(_, offset)| self.journal.follow(offset));
        let beginning = match follower {
            Some(follower) => {
                replicas.syncs.partial.fetch_add(1, Ordering::Relaxed);
                replica.go_online(follower, now_ms);
                Beginning::Continues(ids.id())
            }
            None => {
                if wanted.is_some() {
                    replicas.syncs.refused.fetch_add(1, Ordering::Relaxed);
                }
                replicas.syncs.full.fetch_add(1, Ordering::Relaxed);
                replica.wait_for_snapshot(now_ms);
                Beginning::Anew
            }
        };
        if replicas.is_empty() {
            replicas.pinged_ms.store(now_ms, Ordering::Relaxed);
        }
        replicas.enter(replica);
        // A replica may come and go between two looks at the list of replicas.
        replicas.seen_ms.store(now_ms, Ordering::Relaxed);
        self.weigh_replicas(now);
        if beginning == Beginning::Anew {
            self.begin_due_sync(now);
        }
        beginning
    }

    /// A replica's connection has ended.
    pub fn dismiss_replica(&self, replica: &Replica) {
        self.replication.replicas.leave(replica);
        self.give_up_unwanted_file();
    }

    /// Gives up the file that is being written for replicas, if no replica wants it any more.
    pub(in crate::engine) fn give_up_unwanted_file(&self) {
        let replicas = &self.replication.replicas;
        let is_of_use = |file: &Transfer| {
            let waits = |replica: &Arc<Replica>| replica.waits_since_ms().is_some();
            !file.takers().is_empty() || replicas.all().iter().any(waits) || self.config.is_set(Opt::Save)
        };
        // As in Redis the file is still written if there are save rules: a replica that connects before its end gets it at
        // once.
        if replicas.file_being_written().is_some_and(|file| !is_of_use(&file)) {
            self.persistence.snapshots.abort_for_replicas();
        }
    }

    /// A replica has said how far it is.
    pub fn acknowledge_for(&self, replica: &Replica, applied: u64, synced: Option<u64>, now: Instant) {
        if replica.acknowledge(applied, synced, now.monotonic_ms()) {
            log::notice(&format!("Synchronization with replica {} succeeded", replica.client.socket.address));
        }
        self.weigh_replicas(now);
        self.answer_acknowledged();
        self.replication.replicas.tell_ack_owners();
        self.call_acknowledged(now.monotonic_ms());
    }

    /// Does the work that is due for replicas. Every thread that ticks calls it. While there are no replicas and nothing is
    /// kept for any, it costs a few loads.
    pub fn tend_replicas(&self, now: Instant) {
        let (replicas, now_ms) = (&self.replication.replicas, now.monotonic_ms());
        self.call_acknowledged(now_ms);
        if self.config.number(Opt::MinReplicasToWrite) != 0 {
            self.weigh_replicas(now);
        }
        if replicas.is_empty() {
            if self.journal.is_streamed() && !self.replication.role.is_replica() {
                self.forget_old_backlog(now_ms);
            }
            return;
        }
        // Counted from the last time, so that another period holds at once.
        let is_due = |done_ms: &AtomicU64, every_ms: u64| {
            let last_ms = done_ms.load(Ordering::Relaxed);
            // One of the workers does it.
            now_ms >= last_ms.saturating_add(every_ms)
                && done_ms.compare_exchange(last_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        // While the server waits for replicas before it ends, a ping would be one more entry for them to reach.
        if !self.clients.pause.is_leaving() && is_due(&replicas.pinged_ms, self.ping_every_ms()) {
            self.journal.append_for_replicas(PING);
        }
        if is_due(&replicas.signed_ms, SIGN_MS) {
            for replica in replicas.all().iter().filter(|replica| replica.needs_signs()) {
                let client = &replica.client;
                client.mailbox.post(Letter::SignOfLife(client.id));
            }
            self.close_silent_replicas(now_ms);
        }
        replicas.seen_ms.store(now_ms, Ordering::Relaxed);
        self.begin_due_sync(now);
    }

    /// Asks all replicas how far they are; the offset behind the question.
    pub fn ask_replicas(&self) -> u64 {
        self.journal.append_for_replicas(GETACK)
    }

    /// Returns how often the stream is shown to be alive.
    fn ping_every_ms(&self) -> u64 {
        self.config.number(Opt::ReplPingReplicaPeriod) as u64 * 1_000
    }

    /// Closes replicas of which nothing was heard for longer than `repl-timeout`, or that took nothing of their snapshot for so
    /// long.
    fn close_silent_replicas(&self, now_ms: u64) {
        let timeout_ms = self.config.number(Opt::ReplTimeout) as u64 * 1_000;
        for replica in self.replication.replicas.all() {
            let says_nothing = replica.is_silent.load(Ordering::Relaxed);
            let is_silent = replica.is_online() && !says_nothing && replica.silent_ms(now_ms) > timeout_ms;
            let is_stalled = replica.stalled_ms(now_ms) > timeout_ms;
            if is_silent || is_stalled {
                let (client, what) = (&replica.client, if is_stalled { "full sync" } else { "streaming sync" });
                log::warning(&format!("Disconnecting timedout replica ({what}): {}", client.socket.address));
                client.mailbox.post(Letter::Close(client.id));
            }
        }
    }

    /// Releases the backlog if no replica has been connected for long.
    fn forget_old_backlog(&self, now_ms: u64) {
        let replicas = &self.replication.replicas;
        let ttl_ms = self.config.number(Opt::ReplBacklogTtl) as u64 * 1_000;
        if ttl_ms != 0 && now_ms.saturating_sub(replicas.seen_ms.load(Ordering::Relaxed)) > ttl_ms {
            log::notice("Replication backlog freed after no replica was connected for repl-backlog-ttl seconds.");
            // In this order: no snapshot may state a position in a stream that ended before it went on under a new id.
            self.journal.drop_backlog();
            self.replication.ids.renew(self.new_replication_id());
        }
    }

    /// Moves the bytes that the journal keeps for one slow replica alone into files, up to `repl-spill-max` bytes. All bytes
    /// before `end` may be sent. `repl-backlog-size` bytes and a few megabytes stay in memory.
    pub fn spill_for(&self, replica: &Replica, end: u64) {
        let (replicas, bytes_max) = (&self.replication.replicas, self.config.memory(Opt::ReplSpillMax));
        let kept = self.lag_in_memory_max();
        if bytes_max == 0 || replica.lag(end) <= kept {
            return;
        }
        let make = || {
            let folder = self.config.resolve(&self.config.text(Opt::ReplSpillDir));
            let path = folder.join(format!("temp-repl-spill-{}-{}", self.identity.mark(), replica.client.id));
            let file = self.persistence.disk.open(&path, Open::Create)?;
            // The file stays readable through its open handle.
            _ = self.persistence.disk.remove(&path);
            Ok(file)
        };
        let spilled = replica.spill((end, kept), (&replicas.spilled, bytes_max), make);
        let was_failing = replicas.is_spill_failing.swap(spilled.is_err(), Ordering::Relaxed);
        if let Err(error) = spilled
            && !was_failing
        {
            log::warning(&format!(
                "What slow replicas have still to be sent stays in memory, because there can be no file for it: {error}"
            ));
        }
    }

    /// Bytes that a replica may be behind before its stream goes into files.
    fn lag_in_memory_max(&self) -> u64 {
        let limit = self.config.output_limit(ClientClass::Replica);
        // Bytes that could be in a file must not count against the limit.
        let [hard_bytes, soft_bytes] =
            [limit.hard_bytes, limit.soft_bytes].map(|bytes| if bytes == 0 { u64::MAX } else { bytes });
        let backlog = self.config.memory(Opt::ReplBacklogSize);
        backlog + BRIEF_LAG_BYTES.min(hard_bytes.min(soft_bytes).saturating_sub(backlog + LIMIT_ROOM_BYTES))
    }

    /// An id that no stream has had.
    pub fn new_replication_id(&self) -> Id {
        let dice = self.identity.dice();
        Id::of_bytes([(); Id::LEN / 2].map(|()| dice.number() as u8))
    }

    /// Begins the stream anew, because the data or the offset no longer matches it: all replicas need a full sync.
    pub fn restart_stream(&self, why: &str) {
        if !self.journal.is_streamed() {
            return;
        }
        log::notice(&format!("The stream to replicas begins anew: {why}."));
        self.replication.ids.renew(self.new_replication_id());
        for replica in self.replication.replicas.all() {
            replica.end();
            replica.client.mailbox.post(Letter::Close(replica.client.id));
        }
        self.journal.drop_backlog();
    }

    /// Lets replicas that have just connected share the file that is being written for others.
    fn share_file(&self) {
        let replicas = &self.replication.replicas;
        let Some(file) = replicas.file_being_written() else { return };
        let may_share =
            |replica: &&Arc<Replica>| replica.waits_since_ms().is_some() && replica.told.lock().form() == file.form;
        for replica in replicas.all().iter().filter(may_share) {
            let client = &replica.client;
            let Some(follower) = self.journal.follow(file.offset) else { return };
            if replica.load(&file, Some(follower)) {
                log::notice(&format!("Replica {} shares the snapshot that is being written", client.socket.address));
                client.mailbox.post(Letter::Stream);
            }
        }
    }

    /// Begins a snapshot for the replicas that wait for one, if they have waited for long enough or are enough.
    fn begin_due_sync(&self, now: Instant) {
        let now_ms = now.monotonic_ms();
        self.share_file();
        let waits: Vec<u64> =
            self.replication.replicas.all().iter().filter_map(|replica| replica.waits_since_ms()).collect();
        let Some(since_ms) = waits.iter().min() else { return };
        let delay_ms = match self.config.flag(Opt::ReplDisklessSync) {
            true => self.config.number(Opt::ReplDisklessSyncDelay) as u64 * 1_000,
            false => 0,
        };
        let enough = self.config.number(Opt::ReplDisklessSyncMaxReplicas) as usize;
        let are_enough = enough != 0 && waits.len() >= enough;
        if !are_enough && now_ms.saturating_sub(*since_ms) < delay_ms {
            return;
        }
        self.handle().start_for_replicas(now);
    }

    /// Updates whether there are as many good replicas as `min-replicas-to-write` asks for.
    pub fn weigh_replicas(&self, now: Instant) {
        let least = self.config.number(Opt::MinReplicasToWrite) as usize;
        let lacks = least != 0 && self.good_replicas(now).is_some_and(|good| good < least);
        self.lifecycle.readiness.set(Hindrance::FewReplicas, lacks);
    }

    /// Returns the number of good replicas; none if the options do not ask for it.
    pub fn good_replicas(&self, now: Instant) -> Option<usize> {
        let lag_s = self.config.number(Opt::MinReplicasMaxLag) as u64;
        let asks = self.config.number(Opt::MinReplicasToWrite) != 0 && lag_s != 0;
        // As in Redis whole seconds are compared.
        asks.then(|| self.replication.replicas.good(lag_s * 1_000 + 999, now.monotonic_ms()))
    }

    /// Returns which replicas have the journal up to an offset.
    pub fn reached(&self, offset: u64) -> Reached {
        let replicas = &self.replication.replicas;
        Reached {
            applied: replicas.acked(offset),
            synced: replicas.synced(offset),
            own_disk: self.synced_offset().is_some_and(|synced| synced >= offset),
        }
    }

    /// Answers a client when its condition is met, and asks the replicas for their offsets.
    pub fn answer_when_acknowledged(&self, waiter: &Arc<Waiter>, wanted: WaitCondition) {
        let waiters = &self.replication.replicas.waiters;
        waiters.enter(wanted, waiter);
        self.ask_replicas_about(wanted.offset);
        self.answer_acknowledged();
    }

    /// Calls back, from any thread, when so many replicas have applied all that is in the journal now and so many have
    /// fsynced it. Calls back with false when the timeout has passed, or if this server is no primary any more. May call
    /// before it returns. While no client is served there are no replicas, and no thread checks the timeout.
    pub fn when_replicas_have(
        &self,
        (applied, synced): (usize, usize),
        timeout: Option<Duration>,
        call: impl FnOnce(bool) + Send + 'static,
    ) {
        let wanted = WaitCondition { offset: self.journal.end(), applied, synced, own_disk: false };
        let timeout_ms = timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        let now_ms = clock::monotonic_ms();
        let until_ms = timeout_ms.map(|timeout_ms| now_ms.saturating_add(timeout_ms));
        self.replication.replicas.waiters.enter_caller(Caller { wanted, until_ms, call: Box::new(call) });
        self.ask_replicas_about(wanted.offset);
        self.call_acknowledged(now_ms);
    }

    /// Calls back the programs that have finished waiting for replicas.
    pub fn call_acknowledged(&self, now_ms: u64) {
        let is_primary = !self.replication.role.is_replica() && self.failure().is_none();
        let over = self.replication.replicas.waiters.take_callers(|caller| {
            let is_met = is_primary && caller.wanted.is_met(&self.reached(caller.wanted.offset));
            let is_late = !is_primary || caller.until_ms.is_some_and(|until_ms| now_ms >= until_ms);
            (is_met || is_late).then_some(is_met)
        });
        over.into_iter().for_each(|(has_come, call)| call(has_come));
    }

    /// Asks the replicas how far they are, unless they were asked behind this offset already.
    pub fn ask_replicas_about(&self, offset: u64) {
        let waiters = &self.replication.replicas.waiters;
        if waiters.must_ask(offset) {
            waiters.note_asked(self.ask_replicas());
        }
    }

    /// Answers the clients that have finished waiting for replicas. Costs one load while no client waits.
    pub fn answer_acknowledged(&self) {
        let waiters = &self.replication.replicas.waiters;
        if waiters.is_empty() {
            return;
        }
        for (reached, waiter) in waiters.take_met(|offset| self.reached(offset)) {
            self.answer(&waiter, |reply| waiter.on_timeout.put(reply, |_| reached));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::config::Config;
    use crate::engine::clients::client_info::{ClientInfo, ClientSocket};
    use crate::engine::replication::{ReplicaForm, Transfer};
    use crate::messaging::mail::Mailbox;

    #[test]
    fn the_stream_is_kept_for_a_replica_that_was_there_for_a_moment() {
        let engine = Engine::new(Config::default());
        let replica = Arc::new(Replica::new(&client(&engine)));
        // Of a machine that has been up for longer than `repl-backlog-ttl`.
        let now = Instant { wall_us: 0, monotonic_us: 100_000 * 1_000_000 };
        engine.admit_replica(&replica, None, now);
        engine.dismiss_replica(&replica);
        let id = engine.replication.ids.id();
        engine.forget_old_backlog(now.monotonic_ms());
        assert_eq!(engine.replication.ids.id(), id);
        engine.forget_old_backlog(now.monotonic_ms() + 3_600_001);
        assert_ne!(engine.replication.ids.id(), id);
    }

    #[test]
    fn another_period_of_pings_holds_at_once() {
        let engine = Engine::new(Config::default());
        let at = |monotonic_ms: u64| Instant { wall_us: 0, monotonic_us: monotonic_ms * 1_000 };
        engine.journal.keep_backlog(1 << 20);
        engine.admit_replica(&Arc::new(Replica::new(&client(&engine))), None, at(0));
        let pings_by = |now_ms: u64| {
            let before = engine.journal.end();
            engine.tend_replicas(at(now_ms));
            (engine.journal.end() - before) / PING.len() as u64
        };
        let set = |seconds: &str| {
            engine.config.assign(Opt::ReplPingReplicaPeriod, &[seconds.as_bytes()]).expect("a period");
        };
        set("3600");
        assert_eq!(pings_by(100_000), 0);
        set("1");
        assert_eq!([100_100, 100_900, 101_100, 101_200].map(pings_by), [1, 0, 1, 0]);
        set("3600");
        assert_eq!([103_000, 3_701_000, 3_701_100].map(pings_by), [0, 0, 1]);
    }

    #[test]
    fn a_replica_that_two_threads_have_share_a_file_at_a_time_is_sent_it() {
        let engine = Engine::new(Config::default());
        engine.journal.keep_backlog(1 << 20);
        let waiting: Vec<_> = (0..500).map(|_| Arc::new(Replica::new(&client(&engine)))).collect();
        let (replicas, arrived, mut least) = (&engine.replication.replicas, AtomicUsize::new(0), usize::MAX);
        waiting.iter().for_each(|replica| replicas.enter(replica));
        let meet = |meetings: usize| {
            arrived.fetch_add(1, Ordering::SeqCst);
            while arrived.load(Ordering::SeqCst) < 2 * meetings {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for round in 0..50 {
                    meet(2 * round + 1);
                    engine.share_file();
                    meet(2 * round + 2);
                }
            });
            for round in 0..50 {
                let file = Arc::new(Transfer::new((engine.new_replication_id(), 0), ReplicaForm::default(), None));
                waiting.iter().for_each(|replica| replica.wait_for_snapshot(0));
                replicas.set_file(Some(&file));
                meet(2 * round + 1);
                engine.share_file();
                meet(2 * round + 2);
                least = least.min(file.takers().len());
            }
        });
        assert_eq!(least, waiting.len());
    }

    fn client(engine: &Engine) -> Arc<ClientInfo> {
        let socket = ClientSocket { address: "a:1".into(), local_address: "b:1".into(), descriptor: 9 };
        engine.clients.list.enter(socket, Arc::new(Mailbox::new(|| ())), 0)
    }
}
