//! Workload `mass-set`: 1,000,000 SETs of distinct 16-byte keys, from one caller.

use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, CoalesceOptions, Error};

use super::raw::{Raw, Requests};
use super::sample::{SAMPLE_TIME_MAX, StepTimes, Stopwatch};
use super::step::{Step, Workload};
use crate::bench::template::numbered_key;
use crate::endpoint::encode;

const OPERATIONS: u64 = 1_000_000;
/// The number of SETs that are done one by one; the time of the others is computed.
const SAMPLED: u64 = 50_000;
const VALUE: &[u8; 16] = b"0123456789abcdef";
/// The number of keys that one DEL removes afterwards.
const REMOVED_AT_ONCE: u64 = 1_000;

/// The figure of the page of Bufferedis, which gathers SETs on its side as MSET, for 100,000 commands and more.
const BUFFEREDIS: &str = "more than twice as fast as the pipeline (Bufferedis)";

/// The workload.
pub static MASS_SET: Workload = Workload {
    name: "mass-set",
    about: "1,000,000 SETs of distinct 16-byte keys",
    prepare: |_| Ok(()),
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
        Step {
            title: "pipelined, replies forgotten",
            document: None,
            operations: OPERATIONS,
            rounds: 1,
            by_client: forgotten,
            by_raw: Some(|raw: &mut Raw, count| raw.together(&requests(count))),
        },
        Step {
            title: "coalesced, every reply awaited",
            document: Some(BUFFEREDIS),
            operations: OPERATIONS,
            rounds: 1,
            by_client: |client, count| coalesced(client, Duration::ZERO, count),
            by_raw: Some(|raw: &mut Raw, count| raw.together(&requests(count))),
        },
        Step {
            title: "coalesced; raw is cli --pipe",
            document: None,
            operations: OPERATIONS,
            rounds: 1,
            by_client: |client, count| coalesced(client, Duration::ZERO, count),
            by_raw: Some(|raw: &mut Raw, count| raw.piped(&requests(count))),
        },
        Step {
            title: "coalesced, with a delay of 1 ms",
            document: Some(BUFFEREDIS),
            operations: OPERATIONS,
            rounds: 1,
            by_client: |client, count| coalesced(client, Duration::from_millis(1), count),
            by_raw: Some(|raw: &mut Raw, count| raw.together(&requests(count))),
        },
    ],
    clean,
};

fn key(number: u64) -> [u8; 16] {
    numbered_key(*b"set:", number)
}

fn requests(count: u64) -> Requests {
    let mut requests = Requests::default();
    let mut bytes = Vec::new();
    for number in 0..count {
        bytes.clear();
        encode(&[b"SET".as_slice(), &key(number), VALUE], &mut bytes);
        requests.push(&bytes, 1);
    }
    requests
}

fn one_by_one(client: &Client) -> Result<StepTimes, Error> {
    let watch = Stopwatch::start();
    let mut done = 0;
    while done < SAMPLED && watch.elapsed() < SAMPLE_TIME_MAX {
        client.set(key(done), VALUE).wait()?;
        done += 1;
    }
    Ok(watch.stop(done))
}

fn pipelined(client: &Client, count: u64) -> Result<StepTimes, Error> {
    let mut replies = Vec::with_capacity(count as usize);
    let watch = Stopwatch::start();
    replies.extend((0..count).map(|number| client.set(key(number), VALUE)));
    for reply in replies {
        reply.wait()?;
    }
    Ok(watch.stop(count))
}

fn forgotten(client: &Client, count: u64) -> Result<StepTimes, Error> {
    let watch = Stopwatch::start();
    for number in 0..count {
        client.set(key(number), VALUE).forget();
    }
    // One connection replies in order: once this reply has arrived, all others have.
    client.ping().wait()?;
    Ok(watch.stop(count))
}

fn coalesced(client: &Client, delay: Duration, count: u64) -> Result<StepTimes, Error> {
    let coalescing = client.coalescing_with(CoalesceOptions::new().delay(delay));
    let mut replies = Vec::with_capacity(count as usize);
    let watch = Stopwatch::start();
    replies.extend((0..count).map(|number| coalescing.set(key(number), VALUE)));
    for reply in replies {
        reply.wait()?;
    }
    Ok(watch.stop(count))
}

fn clean(client: &Client, count: u64) -> Result<(), Error> {
    let mut last = None;
    for start in (0..count.max(SAMPLED)).step_by(REMOVED_AT_ONCE as usize) {
        let mut command = client.cmd("DEL");
        for number in start..start + REMOVED_AT_ONCE {
            command = command.arg(key(number));
        }
        last = Some(command.send::<i64>());
    }
    last.map_or(Ok(()), |reply| reply.wait().map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_distinct_and_sixteen_bytes_long() {
        assert_eq!(&key(0), b"set:000000000000");
        assert_eq!(&key(999_999), b"set:000000999999");
    }
}
