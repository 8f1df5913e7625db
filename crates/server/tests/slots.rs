//! A node of a cluster: which requests it serves, redirects and refuses, while slots stay, move and leave.
//!
//! A test shows views to the engine as the bus would. The expected replies are those of Redis 7.0.15 in the same state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sleeve_cluster::state::options::EndpointType;
use sleeve_cluster::state::view::{NOBODY, Target, View};
use sleeve_cluster::state::{ClusterState, Options};
use sleeve_cluster::{NodeId, node::Address};
use sleeve_server::engine::cluster::{Cluster, view_change};
use sleeve_server::{Config, Engine, Local, Opt};

/// A node that owns the slots below 8192, which `b`, `f` and `k2` are of. The others belong to a node at 10.0.0.1:7001.
struct Node {
    engine: Arc<Engine>,
    session: Local,
    view: View,
}

impl Node {
    fn start() -> Self {
        let config = Config::default();
        config.assign(Opt::ClusterEnabled, &[b"yes"]).expect("an option");
        // Several workers have several shards, which sessions of different threads lock at the same time.
        config.assign(Opt::Workers, &[b"4"]).expect("an option");
        let engine = Engine::new(config);
        let options = Options {
            node_timeout_ms: 1_000,
            replica_validity_factor: 10,
            migration_barrier: 1,
            allows_replica_migration: true,
            requires_full_coverage: true,
            is_no_failover: false,
            replica_ping_period_ms: 1_000,
            has_tls: false,
            endpoint_type: EndpointType::Ip,
            address: Address::default(),
        };
        engine.join_cluster(Cluster::new(ClusterState::new(NodeId::new([1; 20]), options)));
        let target = |number: u8| Target {
            id: NodeId::new([number; 20]),
            endpoint: format!("10.0.0.{number}"),
            port: 7_000 + u16::from(number),
            tls_port: 0,
        };
        let view = View {
            version: 1,
            owners: (0..16_384).map(|slot| u16::from(slot >= 8_192)).collect(),
            nodes: vec![target(0), target(1)],
            own_primary: 0,
            is_replica: false,
            is_ok: true,
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
        };
        view_change::show(&engine, view.clone());
        let session = Local::open(&engine, || ());
        Self { engine, session, view }
    }

    /// Shows the view after a change.
    fn change(&mut self, change: impl FnOnce(&mut View)) {
        change(&mut self.view);
        self.view.version += 1;
        view_change::show(&self.engine, self.view.clone());
    }

    /// Returns the replies to some lines, without the line ends.
    fn say(&mut self, lines: &str) -> String {
        let mut replies = Vec::new();
        self.session.exchange_now(format!("{lines}\r\n").as_bytes(), &mut replies).expect("an open session");
        String::from_utf8_lossy(&replies).trim_end().replace("\r\n", " ")
    }

    #[track_caller]
    fn expect(&mut self, cases: &[(&str, &str)]) {
        for (line, reply) in cases {
            let said = self.say(line);
            assert!(
                said == *reply || (reply.ends_with("...") && said.starts_with(reply.trim_end_matches('.'))),
                "{line}: {said}"
            );
        }
    }
}

const CROSS: &str = "-CROSSSLOT Keys in request don't hash to the same slot";
const MOVED_A: &str = "-MOVED 15495 10.0.0.1:7001";
const MOVED_B: &str = "-MOVED 3300 10.0.0.1:7001";
const ASK_B: &str = "-ASK 3300 10.0.0.1:7001";
const TRY_AGAIN: &str = "-TRYAGAIN Multiple keys request during rehashing of slot";
const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.";

