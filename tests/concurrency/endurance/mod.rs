//! A server under load for a long time: its memory and the time of its slowest replies stay as they are.
//!
//! A mixed load runs over all types: keys come, go, expire and are evicted; large values, slow readers, listeners, scripts,
//! blocking commands, connections that come and go. One connection beside the load sends small requests, one at a time, and
//! measures. The run has three parts; in the first the server fills up. The last part must not exceed the middle one by more
//! than [`MEMORY_GROWS_MAX`] and [`SLOWEST_GROWS_MAX`]. The short form shows that nothing goes wrong and compares nothing: a
//! few seconds on a busy machine say nothing about time. Under each driver of the option `io` there is a crowd beside all
//! that ([`crowd`]).

mod crowd;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sleeve_tests::generator::{Generator, Scope, Words};
use sleeve_tests::random::{Random, seed};
use sleeve_tests::{Connection, Kind, Server, soak, strict};

use crowd::Crowd;

/// The duration from which on a run is compared with itself.
const COMPARED_FROM: Duration = Duration::from_secs(60);

/// The largest growth of the server's memory from the middle part to the last one, as a share of the former.
const MEMORY_GROWS_MAX: f64 = 0.03;

/// The factor by which the 99.9th percentile of the last part may exceed that of the middle one. The machine's own noise is
/// as large at this percentile; a latency that grows with time grows beyond any factor.
const SLOWEST_GROWS_MAX: f64 = 1.5;

/// The latency below which replies are not compared.
const FAST_ENOUGH: Duration = Duration::from_millis(2);

/// The interval between two looks at the memory.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The size of a crowd in the short form, and in tests that are not about drivers.
const FEW_CONNECTIONS: usize = 200;

/// The number of connections of a crowd in the long form.
const MANY_CONNECTIONS: usize = 10_000;

/// The number of connections that send the mixed load.
const LOADERS: u64 = 3;

/// The observations of the measuring connection in a part of the run.
#[derive(Default)]
struct Part {
    /// The resident memory, in bytes, at many looks.
    memory: Vec<u64>,
    /// The duration of each reply.
    times: Vec<Duration>,
}

impl Part {
    /// Returns the median of the looks at the memory.
    fn memory(&self) -> u64 {
        let mut looks = self.memory.clone();
        looks.sort_unstable();
        looks[looks.len() / 2]
    }

    /// Returns the time that 999 of 1,000 replies need at most.
    fn slowest(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        times[times.len() * 999 / 1_000]
    }

    fn join(parts: &[Part]) -> Part {
        let memory = parts.iter().flat_map(|part| part.memory.iter().copied()).collect();
        Part { memory, times: parts.iter().flat_map(|part| part.times.iter().copied()).collect() }
    }
}

/// A server under test, and its load.
struct Scene<'a> {
    /// The name of the scene, as printed.
    name: &'a str,
    /// Words of its command line.
    arguments: &'a [&'a str],
    /// Connections that are open beside those of the load.
    crowd: usize,
}

