//! Clusters of Sleeve with Redis 7.0, Redis 8 and Valkey 9, each node a process: every kind leads, is killed, and hands over
//! in both directions. A Redis or Valkey is never the replica of another kind but Sleeve, because older servers cannot read
//! the dumps of newer ones.
//!
//! No cluster has a Redis 8 and a Valkey 9. They give different meanings to one extension of a PING: the Valkey shows the
//! secret of the Redis in CLUSTER NODES, with the bytes behind it, and does not start from the nodes.conf that it writes.

use sleeve_tests::{Cluster, Kind, soak};

use super::shards::{Load, fail_over, kill_primary, other_of, primary_of, reshard, restart_all};

/// The options of each node where primaries fail: the timeout is longer than a busy machine delays a process.
const SHORT: [&str; 6] =
    ["--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no", "--appendonly", "yes"];

/// The options of each node where no primary fails.
const LONG: [&str; 4] = ["--cluster-node-timeout", "15000", "--appendonly", "yes"];

/// The kinds that are not Sleeve.
const OTHERS: [Kind; 3] = [Kind::Redis, Kind::Redis8, Kind::Valkey];

/// Starts three shards of three kinds: a Sleeve, a Redis 7.0 and this one lead them.
fn start_three(kind: Kind, words: &[&str]) -> Cluster {
    let kinds = [Kind::Sleeve, kind, Kind::Redis, kind, Kind::Sleeve, Kind::Sleeve];
    Cluster::start_mixed(&kinds, 3, words)
}

/// Kills a Sleeve and a node of the other kind, and in the long form also the nodes that have replaced them.
fn kill_in_turn(kind: Kind) {
    let mut cluster = start_three(kind, &SHORT);
    Load::plan(&cluster).run(&mut cluster, |cluster, load| {
        for kill in 0..soak::count(2) {
            kill_primary(cluster, load, kill % 2);
        }
    });
}

#[test]
fn redis_7_redis_8_and_sleeve_replace_killed_primaries() {
    kill_in_turn(Kind::Redis8);
}

#[test]
fn redis_7_valkey_and_sleeve_replace_killed_primaries() {
    kill_in_turn(Kind::Valkey);
}

/// Hands each shard over, moves a slot, and restarts all nodes.
fn hand_over(kind: Kind) {
    let mut cluster = start_three(kind, &LONG);
    Load::plan(&cluster).run(&mut cluster, |cluster, load| {
        for round in 0..soak::count(1) {
            (0..3).for_each(|shard| fail_over(cluster, load, shard, None));
            reshard(cluster, load, round % 3);
            restart_all(cluster, load);
        }
    });
}

#[test]
fn redis_7_redis_8_and_sleeve_hand_shards_and_slots_over() {
    hand_over(Kind::Redis8);
}

#[test]
fn redis_7_valkey_and_sleeve_hand_shards_and_slots_over() {
    hand_over(Kind::Valkey);
}

/// Goes through everything with one other kind, first as primaries with Sleeves as replicas and then the other way round.
fn go_through(kind: Kind) {
    for kinds in [[kind, Kind::Sleeve], [Kind::Sleeve, kind]] {
        let mut cluster = Cluster::start_mixed(&[[kinds[0]; 3], [kinds[1]; 3]].concat(), 3, &SHORT);
        Load::plan(&cluster).run(&mut cluster, |cluster, load| {
            for shard in 0..3 {
                // The kind that leads now is killed, and then the other one.
                kill_primary(cluster, load, shard);
                kill_primary(cluster, load, shard);
                for option in [None, None, Some("FORCE"), Some("FORCE"), Some("TAKEOVER"), Some("TAKEOVER")] {
                    fail_over(cluster, load, shard, option);
                }
                reshard(cluster, load, shard);
                fail_over(cluster, load, shard, None);
                reshard(cluster, load, shard);
            }
            restart_all(cluster, load);
        });
    }
}

#[test]
#[ignore = "minutes: cargo xtask soak cluster-mixed"]
fn each_other_kind_and_sleeve_replace_each_other() {
    OTHERS.into_iter().cycle().take(3 * soak::count(1)).for_each(go_through);
}

/// Replaces the node of each shard that is not of this kind: its replica becomes one, and then the primary.
fn replace_all(cluster: &mut Cluster, load: &Load, kind: Kind) {
    for shard in 0..cluster.primaries {
        let primary = primary_of(cluster, shard);
        let replica = other_of(cluster, shard, primary);
        cluster.replace_replica(replica, primary, kind, &LONG);
        fail_over(cluster, load, shard, None);
        cluster.replace_replica(primary, replica, kind, &LONG);
        load.wait_for_more(shard);
    }
}

/// Replaces a cluster of another kind by Sleeves, node by node, and goes back.
fn roll(kind: Kind) {
    let mut cluster = Cluster::start(kind, 3, 1, &LONG);
    Load::plan(&cluster).run(&mut cluster, |cluster, load| {
        replace_all(cluster, load, Kind::Sleeve);
        assert!(cluster.servers.iter().all(|server| server.kind() == Kind::Sleeve));
        replace_all(cluster, load, kind);
    });
}

#[test]
#[ignore = "minutes: cargo xtask soak cluster-rolling"]
fn a_cluster_of_each_other_kind_is_replaced_node_by_node_and_back() {
    OTHERS.into_iter().cycle().take(3 * soak::count(1)).for_each(roll);
}
