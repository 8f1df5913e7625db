//! Three primaries with a replica each, every server on a node of a network of its own, which is cut again and again: at
//! times around a primary, which its replica replaces, at times around a primary and its replica, so that no reachable node
//! owns their slots.
//!
//! Callers on both sides write and wait until a replica has the write: all of these writes are there afterwards. Others count
//! in the slots of healthy nodes, at a fixed rate, and none of their replies is an error or another call's. The time until a
//! caller is answered again, and the longest wait of callers of other nodes, are measured and printed.

use std::ops::Range;
use std::sync::Mutex;

use super::*;
use crate::cluster::remote_caller::{self, Beside};
use crate::replication::replica::info;
use sleeve_tests::Stops;
use sleeve_tests::network::{Network, in_private};
use sleeve_tests::probe::ask;

const TEST: &str = "cluster::partitions::nothing_is_lost_that_a_replica_has_while_the_network_is_cut";

/// The number of primaries, and of replicas: server `n + SHARDS` is of the shard `n`.
const SHARDS: usize = 3;

/// The silence after which a node counts as failed. It is longer than a busy machine delays a process: if a healthy primary
/// is replaced, counts are lost with it.
const NODE_TIMEOUT_MS: &str = "3000";

/// The number of callers on the majority's side that write to the shard that is cut.
const CALLERS: usize = 2;

/// The interval at which a caller of other shards counts.
const INTERVAL: Duration = Duration::from_millis(2);

fn config(url: &str) -> Config {
    Config::from_url(url).expect("a URL").backoff(Duration::from_millis(5), Duration::from_millis(100))
}

/// Returns whether the replica of the key's primary has the write. WAIT needs a connection of the caller's own.
fn put(client: &Client, key: &str) -> bool {
    client.lease().is_ok_and(|lease| lease.set(key, 1).replicated(1).wait().is_ok())
}

/// The life of a caller on a primary's node.
fn run_beside(job: &str) {
    let (url, tag) = job.split_once(' ').expect("two words");
    let client =
        Client::connect_with(config(url).command_timeout(Some(Duration::from_millis(200)))).expect("the primary");
    remote_caller::run(&format!("{{{tag}}}"), |key| put(&client, key));
}

/// Returns the primary of a shard, as its servers themselves say.
fn primary_of(cluster: &Cluster, shard: usize) -> usize {
    let is_primary = |&node: &usize| info(&cluster.servers[node], "role") == "master";
    let mut found = None;
    until("the shard has one primary", || {
        let mut primaries = [shard, shard + SHARDS].into_iter().filter(is_primary);
        found = primaries.next();
        found.is_some() && primaries.next().is_none()
    });
    found.expect("just found")
}

/// Returns the epoch of a shard's primary: another one is elected with a later one.
fn epoch_of(cluster: &Cluster, shard: usize) -> u64 {
    let says = ask(&mut cluster.servers[primary_of(cluster, shard)].connect(), &["CLUSTER", "INFO"]);
    let line = says.lines().find_map(|line| line.strip_prefix("cluster_my_epoch:"));
    line.and_then(|epoch| epoch.trim().parse().ok()).expect("an epoch")
}

/// Returns whether a node finds all slots served by healthy nodes.
fn is_whole(node: &Server) -> bool {
    let says = ask(&mut node.connect(), &["CLUSTER", "INFO"]);
    says.contains("cluster_state:ok") && says.contains(&format!("cluster_slots_ok:{}", sleeve_tests::cluster::SLOTS))
}

/// Returns the durations of calls as text: the time that 99 of 100 stay below, and the longest.
fn shown(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |part: usize| times.get((times.len() * part / 100).min(times.len().saturating_sub(1)));
    format!("p99 {:?}, longest {:?} of {}", at(99).unwrap_or(&Duration::ZERO), times.last(), times.len())
}

/// The observations of a caller of the other shards.
struct Counted {
    /// The time when each call was due, and the time from then to its reply.
    times: Vec<(Instant, Duration)>,
    /// Keys with a count that was smaller than the one before, or unknown.
    disturbed: BTreeSet<String>,
}