/// Runs the load for this time.
fn endure(scene: &Scene<'_>, seed: u64, length: Duration) {
    let limits = [
        "--maxmemory",
        "64mb",
        "--maxmemory-policy",
        "allkeys-lru",
        "--proto-max-bulk-len",
        "1mb",
        "--client-output-buffer-limit",
        "normal 8mb 0 0 pubsub 4mb 0 0",
        "--notify-keyspace-events",
        "KEA",
    ];
    let server = Server::start_with(Kind::Sleeve, &[scene.arguments, &limits].concat());
    let stop = AtomicBool::new(false);
    let crowd = Crowd::gather(&server, scene.crowd);
    let count = 3 * (length.as_secs() / 180).max(1) as usize;
    let parts: Vec<Part> = std::thread::scope(|scope| {
        let (server, stop) = (&server, &stop);
        // The end of the measurement, by success or panic, ends the load; otherwise the scope would wait for it for ever.
        let _ends = Ends(stop);
        for number in 0..LOADERS {
            scope.spawn(move || load(server, seed.wrapping_mul(31).wrapping_add(number), stop));
        }
        scope.spawn(move || come_and_go(server, seed, stop));
        scope.spawn(move || publish(server, stop));
        scope.spawn(move || crowd.live(server, seed, stop));
        let part = |number| {
            let part = measure(server, length / count as u32);
            println!(
                "{}, {number} of {count}: {} replies, 99.9 % within {:?}, {} bytes resident",
                scene.name,
                part.times.len(),
                part.slowest(),
                part.memory()
            );
            part
        };
        (1..=count).map(part).collect()
    });
    assert_eq!(server.connect().command(&["PING"]).expect("it lives"), b"+PONG\r\n");
    let third = |number: usize| Part::join(&parts[number * count / 3..(number + 1) * count / 3]);
    if length >= COMPARED_FROM {
        compare(&format!("{}, seed {seed}", scene.name), &third(1), &third(2));
    }
}

/// Compares the last part with the middle one.
fn compare(name: &str, middle: &Part, last: &Part) {
    let memory = last.memory() as f64 / middle.memory() as f64;
    assert!(
        memory <= 1.0 + MEMORY_GROWS_MAX,
        "{name}: memory went from {} to {} bytes",
        middle.memory(),
        last.memory()
    );
    let bound = middle.slowest().mul_f64(SLOWEST_GROWS_MAX).max(FAST_ENOUGH);
    assert!(
        last.slowest() <= bound,
        "{name}: 99.9 % came within {:?}, and then within {:?}",
        middle.slowest(),
        last.slowest()
    );
}

/// Ends the load when the guard is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends small requests for this time, one after the other.
fn measure(server: &Server, length: Duration) -> Part {
    let mut connection = server.connect();
    let (begun, mut next_look) = (Instant::now(), Duration::ZERO);
    let mut part = Part::default();
    while begun.elapsed() < length {
        let key = format!("small:{}", part.times.len() % 1_000);
        for words in [vec!["SET", &key, "value", "EX", "100"], vec!["GET", &key], vec!["INCR", "counter"]] {
            let asked = Instant::now();
            let reply = connection.command(&words).expect("a reply");
            part.times.push(asked.elapsed());
            assert!(strict::flaw(&reply, false).is_none() && !reply.starts_with(b"-ERR"), "{}", reply.escape_ascii());
        }
        // The looks are timed by the clock: with one look for a number of replies there would be most looks when the server
        // has little to do and little to hold.
        if begun.elapsed() >= next_look {
            part.memory.push(server.resident_bytes());
            next_look = begun.elapsed() + LOOK_EVERY;
        }
    }
    part
}

/// Sends random commands over all types in pipelines, with many new, large and short-lived keys.
fn load(server: &Server, seed: u64, stop: &AtomicBool) {
    let mut scope = Scope::default();
    // Commands that delete everything would leave nothing to be evicted, and commands that change the connection's state mean
    // nothing here.
    let left_out = ["flushall", "flushdb", "multi", "exec", "discard", "watch", "keys", "swapdb", "select"];
    scope.rows.retain(|row| !left_out.contains(&row.full_name));
    let mut generator = Generator::new(seed, scope);
    let mut connection = server.connect();
    while !stop.load(Ordering::Relaxed) {
        let batch: Vec<Words> = (0..30)
            .map(|number| if number % 3 == 0 { churn(generator.random()) } else { generator.command() })
            .collect();
        let bytes: Vec<u8> = batch.iter().flat_map(|words| sleeve_tests::connection::request(words)).collect();
        connection.send(&bytes).expect("connected");
        for words in &batch {
            let reply = connection
                .reply()
                .unwrap_or_else(|error| panic!("seed {seed}, {}: {error}", words.join(&b' ').escape_ascii()));
            assert_eq!(strict::flaw(&reply, false), None, "seed {seed}, {}", words.join(&b' ').escape_ascii());
        }
    }
}

