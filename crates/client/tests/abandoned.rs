//! Calls that are cancelled, dropped, forgotten or out of time, in every phase: nobody hears another's answer, and when all is
//! over nothing is left of them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Client, Config, Error, ErrorKind};

use crate::scripted::{config, echo, serve, until};

/// Callers at the same time.
const CALLERS: u64 = 4;

/// Callbacks that have heard another's answer.
static WRONG: AtomicU64 = AtomicU64::new(0);

/// Random numbers from a seed (splitmix64, Steele and others 2014).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// A server that answers a GET with its key, now and then late, with an error for the moment, in two pieces, or not at all.
fn moody() -> u16 {
    let count = AtomicU64::new(0);
    serve(move |words| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        match number % 4096 {
            1000 => thread::sleep(Duration::from_millis(40)),
            2000 => return None,
            3000..3020 => return Some(b"-LOADING Redis is loading the dataset in memory\r\n".to_vec()),
            _ => {}
        }
        match words[0].as_str() {
            "MULTI" => Some(b"+OK\r\n".to_vec()),
            "EXEC" => Some(b"*1\r\n:1\r\n".to_vec()),
            "INCR" => Some(b"+QUEUED\r\n".to_vec()),
            _ => echo(words),
        }
    })
}

/// Whoever was answered has his own answer; whoever was not was told why.
fn look(result: Result<u64, Error>, own: u64) {
    match result {
        Ok(answer) => assert_eq!(answer, own, "another's answer"),
        Err(error) => assert!(
            matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Disconnected | ErrorKind::Connect),
            "{error:?}"
        ),
    }
}

/// Makes one call, or a few, and leaves it in one of the ways there are.
fn call(client: &Client, dice: &mut Dice, own: u64, later: &mut Vec<(sleeve::Reply<u64>, u64)>) {
    let db = client.db(dice.roll(3) as u32);
    match dice.roll(11) {
        0 => drop(db.get::<u64>(own)),
        1 => db.get::<u64>(own).forget(),
        2 => look(db.get(own).wait(), own),
        3 => look(db.get(own).wait_for(Duration::from_micros(dice.roll(200))), own),
        4 => look(db.at(Instant::now() + Duration::from_millis(dice.roll(3))).get(own).wait(), own),
        5 => {
            // A future that is dropped while it waits.
            let mut future = pin!(db.get::<u64>(own).into_future());
            for _ in 0..2 {
                if let std::task::Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    return look(result, own);
                }
            }
        }
        6 => {
            let batch = db.batch();
            let (kept, _dropped) = (batch.get::<u64>(own), batch.get::<u64>(own + 1));
            batch.send();
            look(kept.wait(), own);
        }
        7 => {
            let transaction = db.transaction();
            drop(transaction.incr(own));
            drop(transaction.exec());
        }
        8 => db.get::<u64>(own).then(move |result| {
            // What panics there ends only itself.
            WRONG.fetch_add(u64::from(result.is_ok_and(|answer| answer != own)), Ordering::Relaxed);
        }),
        9 => later.push((db.get(own), own)),
        // Longer than what is left of the room in the queue.
        _ => drop(db.get::<String>("x".repeat(3000))),
    }
    if later.len() > 50 {
        let (reply, own) = later.swap_remove(dice.roll(50) as usize);
        look(reply.wait(), own);
    }
}

#[test]
fn nobody_hears_anothers_answer_and_nothing_is_left_over() {
    let calls: u64 = std::env::var("SLEEVE_SOAK_COUNT").map_or(20_000, |count| count.parse().unwrap());
    let seed = std::env::var("SLEEVE_SEED").map_or(1, |seed| seed.parse().unwrap());
    let limits = config(moody()).command_timeout(Some(Duration::from_millis(25))).silence_max(None);
    let client = Client::open_with(limits.queue_bytes_max(10_000)).unwrap();
    let next = Arc::new(AtomicU64::new(0));
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (client, next) = (&client, &next);
            scope.spawn(move || {
                let (mut dice, mut later) = (Dice(seed + caller), Vec::new());
                loop {
                    let own = next.fetch_add(2, Ordering::Relaxed);
                    if own / 2 >= calls {
                        break;
                    }
                    call(client, &mut dice, own, &mut later);
                }
                later.into_iter().for_each(|(reply, own)| look(reply.wait(), own));
            });
        }
    });
    until("all is answered, and no byte of the bound is lost", || {
        let metrics = &client.metrics()[0];
        metrics.in_flight == 0 && metrics.queued_bytes == 0
    });
    until("it works as before", || client.get::<u64>(7).wait() == Ok(7));
    client.close(Duration::from_secs(60)).unwrap();
    assert_eq!(WRONG.load(Ordering::Relaxed), 0, "another's answer");
}

#[test]
fn whoever_was_promised_to_be_told_of_what_is_sent_together_is_told_that_its_client_was_closed() {
    let (sender, told) = std::sync::mpsc::channel();
    let open = |endpoint: Config| {
        let hooked = sender.clone();
        Client::connect_with(endpoint.on_error(move |error| _ = hooked.send(error.kind()))).unwrap()
    };
    let clients = [
        open(config(serve(echo))),
        #[cfg(feature = "embedded")]
        open(Config::from_url("embedded://").unwrap()),
    ];
    for client in clients {
        client.close(Duration::from_secs(60)).unwrap();
        let transaction = client.transaction();
        transaction.set("k", 1).forget();
        let called = sender.clone();
        transaction.get::<String>("k").then(move |result| called.send(result.unwrap_err().kind()).unwrap());
        assert_eq!(transaction.exec().wait().unwrap_err().kind(), ErrorKind::Closed);
        let batch = client.batch();
        batch.set("k", 1).forget();
        batch.send();
        for _ in 0..3 {
            assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(ErrorKind::Closed));
        }
    }
}