#[test]
fn keys_of_one_own_slot_are_served() {
    Node::start().expect(&[
        ("SET b 1", "+OK"),
        ("SET a 1", MOVED_A),
        ("MGET b f", CROSS),
        ("MSET b 1 a 2", CROSS),
        ("MSET a 1 b 2", CROSS),
        ("GET {b}1", "$-1"),
        ("MGET b {b}1", "*2 $1 1 $-1"),
        ("WATCH b a", CROSS),
        ("OBJECT ENCODING a", MOVED_A),
        ("XREAD STREAMS a b 0 0", CROSS),
        ("XREAD STREAMS a 0", MOVED_A),
        ("ZUNIONSTORE {b}d 2 b a", CROSS),
        ("SORT b STORE a", CROSS),
        ("GEORADIUS b 1 1 1 m STORE a", CROSS),
        ("MIGRATE 127.0.0.1 1 a 0 10", MOVED_A),
        ("MIGRATE 127.0.0.1 1 \"\" 0 10 KEYS a b", CROSS),
        ("LMOVE b a LEFT LEFT", CROSS),
        ("BLPOP a b 1", CROSS),
        ("BLPOP a 1", MOVED_A),
        ("PFCOUNT a b", CROSS),
        ("COMMAND GETKEYS MSET b 1 a 2", "*2 $1 b $1 a"),
        ("DBSIZE", ":1"),
        ("KEYS *", "*1 $1 b"),
    ]);
}

#[test]
fn databases_roles_and_patterns_are_refused_as_in_redis() {
    Node::start().expect(&[
        ("SET b 1", "+OK"),
        ("SELECT 1", "-ERR SELECT is not allowed in cluster mode"),
        ("SELECT 0", "+OK"),
        ("SELECT x", "-ERR value is not an integer or out of range"),
        ("MOVE b 1", "-ERR MOVE is not allowed in cluster mode"),
        ("COPY b {b}2 DB 1", "-ERR Copying to another database is not allowed in cluster mode"),
        ("COPY b {b}2 DB 16", "-ERR DB index is out of range"),
        ("COPY b {b}2 DB 0", ":1"),
        ("SWAPDB 0 1", "-ERR SWAPDB is not allowed in cluster mode"),
        ("REPLICAOF 1 2", "-ERR REPLICAOF not allowed in cluster mode."),
        ("SLAVEOF NO ONE", "-ERR REPLICAOF not allowed in cluster mode."),
        ("FAILOVER", "-ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead."),
        ("SORT b BY x*", "-ERR BY option of SORT denied in Cluster mode."),
        ("SORT b GET x*", "-ERR GET option of SORT denied in Cluster mode."),
        ("READONLY", "+OK"),
        ("READWRITE", "+OK"),
        ("INFO cluster", "$30 # Cluster cluster_enabled:1"),
        ("HELLO 2", "*14 $6 server $5 redis $7 version..."),
    ]);
    assert!(Node::start().say("HELLO 3").contains("$4 mode $7 cluster $4 role $6 master"));
}

#[test]
fn a_transaction_is_of_one_slot() {
    Node::start().expect(&[
        ("MULTI", "+OK"),
        ("SET b 2", "+QUEUED"),
        ("SET a 2", MOVED_A),
        ("EXEC", ABORTED),
        ("MULTI", "+OK"),
        ("SET b 2", "+QUEUED"),
        ("SET f 3", "+QUEUED"),
        ("EXEC", CROSS),
        ("GET b", "$-1"),
        ("MULTI", "+OK"),
        ("SET b 3", "+QUEUED"),
        ("MSET b 1 a 2", CROSS),
        ("EXEC", ABORTED),
        ("MULTI", "+OK"),
        ("SET b 3", "+QUEUED"),
        ("GET b", "+QUEUED"),
        ("EXEC", "*2 +OK $1 3"),
    ]);
}

#[test]
fn a_transaction_of_a_slot_that_has_left_is_redirected() {
    let mut node = Node::start();
    node.expect(&[("MULTI", "+OK"), ("SET b 2", "+QUEUED")]);
    node.change(|view| view.owners[3_300] = 1);
    node.expect(&[("EXEC", MOVED_B), ("EXEC", "-ERR EXEC without MULTI"), ("GET b", MOVED_B)]);
}

