//! A server's work for its replicas: it accepts them, begins snapshots for them, sends signs of life, and counts the good
//! replicas.
//!
//! The journal is kept for replicas from the first replica on, until no replica has been connected for `repl-backlog-ttl`
//! seconds. At other times replicas cost nothing; the stream gets a new id after such a time, because the changes of that
//! time are in no stream. Any thread, with no shard locked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sleeve_disk::disk::Open;

use super::ids::Id;
use super::replica::Replica;
use super::transfer::Transfer;
use super::wait::{Caller, WaitCondition};
use crate::config::{ClientClass, Opt};
use crate::engine::Engine;
use crate::engine::clients::blocking::{Reached, Waiter};
use crate::engine::readiness::Hindrance;
use crate::host::clock;
use crate::host::clock::Instant;
use crate::host::log;
use crate::messaging::mail::Letter;

/// The request that asks a replica for its offset.
const GETACK: &[u8] = b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";
/// The request that shows replicas that the stream is alive.
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// The interval of the signs of life to replicas that wait for a snapshot, in milliseconds; as in Redis.
const SIGN_MS: u64 = 1_000;

/// The bytes by which a replica may lag beyond the backlog before files are made for it, so that a replica that is slow for a
/// moment causes no disk access.
const BRIEF_LAG_BYTES: u64 = 4 << 20;

/// The bytes that are kept free below a replica's output buffer limit: room for one write to a file and for the bytes in its
/// connection.
const LIMIT_ROOM_BYTES: u64 = 2 << 20;

/// The kind of sync with which a replica begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// A partial sync: the replica continues at its offset, with the stream of this id.
    Continues(Id),
    /// A full sync.
    Anew,
}

/// Accepts a replica, which asks for a partial sync from an offset of the stream with an id, or for a full sync.
pub fn admit_replica(engine: &Engine, replica: &Arc<Replica>, wanted: Option<(Id, u64)>, now: Instant) -> Beginning {
    let (ids, replicas) = (&engine.replication.ids, &engine.replication.replicas);
    let now_ms = now.monotonic_ms();
    let known = wanted.filter(|(id, offset)| ids.has(*id, *offset));
    let follower = known.and_then(|(_, offset)| engine.journal.follow(offset));
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
    // A replica may connect and disconnect between two checks of the list of replicas.
    replicas.seen_ms.store(now_ms, Ordering::Relaxed);
    weigh_replicas(engine, now);
    if beginning == Beginning::Anew {
        begin_due_sync(engine, now);
    }
    beginning
}

/// Removes a replica after its connection has ended.
pub fn dismiss_replica(engine: &Engine, replica: &Replica) {
    engine.replication.replicas.leave(replica);
    give_up_unwanted_file(engine);
}

/// Aborts the file that is being written for replicas, if no replica needs it any more.
pub(in crate::engine) fn give_up_unwanted_file(engine: &Engine) {
    let replicas = &engine.replication.replicas;
    let is_unwanted = |file: &Transfer| {
        let waits = |replica: &Arc<Replica>| replica.waits_since_ms().is_some();
        // As in Redis, the file is still written if there are save rules: a replica that connects before its end gets it at
        // once.
        file.takers().is_empty() && !replicas.all().iter().any(waits) && !engine.config.is_set(Opt::Save)
    };
    replicas.give_up_file(is_unwanted, || engine.persistence.snapshots.abort_for_replicas());
}

/// Notes the offset that a replica has acknowledged, and answers the clients that wait for it.
pub fn acknowledge_for(engine: &Engine, replica: &Replica, applied: u64, synced: Option<u64>, now: Instant) {
    if replica.acknowledge(applied, synced, now.monotonic_ms()) {
        log::notice(&format!("Synchronization with replica {} succeeded", replica.client.socket.address));
    }
    weigh_replicas(engine, now);
    answer_acknowledged(engine);
    engine.replication.replicas.tell_ack_owners();
    call_acknowledged(engine, now.monotonic_ms());
}

