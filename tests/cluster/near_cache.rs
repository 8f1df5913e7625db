//! The near cache over clusters of real servers: each node invalidates the keys that it owns.
//!
//! A repeated read costs no node anything; a key that any client changed is read anew, also while its slot moves; a lost
//! connection empties the part of the cache that its node owned, and no other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{CacheOptions, Cached, Client, Config};
use sleeve_tests::cluster::SLOTS;
use sleeve_tests::{Cluster, Kind, soak};

use super::KINDS;

/// The time limit of every wait. Only a defect gets near it.
const PATIENCE: Duration = Duration::from_secs(60);

fn connect(cluster: &Cluster) -> Client {
    let config = Config::from_url(&cluster.url()).expect("a URL");
    let config = config.backoff(Duration::from_millis(5), Duration::from_millis(100));
    Client::connect_with(config.command_timeout(Some(PATIENCE))).expect("a cluster")
}

/// Returns a key for each node that the node owns, in the order of the nodes.
fn keys(cluster: &Cluster) -> Vec<String> {
    let node_of = |key: &String| usize::from(cluster.slot_of(key)) * 3 / usize::from(SLOTS);
    let key_of = |node| (0..).map(|number| format!("k{number}")).find(|key| node_of(key) == node);
    (0..3).map(|node| key_of(node).expect("some key is there")).collect()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::yield_now();
    }
}

fn read(cached: &Cached, key: &str) -> Option<i64> {
    cached.get(key).wait().expect("an answer")
}

/// Reads until the cache answers, and returns the value.
fn until_kept(cached: &Cached, key: &str) -> Option<i64> {
    let hits = cached.stats().hits;
    let mut last = None;
    until("it is kept", || {
        last = read(cached, key);
        cached.stats().hits > hits
    });
    last
}

/// Returns whether all of these keys are read from the cache.
fn are_kept(cached: &Cached, keys: &[String]) -> bool {
    let misses = cached.stats().misses;
    keys.iter().for_each(|key| _ = read(cached, key));
    cached.stats().misses == misses
}

#[test]
fn repeated_reads_send_nothing_to_any_node() {
    for (kind, options) in [
        (Kind::Valkey, CacheOptions::new()),
        (Kind::Redis, CacheOptions::new()),
        (Kind::Sleeve, CacheOptions::new()),
        (Kind::Valkey, CacheOptions::new().broadcast(["k"])),
        (Kind::Sleeve, CacheOptions::new().broadcast(["k"])),
    ] {
        let cluster = Cluster::start(kind, 3, 0, &[]);
        let (client, other) = (connect(&cluster), connect(&cluster));
        let cached = client.cached_with(options).expect("a cache");
        let keys = keys(&cluster);
        for (number, key) in (0..).zip(&keys) {
            assert_eq!(read(&cached, key), None);
            other.set(key, number).wait().expect("it is set");
            until("it is read", || read(&cached, key) == Some(number));
            until_kept(&cached, key);
        }
        let (hits, misses) = (cached.stats().hits, cached.stats().misses);
        for _ in 0..100 {
            assert!((0..).zip(&keys).all(|(number, key)| read(&cached, key) == Some(number)));
        }
        assert_eq!((cached.stats().hits, cached.stats().misses), (hits + 300, misses), "{}", kind.name());
        for (number, key) in (10..).zip(&keys) {
            other.set(key, number).wait().expect("it is set");
            until("it is read anew", || read(&cached, key) == Some(number));
            until_kept(&cached, key);
        }
        other.flushall().wait().expect("they are empty");
        keys.iter().for_each(|key| until("it is gone", || read(&cached, key).is_none()));
    }
}

#[test]
fn a_writer_reads_its_own_write() {
    for kind in KINDS {
        let cluster = Cluster::start(kind, 3, 0, &[]);
        let client = connect(&cluster);
        let cached = client.cached().expect("a cache");
        let keys = keys(&cluster);
        let all = |wanted: i64, how: &str| {
            keys.iter().for_each(|key| assert_eq!(read(&cached, key), Some(wanted), "{how}"));
        };
        for round in (0..100).map(|round| round * 10) {
            client.mset(keys.iter().map(|key| (key, round)).collect::<Vec<_>>()).wait().expect("they are set");
            all(round, "in several slots");
            keys.iter().for_each(|key| cached.incr(key).forget());
            all(round + 1, "not waited for");
            for key in &keys {
                let batch = client.batch();
                batch.incr(key).forget();
                batch.send();
            }
            all(round + 2, "in a batch");
            for key in &keys {
                let transaction = client.transaction();
                transaction.incr(key).forget();
                assert!(transaction.exec().wait().expect("it is executed"));
            }
            all(round + 3, "in a transaction");
            for key in &keys {
                client.eval::<i64>("return redis.call('incr', KEYS[1])", key, ()).wait().expect("it runs");
            }
            all(round + 4, "by a script");
            let coalescing = client.coalescing();
            keys.iter().for_each(|key| coalescing.incr(key).forget());
            let last: Vec<_> = keys.iter().map(|key| coalescing.incr(key)).collect();
            last.into_iter().for_each(|reply| _ = reply.wait().expect("it is added"));
            all(round + 6, "in company");
        }
    }
}

