//! Nodes in this process, with real sockets on loopback.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant as StdInstant};

use sleeve_cluster::admin::{self, Operation, Refusal};
use sleeve_cluster::packet::{
    Body, Extension, Gossip, Header, Heartbeat, HeartbeatKind, Message, Packet, decode, frame_length,
};
use sleeve_cluster::{ClusterState, NodeFlags, NodeId, SlotSet};
use sleeve_wire::commands::Command;

use super::new_node::NewNode;
use super::{BusThread, join, start};
use crate::config::{Config, Opt};
use crate::engine::Engine;
use crate::engine::cluster::host::{ServerHost, time};
use crate::engine::replication::role_change;
use crate::engine::scripts::running::ScriptKind;
use crate::host::clock::Instant;
use crate::peers::follower;
use crate::session::local::Local;

/// The timeout of every wait. Only a broken bus gets near it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A node of a cluster.
struct Node {
    engine: Arc<Engine>,
    port: u16,
    folder: PathBuf,
    thread: Option<BusThread>,
}

impl Node {
    fn begin(options: &[(Opt, &str)]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sleeve-bus-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let port = free_port();
        let engine = Self::engine(&folder, port, options);
        let node = join(&engine).expect("a file and a port").expect("cluster-enabled");
        let thread = Some(start(&engine, node).expect("a thread"));
        Self { engine, port, folder, thread }
    }

    fn engine(folder: &std::path::Path, port: u16, options: &[(Opt, &str)]) -> Arc<Engine> {
        let config = Config::default();
        let file = folder.join("nodes.conf");
        let own = [
            (Opt::ClusterEnabled, "yes"),
            (Opt::ClusterConfigFile, file.to_str().expect("a text")),
            (Opt::ClusterPort, &port.to_string()),
            (Opt::ClusterNodeTimeout, "2000"),
            (Opt::Bind, "127.0.0.1"),
        ];
        for (option, value) in own.iter().chain(options) {
            config.assign(*option, &[value.as_bytes()]).expect("an option");
        }
        let engine = Engine::new(config);
        follower::offer(&engine);
        engine
    }

    /// Runs a command of an operator.
    fn operate<T>(&self, command: impl FnOnce(&mut Operation<'_>) -> Result<T, Refusal>) -> T {
        let cluster = self.engine.cluster.get().expect("a node");
        let (dice, now) = (self.engine.identity.dice(), Instant::now());
        let mut host = ServerHost::without_locks(&self.engine, &dice, now);
        let done = admin::operate(&mut cluster.state.lock(), time(now), &mut host, command);
        cluster.wake();
        done.unwrap_or_else(|refusal| panic!("{}", String::from_utf8_lossy(refusal.text())))
    }

    fn look<T>(&self, look: impl FnOnce(&ClusterState) -> T) -> T {
        look(&self.engine.cluster.get().expect("a node").state.lock())
    }

    fn id(&self) -> NodeId {
        self.look(ClusterState::id)
    }

    fn meet(&self, other: &Self) {
        let bus_port = other.port.to_string();
        self.operate(|operation| admin::meet(operation, b"127.0.0.1", b"7000", Some(bus_port.as_bytes())));
    }

    fn take_all_slots(&self) {
        self.operate(|operation| admin::add_slots(operation, [Ok((0, 16_383))]));
    }

    /// Connects to the bus port, as a stranger does.
    fn dial(&self) -> TcpStream {
        let socket = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], self.port))).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        socket
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.thread.take());
        follower::end(&self.engine);
        _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port()
}

