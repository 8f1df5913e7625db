//! Tests of one connection that very many callers share: every caller gets its own reply.
//!
//! 64 threads and 64 tasks send a million numbered ECHOs over one connection, each to a random database, and treat the
//! replies in every way there is: wait, wait for no time at all, await, call back, forget, drop. Between them they ask in
//! which database they are. No caller may get another's reply, and every reply that is waited for must arrive.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, Db, ErrorKind, Reply};
use sleeve_tests::{Kind, Server};

const ECHOES: u64 = 1_000_000;
const THREADS: u64 = 64;
const TASKS: u64 = 64;
const DATABASES: u64 = 16;

/// The most replies that one caller has open.
const WINDOW: usize = 32;

/// Counts over all callers.
#[derive(Default)]
struct Tally {
    /// The number of replies that were compared with their requests.
    compared: AtomicU64,
    /// The number of callbacks that are still to come.
    callbacks: AtomicU64,
}

impl Tally {
    fn compare(&self, answer: u64, asked: u64) {
        assert_eq!(answer, asked, "a caller got another's answer");
        self.compared.fetch_add(1, Ordering::Relaxed);
    }
}

/// Random numbers from a seed, so that a failure can be run again (xorshift64*, Vigna 2016).
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

/// The state of a caller: its requests without a reply yet.
struct Caller {
    databases: Arc<Vec<Db>>,
    tally: Arc<Tally>,
    dice: Dice,
    open: VecDeque<(u64, Reply<u64>)>,
}

impl Caller {
    fn new(number: u64, databases: &Arc<Vec<Db>>, tally: &Arc<Tally>) -> Self {
        Self { databases: databases.clone(), tally: tally.clone(), dice: Dice::new(number + 1), open: VecDeque::new() }
    }

    /// Sends one ECHO and treats its reply somehow. Returns replies that are to be waited for now.
    fn step(&mut self, number: u64) -> Option<(u64, Reply<u64>)> {
        let database = self.dice.roll(DATABASES);
        let db = self.databases[database as usize].clone();
        if self.dice.roll(50) == 0 {
            self.open.push_back((database, db.get("which")));
        }
        let reply = db.echo::<u64>(number);
        match self.dice.roll(20) {
            0 => drop(reply),
            1 => reply.forget(),
            2 => match reply.wait_for(Duration::ZERO) {
                Ok(answer) => self.tally.compare(answer, number),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout),
            },
            3 => {
                let tally = self.tally.clone();
                tally.callbacks.fetch_add(1, Ordering::Relaxed);
                reply.then(move |answer| {
                    tally.compare(answer.unwrap(), number);
                    tally.callbacks.fetch_sub(1, Ordering::Release);
                });
            }
            _ => self.open.push_back((number, reply)),
        }
        if self.open.len() < WINDOW {
            return None;
        }
        // The reply is not always the oldest: replies may be taken in any order.
        let index = self.dice.roll(WINDOW as u64) as usize;
        self.open.remove(index)
    }
}

fn numbers(caller: u64) -> impl Iterator<Item = u64> {
    (caller..ECHOES).step_by((THREADS + TASKS) as usize)
}

fn run_thread(mut caller: Caller, number: u64) {
    for echo in numbers(number) {
        if let Some((asked, reply)) = caller.step(echo) {
            caller.tally.compare(reply.wait().unwrap(), asked);
        }
    }
    for (asked, reply) in caller.open.drain(..) {
        caller.tally.compare(reply.wait().unwrap(), asked);
    }
}

async fn run_task(mut caller: Caller, number: u64) {
    for echo in numbers(number) {
        if let Some((asked, reply)) = caller.step(echo) {
            caller.tally.compare(reply.await.unwrap(), asked);
        }
    }
    for (asked, reply) in caller.open.drain(..) {
        caller.tally.compare(reply.await.unwrap(), asked);
    }
}

fn everyone_gets_their_own_answer(kind: Kind) {
    let server = Server::start(kind);
    let client = Client::connect(&server.url()).unwrap();
    let databases: Arc<Vec<Db>> = Arc::new((0..DATABASES as u32).map(|number| client.db(number)).collect());
    for db in databases.iter() {
        db.set("which", db.number()).wait().unwrap();
    }
    let tally = Arc::new(Tally::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let tasks: Vec<_> = (THREADS..THREADS + TASKS)
        .map(|number| runtime.spawn(run_task(Caller::new(number, &databases, &tally), number)))
        .collect();
    thread::scope(|scope| {
        for number in 0..THREADS {
            let caller = Caller::new(number, &databases, &tally);
            scope.spawn(move || run_thread(caller, number));
        }
    });
    runtime.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(client.client_list().wait().unwrap().lines().count(), 1, "one connection is enough for all");
    while tally.callbacks.load(Ordering::Acquire) > 0 {
        thread::yield_now();
    }
    assert!(tally.compared.load(Ordering::Relaxed) > ECHOES * 8 / 10);
}

#[test]
fn everyone_gets_their_own_answer_from_redis() {
    everyone_gets_their_own_answer(Kind::Redis);
}

#[test]
fn everyone_gets_their_own_answer_from_sleeve() {
    everyone_gets_their_own_answer(Kind::Sleeve);
}
