//! Workload `booksleeve`: 5,000 INCR over five databases, ten to one and then ten to the next.
//!
//! A program that keeps its data in several databases pays twice when it waits: for each INCR and for each SELECT.

use sleeve::prelude::*;
use sleeve::{Client, Error};

use super::raw::{Raw, Requests};
use super::sample::{SAMPLE_TIME_MAX, StepTimes, Stopwatch};
use super::step::{Step, Workload};
use crate::endpoint::encode;

const KEY: &str = "sleeve:workload:counter";
const OPERATIONS: u64 = 5_000;
const DATABASES: u64 = 5;
const AT_A_TIME: u64 = 10;

/// The workload.
pub static BOOKSLEEVE: Workload = Workload {
    name: "booksleeve",
    about: "5,000 INCR over 5 databases, 10 at a time",
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
            title: "pipelined, to completion",
            document: None,
            operations: OPERATIONS,
            rounds: 9,
            by_client: |client, _| pipelined(client),
            by_raw: Some(|raw: &mut Raw, _| raw.together(&requests())),
        },
        Step {
            title: "fire and forget, to issue",
            document: None,
            operations: OPERATIONS,
            rounds: 9,
            by_client: |client, _| forgotten(client),
            by_raw: None,
        },
    ],
    clean: |client, _| clean(client),
};

/// Returns the database of the operation with this number.
fn database(number: u64) -> u32 {
    (number / AT_A_TIME % DATABASES) as u32
}

fn requests() -> Requests {
    let mut requests = Requests::default();
    let mut bytes = Vec::new();
    for number in 0..OPERATIONS {
        bytes.clear();
        if number % AT_A_TIME == 0 {
            encode(&["SELECT", &database(number).to_string()], &mut bytes);
        }
        encode(&["INCR", KEY], &mut bytes);
        requests.push(&bytes, if number % AT_A_TIME == 0 { 2 } else { 1 });
    }
    requests
}

fn one_by_one(client: &Client) -> Result<StepTimes, Error> {
    let watch = Stopwatch::start();
    let mut done = 0;
    while done < OPERATIONS && watch.elapsed() < SAMPLE_TIME_MAX {
        client.db(database(done)).incr(KEY).wait()?;
        done += 1;
    }
    Ok(watch.stop(done))
}

fn pipelined(client: &Client) -> Result<StepTimes, Error> {
    let databases: Vec<_> = (0..DATABASES as u32).map(|number| client.db(number)).collect();
    let mut replies = Vec::with_capacity(OPERATIONS as usize);
    let watch = Stopwatch::start();
    for _ in 0..OPERATIONS / AT_A_TIME / DATABASES {
        for database in &databases {
            for _ in 0..AT_A_TIME {
                replies.push(database.incr(KEY));
            }
        }
    }
    for reply in replies {
        reply.wait()?;
    }
    Ok(watch.stop(OPERATIONS))
}

fn forgotten(client: &Client) -> Result<StepTimes, Error> {
    let databases: Vec<_> = (0..DATABASES as u32).map(|number| client.db(number)).collect();
    let watch = Stopwatch::start();
    for _ in 0..OPERATIONS / AT_A_TIME / DATABASES {
        for database in &databases {
            for _ in 0..AT_A_TIME {
                database.incr(KEY).forget();
            }
        }
    }
    let sample = watch.stop(OPERATIONS);
    // The issued commands are done before the next step begins; all went over one connection, in order.
    client.ping().wait()?;
    Ok(sample)
}

fn clean(client: &Client) -> Result<(), Error> {
    for number in 0..DATABASES as u32 {
        client.db(number).cmd("DEL").arg(KEY).send::<i64>().wait()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_to_a_database_and_then_the_next() {
        assert_eq!([0, 9, 10, 49, 50].map(database), [0, 0, 1, 4, 0]);
    }
}
