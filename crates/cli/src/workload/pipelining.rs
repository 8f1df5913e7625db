//! Workload `pipelining`: 1,000 PINGs, which do nothing but travel: one by one, together, and as a batch.
//!
//! It shows the cost of waiting for each reply.

use sleeve::prelude::*;
use sleeve::{Client, Error, Reply};

use super::raw::{Raw, Requests};
use super::sample::{SAMPLE_TIME_MAX, StepTimes, Stopwatch};
use super::step::{Step, Workload};

const OPERATIONS: u64 = 1_000;

/// The workload.
pub static PIPELINING: Workload = Workload {
    name: "pipelining",
    about: "1,000 PINGs",
    prepare: |_| Ok(()),
    steps: &[
        Step {
            title: "one by one",
            document: None,
            operations: OPERATIONS,
            rounds: 1,
            by_client: |client, _| one_by_one(client),
            by_raw: Some(|raw, _| raw.one_by_one(&requests())),
        },
        Step {
            title: "issued together, then awaited",
            document: None,
            operations: OPERATIONS,
            rounds: 9,
            by_client: |client, _| together(client),
            by_raw: Some(|raw: &mut Raw, _| raw.together(&requests())),
        },
        Step {
            title: "as one batch",
            document: None,
            operations: OPERATIONS,
            rounds: 9,
            by_client: |client, _| batch(client),
            by_raw: Some(|raw: &mut Raw, _| raw.together(&requests())),
        },
    ],
    clean: |_, _| Ok(()),
};

fn requests() -> Requests {
    let mut requests = Requests::default();
    for _ in 0..OPERATIONS {
        requests.push(b"*1\r\n$4\r\nPING\r\n", 1);
    }
    requests
}

fn one_by_one(client: &Client) -> Result<StepTimes, Error> {
    let watch = Stopwatch::start();
    let mut done = 0;
    while done < OPERATIONS && watch.elapsed() < SAMPLE_TIME_MAX {
        client.ping().wait()?;
        done += 1;
    }
    Ok(watch.stop(done))
}

fn together(client: &Client) -> Result<StepTimes, Error> {
    let watch = Stopwatch::start();
    let replies: Vec<_> = (0..OPERATIONS).map(|_| client.ping()).collect();
    replies.into_iter().try_for_each(|reply| reply.wait().map(drop))?;
    Ok(watch.stop(OPERATIONS))
}

fn batch(client: &Client) -> Result<StepTimes, Error> {
    let watch = Stopwatch::start();
    let batch = client.batch();
    let replies: Vec<Reply<String>> = (0..OPERATIONS).map(|_| batch.ping()).collect();
    batch.send();
    replies.into_iter().try_for_each(|reply| reply.wait().map(drop))?;
    Ok(watch.stop(OPERATIONS))
}
