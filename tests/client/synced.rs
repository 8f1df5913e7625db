//! `reply.synced()`: never answered before the disk has the write, and an honest answer if the effect is unknown.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, ClientFilter, Config, Effect, Error, ErrorKind, Protocol, Reply, Synced};
use sleeve_disk::disk::gated::{Gate, GatedDisk};
use sleeve_disk::disk::memory::MemoryDisk;
use sleeve_server::boot;
use sleeve_server::boot::Server as Served;
use sleeve_server::engine::origin::Origin;
use sleeve_server::{Config as EngineConfig, Engine, Opt};
use sleeve_tests::{Kind, Server};

/// A folder that is removed when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sleeve-synced-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    fn name(&self) -> &str {
        self.0.to_str().expect("a name")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("it was there");
    }
}

/// A server with an AOF that waits at a gate before each sync.
struct Gated {
    gate: GatedDisk,
    engine: Arc<Engine>,
    served: Served,
}

impl Gated {
    fn new(options: &[(Opt, &str)]) -> Self {
        let config = EngineConfig::default();
        for &(option, value) in [(Opt::Appendonly, "yes")].iter().chain(options) {
            config.assign(option, &[value.as_bytes()]).expect("a value");
        }
        let gate = GatedDisk::gated(Arc::new(MemoryDisk::new()));
        let engine = Engine::begin(config, Origin::of_machine().on(Arc::new(gate.clone())));
        boot::load(&engine).expect("a log begins");
        let served = boot::listen(&engine, "127.0.0.1:0".parse().expect("an address")).expect("a port");
        Self { gate, engine, served }
    }

    fn url(&self) -> String {
        format!("redis://{}", self.served.addresses()[0])
    }

    fn connect(&self) -> Client {
        Client::connect(&self.url()).expect("it is there")
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        self.gate.set(Gate::Open);
        self.engine.persistence.aof.finish(&self.engine);
    }
}

fn answered<T: sleeve::FromReply>(reply: &Reply<T>) {
    while !reply.is_ready() {
        std::thread::yield_now();
    }
}

/// Polls the reply again and again while other calls are served, and checks that it still waits.
fn still_waits<T: sleeve::FromReply>(synced: &mut Synced<T>, client: &Client) {
    for _ in 0..50 {
        assert!(Pin::new(&mut *synced).poll(&mut Context::from_waker(Waker::noop())).is_pending(), "nothing is synced");
        client.ping().wait().expect("an answer");
    }
}

#[test]
fn nothing_is_called_synced_before_it_is() {
    for workers in ["1", "2"] {
        let gated = Gated::new(&[(Opt::Workers, workers)]);
        let (client, other) = (gated.connect(), gated.connect());
        gated.gate.set(Gate::Closed);
        // Requests that were sent, and answered, before the client asked for notifications.
        let early = client.set("early", 1);
        answered(&early);
        let transaction = client.transaction();
        let within = transaction.incr("within");
        let executed = transaction.exec();
        let batch = client.batch();
        let batched = batch.select(1).incr_here();
        batch.send();
        let mut waiting = [early.synced()];
        let mut counts = [within.synced(), batched.synced(), client.db(3).incr("n").synced()];
        let mut seen = other.get::<i64>("early").synced();
        let mut whole = executed.synced();
        still_waits(&mut waiting[0], &client);
        counts.iter_mut().for_each(|count| still_waits(count, &client));
        still_waits(&mut seen, &other);
        still_waits(&mut whole, &client);
        gated.gate.wait_for_sync();
        still_waits(&mut waiting[0], &client);
        gated.gate.set(Gate::Open);
        waiting.into_iter().for_each(|synced| synced.wait().expect("it is synced"));
        counts.into_iter().for_each(|synced| assert_eq!(synced.wait().expect("it is synced"), 1));
        assert_eq!((seen.wait(), whole.wait()), (Ok(1), Ok(true)));
        assert_eq!(client.incr("n").synced().wait(), Ok(1), "and again");
    }
}

/// A helper that increments a key which no other test line uses.
trait IncrHere {
    fn incr_here(&self) -> Reply<i64>;
}

impl IncrHere for sleeve::Batch {
    fn incr_here(&self) -> Reply<i64> {
        self.incr("batched")
    }
}

