//! Effects that replies do not show, of every command that touches data, compared with a real server.
//!
//! `effects/cases` has the cases with the effects on a real server (`effects/script` describes the form): how many changes a
//! request counts, whether the stream of replicas moves, hits and misses, access clocks, keyspace events, the messages of
//! WATCH and CLIENT TRACKING, statistics of errors and calls, and which blocked clients are woken. `SLEEVE_RECORD=1` in the
//! environment writes down the effects on the reference servers, `SLEEVE_EFFECTS` names the files to play. One server per
//! test, cases one by one.

mod endings;
mod figures;
mod script;
mod stage;

use std::path::PathBuf;

use script::Script;
use sleeve_tests::server::workspace_root;
use sleeve_tests::transcript::play::Target;
use sleeve_tests::transcript::record::files;
use sleeve_tests::{Kind, Server};
use sleeve_wire::commands::{Flags, Row, all};
use stage::Stage;

/// The options of every server of this test: no pause before a replica's snapshot, and no pings in its stream.
const OPTIONS: &[&str] = &[
    "--enable-debug-command",
    "yes",
    "--repl-diskless-sync-delay",
    "0",
    "--repl-ping-replica-period",
    "3600",
    "--lfu-log-factor",
    "0",
    "--lfu-decay-time",
    "0",
    "--notify-keyspace-events",
    "KEAmn",
    // With a limit and without shared integers every key has an access clock of its own.
    "--maxmemory",
    "1gb",
];

/// Commands that touch data and have no case, with the reason.
const WITHOUT_CASE: &[(&str, &str)] = &[
    ("blmovem", UNKNOWN),
    ("cluster|flushslot", "needs a node of a cluster; tests/cluster/sleeve_nodes shows its effects"),
    ("increx", UNKNOWN),
    ("lmovem", UNKNOWN),
    ("migrate", "needs another server; what it does here is DEL"),
    ("sdiffcard", UNKNOWN),
    ("sunioncard", UNKNOWN),
    ("xnack", UNKNOWN),
];
const UNKNOWN: &str = "no server that has it can be asked yet";

fn is_recording() -> bool {
    std::env::var_os("SLEEVE_RECORD").is_some()
}

fn scripts() -> Vec<(PathBuf, Script)> {
    let chosen = std::env::var("SLEEVE_EFFECTS").unwrap_or_default();
    let paths = files(&workspace_root().join("tests/commands/effects/cases")).expect("the cases are there");
    let paths = paths.into_iter().filter(|path| path.to_string_lossy().contains(&chosen));
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a case file can be read");
        let script = Script::parse(&text).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()));
        (path, script)
    };
    paths.map(read).collect()
}

/// Plays all cases that concern this server, and lists or records their effects.
fn play(kind: Kind, more: &[&str]) {
    let server = Server::start_with(kind, &[OPTIONS, more].concat());
    let target = Target::of(&server);
    let mut stage = Stage::new(&server);
    let (mut measured, mut faults) = (0, Vec::new());
    for (path, mut script) in scripts() {
        for case in script.cases.iter_mut().filter(|case| case.is_for(&target)) {
            let seen = stage.play(case);
            for (step, seen) in case.measured().zip(seen) {
                measured += 1;
                let differing = step.differing.as_ref().filter(|_| kind == Kind::Sleeve);
                let expected = differing.unwrap_or(&step.expected);
                if is_recording() {
                    step.expected = seen;
                } else if *expected != seen {
                    let file = path.file_name().unwrap_or_default().to_string_lossy();
                    let place = format!("{file}:{} {}", step.line, step.text);
                    faults.push(format!("{place}\n  expected  {expected}\n  got       {seen}"));
                }
            }
        }
        if is_recording() {
            std::fs::write(&path, script.render()).expect("a case file can be written");
        }
    }
    faults.iter().for_each(|fault| println!("{fault}"));
    println!("{}: {measured} requests, {} with other effects", kind.name(), faults.len());
    assert!(measured > 0 || std::env::var_os("SLEEVE_EFFECTS").is_some(), "no case was played");
    assert!(faults.is_empty(), "{} requests have other effects", faults.len());
}

#[test]
fn redis_has_the_recorded_effects() {
    play(Kind::Redis, &[]);
    if is_recording() {
        play(Kind::Valkey, &[]);
        play(Kind::Redis8, &[]);
    }
}

#[test]
fn valkey_has_the_recorded_effects() {
    if !is_recording() {
        play(Kind::Valkey, &[]);
    }
}

#[test]
fn redis8_has_the_recorded_effects() {
    if !is_recording() {
        play(Kind::Redis8, &[]);
    }
}

#[test]
fn sleeve_has_the_recorded_effects() {
    if !is_recording() {
        play(Kind::Sleeve, &["--workers", "1"]);
    }
}

/// Checks that wherever Sleeve differs from the recorded effects, the line above the request gives the reason, and the
/// effects do differ.
#[test]
fn every_difference_from_the_recorded_effects_has_its_reason() {
    for (path, script) in scripts() {
        for case in &script.cases {
            let pairs = case.steps.iter().zip(case.steps.iter().skip(1));
            for (before, step) in pairs.filter(|(_, step)| step.differing.is_some()) {
                let place = format!("{}:{}", path.display(), step.line);
                assert_ne!(step.differing.as_ref(), Some(&step.expected), "{place} has no difference");
                assert!(before.mark == script::Mark::Comment && !before.text.is_empty(), "{place} has no reason");
            }
        }
    }
}

#[test]
fn every_command_that_touches_data_has_a_case_of_its_effects() {
    let scripts = scripts();
    let texts: Vec<String> = scripts.iter().flat_map(|(_, script)| script.requests()).collect();
    let has_case = |name: &str| {
        let words = name.replace('|', " ");
        texts.iter().any(|text| *text == words || text.strip_prefix(&words).is_some_and(|rest| rest.starts_with(' ')))
    };
    let touches = |row: &&Row| row.flags.intersects(Flags::WRITE.or(Flags::READONLY));
    let rows = all().iter().filter(touches);
    let missing: Vec<&str> = rows
        .map(|row| row.full_name)
        .filter(|name| !has_case(name) && !WITHOUT_CASE.iter().any(|(known, _)| known == name))
        .collect();
    assert!(missing.is_empty(), "no case shows the effects of {missing:?}");
}
