//! Tests that play every golden transcript, against Redis, against Valkey or Redis 8 where Redis 7.0 lacks the option, and
//! against Sleeve.
//!
//! `cargo xtask golden --record` (or `SLEEVE_RECORD=1` in the environment of this test) writes the replies of the three
//! reference servers into `tests/commands/golden/` instead of comparing them. One server per test, transcripts one by one.

use std::path::Path;

use sleeve_tests::server::workspace_root;
use sleeve_tests::transcript::play::{Tally, Target, play};
use sleeve_tests::transcript::record::{files, read, record};
use sleeve_tests::{Kind, Server};

/// Starts a server on which all transcripts can be played.
fn start(kind: Kind, more: &[&str]) -> Server {
    Server::start_with(kind, &[&["--enable-debug-command", "yes"], more].concat())
}

/// Returns whether replies are recorded instead of compared.
fn recording() -> bool {
    std::env::var_os("SLEEVE_RECORD").is_some()
}

/// Returns whether `SLEEVE_GOLDEN` names this transcript (a part of the file name is enough), or is not set.
fn chosen(path: &Path) -> bool {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    std::env::var("SLEEVE_GOLDEN").map_or(true, |part| name.contains(&part))
}

fn compare(kind: Kind, arguments: &[&str]) {
    let server = start(kind, arguments);
    let target = Target::of(&server);
    let mut tally = Tally::default();
    for path in files(&workspace_root().join("tests/commands/golden")).expect("the transcripts are there") {
        if chosen(&path) {
            let script = read(&path).unwrap_or_else(|error| panic!("{error}"));
            play(&path.file_name().unwrap_or_default().to_string_lossy(), &script, &target, &mut tally);
        }
    }
    for difference in &tally.differences {
        println!("{difference}");
    }
    println!("{}: {} cases, {} replies, {} differ", kind.name(), tally.cases, tally.replies, tally.differences.len());
    assert!(tally.cases > 0 || std::env::var_os("SLEEVE_GOLDEN").is_some(), "no case was played");
    assert!(tally.differences.is_empty(), "{} replies differ", tally.differences.len());
}

fn write_down(kinds: &[Kind]) {
    let mut faults = Vec::new();
    for &kind in kinds {
        let server = start(kind, &[]);
        let target = Target::of(&server);
        for path in files(&workspace_root().join("tests/commands/golden")).expect("the transcripts are there") {
            if chosen(&path) {
                let mut script = read(&path).unwrap_or_else(|error| panic!("{error}"));
                let file = path.display().to_string();
                faults.extend(record(&mut script, &target).into_iter().map(|fault| format!("{file}: {fault}")));
                std::fs::write(&path, script.render()).expect("the transcript can be written");
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn redis_answers_as_recorded() {
    if recording() { write_down(&[Kind::Redis, Kind::Valkey, Kind::Redis8]) } else { compare(Kind::Redis, &[]) }
}

/// Checks that Redis 8 answers as recorded. Cases that need a newer version than the installed one are left out.
#[test]
fn redis8_answers_as_recorded() {
    if !recording() {
        compare(Kind::Redis8, &[]);
    }
}

#[test]
fn valkey_answers_as_recorded() {
    if !recording() {
        compare(Kind::Valkey, &[]);
    }
}

#[test]
fn sleeve_answers_as_recorded_with_one_worker() {
    if !recording() {
        compare(Kind::Sleeve, &["--workers", "1", "--encodings", "7.2"]);
    }
}

#[test]
fn sleeve_answers_as_recorded_with_four_workers() {
    if !recording() {
        compare(Kind::Sleeve, &["--workers", "4", "--encodings", "7.2"]);
    }
}