#[test]
fn a_command_that_fails_has_nothing_to_sync() {
    let gated = Gated::new(&[]);
    let client = gated.connect();
    client.set("text", "x").wait().expect("it is set");
    gated.gate.set(Gate::Closed);
    assert_eq!(client.incr("text").synced().wait().expect_err("it is text").code(), Some("ERR"));
    assert_eq!(client.batch().incr("n").synced().wait().expect_err("nobody sends it").kind(), ErrorKind::Usage);
}

#[test]
fn a_lost_connection_leaves_it_unknown_whether_it_is_synced() {
    let gated = Gated::new(&[]);
    let (client, admin) = (gated.connect(), gated.connect());
    let id = client.client_id().wait().expect("a number");
    gated.gate.set(Gate::Closed);
    let answered_before = client.set("a", 1);
    answered(&answered_before);
    let mut waiting = client.set("b", 1).synced();
    still_waits(&mut waiting, &client);
    assert_eq!(admin.client_kill(ClientFilter::new().id(id)).wait(), Ok(1));
    let unknown = |error: Error| {
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Disconnected, Effect::Unknown), "{error}");
        assert!(error.message().contains("whether it is synced, is unknown"), "{error}");
    };
    unknown(waiting.wait().expect_err("its connection is gone"));
    assert_ne!(client.client_id().wait(), Ok(id), "there is another");
    unknown(answered_before.synced().wait().expect_err("it was answered on the one that is gone"));
    gated.gate.set(Gate::Open);
    client.set("c", 1).synced().wait().expect("the new one tells as well");
}

#[test]
fn time_is_up_where_the_disk_takes_too_long() {
    let gated = Gated::new(&[]);
    let config = Config::from_url(&gated.url()).expect("a URL").command_timeout(Some(Duration::from_millis(300)));
    let client = Client::connect_with(config).expect("it is there");
    gated.gate.set(Gate::Closed);
    let error = client.set("a", 1).synced().wait_for(Duration::from_millis(20)).expect_err("the gate is closed");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown));
    let error = client.set("a", 1).synced().wait().expect_err("the gate is closed");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown));
    assert!(error.message().contains("SET was answered by") && error.message().contains("300ms"), "{error}");
    let error = client.lease().expect("a lease").set("a", 1).synced().wait().expect_err("the gate is closed");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown));
    assert_eq!(client.ping().wait().as_deref(), Ok("PONG"), "the others are not held up");
}

#[test]
fn a_waiting_caller_keeps_its_connection_until_the_outcome_is_known() {
    let gated = Gated::new(&[]);
    let client = gated.connect();
    gated.gate.set(Gate::Closed);
    let mut waiting = client.set("a", 1).synced();
    still_waits(&mut waiting, &client);
    drop(client);
    gated.gate.wait_for_sync();
    gated.gate.set(Gate::Open);
    waiting.wait().expect("it is synced");
}

#[test]
fn changes_of_the_aof_options_reach_synced_callers() {
    let gated = Gated::new(&[]);
    let (client, admin) = (gated.connect(), gated.connect());
    gated.gate.set(Gate::Closed);
    let mut waiting = client.set("a", 1).synced();
    still_waits(&mut waiting, &client);
    admin.config_set([("appendfsync", "no")]).wait().expect("it is set");
    for error in
        [waiting.wait().expect_err("nobody syncs"), client.set("b", 1).synced().wait().expect_err("nobody syncs")]
    {
        assert_eq!(error.effect(), Effect::Answered);
        assert!(error.message().contains("appendonly yes") && error.message().contains("everysec"), "{error}");
    }
    gated.gate.set(Gate::Open);
    admin.config_set([("appendfsync", "always")]).wait().expect("it is set");
    client.set("c", 1).synced().wait().expect("it is synced");
}

#[test]
fn many_tasks_wait_on_one_connection() {
    let server = Server::start_with(Kind::Sleeve, &["--appendonly", "yes", "--workers", "2"]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    runtime.block_on(async {
        let client = Client::connect_async(&format!("redis://{}", server.address())).await.expect("it is there");
        let tasks: Vec<_> = (0..300)
            .map(|number| {
                let client = client.clone();
                tokio::spawn(async move { client.incr(format!("counter:{}", number % 7)).synced().await })
            })
            .collect();
        let mut sum = 0;
        for task in tasks {
            sum += task.await.expect("no panic").expect("it is synced");
        }
        assert_eq!(sum, (0..7).map(|counter| (1..=(300 - counter + 6) / 7).sum::<i64>()).sum::<i64>());
    });
    let connections = sleeve_info(&server, "connected_clients");
    assert!(connections <= 3, "{connections} connections where one would do");
}

fn sleeve_info(server: &Server, name: &str) -> u64 {
    let reply = server.connect().command(&["INFO", "clients"]).expect("a reply");
    let text = String::from_utf8_lossy(&reply).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).expect("a line");
    line.parse().expect("a number")
}