#[test]
fn scripts_use_keys_of_their_slot() {
    const OTHERS: &str = "-ERR Script attempted to access a non local key in a cluster node";
    const CROSSING: &str = "-ERR Script attempted to access keys that do not hash to the same slot";
    let eval = |script: &str, rest: &str| format!("EVAL \"{}\" {rest}", script.replace('\n', "\\n"));
    let mut node = Node::start();
    for (script, rest, reply) in [
        ("return redis.call('SET',KEYS[1],1)", "1 b", "+OK"),
        ("return redis.call('GET',KEYS[1])", "1 a", MOVED_A),
        ("return 1", "2 a b", CROSS),
        ("return redis.call('GET','b')", "0", "$1 1"),
        ("return redis.call('GET','a')", "0", OTHERS),
        ("return redis.call('MGET','b','f')", "0", OTHERS),
        ("return redis.call('SPUBLISH','a','x')", "0", OTHERS),
        ("return redis.call('SPUBLISH','b','x')", "0", ":0"),
        ("return redis.call('DBSIZE')", "0", ":1"),
        ("redis.call('SET','b','1') return redis.call('SET','f','2')", "0", "+OK"),
        ("#!lua\nredis.call('SET','b','1') return redis.call('SET','f','2')", "0", CROSSING),
        ("#!lua\nreturn redis.call('SET',ARGV[1],'2')", "1 b f", CROSSING),
        ("#!lua\nreturn redis.call('SET',KEYS[1],'2')", "1 b", "+OK"),
        ("#!lua flags=allow-cross-slot-keys\nredis.call('SET','b','1') return redis.call('SET','f','2')", "0", "+OK"),
        ("#!lua flags=no-cluster\nreturn 1", "0", "-ERR Can not run script on cluster, 'no-cluster' flag is set."),
    ] {
        let said = node.say(&eval(script, rest));
        assert!(said.starts_with(reply), "{script} {rest}: {said}");
    }
    let mut lines = vec!["MULTI".to_owned()];
    lines.extend(["b", "f"].map(|key| eval("#!lua\nreturn redis.call('GET',ARGV[1])", &format!("0 {key}"))));
    lines.push("EXEC".to_owned());
    let said = node.say(&lines.join("\r\n"));
    assert!(said.starts_with("+OK +QUEUED +QUEUED *2 $1 1 ") && said.contains(CROSSING), "{said}");
}

#[test]
fn keys_of_a_slot_that_leaves_are_asked_for_elsewhere() {
    let mut node = Node::start();
    node.expect(&[("SET {b}here 1", "+OK")]);
    node.change(|view| _ = view.migrating.insert(3_300, 1));
    node.expect(&[
        ("GET {b}here", "$1 1"),
        ("GET {b}gone", ASK_B),
        ("SET {b}gone 1", ASK_B),
        ("MGET {b}here {b}gone", TRY_AGAIN),
        ("MGET {b}gone {b}gone", ASK_B),
        ("MGET {b}x {b}y", ASK_B),
        ("MULTI", "+OK"),
        ("GET {b}here", "+QUEUED"),
        ("SET {b}gone 1", ASK_B),
        ("EXEC", ABORTED),
        ("MULTI", "+OK"),
        ("GET {b}here", "+QUEUED"),
        ("EXEC", "*1 $1 1"),
        ("EVAL \"return redis.call('GET',KEYS[1])\" 1 {b}here", "$1 1"),
        ("EVAL \"return redis.call('GET',KEYS[1])\" 1 {b}gone", ASK_B),
        (
            "EVAL \"return redis.call('GET','{b}gone')\" 1 {b}here",
            "-ERR Script attempted to access a non local key in a cluster node...",
        ),
        ("MIGRATE 127.0.0.1 1 {b}gone 0 10", "+NOKEY"),
        ("DEL {b}here {b}gone", TRY_AGAIN),
        ("SPUBLISH {b}gone x", ":0"),
        ("EXISTS {b}here {b}here", ":2"),
        ("MULTI", "+OK"),
        ("GET {b}here", "+QUEUED"),
    ]);
    let mut replies = Vec::new();
    Local::open(&node.engine, || ()).exchange_now(b"DEL {b}here\r\n", &mut replies).expect("a reply");
    node.expect(&[("EXEC", ASK_B), ("GET {b}here", ASK_B)]);
}

