//! The time until a killed primary is replaced, beside that of redis-server 7.0 with the same node timeout, and the waits of
//! callers of the other shards.
//!
//! Both clusters have three primaries with a replica each, every node in a network namespace of its own. They take turns, so
//! that a busy machine slows both. A long form compares medians; a few failovers say only that each took place, because a
//! replica waits for a random time before it asks for votes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sleeve_tests::network::{Network, in_private};
use sleeve_tests::probe::ask;
use sleeve_tests::{Cluster, Connection, Kind, Redirected, Server, Stops, soak};

use super::shards::{other_of, primary_of, tag_of};

const TEST: &str = "cluster::failover_times::a_killed_primary_is_replaced_as_soon_as_by_redis";

/// The options of each node. The timeout is longer than a busy machine delays a process.
const WORDS: [&str; 4] = ["--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no"];

/// The interval at which a caller of another shard counts.
const INTERVAL: Duration = Duration::from_millis(5);

/// The time for which callers count before a kill.
const BEFORE: Duration = Duration::from_millis(500);

/// The number of failovers from which on figures are compared.
const COMPARED_MIN: usize = 10;

/// The wait of a call may grow by this and by half of its length before: the time slice of a busy machine.
const SLACK: Duration = Duration::from_millis(2);

/// The failovers as callers saw them.
#[derive(Debug, Default)]
struct Seen {
    /// The times from a kill to the first answer.
    recovered: Vec<Duration>,
    /// The waits of callers of other shards from the kill to that answer, and before it.
    during: Vec<Duration>,
    before: Vec<Duration>,
}

impl Seen {
    fn median(&mut self) -> Duration {
        self.recovered.sort_unstable();
        self.recovered[self.recovered.len() / 2]
    }

    fn shown(&mut self, kind: Kind) -> String {
        let (median, longest) = (self.median(), self.recovered[self.recovered.len() - 1]);
        let [during, before] = [p99(&mut self.during), p99(&mut self.before)];
        format!(
            "{}: {} failovers, {median:?} at the median, {longest:?} at the most; callers of other shards waited {during:?} \
             at the 99th percentile until then, {before:?} before",
            kind.name(),
            self.recovered.len()
        )
    }
}

fn p99(waits: &mut [Duration]) -> Duration {
    waits.sort_unstable();
    waits[(waits.len() * 99 / 100).min(waits.len() - 1)]
}

/// Counts in a key of a shard that stays as it is, and returns the time when each call was due with its wait.
fn count(node: SocketAddr, key: &str, stops: &AtomicBool) -> Vec<(Instant, Duration)> {
    let mut connection = Connection::open(node).expect("it accepts callers");
    let (mut due, mut waits, mut last) = (Instant::now(), Vec::new(), None);
    while !stops.load(Ordering::Relaxed) {
        due += INTERVAL;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let begun = Instant::now();
        let answer = ask(&mut connection, &["INCR", key]);
        waits.push((begun, begun.elapsed()));
        let count: u64 = answer.trim_end().trim_start_matches(':').parse().unwrap_or_else(|_| panic!("{answer}"));
        assert!(last.is_none_or(|last| count == last + 1), "{key}: {count} behind {last:?}");
        last = Some(count);
    }
    waits
}

/// Kills the primary of a shard, and brings the cluster back to its size.
fn fail_over(cluster: &mut Cluster, shard: usize, seen: &mut Seen) {
    let old = primary_of(cluster, shard);
    let replica = other_of(cluster, shard, old);
    cluster.wait_until_follows(replica, old);
    let stopped = AtomicBool::new(false);
    let key = format!("{{{}}}:after", tag_of(cluster, shard).0);
    let mut caller = Redirected::new(cluster.servers.iter().map(Server::address).collect());
    assert!(caller.call(&["SET", &key, "0"]).is_some());
    let others: Vec<(SocketAddr, String)> = (1..cluster.primaries)
        .map(|further| (shard + further) % cluster.primaries)
        .map(|other| (cluster.servers[primary_of(cluster, other)].address(), tag_of(cluster, other).0))
        .collect();
    let (killed, recovered, waits) = thread::scope(|threads| {
        let stops = Stops(&stopped);
        let stopped = &stopped;
        let counting: Vec<_> =
            others.iter().map(|(node, tag)| threads.spawn(move || count(*node, tag, stopped))).collect();
        thread::sleep(BEFORE);
        let killed = Instant::now();
        cluster.servers[old].kill();
        while caller.call(&["SET", &key, "1"]).is_none() {}
        let recovered = killed.elapsed();
        drop(stops);
        let waits = counting.into_iter().flat_map(|thread| thread.join().expect("every answer was right"));
        (killed, recovered, waits.collect::<Vec<_>>())
    });
    seen.recovered.push(recovered);
    let (during, before): (Vec<_>, Vec<_>) = waits.into_iter().partition(|(begun, _)| *begun >= killed);
    seen.during.extend(during.into_iter().map(|(_, wait)| wait));
    seen.before.extend(before.into_iter().map(|(_, wait)| wait));
    cluster.servers[old].restart().expect("it starts again");
    cluster.wait_until_follows(old, replica);
    cluster.wait_until_whole();
}

#[test]
fn a_killed_primary_is_replaced_as_soon_as_by_redis() {
    in_private(TEST, || {
        let network = Network::new(6);
        let kinds = [Kind::Redis, Kind::Sleeve];
        let mut clusters = kinds.map(|kind| Cluster::start_at(&network, kind, 3, 1, &WORDS));
        let mut seen = [Seen::default(), Seen::default()];
        let failovers = soak::count(1);
        for round in 0..failovers {
            for (cluster, seen) in clusters.iter_mut().zip(&mut seen) {
                fail_over(cluster, round % 3, seen);
            }
        }
        for (kind, seen) in kinds.into_iter().zip(&mut seen) {
            println!("{}", seen.shown(kind));
        }
        if failovers >= COMPARED_MIN {
            let [redis, sleeve] = &mut seen;
            assert!(sleeve.median() <= redis.median() * 6 / 5, "callers wait longer than with Redis");
            let allowed = p99(&mut sleeve.before) * 3 / 2 + SLACK;
            assert!(p99(&mut sleeve.during) <= allowed, "callers of other shards wait longer than before");
        }
    });
}
