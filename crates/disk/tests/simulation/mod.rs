//! A server around an AOF on a disk from which a power cut takes the bytes that were not synced: cut at any call, started
//! again, and compared with a model that knows the promises. One thread, one seed.
//!
//! These have to hold after each cut: the AOF opens; its content is a beginning of the history, each piece whole and once;
//! and every piece is there that was reported as synced. The server then goes on, and is cut again. The faults at the end
//! show that the simulation sees the errors that it is there to see.

mod faulty;
mod journal;
mod manner;
mod owed;
mod server;

use std::collections::BTreeMap;
use std::sync::Arc;

use sleeve_disk::disk::Disk;
use sleeve_disk::disk::crashing::{CrashingDisk, Fault, Plan, Side};
use sleeve_tests::random::{Random, seed};
use sleeve_tests::soak;

use faulty::{Lapse, faulty};
use manner::{Manner, SOUND};
use owed::{Owed, check};
use server::{Done, Life, Server, options, read_back};

/// The number of steps of one life; a life is some hundred calls long.
const STEPS: usize = 120;

/// The number of lives of one disk.
const LIVES: usize = 3;

fn wrapped(disk: &CrashingDisk, lapse: Option<Lapse>) -> Arc<dyn Disk> {
    match lapse {
        Some(lapse) => Arc::new(faulty(Arc::new(disk.clone()), lapse)),
        None => Arc::new(disk.clone()),
    }
}

/// Draws the call at which a life of up to `calls` calls ends; one life in four has no cut.
fn plan(random: &mut Random, calls: u64) -> Plan {
    let side = if random.once_in(2) { Side::Before } else { Side::After };
    let cut = (!random.once_in(4)).then(|| (1 + random.bits() % calls, side));
    Plan { cut, ..Plan::default() }
}

/// Plans the other faults, once the AOF is open: before that they would be errors of the start.
fn fail(disk: &CrashingDisk, random: &mut Random, calls: u64) {
    let mut faults = BTreeMap::new();
    for _ in 0..random.below(6) {
        let fault = if random.once_in(3) { Fault::Full(random.below(100)) } else { Fault::Broken };
        faults.insert(disk.calls() + 1 + random.bits() % calls, fault);
    }
    disk.fail(faults, random.once_in(6).then(|| 4_000 + random.bits() % 40_000));
}

/// Runs several lives of the server on one disk, each ended by a power cut or by the death of the process.
fn run(seed: u64, manner: Manner) -> Result<Done, String> {
    let mut random = Random::new(seed);
    let mut options = options(seed, manner.checksums);
    let calls = 60 + random.bits() % 400;
    let mut disk = CrashingDisk::new(plan(&mut random, calls));
    let (mut owed, mut next_number, mut has_power) = (Owed::default(), 0, true);
    let mut done = Done::default();
    for number in 0..=LIVES {
        options.salt = random.bits();
        let found = match read_back(wrapped(&disk, manner.lapse), options.clone()) {
            Ok(found) => Some(found),
            Err(_) if disk.is_cut() => None,
            Err(wrong) => return Err(format!("life {number}: {wrong}")),
        };
        if let Some(found) = found {
            check(&found.numbers, &owed.written, &owed.done).map_err(|wrong| format!("life {number}: {wrong}"))?;
            if !has_power {
                (owed.written, owed.done) = (found.numbers.clone(), found.numbers.clone());
            }
            let life = Life { options: options.clone(), steps: STEPS, manner };
            if let Ok(mut server) = Server::start(wrapped(&disk, manner.lapse), life, found, next_number) {
                fail(&disk, &mut random, calls);
                server.live(&mut random, || disk.is_cut());
                next_number = server.next_number();
                owed = server.owed(manner.promises_early);
                done.rewrites += server.done.rewrites;
                done.healings += server.done.healings;
            }
        }
        disk.cut();
        // The last start must succeed, so nothing fails in it.
        let next = if number + 1 >= LIVES { Plan::default() } else { plan(&mut random, calls) };
        has_power = manner.keeps_power || (random.once_in(3) && !manner.promises_early && !owed.is_hurt);
        if has_power {
            disk.restart(next);
        } else {
            disk = disk.survivors(random.bits(), next);
            owed.written.clone_from(&owed.durable);
        }
    }
    Ok(done)
}