#[test]
fn keys_of_a_slot_that_arrives_are_served_behind_asking() {
    let mut node = Node::start();
    node.change(|view| {
        view.owners[3_300] = 1;
        view.importing.insert(3_300, 1);
    });
    node.expect(&[
        ("GET {b}x", MOVED_B),
        ("ASKING", "+OK"),
        ("GET {b}x", "$-1"),
        ("GET {b}x", MOVED_B),
        ("ASKING\r\nSET {b}1 1", "+OK +OK"),
        ("ASKING\r\nMGET {b}1 {b}2", &format!("+OK {TRY_AGAIN}")),
        ("ASKING\r\nMGET {b}2 {b}2", "+OK *2 $-1 $-1"),
        ("ASKING\r\nMGET {b}1 {b}1", "+OK *2 $1 1 $1 1"),
        ("ASKING\r\nMULTI\r\nSET {b}1 5\r\nGET {b}1\r\nEXEC", "+OK +OK +QUEUED +QUEUED *2 +OK $1 5"),
        ("GET {b}1", MOVED_B),
        ("MULTI\r\nSET {b}1 5\r\nEXEC", &format!("+OK {MOVED_B} {ABORTED}")),
        ("ASKING\r\nEVAL \"return redis.call('GET','{b}zz')\" 0", "+OK $-1"),
        ("ASKING\r\nEVAL \"return redis.call('GET','{b}zz')\" 1 {b}1", "+OK $-1"),
        ("EVAL \"return redis.call('GET','{b}zz')\" 1 {b}1", MOVED_B),
        ("RESTORE-ASKING {b}r 0 x", "-ERR DUMP payload version or checksum are wrong"),
        ("SPUBLISH {b}x m", MOVED_B),
        ("ASKING\r\nSPUBLISH {b}x m", "+OK :0"),
        ("ASKING\r\nSSUBSCRIBE {b}x", "+OK *3 $10 ssubscribe $4 {b}x :1"),
        ("PING", "*2 $4 pong $0"),
    ]);
}

#[test]
fn a_replica_redirects_writes_and_reads_without_readonly() {
    let mut node = Node::start();
    node.expect(&[("SET b 1", "+OK")]);
    node.change(|view| {
        view.owners[3_300] = 1;
        (view.own_primary, view.is_replica) = (1, true);
    });
    node.expect(&[
        ("GET b", MOVED_B),
        ("READONLY", "+OK"),
        ("GET b", "$1 1"),
        ("MGET b {b}2", "*2 $1 1 $-1"),
        ("SET b 2", MOVED_B),
        ("GET f", "-MOVED 3168 10.0.0.0:7000"),
        ("MULTI\r\nGET b\r\nEXEC", "+OK +QUEUED *1 $1 1"),
        ("MULTI\r\nGET b\r\nSET b 2\r\nEXEC", &format!("+OK +QUEUED {MOVED_B} {ABORTED}")),
        ("EVAL \"return redis.call('GET',KEYS[1])\" 1 b", "$1 1"),
        ("EVAL \"#!lua flags=no-writes\\nreturn redis.call('GET',KEYS[1])\" 1 b", "$1 1"),
        ("EVAL \"#!lua\\nreturn redis.call('GET',KEYS[1])\" 1 b", MOVED_B),
        ("READWRITE", "+OK"),
        ("GET b", MOVED_B),
        ("SSUBSCRIBE b", "*3 $10 ssubscribe $1 b :1"),
    ]);
}

#[test]
fn a_cluster_that_is_down_refuses_keys() {
    let mut node = Node::start();
    node.expect(&[("SET b 1", "+OK")]);
    node.change(|view| view.is_ok = false);
    let down = "-CLUSTERDOWN The cluster is down";
    node.expect(&[("GET b", down), ("SET b 2", down), ("GET a", down), ("PING", "+PONG"), ("SPUBLISH b m", ":0")]);
    node.expect(&[
        ("CONFIG SET cluster-allow-reads-when-down yes", "+OK"),
        ("GET b", "$1 1"),
        ("GET a", MOVED_A),
        ("SET b 2", "-CLUSTERDOWN The cluster is down and only accepts read commands"),
        (
            "EVAL \"return redis.call('SET','b',1)\" 0",
            "-ERR Script attempted to execute a write command while the cluster is down and readonly...",
        ),
        ("CONFIG SET cluster-allow-pubsubshard-when-down no", "+OK"),
        ("SPUBLISH b m", down),
    ]);
    node.change(|view| {
        view.is_ok = true;
        view.owners[3_300] = NOBODY;
    });
    node.expect(&[("GET b", "-CLUSTERDOWN Hash slot not served"), ("MGET b a", "-CLUSTERDOWN Hash slot not served")]);
}

