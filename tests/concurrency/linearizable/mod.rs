//! Linearizability: for all concurrent calls there is an order in which one server would have given the same replies.
//!
//! Clients send random commands and transactions on a few keys. Each notes on a shared clock when a call began and when its
//! reply arrived; our own checker then looks for an order. The clients are threads with embedded sessions, or connections
//! over TCP to an engine with several workers. In an engine with an INCR that gives its lock back between reading and
//! writing, the same check must find a violation.

pub mod checker;
pub mod model;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use checker::{Call, is_contended, violation};
use model::Command;
use sleeve_server::boot;
use sleeve_server::{Config, Engine, Local, Opt};
use sleeve_tests::Connection;
use sleeve_tests::connection::request;
use sleeve_tests::random::{Random, seed};
use sleeve_tests::soak;
use sleeve_tests::transcript::frame::{children, split};

/// The number of clients that work at the same time.
const CLIENTS: u64 = 3;

/// The number of histories that are checked together.
const HISTORIES: usize = 5_000;

/// The number of beginnings and ends of calls in a history.
const TICKS: u64 = 40;

/// The number of keys of each type in a history.
const KEYS: usize = 2;

/// A client that sends requests and waits for as many replies.
trait Client {
    fn exchange(&mut self, requests: &[u8], replies: usize) -> Vec<u8>;
}

impl Client for Local {
    fn exchange(&mut self, requests: &[u8], _: usize) -> Vec<u8> {
        let mut replies = Vec::new();
        Local::exchange(self, requests, &mut replies).expect("nothing here ends a session");
        replies
    }
}

impl Client for Connection {
    fn exchange(&mut self, requests: &[u8], replies: usize) -> Vec<u8> {
        self.send(requests).expect("the server is there");
        (0..replies).flat_map(|_| self.reply().expect("the server answers")).collect()
    }
}

/// Returns a command on one of the keys: strings come first, then lists, then sorted sets.
fn command(random: &mut Random) -> (usize, Command) {
    let key = random.below(KEYS);
    let value = random.between(0, 9);
    let member = random.bits().to_le_bytes()[0] % 2;
    match random.below(10) {
        0 | 1 => (key, Command::Get),
        2 => (key, Command::Set(value)),
        3 | 4 => (key, Command::Incr),
        5 => (key, Command::Append(value.to_le_bytes()[0])),
        6 => (KEYS + key, Command::LPush(value)),
        7 => (KEYS + key, Command::RPop),
        8 => (2 * KEYS + key, Command::ZAdd(value, member)),
        _ => (2 * KEYS + key, Command::ZIncr(value, member)),
    }
}

/// Makes one call and notes its times, and its history; returns nothing when there are enough histories.
fn call(client: &mut impl Client, random: &mut Random, clock: &AtomicU64, histories: usize) -> Option<(usize, Call)> {
    let begin = clock.fetch_add(1, Ordering::SeqCst);
    let history = usize::try_from(begin / TICKS).ok().filter(|&history| history < histories)?;
    let is_transaction = random.once_in(6);
    let count = if is_transaction { 2 + random.below(2) } else { 1 };
    let commands: Vec<(usize, Command)> = (0..count).map(|_| command(random)).collect();
    let mut requests = Vec::new();
    if is_transaction {
        requests.extend(request(&["MULTI"]));
    }
    for (key, command) in &commands {
        requests.extend(request(&command.words(&format!("history:{history}:{key}"))));
    }
    if is_transaction {
        requests.extend(request(&["EXEC"]));
    }
    let expected = if is_transaction { count + 2 } else { 1 };
    let bytes = client.exchange(&requests, expected);
    let end = clock.fetch_add(1, Ordering::SeqCst);
    let replies = split(&bytes);
    let last = replies.last().copied().unwrap_or_default();
    let parts = if is_transaction { children(last).unwrap_or_default() } else { vec![last] };
    let replies = parts.into_iter().map(|reply| String::from_utf8_lossy(reply).into_owned()).collect();
    Some((history, Call { commands, replies, begin, end, on_replica: false }))
}

/// Returns the histories of clients that work at the same time, each history on keys of its own. The clock says to which
/// history a call belongs, so that no client ever waits for another.
fn histories<C: Client + Send>(clients: Vec<C>, seed: u64, count: usize) -> Vec<Vec<Call>> {
    let clock = AtomicU64::new(0);
    let mut histories = vec![Vec::new(); count];
    thread::scope(|scope| {
        let threads = clients.into_iter().zip(seed * CLIENTS..).map(|(mut client, seed)| {
            let clock = &clock;
            scope.spawn(move || {
                let mut random = Random::new(seed);
                std::iter::from_fn(|| call(&mut client, &mut random, clock, count)).collect::<Vec<_>>()
            })
        });
        for thread in threads.collect::<Vec<_>>() {
            for (history, call) in thread.join().expect("a client does not fail") {
                histories[history].push(call);
            }
        }
    });
    histories
}

/// Returns the number of histories with a violation, and the first of these.
fn violations(histories: &[Vec<Call>]) -> (usize, Option<Vec<Call>>) {
    let mut found = histories.iter().filter_map(|history| violation(history));
    let first = found.next();
    (usize::from(first.is_some()) + found.count(), first)
}

fn embedded(engine: &Arc<Engine>, seed: u64, count: usize) -> Vec<Vec<Call>> {
    histories((0..CLIENTS).map(|_| Local::open(engine, || {})).collect(), seed, count)
}

fn config(workers: &str) -> Config {
    let config = Config::default();
    config.assign(Opt::Workers, &[workers.as_bytes()]).expect("an option of the table");
    config
}

fn assert_linearizable(histories: &[Vec<Call>]) {
    let (count, first) = violations(histories);
    let contended = histories.iter().filter(|history| is_contended(history)).count();
    println!("{} histories, calls overlap in {contended}", histories.len());
    assert!(first.is_none(), "{count} of {} histories have no order, such as {first:#?}", histories.len());
}

/// Checks histories, round after round with other seeds, for as long as a soak wants; once by default.
fn look(first_seed: u64, histories: impl Fn(u64) -> Vec<Vec<Call>>) {
    let began = Instant::now();
    for seed in first_seed.. {
        assert_linearizable(&histories(seed));
        if began.elapsed() >= soak::duration(Duration::ZERO) {
            break;
        }
    }
}

#[test]
fn embedded_clients_see_one_order() {
    for (workers, seed) in [("2", seed(1)), ("4", seed(2))] {
        look(seed, |seed| embedded(&Engine::new(config(workers)), seed, HISTORIES));
    }
}

#[test]
fn clients_over_tcp_see_one_order() {
    for (workers, seed) in [("2", seed(3)), ("3", seed(4))] {
        look(seed, |seed| {
            let engine = Engine::new(config(workers));
            let server = boot::listen(&engine, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port is free");
            let address = server.addresses()[0];
            let clients = (0..CLIENTS).map(|_| Connection::open(address).expect("the server listens")).collect();
            let histories = histories(clients, seed, HISTORIES);
            server.stop();
            histories
        });
    }
}

#[cfg(debug_assertions)]
#[test]
fn a_seeded_bug_is_found() {
    let engine = Engine::new(config("2"));
    engine.debug.seeded_bug.store(true, Ordering::Relaxed);
    let histories = embedded(&engine, seed(1), HISTORIES);
    let contended = histories.iter().filter(|history| is_contended(history)).count();
    let (count, first) = violations(&histories);
    println!("{} histories, calls overlap in {contended}, {count} violations", histories.len());
    assert!(first.is_some(), "INCR has a race, and no history shows it");
}
