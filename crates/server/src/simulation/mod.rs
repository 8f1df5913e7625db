//! A primary, its replicas, chains of them and clients in one thread, from one seed.
//!
//! The servers are real: engine, worker, epoll, AOF, snapshots, the thread that follows a primary. Each thread is a task that
//! runs when the simulation lets it (`host/simulated`). The time is simulated, and so are the network (`network`), which
//! delivers in pieces, late, and not at all, and the disk, which forgets bytes that were not fsynced. Servers are killed,
//! lose their power, end and start again and change their roles (`failures`), while clients write and wait for replicas and
//! disks (`client`).
//!
//! After any sequence of these, the data of a replica is a state that its primary had. No replica has writes that its primary
//! has lost, as far as that is promised. Acknowledged writes are there after the failures that their level survives
//! (`model`). When the servers are left alone, all have the same data at the same offset.

mod client;
mod failures;
mod model;
mod network;
mod node;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use std::path::Path;

use crate::config::LogLevel;
use crate::host::planted::{self, Fault};
use crate::host::{log, panics};
use failures::{ANY, Failure, OF_PRIMARY};
use model::Told;
use world::{Manner, World};

/// The number of seeds in the short form, and the number of seeds of which at least one must find a planted fault.
const SHORT: u64 = 60;
const FAULTY: u64 = 200;

/// Returns the parameters of a seed's world. It has two servers and cuts only, or three servers or a chain of four with all
/// failures.
fn manner(seed: u64) -> Manner {
    let servers = [2, 3, 4, 3][(seed % 4) as usize];
    let failures = if servers == 2 { &[] } else { ANY };
    Manner { servers, steps: 2_500, cuts: true, policy: None, failures }
}

/// Runs a seed with this fault planted. Returns the numbers of acknowledgements to clients.
fn run(seed: u64, manner: Manner, fault: Option<Fault>) -> Result<Told, String> {
    planted::plant(fault);
    let run = || {
        let mut world = World::new(seed, manner);
        world.live().and_then(|()| world.end())
    };
    let ran = catch_unwind(AssertUnwindSafe(run));
    planted::plant(None);
    ran.unwrap_or_else(|panic| Err(panics::message(&*panic).to_owned()))
}

/// Returns the number of seeds, and their range.
fn seeds(short: u64) -> (u64, std::ops::Range<u64>) {
    let number = |name: &str| std::env::var(name).ok().map(|number| number.parse::<u64>().expect("a number"));
    let (count, first) = (number("SLEEVE_SOAK_COUNT").unwrap_or(short), number("SLEEVE_SEED").unwrap_or(0));
    if count == 1 {
        // Log lines of the servers, for the analysis of a failed seed.
        _ = log::open(Path::new(""), LogLevel::Notice);
    }
    (count, first..first + count)
}

#[test]
fn replicas_have_what_their_primary_has_and_nothing_acknowledged_is_lost() {
    let (count, seeds) = seeds(SHORT);
    let mut all = Told::default();
    for seed in seeds {
        match run(seed, manner(seed), None) {
            Ok(told) => all.add(told),
            Err(wrong) => panic!(
                "{wrong}\nSLEEVE_SEED={seed} SLEEVE_SOAK_COUNT=1 cargo test -p sleeve-server --lib simulation::replicas_have"
            ),
        }
    }
    println!("{all:?}");
    let least = all.written.min(all.on_disk).min(all.replicated);
    assert!(count < SHORT || least > count, "what is to be tried hardly happens: {all:?}");
}

/// Returns the first seed that finds a fault, and the error that it reports.
fn first_to_find(fault: Fault, policy: &'static str) -> Option<(u64, String)> {
    let manner = Manner { servers: 2, steps: 6_000, cuts: false, policy: Some(policy), failures: OF_PRIMARY };
    first_in(fault, manner, |_| true)
}

/// Returns the first seed that finds a fault while replicas take their primary's place, and its error.
fn first_where_roles_change(fault: Fault) -> Option<(u64, String)> {
    let failures = &[Failure::ReplacesPrimary];
    let manner = Manner { servers: 3, steps: 6_000, cuts: false, policy: Some("everysec"), failures };
    first_in(fault, manner, |_| true)
}

