//! Workload `lookup`: 1,000,000 GETs of 1,000 keys of 16 bytes, the work of a cache.

use sleeve::prelude::*;
use sleeve::{Client, Error};

use super::raw::{Raw, Requests};
use super::sample::{SAMPLE_TIME_MAX, StepTimes, Stopwatch};
use super::step::{Step, Workload};
use crate::bench::template::numbered_key;
use crate::endpoint::encode;

const OPERATIONS: u64 = 1_000_000;
/// The number of lookups that are done one by one over a socket; the time of the others is computed.
const SAMPLED: u64 = 200_000;
const KEYS: u64 = 1_000;
const VALUE: &[u8; 16] = b"0123456789abcdef";

/// The workload.
pub static LOOKUP: Workload = Workload {
    name: "lookup",
    about: "1,000,000 GETs of 1,000 keys",
    prepare: fill,
    steps: &[
        Step {
            title: "one by one",
            document: None,
            operations: OPERATIONS,
            rounds: 1,
            by_client: |client, _| one_by_one(client),
            by_raw: Some(|raw, _| raw.one_by_one(&requests(SAMPLED))),
        },
        Step {
            title: "pipelined, every reply awaited",
            document: None,
            operations: OPERATIONS,
            rounds: 1,
            by_client: pipelined,
            by_raw: Some(|raw: &mut Raw, count| raw.together(&requests(count))),
        },
    ],
    clean: |client, _| clean(client),
};

fn key(number: u64) -> [u8; 16] {
    numbered_key(*b"get:", number % KEYS)
}

fn requests(count: u64) -> Requests {
    let mut requests = Requests::default();
    let mut bytes = Vec::new();
    for number in 0..count {
        bytes.clear();
        encode(&[b"GET".as_slice(), &key(number)], &mut bytes);
        requests.push(&bytes, 1);
    }
    requests
}

fn fill(client: &Client) -> Result<(), Error> {
    let replies: Vec<_> = (0..KEYS).map(|number| client.set(key(number), VALUE)).collect();
    replies.into_iter().try_for_each(|reply| reply.wait())
}

fn one_by_one(client: &Client) -> Result<StepTimes, Error> {
    let watch = Stopwatch::start();
    let mut done = 0;
    while done < SAMPLED {
        let value: Box<[u8]> = client.get(key(done)).wait()?;
        debug_assert_eq!(*value, VALUE[..]);
        done += 1;
        // The clock is read once in 64 GETs, because reading it costs a tenth of an embedded GET.
        if done % 64 == 0 && watch.elapsed() > SAMPLE_TIME_MAX {
            break;
        }
    }
    Ok(watch.stop(done))
}

fn pipelined(client: &Client, count: u64) -> Result<StepTimes, Error> {
    let mut replies = Vec::with_capacity(count as usize);
    let watch = Stopwatch::start();
    replies.extend((0..count).map(|number| client.get::<Box<[u8]>>(key(number))));
    for reply in replies {
        reply.wait()?;
    }
    Ok(watch.stop(count))
}

fn clean(client: &Client) -> Result<(), Error> {
    let keys = (0..KEYS).fold(client.cmd("DEL"), |command, number| command.arg(key(number)));
    keys.send::<i64>().wait().map(drop)
}