/// Counts in these keys at a fixed rate until it is stopped. Each count is one more than the one before, unless the shard was
/// disturbed.
fn count_at_rate(client: &Client, keys: &[&str], stopped: &AtomicBool) -> Counted {
    let (mut counts, mut due) = (vec![0; keys.len()], Instant::now());
    let mut counted = Counted { times: Vec::new(), disturbed: BTreeSet::new() };
    while !stopped.load(Ordering::Relaxed) {
        due += INTERVAL;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        for (&key, count) in keys.iter().zip(&mut counts) {
            let answer = client.incr(key).wait();
            counted.times.push((due, due.elapsed()));
            assert!(answer.as_ref().map_or(true, |answer| *answer <= *count + 1), "{key}: {answer:?} behind {count}");
            if answer != Ok(*count + 1) {
                counted.disturbed.insert(key.to_owned());
            }
            // A call of unknown effect may have counted.
            *count = answer.unwrap_or(*count + 1);
        }
    }
    counted
}

/// Counts in one key until it is stopped. Writes that only the primary had are lost with it, so a count may be smaller than
/// the one before; but every reply is a count, and an error says that its effect is unknown.
fn count_through(client: &Client, key: &str, stopped: &AtomicBool) {
    while !stopped.load(Ordering::Relaxed) {
        if let Err(error) = client.incr(key).wait() {
            assert_eq!((error.kind(), error.effect()), (ErrorKind::Disconnected, Effect::Unknown), "{error}");
        }
    }
}

/// A cut of the network: the nodes behind it, and the nodes outside.
struct Cut<'c> {
    cluster: &'c Cluster,
    round: usize,
    /// True if the replica is cut off with its primary.
    is_whole: bool,
    old: usize,
    replica: usize,
    observer: usize,
    /// The hash tag that puts a key into the shard.
    tag: String,
    /// The other shards, each with a key and with the epoch of its primary.
    healthy: Vec<(usize, String, u64)>,
}

impl<'c> Cut<'c> {
    fn plan(cluster: &'c Cluster, round: usize) -> Self {
        let (shard, is_whole) = (round % SHARDS, round % 2 == 1);
        let (old, observer) = (primary_of(cluster, shard), primary_of(cluster, (shard + 1) % SHARDS));
        let replica = if old < SHARDS { old + SHARDS } else { old - SHARDS };
        let width = sleeve_tests::cluster::SLOTS / 3 + 1;
        let tag_of = |shard: usize| {
            let mut tags = (0..).map(|number| format!("t{number}"));
            tags.find(|tag| usize::from(cluster.slot_of(tag) / width) == shard).expect("one of them")
        };
        let others = [1, 2].map(|further| (shard + further) % SHARDS);
        let healthy = others.map(|shard| (shard, format!("{{{}}}:{round}", tag_of(shard)), epoch_of(cluster, shard)));
        Self { cluster, round, is_whole, old, replica, observer, tag: tag_of(shard), healthy: healthy.to_vec() }
    }

    fn key(&self, name: &str) -> String {
        format!("{{{}}}:{name}", self.tag)
    }

    /// Returns the time from now until a caller of the shard gets a reply.
    fn answered(&self, client: &Client) -> Duration {
        let since = Instant::now();
        until("a caller is answered", || client.set(self.key("after"), 1).wait().is_ok());
        since.elapsed()
    }

    /// Cuts, waits until the cluster and the caller beside the primary have noticed, and joins again. Returns the time from
    /// the switch, or from the end of the cut, until a caller got a reply.
    fn carry_out(&self, network: &Network, client: &Client, near: &mut Beside) -> (Duration, Range<Instant>) {
        let (servers, mut recovered) = (&self.cluster.servers, Duration::ZERO);
        let begun = Instant::now();
        let nodes = [self.old, self.replica];
        network.cut_off(if self.is_whole { &nodes } else { &nodes[..1] });
        if !self.is_whole {
            until("the replica takes its place", || {
                info(&servers[self.replica], "role") == "master" && is_whole(&servers[self.observer])
            });
            recovered = self.answered(client);
        }
        near.until(|key| key.is_none());
        if self.is_whole {
            until("the others find slots without a server", || !is_whole(&servers[self.observer]));
        }
        let during = begun..Instant::now();
        network.cut_off(&[]);
        self.cluster.wait_until_whole();
        if self.is_whole {
            recovered = self.answered(client);
        }
        (recovered, during)
    }