/// Returns a command on one of many keys: new ones, large ones, short-lived ones.
fn churn(random: &mut Random) -> Words {
    let key = format!("churn:{}", random.below(200_000));
    let size = if random.once_in(200) { 200_000 } else { 1 + random.below(400) };
    let value = "v".repeat(size);
    let line: Vec<&str> = match random.below(8) {
        0 => vec!["SET", &key, &value, "PX", "300"],
        1 => vec!["SET", &key, &value],
        2 => vec!["DEL", &key],
        3 => vec![
            "EVAL",
            "redis.call('DEL', KEYS[1]) for i = 1, 20 do redis.call('RPUSH', KEYS[1], i .. ARGV[1]) end return redis.call('LRANGE', KEYS[1], 0, -1)",
            "1",
            &key,
            "x",
        ],
        4 => vec![
            "EVAL",
            "redis.call('DEL', KEYS[1]) return redis.call('HSET', KEYS[1], 'a', ARGV[1], 'b', 1, ARGV[1], 2)",
            "1",
            &key,
            &value,
        ],
        5 => vec![
            "EVAL",
            "redis.call('DEL', KEYS[1]) for i = 1, 50 do redis.call('ZADD', KEYS[1], i, i .. ARGV[1]) end return 1",
            "1",
            &key,
            "m",
        ],
        6 => vec!["XADD", "log", "MAXLEN", "~", "1000", "*", "entry", &value],
        _ => vec!["EXPIRE", &key, "1"],
    };
    line.into_iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// Opens connections that ask for much, wait or subscribe, and closes them before all replies are read.
fn come_and_go(server: &Server, seed: u64, stop: &AtomicBool) {
    let mut random = Random::new(seed);
    let mut open: Vec<Connection> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut connection = server.connect();
        let line = *random.pick(&[
            "BLPOP nobody:pushes 0",
            "SUBSCRIBE news",
            "PSUBSCRIBE __key*",
            "HELLO 3\r\nCLIENT TRACKING ON BCAST",
            "MONITOR",
            "XREAD BLOCK 0 STREAMS log $",
            "XRANGE log - +\r\nINFO",
            "WATCH counter\r\nMULTI\r\nINCR counter",
        ]);
        // A server that closes clients that do not read may have closed this one already.
        let _ = connection.send(format!("{line}\r\n").as_bytes());
        open.push(connection);
        if open.len() > 30 {
            let gone = random.below(open.len());
            open.swap_remove(gone);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Publishes messages for subscribers.
fn publish(server: &Server, stop: &AtomicBool) {
    let mut connection = server.connect();
    let message = "m".repeat(2_000);
    while !stop.load(Ordering::Relaxed) {
        connection.command(&["PUBLISH", "news", &message]).expect("a reply");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_long_day_leaves_no_trace() {
    for workers in ["1", "2"] {
        let scene =
            Scene { name: &format!("{workers} workers"), arguments: &["--workers", workers], crowd: FEW_CONNECTIONS };
        endure(&scene, seed(1), soak::duration(Duration::from_secs(3)));
    }
}

/// Runs a crowd over this driver. One driver at a time: each crowd takes most of the descriptors that a process may have.
fn endure_a_crowd(driver: &str) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let length = soak::duration(Duration::from_secs(2));
    let crowd = if length < COMPARED_FROM { FEW_CONNECTIONS } else { MANY_CONNECTIONS };
    let arguments = ["--io", driver, "--workers", "1", "--maxclients", "12000"];
    endure(&Scene { name: driver, arguments: &arguments, crowd }, seed(1), length);
}

#[test]
fn a_crowd_leaves_no_trace_over_tokio() {
    endure_a_crowd("tokio");
}

#[test]
fn a_crowd_leaves_no_trace_over_epoll() {
    endure_a_crowd("epoll");
}

#[test]
fn a_crowd_leaves_no_trace_over_uring() {
    endure_a_crowd("uring");
}