/// Returns the first seed that reports such an error, and the error. Checks that the same seed reports none without the
/// fault.
fn first_in(fault: Fault, manner: Manner, is_such: impl Fn(&str) -> bool) -> Option<(u64, String)> {
    let found = |seed| run(seed, manner, Some(fault)).err().filter(|wrong| is_such(wrong));
    let (seed, wrong) = (0..FAULTY).find_map(|seed| Some((seed, found(seed)?)))?;
    assert_eq!(run(seed, manner, None).err(), None, "seed {seed} finds this without a mistake, too");
    Some((seed, wrong))
}

#[test]
fn a_primary_that_sends_what_it_may_lose_is_found() {
    let found = first_to_find(Fault::SendsEarly, "always");
    println!("{found:?}");
    assert!(found.as_ref().is_some_and(|(_, wrong)| wrong.contains("has lost some")), "{found:?}");
}

#[test]
fn one_that_was_a_replica_before_and_sends_what_it_may_lose_is_found() {
    let failures = &[Failure::ReplacesPrimary, Failure::LosesPrimary];
    let manner = Manner { servers: 3, steps: 6_000, cuts: false, policy: Some("always"), failures };
    let is_of_another = |wrong: &str| wrong.contains("has lost some") && !wrong.contains("of which n0 has lost");
    let found = first_in(Fault::SendsEarly, manner, is_of_another);
    println!("{found:?}");
    assert!(found.is_some());
}

#[test]
fn a_replica_with_effects_of_its_own_is_found() {
    let found = first_to_find(Fault::OwnEffects, "everysec");
    println!("{found:?}");
    assert!(found.as_ref().is_some_and(|(_, wrong)| wrong.contains("its primary at")), "{found:?}");
}

#[test]
fn an_id_that_is_kept_after_a_crash_is_found() {
    let found = first_to_find(Fault::KeepsId, "no");
    println!("{found:?}");
    assert!(found.is_some());
}

#[test]
fn a_primary_that_counts_what_it_has_sent_as_applied_is_found() {
    let found = first_where_roles_change(Fault::CountsSent);
    println!("{found:?}");
    assert!(found.as_ref().is_some_and(|(_, wrong)| wrong.contains("was acknowledged")), "{found:?}");
}

#[test]
fn a_replica_that_goes_on_though_it_is_ahead_is_found() {
    let found = first_where_roles_change(Fault::ContinuesAhead);
    println!("{found:?}");
    assert!(found.is_some());
}

/// Returns a world of two servers without failures.
fn quiet(seed: u64) -> World {
    World::new(seed, Manner { servers: 2, steps: 0, cuts: false, policy: None, failures: &[] })
}

/// Repeats a scenario and cuts its connection after 1 byte, after 2 bytes, and so on, up to all that it carries. The short
/// form does this at intervals of `short` bytes.
fn at_every_byte(live: impl Fn(&mut World, u64) -> Result<u64, String>, short: usize) {
    let cut = |byte| {
        let mut world = quiet(byte % 8);
        let carried = live(&mut world, byte)?;
        world.end().map(|_| carried)
    };
    let whole = cut(u64::MAX).expect("it is not cut");
    let (_, seeds) = seeds(0);
    for byte in (1..whole).step_by(if seeds.is_empty() { short } else { 1 }) {
        if let Err(wrong) = cut(byte) {
            panic!("cut behind byte {byte}: {wrong}");
        }
    }
}

#[test]
fn a_connection_may_be_cut_at_every_byte() {
    at_every_byte(World::write_much, 61);
}

#[test]
fn a_role_is_handed_over_wherever_the_connection_is_cut() {
    at_every_byte(World::hand_over_once, 3);
}

#[test]
fn a_role_change_among_servers_that_have_everything_needs_no_full_sync() {
    for seed in 0..8 {
        let manner = Manner { servers: 4, steps: 0, cuts: false, policy: None, failures: &[] };
        let mut world = World::new(seed, manner);
        assert_eq!(world.take_turns(), Ok(0), "seed {seed}");
        world.end().expect("it ends");
    }
}
