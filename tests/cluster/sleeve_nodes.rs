//! Clusters of Sleeve alone, each node a process: crashes, pauses, failovers by hand, restarts, and moves of slots under load.

use std::thread;
use std::time::Duration;

use sleeve_tests::probe::{ask, wait_until};
use sleeve_tests::{Cluster, Kind};

use super::shards::{Load, fail_over, kill_primary, pause_primary, reshard, restart_all, wait_until_leads};

/// The time limit for the end of a node. Only a defect gets near it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The node timeout, in milliseconds, where primaries fail: longer than a busy machine delays a process.
const SHORT: [&str; 4] = ["--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no"];

/// The node timeout, in milliseconds, where no primary fails.
const LONG: [&str; 4] = ["--cluster-node-timeout", "15000", "--appendonly", "yes"];

#[test]
fn replicas_take_over_from_killed_and_paused_primaries() {
    let mut cluster = Cluster::start(Kind::Sleeve, 3, 1, &SHORT);
    Load::plan(&cluster).run(&mut cluster, |cluster, load| {
        kill_primary(cluster, load, 0);
        pause_primary(cluster, load, 1);
    });
}

#[test]
fn failovers_by_hand_moves_and_a_restart_lose_nothing() {
    let mut cluster = Cluster::start(Kind::Sleeve, 3, 1, &LONG);
    Load::plan(&cluster).run(&mut cluster, |cluster, load| {
        fail_over(cluster, load, 0, None);
        fail_over(cluster, load, 1, Some("FORCE"));
        fail_over(cluster, load, 2, Some("TAKEOVER"));
        reshard(cluster, load, 0);
        fail_over(cluster, load, 0, None);
        restart_all(cluster, load);
    });
}

#[test]
fn nodes_that_moved_or_could_not_write_nodes_conf_come_back() {
    let mut cluster = Cluster::start(Kind::Sleeve, 3, 1, &SHORT);
    Load::plan(&cluster).run(&mut cluster, |cluster, load| {
        // The rename onto a folder fails, as a write does on a full disk. The node ends: it may not vote twice in an epoch.
        let (file, kept) = (cluster.servers[0].folder().join("nodes.conf"), cluster.servers[0].folder().join("kept"));
        std::fs::rename(&file, &kept).expect("it is there");
        std::fs::create_dir(&file).expect("a folder");
        // The node ends before it confirms the command.
        let answer = cluster.servers[0].connect().command(&["CLUSTER", "SAVECONFIG"]);
        assert!(answer.is_err(), "{answer:?}");
        let status = cluster.servers[0].wait_for_exit(PATIENCE).expect("it ends");
        assert_eq!(status.code(), Some(1), "{}", cluster.servers[0].log());
        wait_until_leads(cluster, 3);
        load.wait_for_more(0);
        std::fs::remove_dir(&file).and_then(|()| std::fs::rename(&kept, &file)).expect("the old file");
        cluster.servers[0].restart_elsewhere().expect("it starts again");
        cluster.wait_until_follows(0, 3);
        cluster.servers[4].restart_elsewhere().expect("it starts again");
        cluster.wait_until_follows(4, 1);
        cluster.wait_until_whole();
        fail_over(cluster, load, 0, None);
    });
}

/// Returns the four figures of a slot: keys, microseconds, bytes of requests, bytes of replies.
fn slot_stats(cluster: &Cluster, node: usize, slot: u16) -> Vec<u64> {
    let slot = slot.to_string();
    let reply = ask(&mut cluster.servers[node].connect(), &["CLUSTER", "SLOT-STATS", "SLOTSRANGE", &slot, &slot]);
    reply.lines().filter_map(|line| line.strip_prefix(':')?.parse().ok()).skip(1).collect()
}

