//! One of several callers: makes calls of every kind over every handle, leaves each reply in one of the possible ways, and
//! checks the answers that it gets.

use std::fmt::{self, Debug, Display};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Cached, Client, Coalescing, Error, ErrorKind, FromReply, LaneOptions, Lanes, Priority, Reply};
use tokio::runtime::{Builder, Runtime};

use super::moody::{Dice, TAGS, value_of};

/// The largest number of replies that a caller keeps for later.
const KEPT_MAX: usize = 50;

/// The length of a text that neither leaves nor arrives in one piece.
const LONG: usize = 300_000;

/// Returns the key of a call.
pub fn key_of(own: u64) -> String {
    format!("{}{own}", TAGS[own as usize % TAGS.len()].0)
}

/// The number of calls with each fate.
#[derive(Default)]
pub struct Tally {
    answered: AtomicU64,
    /// The number of calls that were dropped, forgotten, or let go while they were waited for.
    let_go: AtomicU64,
    /// The number of calls that timed out while they waited for a connection; below it those that waited for room, for their
    /// turn, and for their reply.
    connecting: AtomicU64,
    queued: AtomicU64,
    sending: AtomicU64,
    answering: AtomicU64,
    lost: AtomicU64,
    refused: AtomicU64,
    /// The number of calls that got the answer of another.
    pub wrong: AtomicU64,
}

impl Tally {
    fn count(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Checks a result: an answer is the caller's own, and an error gives a reason.
    fn look<T: PartialEq + Debug>(&self, result: Result<T, Error>, own: &T) {
        let error = match result {
            Ok(answer) if answer == *own => return Self::count(&self.answered),
            Ok(answer) => {
                println!("{answer:?} instead of {own:?}");
                return Self::count(&self.wrong);
            }
            Err(error) => error,
        };
        let said = |part: &str| error.message().contains(part);
        Self::count(match error.kind() {
            ErrorKind::Timeout if said("was never sent to") => &self.queued,
            ErrorKind::Timeout if said("waited for a connection") => &self.connecting,
            ErrorKind::Timeout if said("waited to be sent") => &self.sending,
            ErrorKind::Timeout => &self.answering,
            ErrorKind::Disconnected | ErrorKind::Connect => &self.lost,
            ErrorKind::Server if error.effect() == sleeve::Effect::Refused => &self.refused,
            _ => {
                println!("{error:?} instead of {own:?}");
                &self.wrong
            }
        });
    }

    /// Returns whether calls have ended in all of these ways.
    pub fn has_all(&self) -> bool {
        let ways = [&self.answered, &self.let_go, &self.connecting, &self.sending, &self.answering, &self.lost];
        ways.iter().all(|count| count.load(Ordering::SeqCst) > 0)
    }
}

impl Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |count: &AtomicU64| count.load(Ordering::SeqCst);
        write!(
            f,
            "{} replies were right and {} wrong, {} let go, ",
            of(&self.answered),
            of(&self.wrong),
            of(&self.let_go)
        )?;
        write!(f, "{} lost, {} refused; time was up while ", of(&self.lost), of(&self.refused))?;
        write!(f, "{} waited for a connection, {} for room, ", of(&self.connecting), of(&self.queued))?;
        write!(f, "{} to be sent, {} for their reply", of(&self.sending), of(&self.answering))
    }
}

/// The check of a reply that was kept.
type Kept = Box<dyn FnOnce(&Tally)>;

pub struct Caller {
    client: Client,
    coalescing: Coalescing,
    priority: Priority,
    /// The handle of the near cache; only for a single server.
    cached: Option<Cached>,
    lanes: Option<Lanes>,
    ways: Ways,
}

/// The choice of the way in which a reply is left.
struct Ways {
    dice: Dice,
    runtime: Runtime,
    kept: Vec<Kept>,
    tally: Arc<Tally>,
}

impl Caller {
    pub fn new(client: &Client, nodes: usize, seed: u64, tally: Arc<Tally>) -> Self {
        let options = LaneOptions::new().large_min(2000).idle_after(Duration::from_millis(20));
        Self {
            client: client.clone(),
            coalescing: client.coalescing(),
            priority: client.priority().unwrap(),
            cached: (nodes == 1).then(|| client.cached().unwrap()),
            lanes: (nodes == 1).then(|| client.lanes_with(options).unwrap()),
            ways: Ways {
                dice: Dice(seed),
                runtime: Builder::new_current_thread().enable_all().build().unwrap(),
                kept: Vec::new(),
                tally,
            },
        }
    }