#[test]
fn on_other_servers_a_lease_uses_waitaof() {
    for (kind, more) in [(Kind::Sleeve, &[][..]), (Kind::Redis8, &[]), (Kind::Valkey, &[])] {
        let server = Server::start_with(kind, &[&["--appendonly", "yes"], more].concat());
        let client = Client::connect(&format!("redis://{}", server.address())).expect("it is there");
        let lease = client.lease().expect("a lease");
        assert_eq!(lease.incr("n").synced().wait(), Ok(1), "{}", kind.name());
        let transaction = lease.transaction();
        let count = transaction.incr("n");
        assert_eq!(transaction.exec().wait(), Ok(true));
        assert_eq!(count.synced().wait(), Ok(2), "{}", kind.name());
        if kind != Kind::Sleeve {
            let error = client.incr("n").synced().wait().expect_err("it does not tell");
            assert_eq!(error.effect(), Effect::Answered, "{error}");
            assert!(error.message().contains("client.lease()"), "{error}");
            assert_eq!(client.get::<i64>("n").wait(), Ok(3), "it was done all the same");
        }
        lease.config_set([("appendonly", "no")]).wait().expect("it is set");
        for error in [lease.incr("n").synced().wait(), client.incr("n").synced().wait()].map(Result::unwrap_err) {
            assert_eq!(error.effect(), Effect::Answered, "{error}");
            assert!(error.message().starts_with("it is done, but"), "{error}");
        }
    }
}

#[test]
fn a_server_that_cannot_tell_says_so_at_once() {
    let redis = Server::start_with(Kind::Redis, &["--appendonly", "yes"]);
    let client = Client::connect(&format!("redis://{}", redis.address())).expect("it is there");
    let lease = client.lease().expect("a lease");
    let error = lease.set("a", 1).synced().wait().expect_err("it has no WAITAOF");
    assert!(error.message().contains("older than Redis 7.2") && error.effect() == Effect::Answered, "{error}");
    let error = client.set("a", 1).synced().wait().expect_err("it does not tell");
    assert!(error.message().contains("client.lease()") && error.effect() == Effect::Answered, "{error}");
    let without = Server::start(Kind::Sleeve);
    let client = Client::connect(&format!("redis://{}", without.address())).expect("it is there");
    let error = client.set("a", 1).synced().wait().expect_err("it has no log");
    assert!(error.message().contains("appendonly yes") && error.effect() == Effect::Answered, "{error}");
    let config = Config::from_url(&format!("redis://{}", without.address())).expect("a URL").protocol(Protocol::Resp2);
    let client = Client::connect_with(config).expect("it is there");
    let error = client.set("a", 1).synced().wait().expect_err("there are no messages in RESP2");
    assert!(error.message().contains("RESP3") && error.effect() == Effect::Answered, "{error}");
}

#[test]
fn an_engine_in_this_process_is_asked_itself() {
    let folder = Scratch::new();
    let url = format!("embedded://{}", folder.name());
    let client = Client::connect(&url).expect("an engine");
    client.set("a", 1).synced().wait().expect("it is synced");
    let late = client.blpop::<(String, String)>("jobs", Duration::ZERO);
    client.rpush("jobs", "one").synced().wait().expect("it is synced");
    assert_eq!(late.synced().wait(), Ok(("jobs".to_owned(), "one".to_owned())));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async { client.incr("n").synced().await }).expect("it is synced");
    client.config_set([("appendfsync", "no")]).wait().expect("it is set");
    let error = client.incr("n").synced().wait().expect_err("nobody syncs");
    assert!(error.message().contains("appendfsync=everysec") && error.effect() == Effect::Answered, "{error}");
    client.config_set([("appendfsync", "everysec")]).wait().expect("it is set");
    let last = client.incr("n").synced();
    drop(client);
    assert_eq!(last.wait(), Ok(3), "its last client syncs as it goes");
    let error = Client::embedded().set("a", 1).synced().wait().expect_err("it is in memory alone");
    assert!(error.message().contains("embedded:///var/lib/app") && error.effect() == Effect::Answered, "{error}");
}
