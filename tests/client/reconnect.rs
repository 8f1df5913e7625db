//! The connection is cut a thousand times at random, under load, and heals every time.
//!
//! A proxy on loopback passes bytes on and, after a random number of them, cuts the connection at that byte. Threads and
//! tasks keep sending commands with effects that can be counted afterwards. No caller may hang, none may get another's
//! answer, and each outcome must be true: answered means executed once, never sent means not executed, unknown means at most
//! once.

use std::io::{ErrorKind as IoErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, Condition, Config, Effect, Endpoint, Error, ErrorKind};
use sleeve_tests::{Kind, Server};

const CUTS: u64 = 1000;
const LONE_CUTS: u64 = 200;
const THREADS: u64 = 8;
const TASKS: u64 = 8;

/// The most bytes that pass in one direction before a cut.
const BYTES_MAX: u64 = 40_000;

/// The number of commands that a caller sends before it reads their replies.
const WINDOW: u64 = 40;

/// Random numbers from a seed (xorshift64*, Vigna 2016).
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % sides
    }
}

/// A proxy that cuts connections.
struct Proxy {
    address: SocketAddr,
    cuts: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl Proxy {
    fn start(server: SocketAddr, cuts_max: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (cuts, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (cuts_seen, ended_seen) = (cuts.clone(), ended.clone());
        thread::spawn(move || {
            let mut dice = Dice::new(7);
            for client in listener.incoming() {
                if ended_seen.load(Ordering::Acquire) {
                    return;
                }
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else { continue };
                // Small pieces pass at once, as they would without a proxy.
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let cutting = cuts_seen.load(Ordering::Relaxed) < cuts_max;
                // Small numbers cut greetings, large ones full pipelines.
                let mut bytes = || if cutting { 1 << dice.roll(17) } else { u64::MAX };
                let (up, down) = (bytes().min(BYTES_MAX), bytes().min(BYTES_MAX));
                let (up, down) = if cutting { (up, down) } else { (u64::MAX, u64::MAX) };
                let cut = Arc::new(AtomicBool::new(!cutting));
                pass(&client, &server, up, &cut, &cuts_seen);
                pass(&server, &client, down, &cut, &cuts_seen);
            }
        });
        Self { address, cuts, ended }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // The listener looks at the flag when a connection arrives.
        let _ = TcpStream::connect(self.address);
    }
}

/// Passes bytes on until the number is used up or one side has ended, then ends both.
fn pass(from: &TcpStream, to: &TcpStream, mut left: u64, cut: &Arc<AtomicBool>, cuts: &Arc<AtomicU64>) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    let (cut, cuts) = (cut.clone(), cuts.clone());
    thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while left > 0 {
            let count = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count.min(usize::try_from(left).unwrap_or(usize::MAX)),
                Err(error) if error.kind() == IoErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
            left -= count as u64;
        }
        if left == 0 && !cut.swap(true, Ordering::Relaxed) {
            cuts.fetch_add(1, Ordering::Relaxed);
        }
        // The call fails if the other direction was faster.
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// The outcome of one command as its caller learned it, to be compared with the server's data.
struct Told {
    key: String,
    database: u32,
    effect: Effect,
}

fn told<T>(key: String, database: u32, result: &Result<T, Error>) -> Told {
    let effect = match result {
        Ok(_) => Effect::Answered,
        Err(error) => {
            let expected = matches!(error.kind(), ErrorKind::Disconnected | ErrorKind::Closed);
            assert!(expected, "{key}: {error:?}");
            error.effect()
        }
    };
    Told { key, database, effect }
}

/// A caller with endless work: windows of commands, each on a key of its own.
struct Caller {
    client: Client,
    number: u64,
    window: u64,
    dice: Dice,
    told: Vec<Told>,
}

impl Caller {
    fn new(client: &Client, number: u64) -> Self {
        Self { client: client.clone(), number, window: 0, dice: Dice::new(number + 100), told: Vec::new() }
    }

    /// Sends a window of commands and returns their replies.
    fn send(&mut self) -> Vec<(String, u32, sleeve::Reply<i64>)> {
        self.window += 1;
        let mut replies = Vec::new();
        let batch = self.client.batch();
        for index in 0..WINDOW {
            let database = self.dice.roll(4) as u32;
            let key = format!("{}:{}:{index}", self.number, self.window);
            let reply = match self.dice.roll(10) {
                0 => batch.select(database).incr(&key),
                1 => self.transaction(database, &key),
                2 => {
                    let expected = self.number * 1_000_000 + self.window;
                    let reply = self.client.db(database).echo::<u64>(expected);
                    reply.then(move |answer| {
                        if let Ok(answer) = answer {
                            assert_eq!(answer, expected, "a caller got another's answer");
                        }
                    });
                    continue;
                }
                _ => self.client.db(database).incr(&key),
            };
            replies.push((key, database, reply));
        }
        batch.send();
        replies
    }

    fn transaction(&mut self, database: u32, key: &str) -> sleeve::Reply<i64> {
        let transaction = self.client.db(database).transaction();
        if self.dice.roll(2) == 0 {
            transaction.require(Condition::not_exists(key));
        }
        let reply = transaction.incr(key);
        transaction.incr(format!("{key}:twin")).forget();
        transaction.exec().forget();
        reply
    }

    fn hear(&mut self, key: String, database: u32, result: &Result<i64, Error>) {
        if let Ok(count) = result {
            assert_eq!(*count, 1, "{key} was executed twice, or this is another's answer");
        }
        self.told.push(told(key, database, result));
    }
}

fn run_thread(mut caller: Caller, cuts: &AtomicU64) -> Vec<Told> {
    while cuts.load(Ordering::Relaxed) < CUTS {
        for (key, database, reply) in caller.send() {
            let result = reply.wait();
            caller.hear(key, database, &result);
        }
    }
    caller.told
}

async fn run_task(mut caller: Caller, cuts: Arc<AtomicU64>) -> Vec<Told> {
    while cuts.load(Ordering::Relaxed) < CUTS {
        for (key, database, reply) in caller.send() {
            let result = reply.await;
            caller.hear(key, database, &result);
        }
    }
    caller.told
}

/// Compares the callers' outcomes with the server's data.
fn verify(direct: &Client, told: &[Told]) {
    let mut unknown = 0u64;
    let look = |told: &Told| {
        let db = direct.db(told.database);
        (db.get::<Option<i64>>(&told.key), db.get::<Option<i64>>(format!("{}:twin", told.key)))
    };
    for part in told.chunks(10_000) {
        let counts: Vec<_> = part.iter().map(look).collect();
        for (told, (count, twin)) in part.iter().zip(counts) {
            let count = count.wait().unwrap().unwrap_or(0);
            match told.effect {
                Effect::Answered => assert_eq!(count, 1, "{} was answered", told.key),
                Effect::None => assert_eq!(count, 0, "{} was told never to have been sent", told.key),
                _ => assert!(count <= 1, "{} was executed {count} times", told.key),
            }
            let twin = twin.wait().unwrap();
            assert!(twin.is_none_or(|twin| twin == count), "{}: a transaction was executed in part", told.key);
            unknown += u64::from(told.effect == Effect::Unknown);
        }
    }
    assert!(unknown > 0, "cuts that lose nothing test nothing");
    println!("{} commands, of {unknown} the effect is unknown", told.len());
}

fn cuts_heal(kind: Kind) {
    let server = Server::start(kind);
    let proxy = Proxy::start(server.address(), CUTS);
    let endpoint = Endpoint::Tcp { host: proxy.address.ip().to_string(), port: proxy.address.port() };
    let config = Config::new(endpoint).backoff(Duration::from_micros(200), Duration::from_millis(2)).unix_socket(false);
    let client = Client::open_with(config).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let tasks: Vec<_> = (THREADS..THREADS + TASKS)
        .map(|number| runtime.spawn(run_task(Caller::new(&client, number), proxy.cuts.clone())))
        .collect();
    let mut told: Vec<Told> = thread::scope(|scope| {
        let callers: Vec<_> = (0..THREADS)
            .map(|number| {
                let (caller, cuts) = (Caller::new(&client, number), &proxy.cuts);
                scope.spawn(move || run_thread(caller, cuts))
            })
            .collect();
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    for task in tasks {
        told.extend(runtime.block_on(task).unwrap());
    }
    assert_eq!(client.echo::<String>("healed").wait().unwrap(), "healed");
    verify(&Client::connect(&server.url()).unwrap(), &told);
}

/// Cuts the connection of one caller that waits for each command, and so reads its replies itself.
#[test]
fn cuts_heal_under_a_lone_caller() {
    let server = Server::start(Kind::Redis);
    let proxy = Proxy::start(server.address(), LONE_CUTS);
    let endpoint = Endpoint::Tcp { host: proxy.address.ip().to_string(), port: proxy.address.port() };
    let config = Config::new(endpoint).backoff(Duration::from_micros(200), Duration::from_millis(2)).unix_socket(false);
    let client = Client::open_with(config).unwrap();
    let mut caller = Caller::new(&client, 0);
    for number in 0u64.. {
        if proxy.cuts.load(Ordering::Relaxed) >= LONE_CUTS {
            break;
        }
        let key = format!("lone:{number}");
        let result = client.incr(&key).wait();
        caller.hear(key, 0, &result);
    }
    assert_eq!(client.echo::<String>("healed").wait().unwrap(), "healed");
    verify(&Client::connect(&server.url()).unwrap(), &caller.told);
}

#[test]
fn cuts_heal_before_redis() {
    cuts_heal(Kind::Redis);
}

#[test]
fn cuts_heal_before_sleeve() {
    cuts_heal(Kind::Sleeve);
}