    /// Makes one call, or a few, with this number.
    pub fn call(&mut self, own: u64) {
        let ways = &mut self.ways;
        let db = self.client.db(if self.cached.is_some() { ways.dice.roll(3) as u32 } else { 0 });
        match (ways.dice.roll(8), &self.cached, &self.lanes) {
            (0 | 1, Some(cached), _) => ask(cached, own, ways),
            (2, _, Some(lanes)) => ask(lanes, own, ways),
            (3, ..) => ask(&self.coalescing, own, ways),
            (4, ..) => ask(&self.priority, own, ways),
            (5, ..) => together(&self.client, own, ways),
            (6, ..) => {
                let at = db.at(Instant::now() + Duration::from_micros(ways.dice.roll(3000)));
                ask(&at, own, ways);
            }
            _ => ask(&db, own, ways),
        }
        if ways.kept.len() > KEPT_MAX {
            let kept = ways.kept.swap_remove(ways.dice.roll(KEPT_MAX as u64) as usize);
            kept(&ways.tally);
        }
    }

    /// Waits for the replies that were kept.
    pub fn finish(self) {
        self.ways.kept.into_iter().for_each(|kept| kept(&self.ways.tally));
    }
}

/// Makes one call by itself.
fn ask(asker: &(impl StringCommands + HashCommands + BlockingCommands), own: u64, ways: &mut Ways) {
    let key = key_of(own);
    match ways.dice.roll(14) {
        0 => ways.leave(asker.hget(&key, own), own),
        1 => {
            ways.leave(asker.mget([&key, "{b}other", "{bar}other"]), [&key, "{b}other", "{bar}other"].map(String::from))
        }
        2 => ways.leave(asker.incr(&key), 1),
        3 => ways.leave(asker.set(&key, "x".repeat(3000)), ()),
        4 => {
            let key = format!("{key}:3000");
            ways.leave(asker.get(&key), value_of(&key));
        }
        5 if ways.dice.roll(8) == 0 => ways.leave(asker.set(&key, "x".repeat(LONG)), ()),
        6 if ways.dice.roll(8) == 0 => {
            let key = format!("{key}:{LONG}");
            ways.leave(asker.get(&key), value_of(&key));
        }
        7 if ways.dice.roll(4) == 0 => {
            ways.leave(asker.blpop(&key, Duration::ZERO), (key.clone(), key));
        }
        // Other callers ask for these keys as well.
        8..11 => {
            let key = key_of(own % 64);
            ways.leave(asker.get(&key), key);
        }
        _ => ways.leave(asker.get(&key), key),
    }
}

/// Makes several calls that leave together.
fn together(client: &Client, own: u64, ways: &mut Ways) {
    let key = key_of(own);
    if ways.dice.roll(2) == 0 {
        let batch = client.batch();
        let (kept, dropped) = (batch.get(&key), batch.hget::<u64>(&key, own));
        if ways.dice.roll(8) > 0 {
            batch.send();
            ways.leave(kept, key);
        }
        return drop(dropped);
    }
    let transaction = client.transaction();
    let (count, text) = (transaction.incr(&key), transaction.get(&key));
    let executed = transaction.exec();
    ways.leave(text, key);
    ways.leave(count, 1);
    ways.leave(executed, true);
}

impl Ways {
    /// Leaves a reply in one of the possible ways.
    fn leave<T: FromReply + PartialEq + Debug + Send + 'static>(&mut self, reply: Reply<T>, own: T) {
        let result = match self.dice.roll(9) {
            0 => {
                drop(reply);
                return Tally::count(&self.tally.let_go);
            }
            1 => {
                reply.forget();
                return Tally::count(&self.tally.let_go);
            }
            2 => reply.wait_for(Duration::from_micros(self.dice.roll(300))),
            3 => {
                let mut future = pin!(reply.into_future());
                let mut look = || future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                match (look(), self.dice.roll(2)) {
                    (Poll::Ready(result), _) => result,
                    // The future is dropped while it waits.
                    (Poll::Pending, 0) => return Tally::count(&self.tally.let_go),
                    (Poll::Pending, _) => match look() {
                        Poll::Ready(result) => result,
                        Poll::Pending => return Tally::count(&self.tally.let_go),
                    },
                }
            }
            4 => {
                let time = Duration::from_millis(self.dice.roll(3));
                match self.runtime.block_on(async { tokio::time::timeout(time, reply).await }) {
                    Ok(result) => result,
                    Err(_) => return Tally::count(&self.tally.let_go),
                }
            }
            5 => {
                let tally = Arc::clone(&self.tally);
                return reply.then(move |result| tally.look(result, &own));
            }
            6 | 7 => {
                return self.kept.push(Box::new(move |tally| tally.look(reply.wait(), &own)));
            }
            _ => reply.wait(),
        };
        self.tally.look(result, &own);
    }
}
