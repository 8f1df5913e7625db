//! Tests that play every golden transcript, against Redis, against Valkey or Redis 8 where Redis 7.0 lacks the option, and
//! against Sleeve. The transcripts in `golden/node` are played against nodes of a cluster.
//!
//! `cargo xtask golden --record` (or `SLEEVE_RECORD=1` in the environment of this test) writes the replies of the three
//! reference servers into `tests/commands/golden/` instead of comparing them. One server per test, transcripts one by one.

use std::path::Path;

use sleeve_tests::server::{free_port, workspace_root};
use sleeve_tests::transcript::play::{Tally, Target, play};
use sleeve_tests::transcript::record::{files, read, record};
use sleeve_tests::{Kind, Server};

/// The folder of the transcripts of a server that is no node of a cluster.
const ALONE: &str = "tests/commands/golden";

/// The folder of the transcripts of a node of a cluster.
const NODE: &str = "tests/commands/golden/node";

/// Starts a server on which all transcripts of a folder can be played.
fn start(kind: Kind, folder: &str, more: &[&str]) -> Server {
    let mut arguments = vec!["--enable-debug-command", "yes"];
    let bus_port = free_port().to_string();
    if folder == NODE {
        // A node waits for as long as the timeout before it serves slots.
        arguments.extend(["--cluster-enabled", "yes", "--cluster-node-timeout", "500", "--cluster-port", &bus_port]);
    }
    Server::start_with(kind, &[&arguments, more].concat())
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

fn compare(kind: Kind, folder: &str, arguments: &[&str]) {
    let server = start(kind, folder, arguments);
    let target = Target::of(&server);
    let mut tally = Tally::default();
    for path in files(&workspace_root().join(folder)).expect("the transcripts are there") {
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

fn write_down(kinds: &[Kind], folder: &str) {
    let mut faults = Vec::new();
    for &kind in kinds {
        let server = start(kind, folder, &[]);
        let target = Target::of(&server);
        for path in files(&workspace_root().join(folder)).expect("the transcripts are there") {
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
    if recording() {
        write_down(&[Kind::Redis, Kind::Valkey, Kind::Redis8], ALONE)
    } else {
        compare(Kind::Redis, ALONE, &[])
    }
}

/// Checks that Redis 8 answers as recorded. Cases that need a newer version than the installed one are left out.
#[test]
fn redis8_answers_as_recorded() {
    if !recording() {
        compare(Kind::Redis8, ALONE, &[]);
    }
}

#[test]
fn valkey_answers_as_recorded() {
    if !recording() {
        compare(Kind::Valkey, ALONE, &[]);
    }
}

#[test]
fn sleeve_answers_as_recorded_with_one_worker() {
    if !recording() {
        compare(Kind::Sleeve, ALONE, &["--workers", "1", "--encodings", "7.2"]);
    }
}

#[test]
fn sleeve_answers_as_recorded_with_four_workers() {
    if !recording() {
        compare(Kind::Sleeve, ALONE, &["--workers", "4", "--encodings", "7.2"]);
    }
}

#[test]
fn redis_answers_as_recorded_as_a_node() {
    if recording() { write_down(&[Kind::Redis, Kind::Valkey], NODE) } else { compare(Kind::Redis, NODE, &[]) }
}

#[test]
fn valkey_answers_as_recorded_as_a_node() {
    if !recording() {
        compare(Kind::Valkey, NODE, &[]);
    }
}

#[test]
fn sleeve_answers_as_recorded_as_a_node() {
    if !recording() {
        compare(Kind::Sleeve, NODE, &["--workers", "1"]);
        compare(Kind::Sleeve, NODE, &["--workers", "4"]);
    }
}