#[test]
fn a_lost_node_connection_drops_only_its_own_replies() {
    for kind in KINDS {
        let cluster = Cluster::start(kind, 3, 0, &[]);
        let (client, other) = (connect(&cluster), connect(&cluster));
        let cached = client.cached().expect("a cache");
        let keys = keys(&cluster);
        for round in 0..3 {
            for key in &keys {
                other.set(key, round).wait().expect("it is set");
                until("it is read", || read(&cached, key) == Some(round));
                until_kept(&cached, key);
            }
            assert!(are_kept(&cached, &keys));
            let flushes = cached.stats().flushes;
            let killed =
                cluster.servers[0].connect().command(&["CLIENT", "KILL", "TYPE", "normal"]).expect("an answer");
            assert!(killed.starts_with(b":"));
            until("the loss is noticed", || cached.stats().flushes > flushes);
            assert!(are_kept(&cached, &keys[1..]), "what others own stays");
            assert_eq!(cached.stats().entries, 2);
            until("it is written", || other.set(&keys[0], -round).wait().is_ok());
            // A read in flight may be lost; no read returns an old value.
            let reads = std::iter::repeat_with(|| cached.get::<i64>(&keys[0]).wait());
            assert_eq!(reads.filter_map(Result::ok).next(), Some(-round));
            until_kept(&cached, &keys[0]);
        }
    }
}

#[test]
fn a_slot_that_moves_takes_its_replies_with_it() {
    for kind in KINDS {
        let moves = soak::count(6) as usize;
        let cluster = Cluster::start(kind, 3, 0, &[]);
        let (client, other) = (connect(&cluster), connect(&cluster));
        let cached = client.cached().expect("a cache");
        let other_keys = keys(&cluster).split_off(1);
        let moving = |name: &str| format!("{{{}}}:{name}", keys(&cluster)[0]);
        let (count, never, beside) = (moving("count"), moving("never"), moving("beside"));
        other_keys.iter().for_each(|key| _ = until_kept(&cached, key));
        // The move of an empty slot is noticed only by the next refresh of the map.
        other.set(&count, 0).wait().expect("it is set");
        let slot = cluster.slot_of(&count);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            // A client that only reads never sees the count go back, wherever the slot is.
            let reader = scope.spawn(|| {
                let mut last = 0;
                while !is_over.load(Ordering::Acquire) {
                    let now = read(&cached, &count).unwrap_or(0);
                    assert!(now >= last, "{now} behind {last}");
                    last = now;
                }
            });
            for round in 0..moves {
                let (from, to) = (round % 3, (round + 1) % 3);
                assert_eq!(until_kept(&cached, &never), None);
                let mut written = 0;
                cluster.move_slot(slot, from, to, || written = other.incr(&count).wait().expect("it is added"));
                let written = written.max(other.incr(&count).wait().expect("it is added"));
                until("it is read where it is", || read(&cached, &count) == Some(written));
                // No invalidation is sent for a key that did not exist; but a client that has learned of the move reads anew.
                other.set(&never, 1).wait().expect("it is set");
                other.set(&beside, round).wait().expect("it is set");
                until("another key is read there", || read(&cached, &beside) == i64::try_from(round).ok());
                assert_eq!(read(&cached, &never), Some(1), "round {round}");
                other.del(&never).wait().expect("it is removed");
                until("it is gone again", || read(&cached, &never).is_none());
                assert!(are_kept(&cached, &other_keys), "what lies in other slots stays");
            }
            is_over.store(true, Ordering::Release);
            reader.join().expect("it never went back");
        });
    }
}

#[test]
fn a_killed_primary_takes_its_cached_replies_with_it() {
    for kind in KINDS {
        let mut cluster = Cluster::start(kind, 3, 1, &["--cluster-require-full-coverage", "no"]);
        let (client, other) = (connect(&cluster), connect(&cluster));
        let cached = client.cached().expect("a cache");
        let keys = keys(&cluster);
        keys.iter().for_each(|key| {
            other.set(key, 1).wait().expect("it is set");
            until("it is read", || read(&cached, key) == Some(1));
            until_kept(&cached, key);
        });
        let mut replica = cluster.servers[3].connect();
        replica.command(&["READONLY"]).expect("an answer");
        until("the replica has it", || replica.command(&["GET", &keys[0]]).is_ok_and(|reply| reply == b"$1\r\n1\r\n"));
        let flushes = cached.stats().flushes;
        cluster.servers[0].kill();
        until("the loss is noticed", || cached.stats().flushes > flushes);
        assert!(are_kept(&cached, &keys[1..]), "what others own stays");
        // A write in flight is lost with the connection.
        until("somebody has taken over", || other.set(&keys[0], 2).wait().is_ok());
        let reads = std::iter::repeat_with(|| cached.get::<i64>(&keys[0]).wait());
        assert_eq!(reads.filter_map(Result::ok).next(), Some(2));
        assert_eq!(until_kept(&cached, &keys[0]), Some(2));
        other.set(&keys[0], 3).wait().expect("it is set");
        until("the new owner tells", || read(&cached, &keys[0]) == Some(3));
        assert!(are_kept(&cached, &keys[1..]), "what others own stays");
    }
}