/// Does the work that is due for replicas. Every thread that ticks calls it. If there are no replicas and no backlog, it
/// costs a few loads.
pub fn replication_cron(engine: &Engine, now: Instant) {
    let (replicas, now_ms) = (&engine.replication.replicas, now.monotonic_ms());
    call_acknowledged(engine, now_ms);
    if engine.config.number(Opt::MinReplicasToWrite) != 0 {
        weigh_replicas(engine, now);
    }
    if replicas.is_empty() {
        if engine.journal.is_streamed() && !engine.replication.role.is_replica() {
            forget_old_backlog(engine, now_ms);
        }
        return;
    }
    // The time is counted from the last run, so that a changed period applies at once.
    let is_due = |done_ms: &AtomicU64, every_ms: u64| {
        let last_ms = done_ms.load(Ordering::Relaxed);
        // Only one of the workers does the work.
        now_ms >= last_ms.saturating_add(every_ms)
            && done_ms.compare_exchange(last_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    };
    // While the server waits for replicas before it ends, a PING would be one more request for them to acknowledge.
    if !engine.clients.pause.is_leaving() && is_due(&replicas.pinged_ms, ping_every_ms(engine)) {
        engine.journal.append_for_replicas(PING);
    }
    if is_due(&replicas.signed_ms, SIGN_MS) {
        for replica in replicas.all().iter().filter(|replica| replica.needs_signs()) {
            let client = &replica.client;
            client.mailbox.post(Letter::SignOfLife(client.id));
        }
        close_silent_replicas(engine, now_ms);
    }
    replicas.seen_ms.store(now_ms, Ordering::Relaxed);
    begin_due_sync(engine, now);
}

/// Asks all replicas for their offset; returns the offset of the journal behind the question.
pub fn ask_replicas(engine: &Engine) -> u64 {
    engine.journal.append_for_replicas(GETACK)
}

/// Returns the interval of the PINGs in the stream.
fn ping_every_ms(engine: &Engine) -> u64 {
    engine.config.number(Opt::ReplPingReplicaPeriod) as u64 * 1_000
}

/// Closes replicas from which no message has come for longer than `repl-timeout`, or that have taken nothing of their
/// snapshot for so long.
fn close_silent_replicas(engine: &Engine, now_ms: u64) {
    let timeout_ms = engine.config.number(Opt::ReplTimeout) as u64 * 1_000;
    for replica in engine.replication.replicas.all() {
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
fn forget_old_backlog(engine: &Engine, now_ms: u64) {
    let replicas = &engine.replication.replicas;
    let ttl_ms = engine.config.number(Opt::ReplBacklogTtl) as u64 * 1_000;
    if ttl_ms != 0 && now_ms.saturating_sub(replicas.seen_ms.load(Ordering::Relaxed)) > ttl_ms {
        log::notice("Replication backlog freed after no replica was connected for repl-backlog-ttl seconds.");
        // The order matters: no snapshot may state a position in a stream that ended before it got its new id.
        engine.journal.drop_backlog();
        engine.replication.ids.renew(new_replication_id(engine));
    }
}

/// Moves the bytes that the journal keeps only for one slow replica into files, up to `repl-spill-max` bytes. All bytes
/// before `end` may be sent. `repl-backlog-size` bytes and a few megabytes stay in memory.
pub fn spill_for(engine: &Engine, replica: &Replica, end: u64) {
    let (replicas, bytes_max) = (&engine.replication.replicas, engine.config.memory(Opt::ReplSpillMax));
    let kept = lag_in_memory_max(engine);
    if bytes_max == 0 || replica.lag(end) <= kept {
        return;
    }
    let make = || {
        let folder = engine.config.resolve(&engine.config.text(Opt::ReplSpillDir));
        let path = folder.join(format!("temp-repl-spill-{}-{}", engine.identity.mark(), replica.client.id));
        let file = engine.persistence.disk.open(&path, Open::Create)?;
        // The file stays readable through its open handle after its name is removed.
        _ = engine.persistence.disk.remove(&path);
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

/// Returns the bytes by which a replica may lag before its part of the stream goes into files.
fn lag_in_memory_max(engine: &Engine) -> u64 {
    let limit = engine.config.output_limit(ClientClass::Replica);
    // Bytes that could go into a file must not bring the replica to its output buffer limit.
    let [hard_bytes, soft_bytes] =
        [limit.hard_bytes, limit.soft_bytes].map(|bytes| if bytes == 0 { u64::MAX } else { bytes });
    let backlog = engine.config.memory(Opt::ReplBacklogSize);
    backlog + BRIEF_LAG_BYTES.min(hard_bytes.min(soft_bytes).saturating_sub(backlog + LIMIT_ROOM_BYTES))
}

/// Returns a new random replication id.
pub fn new_replication_id(engine: &Engine) -> Id {
    let dice = engine.identity.dice();
    Id::of_bytes([(); Id::LEN / 2].map(|()| dice.number() as u8))
}

/// Begins the stream anew, because the data or the offset no longer matches it: all replicas need a full sync.
pub fn restart_stream(engine: &Engine, why: &str) {
    if !engine.journal.is_streamed() {
        return;
    }
    log::notice(&format!("The stream to replicas begins anew: {why}."));
    engine.replication.ids.renew(new_replication_id(engine));
    for replica in engine.replication.replicas.all() {
        replica.end();
        replica.client.mailbox.post(Letter::Close(replica.client.id));
    }
    engine.journal.drop_backlog();
}

/// Lets replicas that have just connected share the file that is being written for others.
fn share_file(engine: &Engine) {
    let replicas = &engine.replication.replicas;
    replicas.with_file(|file| {
        let may_share =
            |replica: &&Arc<Replica>| replica.waits_since_ms().is_some() && replica.told.lock().form() == file.form;
        for replica in replicas.all().iter().filter(may_share) {
            let client = &replica.client;
            let Some(follower) = engine.journal.follow(file.offset) else { return };
            if replica.load(file, Some(follower)) {
                log::notice(&format!("Replica {} shares the snapshot that is being written", client.socket.address));
                client.mailbox.post(Letter::Stream);
            }
        }
    });
}

/// Begins a snapshot for the replicas that wait for one, if they have waited for long enough or if there are enough of them.
fn begin_due_sync(engine: &Engine, now: Instant) {
    let now_ms = now.monotonic_ms();
    share_file(engine);
    let waits: Vec<u64> =
        engine.replication.replicas.all().iter().filter_map(|replica| replica.waits_since_ms()).collect();
    let Some(since_ms) = waits.iter().min() else { return };
    let delay_ms = match engine.config.flag(Opt::ReplDisklessSync) {
        true => engine.config.number(Opt::ReplDisklessSyncDelay) as u64 * 1_000,
        false => 0,
    };
    let enough = engine.config.number(Opt::ReplDisklessSyncMaxReplicas) as usize;
    let are_enough = enough != 0 && waits.len() >= enough;
    if !are_enough && now_ms.saturating_sub(*since_ms) < delay_ms {
        return;
    }
    engine.persistence.snapshots.start_for_replicas(&engine.handle(), now);
}

/// Updates whether there are as many good replicas as `min-replicas-to-write` asks for.
pub fn weigh_replicas(engine: &Engine, now: Instant) {
    let least = engine.config.number(Opt::MinReplicasToWrite) as usize;
    let lacks = least != 0 && good_replicas(engine, now).is_some_and(|good| good < least);
    engine.lifecycle.readiness.set(Hindrance::FewReplicas, lacks);
}

/// Returns the number of good replicas; None if the options do not ask for any.
pub fn good_replicas(engine: &Engine, now: Instant) -> Option<usize> {
    let lag_s = engine.config.number(Opt::MinReplicasMaxLag) as u64;
    let asks = engine.config.number(Opt::MinReplicasToWrite) != 0 && lag_s != 0;
    // As in Redis, whole seconds are compared.
    asks.then(|| engine.replication.replicas.good(lag_s * 1_000 + 999, now.monotonic_ms()))
}

/// Returns how many servers have the journal up to an offset.
pub fn reached(engine: &Engine, offset: u64) -> Reached {
    let replicas = &engine.replication.replicas;
    Reached {
        applied: replicas.acked(offset),
        synced: replicas.synced(offset),
        own_disk: engine.persistence.synced_offset(engine).is_some_and(|synced| synced >= offset),
    }
}

/// Enters a client that is answered when its condition is met, and asks the replicas for their offsets.
pub fn answer_when_acknowledged(engine: &Engine, waiter: &Arc<Waiter>, wanted: WaitCondition) {
    let waiters = &engine.replication.replicas.waiters;
    waiters.enter(wanted, waiter);
    ask_replicas_about(engine, wanted.offset);
    answer_acknowledged(engine);
}

/// Calls back, from any thread, with true when so many replicas have applied all that is in the journal now and so many have
/// fsynced it. Calls back with false when the timeout has passed, or if this server is no primary any more. May call before
/// it returns. If no client is served, there are no replicas, and no thread checks the timeout.
pub fn when_replicas_have(
    engine: &Engine,
    (applied, synced): (usize, usize),
    timeout: Option<Duration>,
    call: impl FnOnce(bool) + Send + 'static,
) {
    let wanted = WaitCondition { offset: engine.journal.end(), applied, synced, own_disk: false };
    let timeout_ms = timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    let now_ms = clock::monotonic_ms();
    let until_ms = timeout_ms.map(|timeout_ms| now_ms.saturating_add(timeout_ms));
    engine.replication.replicas.waiters.enter_caller(Caller { wanted, until_ms, call: Box::new(call) });
    ask_replicas_about(engine, wanted.offset);
    call_acknowledged(engine, now_ms);
}

/// Calls back the programs that have finished waiting for replicas.
pub fn call_acknowledged(engine: &Engine, now_ms: u64) {
    let is_primary = !engine.replication.role.is_replica() && engine.failure().is_none();
    let over = engine.replication.replicas.waiters.take_callers(|caller| {
        let is_met = is_primary && caller.wanted.is_met(&reached(engine, caller.wanted.offset));
        let is_late = !is_primary || caller.until_ms.is_some_and(|until_ms| now_ms >= until_ms);
        (is_met || is_late).then_some(is_met)
    });
    over.into_iter().for_each(|(has_come, call)| call(has_come));
}

/// Asks the replicas for their offset, unless they were asked after this offset already.
pub fn ask_replicas_about(engine: &Engine, offset: u64) {
    let waiters = &engine.replication.replicas.waiters;
    if waiters.must_ask(offset) {
        waiters.note_asked(ask_replicas(engine));
    }
}

/// Answers the clients that have finished waiting for replicas. If no client waits, this costs one load.
pub fn answer_acknowledged(engine: &Engine) {
    let waiters = &engine.replication.replicas.waiters;
    if waiters.is_empty() {
        return;
    }
    for (reached, waiter) in waiters.take_met(|offset| reached(engine, offset)) {
        engine.answer(&waiter, |reply| waiter.on_timeout.put(reply, |_| reached));
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
        // The time of a machine that has been up for longer than `repl-backlog-ttl`.
        let now = Instant { wall_us: 0, monotonic_us: 100_000 * 1_000_000 };
        admit_replica(&engine, &replica, None, now);
        dismiss_replica(&engine, &replica);
        let id = engine.replication.ids.id();
        forget_old_backlog(&engine, now.monotonic_ms());
        assert_eq!(engine.replication.ids.id(), id);
        forget_old_backlog(&engine, now.monotonic_ms() + 3_600_001);
        assert_ne!(engine.replication.ids.id(), id);
    }

    #[test]
    fn another_period_of_pings_holds_at_once() {
        let engine = Engine::new(Config::default());
        let at = |monotonic_ms: u64| Instant { wall_us: 0, monotonic_us: monotonic_ms * 1_000 };
        engine.journal.keep_backlog(1 << 20);
        admit_replica(&engine, &Arc::new(Replica::new(&client(&engine))), None, at(0));
        let pings_by = |now_ms: u64| {
            let before = engine.journal.end();
            replication_cron(&engine, at(now_ms));
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
                    share_file(&engine);
                    meet(2 * round + 2);
                }
            });
            for round in 0..50 {
                let file = Arc::new(Transfer::new((new_replication_id(&engine), 0), ReplicaForm::default(), None));
                waiting.iter().for_each(|replica| replica.wait_for_snapshot(0));
                replicas.set_file(Some(&file));
                meet(2 * round + 1);
                share_file(&engine);
                meet(2 * round + 2);
                least = least.min(file.takers().len());
            }
        });
        assert_eq!(least, waiting.len());
    }

    #[test]
    fn a_file_that_is_being_given_up_is_not_shared() {
        let engine = Engine::new(Config::default());
        engine.journal.keep_backlog(1 << 20);
        let file = Arc::new(Transfer::new((new_replication_id(&engine), 0), ReplicaForm::default(), None));
        let (replicas, arriving) = (&engine.replication.replicas, Arc::new(Replica::new(&client(&engine))));
        replicas.set_file(Some(&file));
        std::thread::scope(|threads| {
            let is_unwanted = |file: &Transfer| {
                arriving.wait_for_snapshot(0);
                replicas.enter(&arriving);
                threads.spawn(|| share_file(&engine));
                // The other thread gets time to take the file, which it must not.
                for _ in 0..50 {
                    std::thread::sleep(Duration::from_millis(1));
                    assert!(file.takers().is_empty(), "a replica takes a file that is being given up");
                }
                true
            };
            replicas.give_up_file(is_unwanted, || ());
        });
        assert!(arriving.waits_since_ms().is_some() && file.takers().is_empty());
    }

    fn client(engine: &Engine) -> Arc<ClientInfo> {
        let socket = ClientSocket { address: "a:1".into(), local_address: "b:1".into(), descriptor: 9, is_tls: false };
        engine.clients.list.enter(socket, Arc::new(Mailbox::new(|| ())), 0)
    }
}
