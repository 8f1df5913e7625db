//! Workloads `many-callers` and `fan-out`: GETs of one key, by many threads that each wait for every answer, and by one
//! caller with ten thousand answers outstanding. (Tasks of an async runtime, beside other libraries, are in `bench/clients`.)

use std::collections::VecDeque;
use std::thread;

use sleeve::prelude::*;
use sleeve::{Client, Error, Reply};

use super::raw::{Raw, Requests};
use super::sample::{StepTimes, Stopwatch};
use super::step::{Step, Workload};
use crate::endpoint::encode;

const CALLS: u64 = 200_000;
const FANNED_OUT: u64 = 1_000_000;
/// The number of replies for which the caller of `fan-out` waits at a time.
const AT_ONCE: usize = 10_000;
const KEY: &str = "many:callers";
const VALUE: &[u8; 16] = b"0123456789abcdef";

/// The workload of many threads that each wait for every reply.
pub static MANY_CALLERS: Workload = Workload {
    name: "many-callers",
    about: "200,000 GETs by threads on one connection, each waiting for its answer",
    prepare: |_| Ok(()),
    steps: &[
        Step {
            title: "64 threads",
            document: None,
            operations: CALLS,
            rounds: 1,
            by_client: |client, count| by_threads(client, 64, count),
            by_raw: Some(|raw: &mut Raw, count| raw.together(&requests(count))),
        },
        Step {
            title: "512 threads",
            document: None,
            operations: CALLS,
            rounds: 1,
            by_client: |client, count| by_threads(client, 512, count),
            by_raw: Some(|raw: &mut Raw, count| raw.together(&requests(count))),
        },
    ],
    clean: |client, _| clean(client),
};

/// The workload of one caller with many replies outstanding.
pub static FAN_OUT: Workload = Workload {
    name: "fan-out",
    about: "1,000,000 GETs by one caller, 10,000 of them unanswered at a time",
    prepare: |_| Ok(()),
    steps: &[Step {
        title: "10,000 in flight",
        document: None,
        operations: FANNED_OUT,
        rounds: 1,
        by_client: fan_out,
        by_raw: Some(|raw: &mut Raw, count| raw.together(&requests(count))),
    }],
    clean: |client, _| clean(client),
};

fn requests(count: u64) -> Requests {
    let mut requests = Requests::default();
    let mut bytes = Vec::new();
    encode(&["GET", KEY], &mut bytes);
    (0..count).for_each(|_| requests.push(&bytes, 1));
    requests
}

fn by_threads(client: &Client, threads: u64, count: u64) -> Result<StepTimes, Error> {
    client.set(KEY, VALUE).wait()?;
    let watch = Stopwatch::start();
    let each = (count / threads).max(1);
    thread::scope(|scope| {
        let callers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| (0..each).try_for_each(|_| client.get::<Box<[u8]>>(KEY).wait().map(drop))))
            .collect();
        callers.into_iter().try_for_each(|caller| caller.join().unwrap_or(Ok(())))
    })?;
    Ok(watch.stop(each * threads))
}

fn fan_out(client: &Client, count: u64) -> Result<StepTimes, Error> {
    client.set(KEY, VALUE).wait()?;
    let mut unanswered: VecDeque<Reply<Box<[u8]>>> = VecDeque::with_capacity(AT_ONCE);
    let watch = Stopwatch::start();
    for _ in 0..count {
        if unanswered.len() == AT_ONCE
            && let Some(oldest) = unanswered.pop_front()
        {
            oldest.wait()?;
        }
        unanswered.push_back(client.get(KEY));
    }
    unanswered.into_iter().try_for_each(|reply| reply.wait().map(drop))?;
    Ok(watch.stop(count))
}

fn clean(client: &Client) -> Result<(), Error> {
    client.del(KEY).wait().map(drop)
}
