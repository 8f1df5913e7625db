//! The engine: requests through a session and the spine, as they come from a connection, without a driver.

use std::sync::Arc;

use sleeve_server::engine::origin::Origin;
use sleeve_server::host::clock::Instant;
use sleeve_server::{Config, Engine, Local, Opt};

use crate::counting::{bench, key, request};

/// Requests of one benchmark.
const COUNT: usize = 1_024;

/// The number of requests that have arrived together, where several do.
const DEPTH: usize = 16;

/// Keys that the commands go to.
const KEYS: usize = 1_024;

const NOW: Instant = Instant { wall_us: 1_735_689_600_000_000, monotonic_us: 1_000_000 };

/// Runs all of this file.
pub fn run() {
    let config = Config::default();
    // Otherwise as many as the machine has processors, and as many shards.
    config.assign(Opt::Workers, &[b"1"]).expect("a number of workers");
    let engine = Engine::begin(config, Origin::of_seed(7, NOW));
    let mut session = Session::new(&engine);
    session.run("dispatch/ping", DEPTH, |_| vec!["PING".to_owned()]);
    session.run("dispatch/ping-alone", 1, |_| vec!["PING".to_owned()]);
    session.run("command/set", DEPTH, |number| words(&["SET", &key(number), &format!("value:{number:010}")]));
    session.run("command/get", DEPTH, |number| words(&["GET", &key(number)]));
    session.run("command/get-alone", 1, |number| words(&["GET", &key(number)]));
    session.run("command/get-missing", DEPTH, |number| words(&["GET", &key(KEYS + number)]));
    session.run("command/incr", DEPTH, |number| words(&["INCR", &format!("counter:{:08}", number % 64)]));
    session.run("command/mget-10", DEPTH, |number| {
        [words(&["MGET"]), (0..10).map(|other| key((number * 10 + other) % KEYS)).collect()].concat()
    });
    session.run("command/lpush-lpop", DEPTH, |number| match number % 2 {
        0 => words(&["LPUSH", "list", "0123456789abcdef"]),
        _ => words(&["LPOP", "list"]),
    });
    session.run("command/sadd-again", DEPTH, |number| words(&["SADD", "set", &format!("member:{number:09}")]));
    session
        .run("command/hset-again", DEPTH, |number| words(&["HSET", "hash", &format!("field:{number:010}"), "value"]));
    session.run("command/zadd-moving", DEPTH, |number| {
        words(&["ZADD", "zset", &(number * 7_919 % 1_021).to_string(), &format!("member:{:09}", number * 5 % 512)])
    });
    session.run("command/zrank", DEPTH, |number| words(&["ZRANK", "zset", &format!("member:{:09}", number % 512)]));
    session.run("command/lrange-10", DEPTH, |number| match number {
        0 => [words(&["RPUSH", "range"]), (0..10).map(|element| format!("element:{element}")).collect()].concat(),
        1 => words(&["LTRIM", "range", "-10", "-1"]),
        _ => words(&["LRANGE", "range", "0", "-1"]),
    });
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// A session of an engine with a clock that stands.
struct Session {
    local: Local,
    replies: Vec<u8>,
}

impl Session {
    fn new(engine: &Arc<Engine>) -> Self {
        Self { local: Local::open_at(engine, NOW, || {}), replies: Vec::new() }
    }

    /// Sends requests by their numbers, so many together.
    fn run(&mut self, name: &str, together: usize, words: impl Fn(usize) -> Vec<String>) {
        let requests: Vec<Vec<u8>> =
            (0..COUNT).map(|number| request(&words(number).iter().map(String::as_str).collect::<Vec<_>>())).collect();
        let wakes: Vec<Vec<u8>> = requests.chunks(together).map(<[Vec<u8>]>::concat).collect();
        bench(name, COUNT, || {
            for wake in &wakes {
                self.replies.clear();
                let open = self.local.exchange_at(NOW, wake, &mut self.replies);
                assert!(open.is_ok() && self.replies.first() != Some(&b'-'));
            }
        });
    }
}