    /// Cuts while callers work, and checks that acknowledged writes are there afterwards.
    fn run(&self, network: &Network, client: &Client) -> (Duration, usize) {
        let (told, stops) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        let told_count = || told.lock().expect("nobody panics with it").len();
        let more = |of: usize| until("something is acknowledged", || told_count() > of + 20);
        let job = format!("redis+cluster://{} {}", self.cluster.servers[self.old].address(), self.tag);
        let mut near = Beside::start(network, self.old, TEST, &job);
        let healthy: Vec<&str> = self.healthy.iter().map(|(_, key, _)| key.as_str()).collect();
        let ((recovered, during), counted) = thread::scope(|threads| {
            let _stops = Stops(&stops);
            for caller in 0..CALLERS {
                let (told, stops, name) = (&told, &stops, self.key(&format!("{}:{caller}", self.round)));
                threads.spawn(move || {
                    remote_caller::write(
                        &name,
                        |key| put(client, key),
                        |key| {
                            told.lock().expect("nobody panics with it").extend(key);
                            !stops.load(Ordering::Relaxed)
                        },
                    );
                });
            }
            let counter = threads.spawn(|| count_at_rate(client, &healthy, &stops));
            threads.spawn(|| count_through(client, &self.key("count"), &stops));
            more(0);
            near.until(|key| key.is_some());
            let cut = self.carry_out(network, client, &mut near);
            more(told_count());
            stops.store(true, Ordering::Relaxed);
            (cut, counter.join().expect("every answer was right"))
        });
        // A cluster that is joined again may elect new primaries for healthy ones, and loses the writes that only those had.
        for (shard, key, epoch) in self.healthy.iter().filter(|(_, key, _)| counted.disturbed.contains(key)) {
            assert_ne!(epoch_of(self.cluster, *shard), *epoch, "{key} was disturbed, and nobody was elected there");
        }
        let mut known = told.into_inner().expect("nobody has panicked with it");
        known.append(&mut near.end());
        let lost: Vec<_> = known.iter().filter(|key| client.get::<Option<i64>>(*key).wait() != Ok(Some(1))).collect();
        assert!(lost.is_empty(), "{} of {} are not there: {lost:?}", lost.len(), known.len());
        let (within, outside): (Vec<_>, Vec<_>) = counted.times.into_iter().partition(|(due, _)| during.contains(due));
        let [within, outside] = [within, outside].map(|times| shown(times.into_iter().map(|(_, time)| time).collect()));
        let who = if self.is_whole { "a shard" } else { "a primary" };
        println!(
            "cut {} around {who}: {} writes acknowledged, answered {recovered:?} behind the switch or the end of the cut; \
             callers of other shards waited {within} during the cut, {outside} otherwise",
            self.round,
            known.len()
        );
        (recovered, known.len())
    }
}

#[test]
fn nothing_is_lost_that_a_replica_has_while_the_network_is_cut() {
    in_private(TEST, || {
        if let Some(job) = remote_caller::job() {
            return run_beside(&job);
        }
        let (network, cuts) = (Network::new(2 * SHARDS as u8), soak::count(2));
        for (kind, cuts) in [(Kind::Sleeve, cuts), (Kind::Valkey, cuts.div_ceil(2))] {
            cut_again_and_again(&network, kind, cuts);
        }
    });
}

/// Makes a cluster of these servers, cuts it so often, and prints the figures.
fn cut_again_and_again(network: &Network, kind: Kind, cuts: usize) {
    let words = ["--cluster-require-full-coverage", "no", "--cluster-node-timeout", NODE_TIMEOUT_MS];
    let cluster = Cluster::start_at(network, kind, SHARDS, 1, &words);
    let client = Client::connect_with(config(&cluster.url()).command_timeout(Some(PATIENCE))).expect("the cluster");
    let (mut recovered, known): (Vec<_>, Vec<_>) =
        (0..cuts).map(|round| Cut::plan(&cluster, round).run(network, &client)).unzip();
    recovered.sort_unstable();
    println!(
        "{}: {} cuts, {} writes acknowledged; a caller was answered {:?} later at the median, {:?} at the most",
        kind.name(),
        recovered.len(),
        known.iter().sum::<usize>(),
        recovered[recovered.len() / 2],
        recovered[recovered.len() - 1]
    );
}