fn runs(count: usize, manner: Manner) -> impl Iterator<Item = Result<Done, String>> {
    let first = seed(1).wrapping_mul(1_000_003);
    let seeds = (0..count as u64).map(move |index| first.wrapping_add(index));
    seeds.map(move |seed| run(seed, manner).map_err(|wrong| format!("seed {seed}: {wrong}")))
}

/// Returns the faults of those runs that go wrong, of so many.
fn wrong_runs(count: usize, manner: Manner) -> impl Iterator<Item = String> {
    runs(count, manner).filter_map(Result::err)
}

fn none_goes_wrong(count: usize, manner: Manner) {
    let (mut wrong, mut rewrites, mut healings) = (Vec::new(), 0, 0);
    for run in runs(count, manner) {
        match run {
            Ok(done) => (rewrites, healings) = (rewrites + done.rewrites, healings + done.healings),
            Err(text) => wrong.push(text),
        }
    }
    assert!(wrong.is_empty(), "{} runs: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
    let is_healed = if manner.never_syncs { healings == 0 } else { healings > count / 10 };
    assert!(rewrites > count / 2 && is_healed, "{rewrites} rewrites and {healings} healings in {count} runs");
}

#[test]
fn nothing_that_was_promised_is_lost_torn_or_doubled_by_a_cut() {
    // A run has three cuts.
    none_goes_wrong(soak::count(900).div_ceil(LIVES), SOUND);
}

#[test]
fn nothing_that_was_written_is_lost_with_the_process() {
    for checksums in [true, false] {
        none_goes_wrong(soak::count(450).div_ceil(LIVES), Manner { checksums, keeps_power: true, ..SOUND });
    }
}

/// Checks a server that never syncs, as under `appendfsync no`.
#[test]
fn without_syncs_the_process_loses_nothing_and_the_power_an_end() {
    for keeps_power in [true, false] {
        none_goes_wrong(soak::count(300).div_ceil(LIVES), Manner { never_syncs: true, keeps_power, ..SOUND });
    }
}

/// Checks a server that begins to sync late, as after a change of `appendfsync no`: the first sync fails for bytes that the
/// journal does not have any more.
#[test]
fn what_the_journal_has_let_go_of_is_healed_from_the_old_files() {
    for (checksums, keeps_power) in [(true, false), (true, true), (false, true)] {
        let manner = Manner { forgets: true, checksums, keeps_power, ..SOUND };
        none_goes_wrong(soak::count(300).div_ceil(LIVES), manner);
    }
}

/// Checks that some run finds a fault in this way; most faults show only if the power goes in one short moment.
fn is_found(manner: Manner, sentence: &str) {
    let mut others = Vec::new();
    for wrong in wrong_runs(3_000, manner) {
        if wrong.contains(sentence) {
            return;
        }
        others.push(wrong);
    }
    panic!("{} other runs: {:#?}", others.len(), others.first());
}

#[test]
fn a_promise_before_the_sync_is_found() {
    is_found(Manner { promises_early: true, ..SOUND }, "pieces were promised");
}

#[test]
fn names_that_are_not_synced_are_found() {
    is_found(Manner { lapse: Some(Lapse::NoFolderSync), ..SOUND }, "promised");
}

#[test]
fn a_cut_before_the_manifest_is_found() {
    is_found(Manner { lapse: Some(Lapse::CutFirst), keeps_power: true, ..SOUND }, "pieces were promised");
}

#[test]
fn a_manifest_before_what_it_names_is_found() {
    is_found(Manner { lapse: Some(Lapse::ManifestFirst), ..SOUND }, ".base.aof, byte");
}

#[test]
fn a_manifest_that_does_not_say_what_counts_is_found() {
    is_found(Manner { lapse: Some(Lapse::NoLength), keeps_power: true, ..SOUND }, "is there twice");
}

#[test]
fn two_pieces_for_one_command_are_found() {
    is_found(Manner { tears_pieces: true, ..SOUND }, "half there");
}
