//! Dumps that were tampered with and have a valid checksum all the same: RESTORE accepts or refuses them, and an accepted
//! value bears every command of its type.
//!
//! Values of every type and encoding are dumped; bits are flipped, parts cut out, doubled, and put into other dumps, lengths
//! changed; version and CRC-64 are put right again (`dumps/payload.rs`). Accepted values are used by the commands of their
//! type, made from the command table (`dumps/usage.rs`). Most of it runs in the engine inside this process; the short second
//! part asks a server over TCP and watches its memory from outside. A failure prints the seed and the dump. `SLEEVE_SEED`
//! repeats it.

mod payload;
mod usage;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use payload::{Asks, Payloads};
use sleeve_server::{Config, Engine, Local, Opt};
use sleeve_tests::generator::{Generator, Scope, Words};
use sleeve_tests::random::seed;
use sleeve_tests::transcript::frame::{split, text};
use sleeve_tests::{Kind, Server, soak, strict};

/// The time after which a command counts as one that never ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of dumps after which the data is deleted, and other values are dumped and tampered with.
const TOGETHER: usize = 2_000;

/// The limit of the run's memory: no value that is dumped has more than some hundred kilobytes.
const MEMORY_MAX: u64 = 1 << 30;

/// The request under way, for the report of a test that panics.
#[derive(Debug, Default)]
struct Scene {
    seed: u64,
    dump: Vec<u8>,
    words: Words,
    /// The number of commands so far.
    steps: u64,
    done: bool,
}

impl std::fmt::Display for Scene {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (dump, words) = (self.dump.escape_ascii(), self.words.join(&b' '));
        write!(f, "seed {}, dump \"{dump}\"\nat {}", self.seed, words.escape_ascii())
    }
}

/// Prints the request under way when a test panics, and ends the process when a command does not end: a thread that hangs
/// cannot be ended alone.
struct Watched(Arc<Mutex<Scene>>);

impl Watched {
    fn begin(seed: u64) -> Watched {
        let scene = Arc::new(Mutex::new(Scene { seed, ..Scene::default() }));
        let watched = Arc::clone(&scene);
        std::thread::spawn(move || {
            let (mut steps, mut since) = (0, Instant::now());
            while !at(&watched).done {
                std::thread::sleep(Duration::from_millis(20));
                let scene = at(&watched);
                if scene.steps != steps {
                    (steps, since) = (scene.steps, Instant::now());
                } else if since.elapsed() > PATIENCE {
                    eprintln!("this command does not end: {scene}");
                    std::process::abort();
                }
            }
        });
        Watched(scene)
    }

    /// Returns the reply to a command, which must be exactly one.
    fn ask(&self, server: &mut dyn Asks, words: Words) -> Vec<u8> {
        let mut scene = at(&self.0);
        scene.steps += 1;
        scene.words.clone_from(&words);
        drop(scene);
        let reply = server.ask(&words);
        let flaw = if split(&reply).len() == 1 { strict::flaw(&reply, false) } else { Some("not one reply".into()) };
        assert_eq!(flaw, None, "{}", words[0].escape_ascii());
        reply
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut scene = at(&self.0);
        scene.done = true;
        if std::thread::panicking() {
            eprintln!("{scene}");
        }
    }
}

fn at(scene: &Mutex<Scene>) -> MutexGuard<'_, Scene> {
    scene.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Restores so many dumps and uses the values, and returns how many were accepted.
fn restore(server: &mut dyn Asks, seed: u64, count: usize) -> usize {
    let mut generator = Generator::new(seed, Scope { hostile: true, ..Scope::default() });
    let mut payloads = Payloads::default();
    let watched = Watched::begin(seed);
    let mut taken = 0;
    for number in 0..count {
        if number % TOGETHER == 0 {
            payloads = Payloads::gather(server, &mut generator);
        }
        let dump = payloads.tampered(generator.random());
        at(&watched.0).dump.clone_from(&dump);
        let words = [b"RESTORE".as_slice(), usage::KEY, b"0", &dump, b"REPLACE"].map(<[u8]>::to_vec).to_vec();
        if watched.ask(server, words) != b"+OK\r\n" {
            continue;
        }
        taken += 1;
        let kind = watched.ask(server, vec![b"TYPE".to_vec(), usage::KEY.to_vec()]);
        for words in usage::commands(text(&kind).unwrap_or_default(), &mut generator) {
            watched.ask(server, words);
        }
    }
    watched.ask(server, vec![b"FLUSHALL".to_vec()]);
    taken
}

#[test]
fn no_dump_breaks_the_engine() {
    let config = Config::default();
    for (option, value) in [(Opt::EnableDebugCommand, b"yes".as_slice()), (Opt::ProtoMaxBulkLen, b"1mb")] {
        config.assign(option, &[value]).expect("the option takes the value");
    }
    let count = soak::count(1_000);
    let taken = restore(&mut Local::open(&Engine::new(config), || {}), seed(1), count);
    println!("{taken} of {count} dumps were taken");
    assert!(taken * 50 > count, "nearly every dump is refused, so that little is shown");
}

#[test]
fn no_dump_breaks_a_server() {
    let arguments = ["--enable-debug-command", "yes", "--workers", "2", "--proto-max-bulk-len", "1mb"];
    let server = Server::start_with(Kind::Sleeve, &arguments);
    let count = soak::count(1_000) / 4;
    restore(&mut server.connect(), seed(2), count);
    let peak = server.peak_bytes();
    assert!(peak < MEMORY_MAX, "the server took {peak} bytes");
    assert_eq!(server.connect().command(&["PING"]).expect("it lives"), b"+PONG\r\n");
}

#[test]
fn debug_has_a_wrong_sum_of_a_dump_passed_over() {
    let config = Config::default();
    config.assign(Opt::EnableDebugCommand, &[b"yes"]).expect("the option takes the value");
    let engine = Engine::new(config);
    let mut client = Local::open(&engine, || {});
    let mut ask = |words: &[&[u8]]| client.ask(&words.iter().map(|word| word.to_vec()).collect::<Vec<_>>());
    let (wrong, unknown) = (b"\x00\x01a\x0a\x0012345678", b"\x00\x01a\xff\x0012345678");
    let refusal = b"-ERR DUMP payload version or checksum are wrong\r\n";
    assert_eq!(ask(&[b"RESTORE", b"k", b"0", wrong]), refusal);
    assert_eq!(ask(&[b"DEBUG", b"SET-SKIP-CHECKSUM-VALIDATION", b"1"]), b"+OK\r\n");
    assert_eq!(ask(&[b"RESTORE", b"k", b"0", wrong]), b"+OK\r\n");
    assert_eq!(ask(&[b"RESTORE", b"l", b"0", unknown]), refusal);
    assert_eq!(ask(&[b"DEBUG", b"SET-SKIP-CHECKSUM-VALIDATION", b"0"]), b"+OK\r\n");
    assert_eq!(ask(&[b"RESTORE", b"k", b"0", wrong, b"REPLACE"]), refusal);
}
