//! Workload `update-token`: the call of *Redis in Action*, §4.4 and §4.5, that notes a visitor's page views: five commands,
//! with five round trips or with one.

use sleeve::prelude::*;
use sleeve::{Batch, Client, Error, Reply};

use super::raw::{Raw, Requests};
use super::sample::{SAMPLE_TIME_MAX, StepTimes, Stopwatch};
use super::step::{Step, Workload};
use crate::bench::template::numbered_key;
use crate::endpoint::encode;

const CALLS: u64 = 20_000;
/// Visitors with calls that take turns.
const TOKENS: u64 = 100;
/// Commands of one call, as they are answered.
const COMMANDS: usize = 5;
const LOGIN: &str = "login:";
const RECENT: &str = "recent:";
const VIEWED: &str = "viewed:";
/// Items that are remembered of each visitor.
const VIEWED_MAX: i64 = 25;

/// Calls a second that the book measured from Python, one by one: table 4.4.
const BOOK_ONE_BY_ONE: &str =
    "3,257 a second on localhost, 739 at 0.271 ms, 3.67 over a VPN of 48 ms and 1.8 Mbit/s (Redis in Action)";
/// The book's figures with a pipeline.
const BOOK_PIPELINE: &str = "5,991 a second on localhost, 2,841 at 0.271 ms, 18.2 over the VPN (Redis in Action)";

/// The workload.
pub static UPDATE_TOKEN: Workload = Workload {
    name: "update-token",
    about: "20,000 calls of five commands that note what a visitor looks at",
    prepare: |_| Ok(()),
    steps: &[
        Step {
            title: "five round trips a call",
            document: Some(BOOK_ONE_BY_ONE),
            operations: CALLS,
            rounds: 1,
            by_client: |client, _| five_round_trips(client),
            by_raw: None,
        },
        Step {
            title: "a batch a call, each awaited",
            document: Some(BOOK_PIPELINE),
            operations: CALLS,
            rounds: 1,
            by_client: |client, _| batches(client),
            by_raw: Some(|raw: &mut Raw, _| raw.one_by_one(&requests(CALLS))),
        },
        Step {
            title: "nobody waits before the end",
            document: None,
            operations: CALLS,
            rounds: 1,
            by_client: together,
            by_raw: Some(|raw: &mut Raw, count| raw.together(&requests(count))),
        },
    ],
    clean: |client, _| clean(client),
};

fn token(call: u64) -> [u8; 16] {
    numbered_key(*b"tok:", call % TOKENS)
}

fn viewed(token: &[u8]) -> Vec<u8> {
    [VIEWED.as_bytes(), token].concat()
}

/// The answers of one call: counts, and a score.
type Replies = ([Reply<u64>; COMMANDS - 1], Reply<f64>);

/// Makes one call through a client, a pipeline or a batch. The time is the number of the call, and so is the item.
fn call(asker: &impl Ask, number: u64) -> Replies {
    let token = token(number);
    let viewed = viewed(&token);
    let counts = [
        asker.hset(LOGIN, [(token, number)]),
        asker.zadd(RECENT, (number, token)),
        asker.zadd(&viewed, (number, number)),
        asker.zremrangebyrank(&viewed, 0, -VIEWED_MAX - 1),
    ];
    (counts, asker.zincrby(VIEWED, -1, number))
}

fn wait((counts, score): Replies) -> Result<(), Error> {
    counts.into_iter().try_for_each(|count| count.wait().map(drop))?;
    score.wait().map(drop)
}

/// Calls until all are done, or the time of a sample is over.
fn sampled(mut one: impl FnMut(u64) -> Result<(), Error>) -> Result<StepTimes, Error> {
    let watch = Stopwatch::start();
    let mut done = 0;
    while done < CALLS && watch.elapsed() < SAMPLE_TIME_MAX {
        one(done)?;
        done += 1;
    }
    Ok(watch.stop(done))
}

fn five_round_trips(client: &Client) -> Result<StepTimes, Error> {
    sampled(|number| {
        let token = token(number);
        let viewed = viewed(&token);
        client.hset(LOGIN, [(token, number)]).wait()?;
        client.zadd(RECENT, (number, token)).wait()?;
        client.zadd(&viewed, (number, number)).wait()?;
        client.zremrangebyrank(&viewed, 0, -VIEWED_MAX - 1).wait()?;
        client.zincrby(VIEWED, -1, number).wait().map(drop)
    })
}

fn batches(client: &Client) -> Result<StepTimes, Error> {
    sampled(|number| {
        let batch: Batch = client.batch();
        let replies = call(&batch, number);
        batch.send();
        wait(replies)
    })
}

fn together(client: &Client, count: u64) -> Result<StepTimes, Error> {
    let watch = Stopwatch::start();
    let replies: Vec<_> = (0..count).map(|number| call(client, number)).collect();
    replies.into_iter().try_for_each(wait)?;
    Ok(watch.stop(count))
}

fn requests(count: u64) -> Requests {
    let mut requests = Requests::default();
    for number in 0..count {
        let (token, number) = (token(number), number.to_string());
        let (viewed, number) = (viewed(&token), number.as_bytes());
        let last = (-VIEWED_MAX - 1).to_string();
        let mut bytes = Vec::new();
        encode(&[b"HSET".as_slice(), LOGIN.as_bytes(), &token, number], &mut bytes);
        encode(&[b"ZADD".as_slice(), RECENT.as_bytes(), number, &token], &mut bytes);
        encode(&[b"ZADD".as_slice(), &viewed, number, number], &mut bytes);
        encode(&[b"ZREMRANGEBYRANK".as_slice(), &viewed, b"0", last.as_bytes()], &mut bytes);
        encode(&[b"ZINCRBY".as_slice(), VIEWED.as_bytes(), b"-1", number], &mut bytes);
        requests.push(&bytes, COMMANDS);
    }
    requests
}

fn clean(client: &Client) -> Result<(), Error> {
    let fixed = client.cmd("DEL").arg((LOGIN, RECENT, VIEWED));
    (0..TOKENS).fold(fixed, |command, number| command.arg(viewed(&token(number)))).send::<i64>().wait().map(drop)
}
