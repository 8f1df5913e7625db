//! The client against real clusters, of other servers and of Sleeve: slots, a resharding under load, a primary that is killed, a
//! full restart; nodes that are cut off in `partitions`.
//!
//! Every reply is looked at. A counter that one thread alone increases says whether anything was lost, was executed twice or
//! went to the wrong node: each answer is one more than the one before.

mod encrypted;
mod failover_times;
mod mixed;
mod near_cache;
mod partitions;
pub mod remote_caller;
mod shards;
mod sleeve_nodes;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Client, Config, Effect, ErrorKind, Lease, ReadFrom, ScanOptions, SubscriptionEvent, Transaction};
use sleeve_tests::{Cluster, Kind, Server, soak};

/// The servers of which clusters are made: one of another project, and our own.
const KINDS: [Kind; 2] = [Kind::Valkey, Kind::Sleeve];

/// The time limit of every wait. Only a defect gets near it.
const PATIENCE: Duration = Duration::from_secs(60);

fn connect(cluster: &Cluster) -> Client {
    let config = Config::from_url(&cluster.url()).unwrap();
    let config = config.backoff(Duration::from_millis(5), Duration::from_millis(100));
    Client::connect_with(config.command_timeout(Some(PATIENCE))).unwrap()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_key_goes_straight_to_its_node() {
    const KEYS: usize = 2000;
    for kind in [Kind::Valkey, Kind::Redis, Kind::Sleeve] {
        let cluster = Cluster::start(kind, 3, 0, &[]);
        // One seed node is enough.
        let client = Client::connect(&format!("redis+cluster://{}", cluster.servers[1].address())).unwrap();
        let key = |number: usize| format!("key:{number}");
        let sent: Vec<_> = (0..KEYS).map(|number| client.set(key(number), number)).collect();
        sent.into_iter().for_each(|reply| reply.wait().unwrap());
        let values: Vec<usize> = client.mget((0..KEYS).map(key).collect::<Vec<_>>()).wait().unwrap();
        assert_eq!(values, (0..KEYS).collect::<Vec<_>>());
        assert_eq!(client.dbsize().wait(), Ok(KEYS as u64));
        for number in 0..3 {
            assert_eq!(cluster.errors(number, "MOVED"), 0, "{kind:?}: node {number} had to redirect");
        }
        let transaction = client.transaction();
        let (one, two) = (transaction.incr("{user}:a"), transaction.incr("{user}:b"));
        assert_eq!(transaction.exec().wait(), Ok(true));
        assert_eq!((one.wait(), two.wait()), (Ok(1), Ok(1)));
        // WAITAOF would hold up every caller of the shared connection.
        let unsynced = client.set("a", 1).synced().wait().unwrap_err();
        assert!(unsynced.message().contains("client.lease()"), "{unsynced}");
        assert_eq!(client.del((0..KEYS).map(key).collect::<Vec<_>>()).wait(), Ok(KEYS as u64));
        client.flushall().wait().unwrap();
        assert_eq!(client.dbsize().wait(), Ok(0));
    }
}

/// Threads that each count in keys of their own, and check every reply.
struct Counters {
    stopped: AtomicBool,
    /// The number of replies so far.
    answered: AtomicU64,
}

impl Counters {
    fn new() -> Self {
        Self { stopped: AtomicBool::new(false), answered: AtomicU64::new(0) }
    }

    /// Counts in these keys, several calls at a time, until it is stopped. No answer may be an error.
    fn count(&self, client: &Client, keys: &[String]) {
        let mut counts = vec![0; keys.len()];
        while !self.stopped.load(Ordering::Acquire) {
            let sent: Vec<_> = keys.iter().flat_map(|key| [client.incr(key), client.incr(key)]).collect();
            for (number, reply) in sent.into_iter().enumerate() {
                let count = &mut counts[number / 2];
                *count += 1;
                assert_eq!(reply.wait(), Ok(*count), "{}", keys[number / 2]);
                self.answered.fetch_add(1, Ordering::Relaxed);
            }
        }
        for (key, count) in keys.iter().zip(counts) {
            assert_eq!(client.get::<i64>(key).wait(), Ok(count), "{key}");
        }
    }

    /// Writes numbers to a key without waiting for the replies; the last number must be there in the end.
    fn write(&self, client: &Client, key: &str) {
        let mut last = 0;
        while !self.stopped.load(Ordering::Acquire) {
            for _ in 0..50 {
                last += 1;
                client.set(key, last).forget();
            }
            assert_eq!(client.get::<i64>(key).wait(), Ok(last), "{key}: something has overtaken something");
        }
    }

    /// Waits until so many more answers have come.
    fn wait_for_more(&self, answers: u64) {
        let wanted = self.answered.load(Ordering::Relaxed) + answers;
        until("callers are answered", || self.answered.load(Ordering::Relaxed) >= wanted);
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }
}

#[test]
fn a_resharding_under_load_is_not_noticed() {
    for kind in KINDS {
        let moves = soak::count(6);
        let cluster = Cluster::start(kind, 3, 0, &[]);
        let client = connect(&cluster);
        // Keys in slots of the first node, several in each, for each of the threads.
        let tags: Vec<String> =
            (0..).map(|number| format!("t{number}")).filter(|tag| cluster.slot_of(tag) < 5461).take(3).collect();
        let slots: Vec<u16> = tags.iter().map(|tag| cluster.slot_of(tag)).collect();
        let keys = |thread: usize| -> Vec<String> {
            tags.iter().flat_map(|tag| (0..4).map(move |number| format!("{{{tag}}}:{thread}:{number}"))).collect()
        };
        let counters = Counters::new();
        thread::scope(|scope| {
            for thread in 0..2 {
                let (client, counters, keys) = (client.clone(), &counters, keys(thread));
                scope.spawn(move || counters.count(&client, &keys));
            }
            for tag in &tags {
                let (client, counters, key) = (client.clone(), &counters, format!("{{{tag}}}:last"));
                scope.spawn(move || counters.write(&client, &key));
            }
            counters.wait_for_more(100);
            for round in 0..moves {
                let (from, to) = (round % 3, (round + 1) % 3);
                for &slot in &slots {
                    cluster.move_slot(slot, from, to, || counters.wait_for_more(5));
                    counters.wait_for_more(20);
                }
            }
            counters.stop();
        });
        let redirected = |code: &str| (0..3).map(|node| cluster.errors(node, code)).sum::<u64>();
        assert!(redirected("MOVED") > 0 && redirected("ASK") > 0, "nothing was redirected");
    }
}

#[test]
fn a_primary_that_is_killed_is_replaced_and_the_others_callers_go_on() {
    for kind in KINDS {
        let mut cluster = Cluster::start(kind, 3, 1, &["--cluster-require-full-coverage", "no"]);
        let client = connect(&cluster);
        let in_slots = |from: u16, to: u16| {
            let mut keys = (0..).map(|number| format!("k{number}"));
            keys.find(|key| (from..to).contains(&cluster.slot_of(key))).unwrap()
        };
        let (lost, healthy) = (in_slots(0, 5461), vec![in_slots(5461, 10922), in_slots(10923, 16384)]);
        let counters = Counters::new();
        thread::scope(|scope| {
            let (others, counting) = (client.clone(), &counters);
            scope.spawn(move || counting.count(&others, &healthy));
            // Acknowledged calls are counted, and calls of unknown effect.
            let (mut acknowledged, mut unknown, mut last) = (0, 0, 0);
            for _ in 0..100 {
                last = client.incr(&lost).wait().unwrap();
                acknowledged += 1;
            }
            let mut replica = cluster.servers[3].connect();
            replica.command(&["READONLY"]).unwrap();
            until("the replica has it", || replica.command(&["GET", &lost]).unwrap() == b"$3\r\n100\r\n");
            cluster.servers[0].kill();
            let mut recovered = 0;
            let since = Instant::now();
            while recovered < 100 {
                assert!(since.elapsed() < PATIENCE, "nobody has taken over");
                match client.incr(&lost).wait() {
                    Ok(count) => {
                        assert!(count > last, "{count} behind {last}");
                        (last, acknowledged, recovered) = (count, acknowledged + 1, recovered + 1);
                    }
                    Err(error) => {
                        assert_eq!(
                            (error.kind(), error.effect()),
                            (ErrorKind::Disconnected, Effect::Unknown),
                            "{error}"
                        );
                        unknown += 1;
                    }
                }
            }
            assert!((acknowledged..=acknowledged + unknown).contains(&last), "{acknowledged} + {unknown}: {last}");
            counters.wait_for_more(100);
            counters.stop();
        });
    }
}

#[test]
fn no_count_is_lost_while_replicas_take_over_by_request() {
    const SHARDS: usize = 3;
    for kind in KINDS {
        let cluster = Cluster::start(kind, SHARDS, 1, &[]);
        let client = connect(&cluster);
        let counters = Counters::new();
        thread::scope(|scope| {
            for thread in 0..2 {
                let (client, counters) = (client.clone(), &counters);
                let keys: Vec<String> = (0..12).map(|number| format!("k{thread}:{number}")).collect();
                scope.spawn(move || counters.count(&client, &keys));
            }
            // One after the other: the primaries vote once for each shard within twice the node timeout.
            for replica in &cluster.servers[SHARDS..] {
                counters.wait_for_more(200);
                assert_eq!(replica.connect().command(&["CLUSTER", "FAILOVER"]).unwrap(), b"+OK\r\n");
                until("it takes over", || {
                    replica.connect().command(&["ROLE"]).unwrap().starts_with(b"*3\r\n$6\r\nmaster")
                });
            }
            counters.wait_for_more(200);
            counters.stop();
        });
    }
}

/// Returns the number of times that a node has executed GET.
fn reads(node: &Server) -> u64 {
    let answer = node.connect().command(&["INFO", "commandstats"]).unwrap();
    let stats = String::from_utf8_lossy(&answer).into_owned();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_get:calls="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

fn signal(node: &Server, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), node.process_id().to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Waits until a read is answered soon although a node is missing: calls in flight may wait until the client knows which node
/// that is.
fn until_nobody_waits(client: &Client) {
    until("nobody waits", || {
        let reply = client.get::<String>("k");
        thread::sleep(Duration::from_millis(50));
        reply.is_ready()
    });
}

#[test]
fn reads_go_to_the_replicas_that_keep_up() {
    let mut cluster = Cluster::start(Kind::Valkey, 1, 2, &["--cluster-allow-reads-when-down", "yes"]);
    for (node, zone) in cluster.servers.iter().zip(["a", "b", "c"]) {
        assert_eq!(node.connect().command(&["CONFIG", "SET", "availability-zone", zone]).unwrap(), b"+OK\r\n");
    }
    let connect = |policy| {
        let config = Config::from_url(&cluster.url()).unwrap().read_from(policy);
        Client::connect_with(config.command_timeout(Some(PATIENCE))).unwrap()
    };
    let (client, near) = (connect(ReadFrom::Replica), connect(ReadFrom::Zone("c".to_owned())));
    client.set("k", "v").wait().unwrap();
    let get = |client: &Client| client.get::<Option<String>>("k").wait().unwrap();
    let reads_of = |node: usize| reads(&cluster.servers[node]);
    until("both are read from", || get(&client).is_some() && reads_of(1) > 0 && reads_of(2) > 0);
    until("they take turns", || {
        let before = [0, 1, 2].map(reads_of);
        (0..100).for_each(|_| assert_eq!(get(&client).as_deref(), Some("v")));
        [0, 1, 2].map(reads_of) == [before[0], before[1] + 50, before[2] + 50]
    });
    until("the own zone is read from", || {
        let before = [0, 1, 2].map(reads_of);
        (0..10).for_each(|_| _ = get(&near));
        [0, 1, 2].map(reads_of) == [before[0], before[1], before[2] + 10]
    });
    // A replica that stops is skipped, and asked again when it goes on.
    signal(&cluster.servers[2], "STOP");
    [&client, &near].into_iter().for_each(until_nobody_waits);
    until("the other answers all", || {
        let before = reads_of(1);
        (0..100).for_each(|_| assert_eq!(get(&client).as_deref(), Some("v")));
        reads_of(1) == before + 100
    });
    signal(&cluster.servers[2], "CONT");
    let before = reads_of(2);
    until("it is read from again", || get(&near).is_some() && reads_of(2) > before + 5);
    // A replica that has lost its primary is a worse choice than the primary, and better than no server.
    drop(near);
    cluster.servers[2].kill();
    cluster.servers[0].kill();
    until_nobody_waits(&client);
    assert_eq!(get(&client).as_deref(), Some("v"));
}

#[test]
fn a_cluster_that_is_restarted_whole_is_found_again() {
    for kind in KINDS {
        let mut cluster = Cluster::start(kind, 3, 0, &[]);
        let client = connect(&cluster);
        let keys: Vec<String> = (0..30).map(|number| format!("k{number}")).collect();
        for key in &keys {
            client.set(key, 0).wait().unwrap();
        }
        cluster.servers.iter_mut().for_each(Server::kill);
        // Calls made now wait. Only a call that was being written when a connection was lost may be lost with it.
        let sent: Vec<_> = keys.iter().map(|key| client.set(key, 1)).collect();
        for server in &mut cluster.servers {
            server.restart().unwrap();
        }
        for reply in sent {
            if let Err(error) = reply.wait() {
                assert_eq!((error.kind(), error.effect()), (ErrorKind::Disconnected, Effect::Unknown), "{error}");
            }
        }
        for key in &keys {
            client.set(key, 2).wait().unwrap();
            assert_eq!(client.get::<i64>(key).wait(), Ok(2));
        }
    }
}

#[test]
fn waiters_subscribers_and_watchers_follow_the_slot() {
    for kind in KINDS {
        let cluster = Cluster::start(kind, 3, 0, &[]);
        let client = connect(&cluster);
        let mut owner = usize::from(cluster.slot_of("jobs") / (sleeve_tests::cluster::SLOTS / 3 + 1));
        let subscription = client.ssubscribe("{jobs}news").unwrap();
        let everybody = client.subscribe("everybody").unwrap();
        for round in 0..3 {
            let waiting = client.blpop::<(String, i64)>("jobs", Duration::ZERO);
            let transaction = |lease: &Lease, transaction: &Transaction| {
                let count: Option<i64> = lease.get("{jobs}count").wait()?;
                transaction.set("{jobs}count", count.unwrap_or(0) + 1).forget();
                Ok(count)
            };
            client.watch("{jobs}count", transaction).unwrap();
            let next = (owner + 1) % 3;
            cluster.move_slot(cluster.slot_of("jobs"), owner, next, || ());
            owner = next;
            assert!(!waiting.is_ready());
            assert_eq!(client.watch("{jobs}count", transaction).unwrap(), Some(round * 2 + 1));
            client.rpush("jobs", round).wait().unwrap();
            assert_eq!(waiting.wait().unwrap(), ("jobs".to_owned(), round));
            // The message arrives again once the channel is subscribed at the new owner.
            until("the message is heard", || {
                client.cmd("SPUBLISH").arg(("{jobs}news", round)).send::<i64>().wait().unwrap();
                let heard = |event: Option<SubscriptionEvent>| matches!(event, Some(SubscriptionEvent::Message(message)) if message.payload_as::<i64>() == Ok(round));
                heard(subscription.recv_timeout(Duration::from_millis(20)).unwrap())
            });
            client.publish("everybody", round).wait().unwrap();
            let message = everybody.recv().wait().unwrap().into_message().unwrap();
            assert_eq!(message.payload_as::<i64>(), Ok(round));
        }
    }
}

#[test]
fn a_lease_goes_where_its_first_keys_are_and_says_when_they_are_safe() {
    for kind in KINDS {
        let cluster = Cluster::start(kind, 2, 1, &["--appendonly", "yes"]);
        let client = connect(&cluster);
        for key in ["a", "b", "c", "d"] {
            let lease = client.lease().unwrap();
            assert_eq!(lease.incr(key).synced().wait(), Ok(1), "{key}");
            assert_eq!(lease.incr(key).replicated(1).wait(), Ok(2), "{key}");
            assert_eq!(lease.incr(key).synced_on(1).wait(), Ok(3), "{key}");
            let transaction = lease.transaction();
            let count = transaction.incr(key);
            assert_eq!(transaction.exec().wait(), Ok(true));
            assert_eq!(count.synced().wait(), Ok(4), "{key}");
            // A transaction is not executed if another client has changed a watched key.
            let lease = client.lease().unwrap();
            lease.watch(key).wait().unwrap();
            client.incr(key).wait().unwrap();
            let transaction = lease.transaction();
            transaction.incr(key).forget();
            assert_eq!(transaction.exec().wait(), Ok(false));
            // A transaction ahead of all commands is the client's own.
            let transaction = client.lease().unwrap().transaction();
            let count = transaction.incr(key);
            assert_eq!((transaction.exec().wait(), count.wait()), (Ok(true), Ok(6)));
        }
        for number in 0..2 {
            assert_eq!(cluster.errors(number, "MOVED"), 0, "node {number} had to redirect");
        }
        let slot = cluster.slot_of("a");
        let owner = usize::from(slot >= sleeve_tests::cluster::SLOTS / 2);
        let lease = client.lease().unwrap();
        assert_eq!(lease.get::<i64>("a").wait(), Ok(6));
        cluster.move_slot(slot, owner, 1 - owner, || ());
        let error = lease.incr("a").wait().unwrap_err();
        assert_eq!((error.code(), error.effect()), (Some("MOVED"), Effect::Refused), "it stays where it is");
        until("another one is taken to where it is", || {
            client.incr("a").wait().unwrap();
            client.lease().unwrap().incr("a").synced().wait().is_ok()
        });
    }
}

#[test]
fn a_scan_goes_through_all_nodes() {
    for kind in KINDS {
        const KEYS: usize = 1000;
        let cluster = Cluster::start(kind, 3, 0, &[]);
        let client = connect(&cluster);
        let key = |number: usize| format!("key:{number}");
        client.mset((0..KEYS).map(|number| (key(number), number)).collect::<Vec<_>>()).wait().unwrap();
        let keys = client.scan_all::<String>().into_iter().collect::<Result<BTreeSet<_>, _>>().unwrap();
        assert_eq!(keys, (0..KEYS).map(key).collect());
        let some = client.scan_all_with::<String>(ScanOptions::new().pattern("key:7*")).into_iter().count();
        assert_eq!(some, (0..KEYS).map(key).filter(|key| key.starts_with("key:7")).count());
    }
}

#[test]
fn databases_are_those_that_the_nodes_have() {
    for kind in KINDS {
        let cluster = Cluster::start(kind, 3, 0, &["--cluster-databases", "4"]);
        let client = connect(&cluster);
        let keys: Vec<String> = (0..30).map(|number| format!("k{number}")).collect();
        for database in 0..4 {
            let pairs: Vec<(&String, u32)> = keys.iter().map(|key| (key, database)).collect();
            client.db(database).mset(pairs).wait().unwrap();
        }
        // Calls of several databases go over one connection.
        let sent: Vec<_> =
            keys.iter().flat_map(|key| [3, 0, 2].map(|database| client.db(database).incr(key))).collect();
        let counts: Vec<i64> = sent.into_iter().map(|reply| reply.wait().unwrap()).collect();
        assert!(counts.chunks(3).all(|counts| counts == [4, 1, 3]), "{counts:?}");
        assert_eq!(client.db(1).mget::<Vec<u32>>(&keys).wait().unwrap(), vec![1; 30]);
        let transaction = client.db(2).transaction();
        let count = transaction.incr("k7");
        assert_eq!((transaction.exec().wait(), count.wait()), (Ok(true), Ok(4)));
        assert_eq!(client.db(3).dbsize().wait(), Ok(30));
        let there = Client::connect(&format!("{}/3", cluster.url())).unwrap();
        assert_eq!(there.get::<i64>("k7").wait(), Ok(4));
        assert_eq!(there.scan_all::<String>().into_iter().count(), 30);
        // A redirected request takes its database along.
        let slot = cluster.slot_of("moved");
        let owner = usize::from(slot / (sleeve_tests::cluster::SLOTS / 3 + 1));
        cluster.move_slot(slot, owner, (owner + 1) % 3, || ());
        client.db(3).set("moved", "here").wait().unwrap();
        assert_eq!(there.get::<String>("moved").wait().as_deref(), Ok("here"));
        assert_eq!(client.get::<Option<String>>("moved").wait(), Ok(None));
        let error = client.db(4).get::<Option<String>>("k7").wait().unwrap_err();
        assert_eq!((error.code(), error.effect()), (Some("ERR"), Effect::None), "{error}");
        let error = Client::connect(&format!("{}/4", cluster.url())).err().unwrap();
        assert!(error.message().contains("out of range"), "{error}");
    }
}
