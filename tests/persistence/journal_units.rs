//! Tests that every write command of the table leaves one unit in the journal.
//!
//! Random words of each such row go to an embedded engine, by themselves, in transactions and in scripts, while keys and
//! fields expire on the way. The appended bytes of a request must be one effect alone or several between MULTI and EXEC, with
//! SELECT in front; and if the data has changed, there must be an effect.

use std::sync::Arc;

use sleeve_server::engine::journal::Reader;
use sleeve_server::host::clock::Instant;
use sleeve_server::{Config, Engine, Local, Opt};
use sleeve_tests::connection::request;
use sleeve_tests::generator::{Generator, Scope, Words};
use sleeve_tests::random::seed;
use sleeve_tests::soak;
use sleeve_tests::transcript::escape::escape;
use sleeve_tests::transcript::frame::{leaves, split};
use sleeve_wire::commands::{Flags, Row};

/// The number of requests for each row.
const TRIES: usize = 6;

/// Rows that may propagate, but are not about any data.
const WITHOUT_DATA: &[&str] = &["publish", "spublish", "script|load", "script|flush", "evalsha", "fcall"];

struct Run {
    local: Local,
    reader: Reader,
}

impl Run {
    fn new() -> Run {
        let config = Config::default();
        config.assign(Opt::EnableDebugCommand, &[b"yes"]).expect("an option of the table");
        config.assign(Opt::Shards, &[b"4"]).expect("an option of the table");
        let engine: Arc<Engine> = Engine::new(config);
        let mut run = Run { local: Local::open(&engine, || ()), reader: engine.journal.subscribe() };
        // An expired key would be a unit of its own.
        run.ask(&words("DEBUG SET-ACTIVE-EXPIRE 0"));
        run
    }

    fn ask(&mut self, words: &[Vec<u8>]) -> Vec<u8> {
        let mut reply = Vec::new();
        self.local.exchange(&request(words), &mut reply).expect("nothing here ends a session");
        reply
    }

    /// Writes keys of each type. Some of their deadlines have passed: the keys were written a second ago.
    fn begin(&mut self) {
        let now = Instant::now();
        let ago = Instant { wall_us: now.wall_us - 1_000_000, monotonic_us: now.monotonic_us };
        for line in [
            "FLUSHALL",
            "MSET k0 1 k1 22 k2 abc",
            "SET k3 1 PX 1",
            "RPUSH l0 a b c d",
            "RPUSH l1 1 2 3",
            "SADD s0 a b c",
            "SADD s1 1 2 3",
            "SADD s2 a",
            "PEXPIRE s2 1",
            "HSET h0 f 1 g 2 m1 3",
            "HPEXPIRE h0 1 FIELDS 1 g",
            "HSET h1 a b",
            "ZADD z0 1 a 2 b 3 c",
            "ZADD z1 1 x",
            "PEXPIRE z1 1",
            "XADD x0 1-1 f v",
            "XGROUP CREATE x0 g1 0",
            "PFADD p0 a b c",
        ] {
            self.local.exchange_at(ago, &request(&words(line)), &mut Vec::new()).expect("nothing here ends a session");
        }
        self.told();
    }

    fn digest(&mut self) -> Vec<u8> {
        self.ask(&words("DEBUG DIGEST"))
    }

    /// Returns the names of the requests that were appended since the last look.
    fn told(&mut self) -> Vec<String> {
        let mut bytes = Vec::new();
        self.reader.read(&mut bytes);
        let name = |effect: &[u8]| leaves(effect).first().map(|name| escape(name).to_ascii_uppercase());
        split(&bytes).into_iter().map(|effect| name(effect).unwrap_or_default()).collect()
    }
}

fn words(line: &str) -> Words {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// Returns whether requests are one piece: SELECT or not, then a single effect, or several between MULTI and EXEC.
fn is_one_piece(names: &[String]) -> bool {
    let piece = if names.first().is_some_and(|name| name == "SELECT") { &names[1..] } else { names };
    let is_frame = |name: &String| ["SELECT", "MULTI", "EXEC"].contains(&name.as_str());
    match piece {
        [only] => !is_frame(only),
        [first, inside @ .., last] if first == "MULTI" && last == "EXEC" => {
            let effects = inside.iter().filter(|name| !is_frame(name)).count();
            effects >= 2 && !inside.iter().any(|name| name == "MULTI" || name == "EXEC")
        }
        _ => false,
    }
}

/// Sends these requests, of which only the last one may change anything, and checks the bytes that it appended.
fn check(run: &mut Run, requests: &[Words], compared: bool) {
    run.begin();
    let before = run.digest();
    run.told();
    let replies: Vec<String> = requests.iter().map(|words| escape(&run.ask(words))).collect();
    let told = run.told();
    let after = run.digest();
    run.told();
    let story = || {
        let requests: Vec<String> = requests.iter().map(|words| escape(&words.join(&b' '))).collect();
        format!("{requests:?} is answered by {replies:?} and leaves {told:?}")
    };
    assert!(told.is_empty() || is_one_piece(&told), "{}", story());
    assert!(!compared || before == after || !told.is_empty(), "the data has changed: {}", story());
}

fn commands_of(row: &'static Row, seed: u64) -> Vec<Words> {
    let mut generator = Generator::new(seed, Scope { rows: vec![row], ..Scope::default() });
    (0..soak::count(TRIES)).map(|_| generator.command()).collect()
}

#[test]
fn every_row_that_writes_leaves_one_piece() {
    let mut run = Run::new();
    let rows = sleeve_wire::commands::all().iter().filter(|row| {
        let writes = row.flags.intersects(Flags::WRITE.or(Flags::MAY_REPLICATE));
        writes && !["migrate", "exec"].contains(&row.full_name)
    });
    for (number, row) in rows.enumerate() {
        let compared = !WITHOUT_DATA.contains(&row.full_name);
        let commands = commands_of(row, seed(40) + number as u64);
        for pair in commands.chunks(2) {
            pair.iter().for_each(|command| check(&mut run, std::slice::from_ref(command), compared));
            let queued = [vec![words("MULTI")], pair.to_vec(), vec![words("EXEC")]].concat();
            check(&mut run, &queued, compared);
            let head = words("EVAL return{redis.pcall(unpack(ARGV))} 0");
            check(&mut run, &[[head, pair[0].clone()].concat()], compared);
        }
    }
}
