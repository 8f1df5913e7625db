//! Shards of real processes under load: callers that wait for a replica, and what an operator or a crash does to the nodes.
//!
//! A writer counts in one key of its shard, and writes rising numbers to further keys. A count or number that WAIT 1
//! acknowledged may not be lost, because the only replica of the shard is the node that takes over. A count above the number
//! of calls would be another call's answer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sleeve_tests::cluster::state_of;
use sleeve_tests::probe::{ask, wait_until};
use sleeve_tests::{Cluster, Connection, Redirected, Server, Stops};

/// The pause of a writer between two calls: a busy machine runs many nodes on few cores.
const PACE: Duration = Duration::from_millis(1);

/// The time after which a failover by hand is asked for again. A replica gives it up after 5 seconds, if its request reached the
/// primary before the news that the sender is its replica now.
const ATTEMPT: Duration = Duration::from_millis(5_500);

/// The number of keys of a writer. A slot is moved key by key, which takes its time on a busy machine.
const KEYS: u64 = 200;

/// The hash tag of a shard's keys, and their slot.
pub fn tag_of(cluster: &Cluster, shard: usize) -> (String, u16) {
    let width = usize::from(sleeve_tests::cluster::SLOTS) / cluster.primaries + 1;
    let mut tags = (0..).map(|number| format!("t{number}")).map(|tag| (cluster.slot_of(&tag), tag));
    let (slot, tag) = tags.find(|(slot, _)| usize::from(*slot) / width == shard).expect("one of them");
    (tag, slot)
}

/// The writes of one shard.
#[derive(Debug)]
struct Written {
    tag: String,
    slot: u16,
    answers: AtomicU64,
    /// The keys with the last number that a replica has acknowledged.
    acknowledged: Mutex<BTreeMap<String, u64>>,
}

/// A load on all shards.
#[derive(Debug)]
pub struct Load {
    nodes: Vec<SocketAddr>,
    shards: Vec<Written>,
    stops: AtomicBool,
}

impl Load {
    /// Plans a load with a writer for each shard, which knows these nodes.
    pub fn plan(cluster: &Cluster) -> Self {
        let nodes = cluster.servers.iter().map(Server::address).collect();
        let shard = |number| {
            let (tag, slot) = tag_of(cluster, number);
            Written { tag, slot, answers: AtomicU64::new(0), acknowledged: Mutex::default() }
        };
        Self { nodes, shards: (0..cluster.primaries).map(shard).collect(), stops: AtomicBool::new(false) }
    }

    /// Runs the load while `work` is done, and checks the data afterwards.
    ///
    /// # Panics
    /// If an answer was wrong or a write is lost.
    pub fn run(&self, cluster: &mut Cluster, work: impl FnOnce(&mut Cluster, &Self)) {
        let under_load = || {
            thread::scope(|threads| {
                let stops = Stops(&self.stops);
                for shard in &self.shards {
                    threads.spawn(|| self.write(shard));
                }
                (0..self.shards.len()).for_each(|shard| self.wait_for_more(shard));
                work(cluster, self);
                (0..self.shards.len()).for_each(|shard| self.wait_for_more(shard));
                drop(stops);
            });
            self.check(cluster);
        };
        // A writer that finds a fault does not have the nodes, and their logs tell what led to it.
        if let Err(fault) = catch_unwind(AssertUnwindSafe(under_load)) {
            cluster.servers.iter().for_each(|node| eprintln!("{}", state_of(node)));
            resume_unwind(fault);
        }
    }

