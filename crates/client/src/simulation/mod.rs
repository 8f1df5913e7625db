//! The whole client in one thread, from one seed: callers, reactor, greeting, connections, and servers at the other end.
//!
//! The client is real: its handles, its transports, its connections' tasks, the rounds of its reactor, its sockets and its
//! poller. These are simulated: the time, the random numbers, the application's runtime (`executor`), which may let a task
//! wait, the network (`network`), which delivers late, in pieces or not at all, and the servers (`server`), which die, load
//! their data and send messages that answer no request. There is a single server, or a cluster (`topology`) with slots that
//! move.
//!
//! In every run, each reply belongs to its call; the executed writes are those that callers were told were executed; each
//! call ends in its time; no read through the cache is older than it may be (`staleness`), while other clients write too
//! (`tracking`); and nothing is left at the end (`model`). Faults that the client must never have are planted, to show that
//! the simulation would see them. One thread acts at a time, and goes on until it waits, so interleavings of two threads
//! within their steps are not tried here.

mod call;
mod caller;
mod executor;
mod model;
mod network;
mod other_clients;
mod server;
mod session;
mod staleness;
mod topology;
mod tracking;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sys::planted::{self, Fault};
use model::Tally;
use world::{ANY, Failure, IN_CLUSTER, Manner, OUTSIDE, World};

/// The number of seeds in the short form; below it the number of those among which one has to find a planted fault.
const SHORT: u64 = 60;
const FAULTY: u64 = 400;

/// Returns the kind of world for a seed: in some nothing fails, in others anything may.
fn manner(seed: u64) -> Manner {
    let failures: &[Failure] = match seed % 8 {
        0 | 7 => &[],
        2 | 4 => OUTSIDE,
        1 | 3 | 5 => IN_CLUSTER,
        _ => ANY,
    };
    let (callers, servers) = ([1, 3, 12][(seed % 3) as usize], if seed.is_multiple_of(2) { 1 } else { 3 });
    Manner { callers, servers, turns: 25, trouble_ms: 3_000, failures }
}

/// Runs a seed with this fault planted.
fn run(seed: u64, manner: Manner, fault: Option<Fault>) -> Result<Tally, String> {
    planted::plant(fault);
    let ran = catch_unwind(AssertUnwindSafe(|| World::new(seed, manner).live()));
    planted::plant(None);
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned())
    })
}

/// Returns the number of seeds to run, and their range.
fn seeds(short: u64) -> (u64, std::ops::Range<u64>) {
    let number = |name: &str| std::env::var(name).ok().map(|number| number.parse::<u64>().expect("a number"));
    let (count, first) = (number("SLEEVE_SOAK_COUNT").unwrap_or(short), number("SLEEVE_SEED").unwrap_or(0));
    (count, first..first + count)
}

#[test]
#[cfg_attr(miri, ignore = "needs sockets")]
fn each_reply_is_that_to_its_call_and_no_write_is_executed_twice() {
    let (count, seeds) = seeds(SHORT);
    let mut all = Tally::default();
    for seed in seeds {
        match run(seed, manner(seed), None) {
            Ok(tally) => all.add(&tally),
            Err(wrong) => panic!(
                "{wrong}\nSLEEVE_SEED={seed} SLEEVE_SOAK_COUNT=1 cargo test -p sleeve --lib simulation::each_reply"
            ),
        }
    }
    println!("{all:?}");
    let cache = &all.cache;
    let rarest = [cache.shared, cache.invalidations, cache.evictions, cache.unkept, cache.flushes];
    let rarest = rarest.into_iter().min().unwrap_or_default();
    assert!(all.runtime_reads > count * 10 || count < SHORT, "runtimes hardly read: {all:?}");
    let least = all.answered.min(all.dropped).min(all.timeouts).min(all.unknown).min(all.unsent);
    assert!(
        count < SHORT
            || (least > count && all.moved.min(all.asked).min(rarest) > count / 20 && cache.hits > count * 10),
        "what is to be tried hardly happens: {all:?}"
    );
}

#[test]
#[cfg_attr(miri, ignore = "needs sockets")]
fn the_same_seed_does_the_same_again() {
    for seed in 1..8 {
        assert_eq!(run(seed, manner(seed), None), run(seed, manner(seed), None), "seed {seed}");
    }
}

/// Asserts that a seed finds this planted fault, and prints its error. Without the fault the same seed must find nothing.
fn find(fault: Fault) {
    let found = (0..FAULTY).find_map(|seed| Some((seed, run(seed, manner(seed), Some(fault)).err()?)));
    let (seed, wrong) = found.unwrap_or_else(|| panic!("no seed finds {fault:?}"));
    println!("{fault:?}: seed {seed}: {wrong}");
    assert_eq!(run(seed, manner(seed), None).err(), None, "seed {seed} finds this without a mistake, too");
}

#[test]
#[cfg_attr(miri, ignore = "needs sockets")]
fn what_the_client_must_never_do_is_found() {
    for fault in [
        Fault::IgnoresOwners,
        Fault::SwapsReplies,
        Fault::RepeatsWrites,
        Fault::ForgetsThatItLeft,
        Fault::SendsAgainInCluster,
        Fault::TakesReplyToAsking,
        Fault::OvertakesOnLane,
        Fault::LosesWaker,
        Fault::KeepsBudget,
        Fault::TakesMessage,
        Fault::NeverReadsWhatWasLeft,
        Fault::TrustsRuntime,
        Fault::ForgetsDeadline,
        Fault::MissesInvalidations,
        Fault::MissesFlushes,
        Fault::KeepsOvertaken,
        Fault::StaysAcrossConnections,
        Fault::LeavesOwnWrites,
        Fault::OutlivesKeys,
        Fault::KeepsUntracked,
    ] {
        find(fault);
    }
}