#[test]
fn clients_that_wait_for_a_slot_that_leaves_are_redirected() {
    let mut node = Node::start();
    node.expect(&[("BLPOP b 0", "")]);
    node.change(|view| view.owners[3_168] = 1);
    assert_eq!(node.say("PING"), "", "another slot has left");
    node.change(|view| view.owners[3_300] = 1);
    assert_eq!(node.say(""), format!("{MOVED_B} +PONG"));
    node.change(|view| view.owners[3_300] = 0);
    node.expect(&[("BLPOP b 0", "")]);
    node.change(|view| view.is_ok = false);
    assert_eq!(node.say(""), "-CLUSTERDOWN The cluster is down");
    node.change(|view| view.is_ok = true);
    node.expect(&[("WAIT 1 0", "")]);
    node.change(|view| view.owners[3_300] = 1);
    assert_eq!(node.say(""), "", "it waits for no slot");
}

#[test]
fn subscriptions_to_channels_of_a_slot_that_leaves_end() {
    let mut node = Node::start();
    node.expect(&[
        ("SSUBSCRIBE a", MOVED_A),
        ("SSUBSCRIBE b f", CROSS),
        ("SUNSUBSCRIBE a", MOVED_A),
        ("SSUBSCRIBE b", "*3 $10 ssubscribe $1 b :1"),
        ("SSUBSCRIBE f", "*3 $10 ssubscribe $1 f :2"),
        ("SUBSCRIBE b", "*3 $9 subscribe $1 b :1"),
    ]);
    node.change(|view| view.owners[3_300] = 1);
    assert_eq!(node.say(""), "*3 $12 sunsubscribe $1 b :1");
    let mut other = Local::open(&node.engine, || ());
    let mut replies = Vec::new();
    other.exchange_now(b"PUBSUB SHARDCHANNELS\r\nSPUBLISH f m\r\nPUBLISH b m\r\n", &mut replies).expect("replies");
    assert_eq!(replies, b"*1\r\n$1\r\nf\r\n:1\r\n:1\r\n");
    let sent = node.engine.cluster.get().expect("a node").outbox.take();
    let sent: Vec<_> = sent.iter().map(|message| (message.channel.as_slice(), message.is_sharded)).collect();
    assert_eq!(sent, [(b"f".as_slice(), true), (b"b".as_slice(), false)]);
    assert_eq!(node.say(""), "*3 $8 smessage $1 f $1 m *3 $7 message $1 b $1 m");
}

/// Returns the number in the key `b`.
fn counted(node: &Node) -> i64 {
    let store = &node.engine.keyspace.store;
    let key = store.key(b"b");
    let shard = store.lock_of(key.hash);
    shard.get(0, key, i64::MIN).and_then(|entry| entry.value().integer()).unwrap_or(0)
}

#[test]
fn no_write_runs_in_a_slot_that_has_left() {
    let mut node = Node::start();
    let is_over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|_| {
            let (engine, is_over) = (Arc::clone(&node.engine), Arc::clone(&is_over));
            thread::spawn(move || {
                let (mut session, mut done) = (Local::open(&engine, || ()), 0);
                while !is_over.load(Ordering::Relaxed) {
                    let mut reply = Vec::new();
                    session.exchange_now(b"INCR b\r\n", &mut reply).expect("an open session");
                    done += i64::from(reply.starts_with(b":"));
                }
                done
            })
        })
        .collect();
    let show = |node: &mut Node, owner: u16| {
        let engine = Arc::clone(&node.engine);
        let _all = engine.keyspace.store.lock_all();
        node.change(|view| view.owners[3_300] = owner);
    };
    for _ in 0..300 {
        thread::sleep(Duration::from_micros(300));
        show(&mut node, 1);
        let before = counted(&node);
        thread::sleep(Duration::from_micros(300));
        assert_eq!(counted(&node), before, "the slot has left");
        show(&mut node, 0);
    }
    is_over.store(true, Ordering::Relaxed);
    let done: i64 = writers.into_iter().map(|writer| writer.join().expect("a writer")).sum();
    assert_eq!(counted(&node), done);
    assert!(done > 0);
}
