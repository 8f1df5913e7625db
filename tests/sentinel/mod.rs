//! A service of a primary and two replicas, watched by three real Sentinels, and a client's view of its failovers.
//! `failovers` has those where the servers are Sleeves, `partitions` those on nodes that are cut off.
//!
//! Callers write values that can be counted afterwards. A write that was acknowledged after a failover is there, once. If a
//! write that was acknowledged before it is missing, the failover itself lost it: no later write of the old primary's order
//! is there either.

mod failovers;
mod partitions;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Client, Effect, SubscriptionEvent};
use sleeve_tests::network::{self, Network};
use sleeve_tests::server::free_port;
use sleeve_tests::{Connection, Kind, Server};

const SERVICE: &str = "shop";

/// The time that callers may take to go on after the Sentinels' own switch.
const RECOVERY_MAX: Duration = Duration::from_secs(2);

/// The time limit of every other wait. Only a defect gets near it.
const TIME_MAX: Duration = Duration::from_secs(60);

/// A Sentinel in its own process.
struct Sentinel {
    child: Child,
    address: SocketAddr,
    folder: PathBuf,
}

impl Sentinel {
    /// Starts a Sentinel for a primary that counts as failed after this silence; it listens at this address.
    fn start(primary: SocketAddr, host: Ipv4Addr, silence_ms: u32) -> Self {
        let port = free_port();
        let folder = std::env::temp_dir().join(format!("sleeve-tests-sentinel-{}-{port}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("sentinel.conf");
        let lines = [
            format!("port {port}"),
            format!("bind {host}"),
            format!("dir {}", folder.display()),
            format!("sentinel monitor {SERVICE} {} {} 2", primary.ip(), primary.port()),
            format!("sentinel down-after-milliseconds {SERVICE} {silence_ms}"),
            format!("sentinel failover-timeout {SERVICE} 2000"),
        ];
        fs::write(&file, lines.join("\n")).expect("its file");
        let binary = Kind::Redis.binary().expect("redis-server");
        let log = fs::File::create(folder.join("log")).expect("its log");
        let mut command = Command::new(binary);
        command.arg(&file).arg("--sentinel").stdin(Stdio::null()).stdout(log.try_clone().expect("its log")).stderr(log);
        Self { child: command.spawn().expect("a Sentinel"), address: (host, port).into(), folder }
    }

    /// Returns the Sentinel's reply; an empty text if it does not reply.
    fn ask(&self, words: &[&str]) -> String {
        let answer = Connection::open(self.address).and_then(|mut connection| connection.command(words));
        answer.map_or(String::new(), |reply| String::from_utf8_lossy(&reply).into_owned())
    }

    /// Returns the port of the primary, as the Sentinel says.
    fn primary(&self) -> Option<u16> {
        let answer = self.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]);
        answer.trim_end().rsplit("\r\n").next()?.parse().ok()
    }

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        // Both calls fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            println!("{}:\n{}", self.address, fs::read_to_string(self.folder.join("log")).unwrap_or_default());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), process.to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

fn until<R>(what: &str, mut look: impl FnMut() -> Option<R>) -> R {
    let since = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(since.elapsed() < TIME_MAX, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A primary, its replicas and their Sentinels, ready for failovers.
struct House {
    servers: Vec<Server>,
    sentinels: Vec<Sentinel>,
}

impl House {
    fn build() -> Self {
        Self::build_of(Kind::Redis, 500, None)
    }

    /// Builds the service from servers of this kind, each on a node of its own if there is a network.
    fn build_of(kind: Kind, silence_ms: u32, network: Option<&Network>) -> Self {
        let quick = ["--repl-diskless-sync-delay", "0"];
        let start = |node, words: &[&str]| match network {
            Some(network) => Server::start_at(network.place(node), kind, words),
            None => Server::start_with(kind, words),
        };
        let primary = start(0, &quick);
        let [host, port] = [primary.host().to_string(), primary.port().to_string()];
        let replica = |node| start(node, &[&quick[..], &["--replicaof", &host, &port]].concat());
        let replicas = [replica(1), replica(2)];
        for replica in &replicas {
            let mut connection = replica.connect();
            until("the replica follows", || {
                let info = connection.command(&["INFO", "replication"]).expect("an answer");
                String::from_utf8_lossy(&info).contains("master_link_status:up").then_some(())
            });
        }
        let host = network.map_or(Ipv4Addr::LOCALHOST, |_| network::HOST);
        let sentinels: Vec<_> = (0..3).map(|_| Sentinel::start(primary.address(), host, silence_ms)).collect();
        for sentinel in &sentinels {
            until("the Sentinels know each other and the replicas", || {
                let says = sentinel.ask(&["SENTINEL", "MASTER", SERVICE]);
                let value = |name: &str| says.split("\r\n").skip_while(|line| *line != name).nth(2).map(str::to_owned);
                let knows = value("num-other-sentinels")? == "2" && value("num-slaves")? == "2";
                // A replica that has not reported its state yet is not eligible for a failover that the test asks for.
                let replicas = sentinel.ask(&["SENTINEL", "REPLICAS", SERVICE]);
                let knows = knows && replicas.matches("master-link-status\r\n$2\r\nok\r\n").count() == 2;
                (knows && sentinel.ask(&["SENTINEL", "CKQUORUM", SERVICE]).starts_with("+OK")).then_some(())
            });
        }
        let servers = [primary].into_iter().chain(replicas).collect();
        Self { servers, sentinels }
    }

    /// Returns a client that knows so many Sentinels.
    fn client(&self, sentinels: usize) -> Client {
        let hosts: Vec<_> = self.sentinels.iter().take(sentinels).map(|one| one.address.to_string()).collect();
        Client::connect(&format!("redis+sentinel://{}/{SERVICE}", hosts.join(","))).expect("a primary")
    }

    fn server(&self, port: u16) -> &Server {
        self.servers.iter().find(|server| server.port() == port).expect("one of ours")
    }

    /// Waits until one of the Sentinels from this one on names another primary, and returns its port.
    fn wait_for_switch(&self, from: usize, old: u16) -> u16 {
        until("the Sentinels switch", || {
            self.sentinels[from..].iter().filter_map(Sentinel::primary).find(|primary| *primary != old)
        })
    }
}

/// The outcome of each command of one caller, in their order.
type Told = Vec<(String, Result<(), Effect>)>;

/// Callers that write until they are stopped.
struct Callers {
    stops: Arc<AtomicBool>,
    callers: Vec<JoinHandle<Told>>,
}

impl Callers {
    fn start(client: &Client) -> Self {
        let stops = Arc::new(AtomicBool::new(false));
        let call = |number: u32| {
            let (client, stops) = (client.clone(), Arc::clone(&stops));
            thread::spawn(move || {
                let mut told = Vec::new();
                while !stops.load(Ordering::Relaxed) {
                    let name = format!("{number}-{}", told.len());
                    let outcome = client.rpush("log", &name).wait();
                    told.push((name, outcome.map(|_| ()).map_err(|error| error.effect())));
                }
                told
            })
        };
        Self { callers: (0..4).map(call).collect(), stops }
    }

    fn stop(self) -> Vec<Told> {
        self.stops.store(true, Ordering::Relaxed);
        self.callers.into_iter().map(|caller| caller.join().expect("it ends")).collect()
    }
}

/// Compares the callers' outcomes with the new primary's data.
fn compare(told: &[Told], client: &Client) {
    let log: Vec<String> = client.lrange("log", 0, -1).wait().expect("the log");
    let present: HashSet<&String> = log.iter().collect();
    assert_eq!(present.len(), log.len(), "something was executed twice");
    for caller in told {
        let mut lost = 0..0;
        for (index, (name, outcome)) in caller.iter().enumerate() {
            match outcome {
                Ok(_) if present.contains(name) => {}
                Ok(_) if lost.is_empty() => lost = index..index + 1,
                Ok(_) => lost.end = index + 1,
                Err(Effect::None) => assert!(!present.contains(name), "{name} was executed, and said not to be"),
                Err(_) => {}
            }
        }
        // A failover loses the end of the old primary's writes.
        let between = caller[lost.clone()].iter().find(|(name, _)| present.contains(name));
        assert_eq!(between, None, "{lost:?} were answered, and are not there");
    }
}

/// Waits until a write is answered, and then until the callers have gone on.
fn wait_until_answered(client: &Client, key: &str) -> Duration {
    let since = Instant::now();
    until("a caller is answered", || client.set(key, 1).wait().ok());
    let recovered = since.elapsed();
    let length = until("a caller is answered", || client.llen("log").wait().ok());
    until("callers go on", || client.llen("log").wait().ok().filter(|now| *now > length + 100));
    recovered
}

#[test]
fn callers_go_on_when_the_primary_is_killed_and_a_sentinel_with_it() {
    let mut house = House::build();
    let client = house.client(1);
    let old = house.servers[0].port();
    let callers = Callers::start(&client);
    until("something is written", || client.llen("log").wait().ok().filter(|length| *length > 100));
    // The client listens to this Sentinel; it has learned of the others from it.
    house.sentinels.remove(0);
    house.servers[0].kill();
    let new = house.wait_for_switch(0, old);
    let recovered = wait_until_answered(&client, "after");
    assert!(recovered < RECOVERY_MAX, "{recovered:?}");
    compare(&callers.stop(), &client);
    let mut direct = house.server(new).connect();
    assert_eq!(direct.command(&["GET", "after"]).expect("an answer"), b"$1\r\n1\r\n");
}

#[test]
fn callers_survive_a_silent_primary_that_returns_as_a_replica() {
    let house = House::build();
    let client = house.client(3);
    let old = house.servers[0].port();
    let callers = Callers::start(&client);
    until("something is written", || client.llen("log").wait().ok().filter(|length| *length > 100));
    signal(house.servers[0].process_id(), "STOP");
    house.wait_for_switch(0, old);
    let recovered = wait_until_answered(&client, "after");
    assert!(recovered < RECOVERY_MAX, "{recovered:?}");
    signal(house.servers[0].process_id(), "CONT");
    // A server that is made a replica closes all connections.
    until("it is a replica", || {
        let role = house.servers[0].try_connect().and_then(|mut direct| direct.command(&["ROLE"])).ok()?;
        String::from_utf8_lossy(&role).contains("slave").then_some(())
    });
    client.set("later", 2).wait().expect("the new primary takes it");
    compare(&callers.stop(), &client);
}

#[test]
fn a_failover_that_was_asked_for_moves_every_kind_of_connection() {
    let house = House::build();
    let client = house.client(2);
    let old = house.servers[0].port();
    let callers = Callers::start(&client);
    let subscription = client.subscribe(["news"]).expect("it is confirmed");
    let lease = client.lease().expect("a connection");
    lease.set("leased", 1).wait().expect("it is set");
    // The Sentinel that the client asks first, and subscribes to, is stopped.
    house.sentinels[0].signal("STOP");
    let asked = house.sentinels[1].ask(&["SENTINEL", "FAILOVER", SERVICE]);
    assert!(asked.starts_with("+OK"), "{asked}");
    let new = house.wait_for_switch(1, old);
    let port = || client.config_get::<HashMap<String, u16>>("port").wait().ok();
    until("the client moves", || port().filter(|found| found["port"] == new));
    until("the lease ends with its primary", || lease.set("leased", 2).wait().err());
    client.lease().expect("a connection").set("leased", 3).wait().expect("it is set there");
    let job = client.blpop::<(String, String)>("jobs", Duration::ZERO);
    client.rpush("jobs", "sweep").wait().expect("it is there");
    assert_eq!(job.wait().expect("it was waited for").1, "sweep");
    until("the subscription moves", || {
        let heard = client.publish("news", "moved").wait().ok()? > 0;
        heard.then_some(())
    });
    while !matches!(subscription.recv().wait().expect("it goes on"), SubscriptionEvent::Message(_)) {}
    compare(&callers.stop(), &client);
}

/// Returns the number of times that a server has executed GET.
fn reads(server: &Server) -> u64 {
    let answer = server.connect().command(&["INFO", "commandstats"]).expect("an answer");
    let stats = String::from_utf8_lossy(&answer).into_owned();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_get:calls="));
    line.map_or(0, |line| line.split(',').next().expect("a number").parse().expect("a number"))
}

#[test]
fn reads_go_to_replicas_and_go_on_while_servers_come_and_go() {
    let mut house = House::build();
    let hosts: Vec<_> = house.sentinels.iter().map(|one| one.address.to_string()).collect();
    let url = format!("redis+sentinel://{}/{SERVICE}?read_from=replica", hosts.join(","));
    let client = Client::connect(&url).expect("a primary");
    client.set("k", "v").wait().expect("it is set");
    let get = || client.get::<Option<String>>("k").wait().expect("an answer");
    until("both replicas are read from", || {
        (get().is_some() && reads(&house.servers[1]) > 0 && reads(&house.servers[2]) > 0).then_some(())
    });
    until("they take turns", || {
        let before = [0, 1, 2].map(|number| reads(&house.servers[number]));
        (0..100).for_each(|_| assert_eq!(get().as_deref(), Some("v")));
        let after = [0, 1, 2].map(|number| reads(&house.servers[number]));
        (after == [before[0], before[1] + 50, before[2] + 50]).then_some(())
    });
    // A read that is lost with its replica is sent to another server.
    house.servers[2].kill();
    (0..100).for_each(|_| assert_eq!(get().as_deref(), Some("v")));
    // Without a primary the client reads from the last replica, which then becomes the primary.
    let old = house.servers[0].port();
    house.servers[0].kill();
    let since = Instant::now();
    until("a write is answered", || {
        assert_eq!(get().as_deref(), Some("v"), "{:?}", since.elapsed());
        client.set("after", 1).wait().ok()
    });
    assert_ne!(house.wait_for_switch(0, old), old);
    assert_eq!(get().as_deref(), Some("v"));
}