#[test]
fn slot_stats_count_requests_and_flushslot_reaches_the_replica() {
    let options = ["--cluster-slot-stats-enabled", "yes", "--cluster-databases", "3"];
    let cluster = Cluster::start(Kind::Sleeve, 1, 1, &options);
    let mut connection = cluster.servers[0].connect();
    let slot = cluster.slot_of("a");
    // Each request: its bytes, and those of its reply. A script counts once, and a transaction by its commands.
    let requests: [(&[&str], u64, u64); 6] = [
        (&["SET", "a", "v"], 27, 5),
        (&["GET", "a"], 20, 7),
        (&["EVAL", "return redis.call('get',KEYS[1])", "1", "a"], 67, 7),
        (&["MULTI"], 0, 0),
        (&["GET", "a"], 20, 7),
        (&["EXEC"], 0, 0),
    ];
    let (mut input, mut output) = (0, 0);
    for (request, request_bytes, reply_bytes) in requests {
        ask(&mut connection, request);
        (input, output) = (input + request_bytes, output + reply_bytes);
    }
    let figures = slot_stats(&cluster, 0, slot);
    assert_eq!((figures[0], figures[2], figures[3]), (1, input, output), "{figures:?}");
    assert_eq!(ask(&mut connection, &["CONFIG", "RESETSTAT"]), "+OK\r\n");
    assert_eq!(slot_stats(&cluster, 0, slot), [1, 0, 0, 0]);
    for database in ["2", "0"] {
        assert_eq!(ask(&mut connection, &["SELECT", database]), "+OK\r\n");
        assert_eq!(ask(&mut connection, &["SET", "a", database]), "+OK\r\n");
        assert_eq!(ask(&mut connection, &["SET", "b", database]), "+OK\r\n");
    }
    let count = |node: usize, slot: u16| slot_stats(&cluster, node, slot)[0];
    wait_until("the replica has the keys", || count(1, slot) == 2);
    assert_eq!(ask(&mut connection, &["CLUSTER", "FLUSHSLOT", &slot.to_string()]), "+OK\r\n");
    wait_until("the replica has removed them", || count(1, slot) == 0);
    assert_eq!(count(0, slot), 0);
    assert_eq!((count(0, cluster.slot_of("b")), count(1, cluster.slot_of("b"))), (2, 2));
    let answer = ask(&mut cluster.servers[1].connect(), &["CLUSTER", "FLUSHSLOT", "1"]);
    assert!(answer.starts_with("-READONLY "), "{answer}");
}

#[test]
fn flushslot_in_transactions_and_scripts_is_replicated_and_in_the_aof() {
    let options = ["--appendonly", "yes", "--enable-debug-command", "yes"];
    let cluster = Cluster::start(Kind::Sleeve, 1, 1, &options);
    let mut connection = cluster.servers[0].connect();
    let slot = cluster.slot_of("a").to_string();
    let script = "redis.call('cluster', 'flushslot', ARGV[1]) return redis.call('set', KEYS[1], 'script')";
    let queued: [&[&str]; 4] = [&["MULTI"], &["CLUSTER", "FLUSHSLOT", &slot], &["SET", "{a}3", "exec"], &["EXEC"]];
    // More keys than FLUSHSLOT removes in one step.
    for number in 0..600 {
        assert_eq!(ask(&mut connection, &["SET", &format!("{{a}}:{number}"), "v"]), "+OK\r\n");
    }
    for words in queued {
        ask(&mut connection, words);
    }
    assert_eq!(ask(&mut connection, &["DBSIZE"]), ":1\r\n");
    assert_eq!(ask(&mut connection, &["SET", "{a}2", "v"]), "+OK\r\n");
    assert_eq!(ask(&mut connection, &["EVAL", script, "1", "a", &slot]), "+OK\r\n");
    let mut replica = cluster.servers[1].connect();
    ask(&mut replica, &["READONLY"]);
    wait_until("the replica has the script's key", || ask(&mut replica, &["GET", "a"]).contains("script"));
    assert_eq!(ask(&mut replica, &["DBSIZE"]), ":1\r\n");
    assert_eq!(ask(&mut connection, &["DEBUG", "LOADAOF"]), "+OK\r\n");
    assert_eq!(ask(&mut connection, &["DBSIZE"]), ":1\r\n");
    assert_eq!(ask(&mut connection, &["GET", "a"]), "$6\r\nscript\r\n");
}

#[test]
fn a_node_killed_while_it_writes_nodes_conf_knows_itself_again() {
    let mut cluster = Cluster::start(Kind::Sleeve, 1, 0, &[]);
    let id = cluster.id(0);
    for round in 0..10 {
        let mut connection = cluster.servers[0].connect();
        let writer = thread::spawn(move || while connection.command(&["CLUSTER", "SAVECONFIG"]).is_ok() {});
        // Each round is killed at another moment of the writes.
        thread::sleep(Duration::from_micros(20_000 + 3_700 * round));
        cluster.servers[0].kill();
        writer.join().expect("it ends with the node");
        cluster.servers[0].restart().expect("it starts again");
        assert_eq!(cluster.id(0), id);
        let nodes = ask(&mut cluster.servers[0].connect(), &["CLUSTER", "NODES"]);
        assert!(nodes.contains(" connected 0-16383"), "{nodes}");
    }
}
