//! Workload `set-union`: the union of two sets of 10,000 members, which the server computes and keeps.
//!
//! It shows a command that keeps the server busy, where the travel of the request counts little.

use sleeve::{Client, Error};

use super::raw::{Raw, Requests};
use super::sample::{StepTimes, Stopwatch};
use super::step::{Step, Workload};
use crate::endpoint::encode;

const MEMBERS: u64 = 10_000;
/// The number of members that both sets have.
const SHARED: u64 = 5_000;
const SETS: [&str; 2] = ["union:a", "union:b"];
const UNION: &str = "union:both";

/// The figure of the book for two sets of this size.
const BOOK: &str = "7 to 8 ms for one SUNIONSTORE (Redis in Action, 2013)";

/// The workload.
pub static SET_UNION: Workload = Workload {
    name: "set-union",
    about: "SUNIONSTORE of two sets of 10,000 members, 5,000 of them in both",
    prepare: fill,
    steps: &[Step {
        title: "SUNIONSTORE",
        document: Some(BOOK),
        operations: 1,
        rounds: 9,
        by_client: |client, _| by_client(client),
        by_raw: Some(|raw: &mut Raw, _| raw.one_by_one(&request())),
    }],
    clean: |client, _| clean(client),
};

fn request() -> Requests {
    let mut bytes = Vec::new();
    encode(&[b"SUNIONSTORE".as_slice(), UNION.as_bytes(), SETS[0].as_bytes(), SETS[1].as_bytes()], &mut bytes);
    let mut requests = Requests::default();
    requests.push(&bytes, 1);
    requests
}

fn fill(client: &Client) -> Result<(), Error> {
    for (set, first) in SETS.into_iter().zip([0, MEMBERS - SHARED]) {
        let members = (first..first + MEMBERS).map(|number| format!("member:{number}"));
        let add = members.fold(client.cmd("SADD").arg(set), |command, member| command.arg(member));
        add.send::<u64>().wait()?;
    }
    Ok(())
}

fn by_client(client: &Client) -> Result<StepTimes, Error> {
    let watch = Stopwatch::start();
    client.cmd("SUNIONSTORE").arg(UNION).arg(SETS[0]).arg(SETS[1]).send::<u64>().wait()?;
    Ok(watch.stop(1))
}

fn clean(client: &Client) -> Result<(), Error> {
    client.cmd("DEL").arg(UNION).arg(SETS[0]).arg(SETS[1]).send::<u64>().wait().map(drop)
}