fn wait_until(state: &str, mut is_so: impl FnMut() -> bool) {
    let begun = StdInstant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "in vain: {state}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until both nodes know each other and see the owner of all slots.
fn agree(nodes: [&Node; 2], owner: NodeId) {
    for node in nodes {
        wait_until("a node sees the other and the owner of all slots", || {
            let are_met =
                node.look(|state| state.nodes().count() == 2 && state.nodes().all(|node| !node.is_in_handshake()));
            let view = node.engine.cluster.get().expect("a node").view();
            let owned = view.nodes.iter().position(|target| target.id == owner);
            are_met && view.is_ok && owned.is_some_and(|index| view.owners.iter().all(|own| usize::from(*own) == index))
        });
    }
}

/// Returns the packet of a node that is not known, which claims all slots.
fn packet_of_a_stranger(kind: HeartbeatKind) -> Vec<u8> {
    let header = Header {
        sender: NodeId::new([7; 20]),
        flags: NodeFlags::PRIMARY,
        current_epoch: 1_000,
        config_epoch: 1_000,
        offset: 0,
        slots: (0..16_384).collect::<SlotSet>(),
        primary: None,
        ip: String::new(),
        port: 1,
        other_port: 0,
        bus_port: 2,
        is_cluster_ok: true,
        is_paused: false,
        is_forced: false,
        reads_extensions: true,
    };
    let gossip = Gossip {
        node: NodeId::new([8; 20]),
        ping_sent_s: 0,
        pong_s: 0,
        ip: "127.0.0.1".to_owned(),
        port: 3,
        bus_port: 4,
        flags: NodeFlags::PRIMARY,
        other_port: 0,
    };
    let extensions = vec![Extension::Hostname("stranger".to_owned()), Extension::Shard(NodeId::new([9; 20]))];
    let body = Body::Heartbeat(Heartbeat { kind, gossip: vec![gossip], extensions });
    Packet::Full { header: Box::new(header), body }.encode()
}

fn read_packet(socket: &mut TcpStream) -> Packet {
    let mut bytes = vec![0; 16];
    socket.read_exact(&mut bytes).expect("a header");
    let length = frame_length(&bytes).expect("a packet").expect("a length");
    bytes.resize(length, 0);
    socket.read_exact(&mut bytes[16..]).expect("a packet");
    decode(&bytes).expect("a packet")
}

#[test]
fn two_nodes_meet_and_agree_about_slots_and_messages() {
    let (one, other) = (Node::begin(&[]), Node::begin(&[]));
    one.take_all_slots();
    one.meet(&other);
    agree([&one, &other], one.id());
    let mut subscriber = Local::open(&other.engine, || ());
    let mut replies = Vec::new();
    subscriber.exchange_now(b"SUBSCRIBE news\r\n", &mut replies).expect("a session");
    let message = Message { channel: b"news".to_vec(), message: b"hello".to_vec(), is_sharded: false };
    let cluster = one.engine.cluster.get().expect("a node");
    assert_eq!(cluster.link_count(), 2, "maxclients counts a link in each direction");
    assert!(cluster.outbox.put(message));
    cluster.wake();
    wait_until("a subscriber of the other node gets the message", || {
        subscriber.exchange_now(&[], &mut replies).expect("a session");
        replies.ends_with(b"$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n")
    });
}

/// Makes an engine a node with the nodes.conf of one that has ended. A process that another test starts shares the lock on the
/// file until it runs its program.
fn join_again(engine: &Engine) -> NewNode {
    let deadline = StdInstant::now() + PATIENCE;
    loop {
        match join(engine) {
            Err(why) if why.contains("already used") && StdInstant::now() < deadline => std::thread::yield_now(),
            joined => return joined.expect("a file and a port").expect("cluster-enabled"),
        }
    }
}

#[test]
fn a_node_comes_back_with_its_id_and_its_cluster() {
    let (mut one, other) = (Node::begin(&[]), Node::begin(&[]));
    one.take_all_slots();
    one.meet(&other);
    agree([&one, &other], one.id());
    let id = one.id();
    drop(one.thread.take());
    one.engine = Node::engine(&one.folder, one.port, &[]);
    let node = join_again(&one.engine);
    assert!(join(&one.engine).is_err_and(|why| why.contains("already used")), "the file is locked");
    one.thread = Some(start(&one.engine, node).expect("a thread"));
    assert_eq!(one.id(), id);
    agree([&one, &other], id);
}

#[test]
fn a_command_is_confirmed_when_its_change_is_in_nodes_conf() {
    let node = Node::begin(&[]);
    let mut session = Local::open(&node.engine, || ());
    for slot in 0..50 {
        let mut reply = Vec::new();
        session.exchange(format!("CLUSTER ADDSLOTS {slot}\r\n").as_bytes(), &mut reply).expect("a session");
        assert_eq!(reply, b"+OK\r\n");
        let file = std::fs::read_to_string(node.folder.join("nodes.conf")).expect("nodes.conf");
        let slots = if slot == 0 { " 0\n".to_owned() } else { format!(" 0-{slot}\n") };
        assert!(file.contains(&slots), "{file}");
    }
    let mut replies = Vec::new();
    let transaction = b"MULTI\r\nCLUSTER ADDSLOTS 50\r\nEXEC\r\n";
    session.exchange(transaction, &mut replies).expect("a session");
    assert!(replies.ends_with(b"*1\r\n+OK\r\n"), "a transaction does not wait");
}

#[test]
fn a_replica_follows_its_primary_and_serves_no_writes() {
    let (one, other) = (Node::begin(&[]), Node::begin(&[]));
    one.take_all_slots();
    one.meet(&other);
    agree([&one, &other], one.id());
    other.operate(|operation| admin::replicate(operation, one.id().to_string().as_bytes()));
    wait_until("the node is a replica", || other.engine.replication.role.is_replica());
    let view = other.engine.cluster.get().expect("a node").view();
    assert!(view.is_replica, "the view was shown with the role");
    let link = other.engine.replication.role.link().expect("a replica");
    assert_eq!(link.primary.host, "127.0.0.1");
}

#[test]
fn a_replica_that_starts_again_loads_its_data_as_a_replica() {
    let (one, mut other) = (Node::begin(&[]), Node::begin(&[]));
    one.take_all_slots();
    one.meet(&other);
    agree([&one, &other], one.id());
    other.operate(|operation| admin::replicate(operation, one.id().to_string().as_bytes()));
    wait_until("the node is a replica", || other.engine.replication.role.is_replica());
    drop(other.thread.take());
    follower::end(&other.engine);
    other.engine = Node::engine(&other.folder, other.port, &[]);
    let node = join_again(&other.engine);
    role_change::follow_configured(&other.engine);
    assert!(other.engine.replication.role.is_replica(), "before the data is loaded");
    other.thread = Some(start(&other.engine, node).expect("a thread"));
}

#[test]
fn a_stranger_changes_nothing() {
    let node = Node::begin(&[]);
    let before = node.look(admin_text);
    let mut stranger = node.dial();
    stranger.write_all(&packet_of_a_stranger(HeartbeatKind::Ping)).expect("it is taken");
    let Packet::Full { header, body: Body::Heartbeat(heartbeat) } = read_packet(&mut stranger) else {
        panic!("a PONG, as of Redis");
    };
    assert_eq!((header.sender, heartbeat.kind), (node.id(), HeartbeatKind::Pong));
    assert_eq!(node.look(admin_text), before);
}

fn admin_text(state: &ClusterState) -> String {
    state.nodes().map(|node| format!("{} {} {}\n", node.id, node.config_epoch, node.slots.len())).collect()
}

#[test]
fn bytes_that_are_no_packet_close_the_link_at_once() {
    let node = Node::begin(&[]);
    for bytes in [
        b"GET / HTTP/1.1\r\n".as_slice(),
        b"RCmb\xff\xff\xff\xff\0\x01\0\0\0\x04\0\0",
        b"RCmb\0\0\0\0\0\x01\0\0\0\0\0\0",
    ] {
        let mut stranger = node.dial();
        stranger.write_all(bytes).expect("it is taken");
        assert!(matches!(stranger.read(&mut [0]), Ok(0) | Err(_)), "{bytes:?}");
    }
}

#[test]
fn a_node_that_sleeps_answers_no_packet() {
    let node = Node::begin(&[]);
    let mut stranger = node.dial();
    let ping = packet_of_a_stranger(HeartbeatKind::Ping);
    stranger.write_all(&ping).expect("it is taken");
    read_packet(&mut stranger);
    let engine = &node.engine;
    std::thread::scope(|threads| {
        let asleep_until_ms = || engine.debug.asleep_until_ms.load(Ordering::Relaxed);
        threads.spawn(|| engine.sleep(Duration::from_millis(300), Instant::now()));
        wait_until("the sleep has begun", || asleep_until_ms() != 0);
        stranger.write_all(&ping).expect("it is taken");
        read_packet(&mut stranger);
        assert!(Instant::now().monotonic_ms() >= asleep_until_ms());
    });
}

#[test]
fn a_stranger_may_not_send_long_packets() {
    let node = Node::begin(&[]);
    let mut stranger = node.dial();
    let long = Packet::Light(Message { channel: Vec::new(), message: vec![0; 2 << 20], is_sharded: false }).encode();
    stranger.write_all(&long[..100]).expect("it is taken");
    assert!(matches!(stranger.read(&mut [0]), Ok(0) | Err(_)), "the link is closed before its bytes are kept");
}

/// A node that serves all slots, with a key for each of its first shards.
fn serving_node(shards: usize) -> (Node, Vec<String>) {
    let node = Node::begin(&[(Opt::Shards, "4"), (Opt::BusyReplyThreshold, "0")]);
    node.take_all_slots();
    wait_until("the node serves all slots", || node.engine.cluster.get().expect("a node").view().is_ok);
    let store = &node.engine.keyspace.store;
    let key_of = |shard| {
        let mut keys = (0..1_000).map(|number| format!("k{number}"));
        keys.find(|key| store.shard_of(store.hash(key.as_bytes())) == shard).expect("some key is in it")
    };
    let keys = (0..shards).map(key_of).collect();
    (node, keys)
}

/// Runs a command in a session of its own, and returns its reply.
fn reply_of(engine: &Arc<Engine>, words: &[&str]) -> String {
    let request: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    let mut replies = Vec::new();
    let mut session = Local::open(engine, || ());
    session.exchange(format!("*{}\r\n{request}", words.len()).as_bytes(), &mut replies).expect("a session");
    String::from_utf8(replies).expect("a text")
}

/// Runs `meanwhile` while a script without end runs in the slot of a key. Then the script is killed.
fn beside_endless_script(node: &Node, key: &str, meanwhile: impl FnOnce()) {
    let running = &node.engine.scripts.running;
    std::thread::scope(|scope| {
        let endless = scope.spawn(|| reply_of(&node.engine, &["EVAL", "while true do end", "1", key]));
        wait_until("the script runs", || running.is_any());
        meanwhile();
        running.kill(ScriptKind::Script).expect("it has written nothing");
        assert!(endless.join().expect("it ends").contains("Script killed"));
    });
}

#[test]
fn scripts_of_different_slots_run_at_the_same_time() {
    let (node, keys) = serving_node(2);
    let engine = Arc::clone(&node.engine);
    let own_key = keys[1].clone();
    let (mut beside, mut is_beside) = (None, false);
    beside_endless_script(&node, &keys[0], || {
        let text = "redis.call('set', KEYS[1], 'x') return redis.call('get', KEYS[1])";
        let other = std::thread::spawn(move || reply_of(&engine, &["EVAL", text, "1", &own_key]));
        let begun = StdInstant::now();
        while !other.is_finished() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        is_beside = other.is_finished();
        beside = Some(other);
    });
    assert_eq!(beside.expect("it was started").join().expect("it ends"), "$1\r\nx\r\n");
    assert!(is_beside, "it has waited for the script of the other slot");
}

#[test]
fn a_script_that_turns_out_to_need_other_slots_waits_for_their_scripts() {
    let (node, keys) = serving_node(3);
    let engine = Arc::clone(&node.engine);
    let text = "redis.call('set', KEYS[1], 'x') redis.call('set', ARGV[1], 'y') return redis.call('dbsize')";
    let words = ["EVAL", text, "1", &keys[1], &keys[2]].map(str::to_owned);
    let run = move || reply_of(&engine, &words.each_ref().map(String::as_str));
    let scripts = &node.engine.scripts;
    assert!(!scripts.is_wide(Command::Eval, text.as_bytes()));
    let mut wide = None;
    beside_endless_script(&node, &keys[0], || {
        let again = run.clone();
        wide = Some((std::thread::spawn(run), again));
        wait_until("the script asks for the other shards", || scripts.is_wide(Command::Eval, text.as_bytes()));
    });
    let (first, again) = wide.expect("it was started");
    assert_eq!(first.join().expect("it ends"), ":2\r\n");
    assert_eq!(again(), ":2\r\n", "now it takes all shards from the start");
    let values = [&keys[1], &keys[2]].map(|key| reply_of(&node.engine, &["GET", key]));
    assert_eq!(values, ["$1\r\nx\r\n", "$1\r\ny\r\n"]);
}