    fn write(&self, shard: &Written) {
        let mut caller = Redirected::new(self.nodes.clone());
        let counter = format!("{{{}}}:count", shard.tag);
        let (mut calls, mut floor) = (0_u64, 0_u64);
        while !self.stops.load(Ordering::Relaxed) {
            thread::sleep(PACE);
            calls += 1;
            let Some((answer, counted_by)) = caller.call(&["INCR", &counter]) else { continue };
            let count = answer.trim_end().trim_start_matches(':').parse().unwrap_or_else(|_| panic!("{answer}"));
            assert!(floor < count && count <= calls, "{counter}: {count} behind {floor}, call {calls}");
            let key = format!("{{{}}}:{}", shard.tag, calls % KEYS);
            let Some((answer, node)) = caller.call(&["SET", &key, &calls.to_string()]) else { continue };
            assert_eq!(answer, "+OK\r\n", "{key}");
            if caller.is_replicated(node) {
                shard.acknowledged.lock().expect("no thread panics with it").insert(key, calls);
                if counted_by == node {
                    floor = count;
                }
            }
            shard.answers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the writer of a shard has more answers.
    pub fn wait_for_more(&self, shard: usize) {
        let wanted = self.shards[shard].answers.load(Ordering::Relaxed) + 10;
        wait_until("a writer is answered", || self.shards[shard].answers.load(Ordering::Relaxed) >= wanted);
    }

    /// Checks that primaries and replicas have every acknowledged write.
    fn check(&self, cluster: &Cluster) {
        for (number, shard) in self.shards.iter().enumerate() {
            let keys = shard.acknowledged.lock().expect("no thread has panicked with it");
            assert!(!keys.is_empty(), "nothing was acknowledged in shard {number}");
            let primary = primary_of(cluster, number);
            let replica = other_of(cluster, number, primary);
            cluster.wait_until_follows(replica, primary);
            let mut of_primary = cluster.servers[primary].connect();
            let last = format!("{{{}}}:last", shard.tag);
            assert_eq!(ask(&mut of_primary, &["SET", &last, "1"]), "+OK\r\n");
            wait_until("the replica has everything", || ask(&mut of_primary, &["WAIT", "1", "1000"]) == ":1\r\n");
            let mut of_replica = cluster.servers[replica].connect();
            assert_eq!(ask(&mut of_replica, &["READONLY"]), "+OK\r\n");
            for (node, connection) in [(primary, &mut of_primary), (replica, &mut of_replica)] {
                let lost: Vec<_> =
                    keys.iter().filter(|(key, written)| number_of(connection, key) < **written).collect();
                let kind = cluster.servers[node].kind();
                assert!(lost.is_empty(), "{kind:?}: {} of {} are not there: {lost:?}", lost.len(), keys.len());
            }
            assert_eq!(ask(&mut of_primary, &["DBSIZE"]), ask(&mut of_replica, &["DBSIZE"]), "shard {number}");
        }
    }
}

/// Returns the number in a key; 0 if it is not there.
fn number_of(connection: &mut Connection, key: &str) -> u64 {
    let answer = ask(connection, &["GET", key]);
    answer.lines().nth(1).map_or(0, |number| number.parse().unwrap_or_else(|_| panic!("{key}: {answer}")))
}

/// Returns the role of a node, if it answers.
fn role(server: &Server) -> Option<String> {
    let says = server.try_connect().ok()?.command(&["INFO", "replication"]).ok()?;
    let says = String::from_utf8_lossy(&says).into_owned();
    says.lines().find_map(|line| line.strip_prefix("role:")).map(str::to_owned)
}

fn leads(server: &Server) -> bool {
    role(server).as_deref() == Some("master")
}

/// Returns the node of a pair that is not this one.
pub fn other_of(cluster: &Cluster, shard: usize, node: usize) -> usize {
    if node == shard { shard + cluster.primaries } else { shard }
}

/// Returns the primary of a shard with one replica, as its nodes themselves say.
pub fn primary_of(cluster: &Cluster, shard: usize) -> usize {
    let mut found = None;
    wait_until("the shard has one primary", || {
        let is_primary = |&node: &usize| leads(&cluster.servers[node]);
        let mut primaries = [shard, shard + cluster.primaries].into_iter().filter(is_primary);
        found = primaries.next();
        found.is_some() && primaries.next().is_none()
    });
    found.expect("just found")
}

/// Waits until a node is the primary of its shard in the view of all nodes that run.
pub fn wait_until_leads(cluster: &Cluster, node: usize) {
    wait_until("another node leads the shard", || leads(&cluster.servers[node]));
    cluster.wait_until_whole();
    cluster.wait_until_agreed();
}

/// Sends a signal to a node.
pub fn signal(server: &Server, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), server.process_id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// Kills the primary of a shard, waits until its replica takes over, and starts it again as the replica.
pub fn kill_primary(cluster: &mut Cluster, load: &Load, shard: usize) {
    let old = primary_of(cluster, shard);
    let replica = other_of(cluster, shard, old);
    cluster.wait_until_follows(replica, old);
    cluster.servers[old].kill();
    wait_until_leads(cluster, replica);
    load.wait_for_more(shard);
    cluster.servers[old].restart().expect("it starts again");
    cluster.wait_until_follows(old, replica);
    cluster.wait_until_whole();
}

/// Stops the primary of a shard as a machine that hangs, and lets it go on once its replica has taken over.
pub fn pause_primary(cluster: &Cluster, load: &Load, shard: usize) {
    let old = primary_of(cluster, shard);
    let replica = other_of(cluster, shard, old);
    cluster.wait_until_follows(replica, old);
    signal(&cluster.servers[old], "STOP");
    wait_until("another node leads the shard", || leads(&cluster.servers[replica]));
    load.wait_for_more(shard);
    signal(&cluster.servers[old], "CONT");
    cluster.wait_until_follows(old, replica);
    cluster.wait_until_whole();
}

/// Makes the replica of a shard its primary by CLUSTER FAILOVER with this option.
pub fn fail_over(cluster: &Cluster, load: &Load, shard: usize, option: Option<&str>) {
    let old = primary_of(cluster, shard);
    let replica = other_of(cluster, shard, old);
    cluster.wait_until_follows(replica, old);
    let words: Vec<&str> = ["CLUSTER", "FAILOVER"].into_iter().chain(option).collect();
    wait_until("the failover is granted", || {
        // A replica that is asked again may be in the middle of a full sync, and would lead without data.
        if !cluster.follows(replica, old) && !leads(&cluster.servers[replica]) {
            return false;
        }
        let answer = ask(&mut cluster.servers[replica].connect(), &words);
        assert!(answer == "+OK\r\n" || leads(&cluster.servers[replica]), "{answer}");
        let since = Instant::now();
        while since.elapsed() < ATTEMPT && !leads(&cluster.servers[replica]) {
            thread::sleep(PACE);
        }
        // Redis 7.0 takes the votes of its last election for those of this one, if that began less than two node timeouts ago.
        // Its epoch is too low then, so it becomes a replica again as soon as it hears of the higher one.
        leads(&cluster.servers[replica]) && {
            cluster.wait_until_agreed();
            leads(&cluster.servers[replica])
        }
    });
    wait_until_leads(cluster, replica);
    cluster.wait_until_follows(old, replica);
    load.wait_for_more(shard);
}

/// Kills all nodes at once and starts them again. Their AOFs have everything.
pub fn restart_all(cluster: &mut Cluster, load: &Load) {
    cluster.servers.iter_mut().for_each(Server::kill);
    cluster.servers.iter_mut().for_each(|server| server.restart().expect("it starts again"));
    cluster.wait_until_whole();
    (0..cluster.primaries).for_each(|shard| load.wait_for_more(shard));
}

/// Moves the slot of a shard's writer to another shard and back, while it writes.
pub fn reshard(cluster: &Cluster, load: &Load, shard: usize) {
    let target = (shard + 1) % cluster.primaries;
    let (home, away) = (primary_of(cluster, shard), primary_of(cluster, target));
    for (from, to) in [(home, away), (away, home)] {
        cluster.move_slot(load.shards[shard].slot, from, to, || ());
        load.wait_for_more(shard);
        // A key that has moved is on the replica of its new primary before anything else happens.
        let mut connection = cluster.servers[to].connect();
        let key = format!("{{{}}}:moved", load.shards[shard].tag);
        assert_eq!(ask(&mut connection, &["SET", &key, "1"]), "+OK\r\n");
        wait_until("the replica has the slot", || ask(&mut connection, &["WAIT", "1", "1000"]) == ":1\r\n");
    }
}
