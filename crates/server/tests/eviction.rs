//! Tests of eviction from outside: the evicted keys, the limit, and the records of evictions.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sleeve_server::boot;
use sleeve_server::{Config, Engine, Local, Opt};

const LIMIT_BYTES: usize = 1 << 20;

fn engine(policy: &str) -> Arc<Engine> {
    let config = Config::default();
    let options = [
        (Opt::Maxmemory, LIMIT_BYTES.to_string()),
        (Opt::MaxmemoryPolicy, policy.to_owned()),
        (Opt::MaxmemoryEvictionTenacity, "100".to_owned()),
        (Opt::MaxmemorySamples, "10".to_owned()),
    ];
    for (option, value) in options {
        config.assign(option, &[value.as_bytes()]).expect("an option of the table");
    }
    Engine::new(config)
}

fn ask(local: &mut Local, line: &str) -> String {
    let mut replies = Vec::new();
    local.exchange(format!("{line}\r\n").as_bytes(), &mut replies).expect("nothing here ends a session");
    String::from_utf8_lossy(&replies).into_owned()
}

fn fill(local: &mut Local, name: &str, options: &str, count: usize) -> usize {
    let value = "x".repeat(200);
    (0..count).filter(|index| ask(local, &format!("SET {name}:{index} {value}{options}")) == "+OK\r\n").count()
}

fn present(local: &mut Local, name: &str, count: usize) -> usize {
    (0..count).filter(|index| ask(local, &format!("EXISTS {name}:{index}")) == ":1\r\n").count()
}

#[test]
fn without_a_policy_writes_that_may_grow_are_refused() {
    let engine = engine("noeviction");
    let mut local = Local::open(&engine, || {});
    let taken = fill(&mut local, "key", "", 7_000);
    assert!(taken > 2_000 && taken < 7_000);
    assert!(ask(&mut local, "SET more 1").starts_with("-OOM command not allowed"));
    assert_eq!(ask(&mut local, "DEL key:0"), ":1\r\n");
    assert_eq!(present(&mut local, "key", taken), taken - 1);
}

#[test]
fn every_policy_keeps_the_data_within_the_limit() {
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
        let engine = engine(policy);
        let mut local = Local::open(&engine, || {});
        assert_eq!(fill(&mut local, "key", "", 10_000), 10_000, "{policy}");
        let left = present(&mut local, "key", 10_000);
        assert!((2_000..7_000).contains(&left), "{policy}: {left} keys are left");
        // One write may exceed the limit; the next write evicts the surplus.
        assert!(engine.used_bytes() <= LIMIT_BYTES as u64 + 4_096, "{policy}");
    }
}

#[test]
fn volatile_policies_leave_other_keys_alone() {
    for policy in ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"] {
        let engine = engine(policy);
        let mut local = Local::open(&engine, || {});
        assert_eq!(fill(&mut local, "kept", "", 1_000), 1_000, "{policy}");
        assert_eq!(fill(&mut local, "volatile", " EX 1000", 7_000), 7_000, "{policy}");
        assert_eq!(present(&mut local, "kept", 3_000), 1_000, "{policy}");
        assert!(present(&mut local, "volatile", 7_000) < 4_000, "{policy}");
        // Without volatile keys, no key may be evicted.
        assert!(fill(&mut local, "more", "", 7_000) < 7_000, "{policy}");
    }
}

#[test]
fn the_keys_that_expire_first_go_first() {
    let engine = engine("volatile-ttl");
    let mut local = Local::open(&engine, || {});
    fill(&mut local, "short", " EX 100", 2_000);
    fill(&mut local, "long", " EX 100000", 4_000);
    let (short, long) = (present(&mut local, "short", 2_000), present(&mut local, "long", 4_000));
    // A third of the keys expire soon, and nearly all of them are evicted before the others. While they are more than a tenth
    // of the keys, ten samples for each eviction find one of them.
    assert!(short < 700 && long > 3_500, "{short} of those that expire soon and {long} of the others are left");
}

#[test]
fn the_keys_that_are_used_often_stay() {
    let engine = engine("allkeys-lfu");
    let mut local = Local::open(&engine, || {});
    fill(&mut local, "used", "", 300);
    for _ in 0..30 {
        (0..300).for_each(|index| _ = ask(&mut local, &format!("GET used:{index}")));
    }
    fill(&mut local, "other", "", 10_000);
    assert!(present(&mut local, "used", 300) > 270);
}

#[test]
fn what_waits_in_clients_counts_too() {
    let engine = engine("allkeys-lru");
    let server = boot::listen(&engine, "127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let mut local = Local::open(&engine, || {});
    assert_eq!(fill(&mut local, "key", "", 500), 500);
    assert_eq!(present(&mut local, "key", 500), 500);
    let mut stream = TcpStream::connect(server.addresses()[0]).expect("it listens");
    // The first part of a request that alone takes more memory than the limit.
    stream.write_all(b"*2\r\n$4\r\nECHO\r\n$3000000\r\n").expect("connected");
    stream.write_all(&vec![b'x'; 2 * LIMIT_BYTES]).expect("the server reads");
    let begun = Instant::now();
    while ask(&mut local, "DBSIZE") != ":0\r\n" {
        assert!(begun.elapsed() < Duration::from_secs(60), "no room is made for what a client sends");
        std::thread::sleep(Duration::from_millis(1));
    }
    let line = |info: &str, name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    let info = ask(&mut local, "INFO everything");
    assert_eq!(line(&info, "evicted_keys:").as_deref(), Some("500"));
    assert_ne!(line(&info, "total_eviction_exceeded_time:"), None);
    assert!(ask(&mut local, "SET more 1").starts_with("-OOM"), "nothing more may go");
    drop(stream);
    while !ask(&mut local, "SET more 1").starts_with("+OK") {
        assert!(begun.elapsed() < Duration::from_secs(60), "what a client had is not given back");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_was_evicted_is_recorded() {
    let (full, mut copy) = (engine("allkeys-random"), Vec::new());
    let mut reader = full.journal.subscribe();
    let mut local = Local::open(&full, || {});
    for round in 0..40 {
        fill(&mut local, &format!("round{round}"), "", 200);
        reader.read(&mut copy);
    }
    // Every command evicts keys first if memory is short; so does DBSIZE.
    let size = ask(&mut local, "DBSIZE");
    reader.read(&mut copy);
    let roomy = Engine::new(Config::default());
    let mut twin = Local::open(&roomy, || {});
    twin.exchange(&copy, &mut Vec::new()).expect("the journal is made of requests");
    assert_eq!(size, ask(&mut twin, "DBSIZE"));
    assert!(ask(&mut local, "INFO stats").lines().any(|line| line.starts_with("evicted_keys:") && line.len() > 15));
}
