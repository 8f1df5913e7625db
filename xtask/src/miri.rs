//! `cargo xtask miri`: those tests of store, client, rings and wire that Miri can run.
//!
//! Miri interprets a test and stops at undefined behaviour: memory that is read before it is written or after it is freed, a
//! reference that is used beside another one, a race of two threads. It is a hundred times slower than the compiled test, so
//! a test of large size has a smaller one here (`cfg!(miri)`), and one that Miri cannot run says so at its head
//! (`cfg_attr(miri, ignore = "…")`). References are judged by Tree Borrows. The store keeps addresses in 48 bits and its pool
//! of pages for ever, so an address may become a pointer again, and leaks are not looked for.

use std::process::Command;

use crate::steps::{Count, Steps, output_of, run_tests};
use sleeve_tests::server::workspace_root;

/// The flags of Miri.
const FLAGS: &str = "-Zmiri-tree-borrows -Zmiri-permissive-provenance -Zmiri-disable-isolation -Zmiri-ignore-leaks";

/// A run of `cargo miri test`.
struct Run {
    name: &'static str,
    words: &'static [&'static str],
    /// The tests of the run that `cargo xtask test` runs as well.
    short: &'static [&'static str],
}

const RUNS: &[Run] = &[
    // The short runs are about memory: the owner of each piece, and its release.
    Run {
        name: "store",
        words: &["--package", "sleeve-store", "--lib"],
        short: &["arena::", "bucket::", "due::", "heap::", "locked::", "pages::"],
    },
    Run { name: "store from outside", words: &["--package", "sleeve-store", "--test", "outside"], short: &[] },
    // The client is tested without TLS, because its code is C and assembler.
    Run { name: "client", words: &["--package", "sleeve", "--no-default-features", "--lib"], short: &[] },
    Run { name: "rings", words: &["--package", "sleeve-rings", "--lib"], short: &["ring::tests::positions"] },
    Run { name: "wire", words: &["--package", "sleeve-wire", "--lib"], short: &[] },
];

/// Does all runs.
///
/// # Errors
/// When Miri is missing, with the line that installs it; an empty text when a test failed.
pub fn run() -> Result<(), String> {
    look_for_miri()?;
    let mut steps = Steps::default();
    for run in RUNS {
        steps.step(&format!("miri, {}", run.name), || run_tests(miri().arg("test").args(run.words)));
    }
    steps.close()
}

/// Runs the short tests, as steps of other chores; skips them if Miri is missing.
pub fn check(steps: &mut Steps) {
    if let Err(reason) = look_for_miri() {
        return steps.step("miri", || {
            println!("skipped: {reason}");
            Ok(Count { skipped: 1, ..Count::default() })
        });
    }
    for run in RUNS.iter().filter(|run| !run.short.is_empty()) {
        steps.step(&format!("miri, {}", run.name), || {
            run_tests(miri().arg("test").args(run.words).arg("--").args(run.short))
        });
    }
}

fn look_for_miri() -> Result<(), String> {
    let found = output_of(miri().arg("--version"));
    found.map(|_| ()).map_err(|_| {
        "Miri is missing: rustup toolchain install nightly --component miri --component rust-src".to_owned()
    })
}

fn miri() -> Command {
    let mut command = Command::new("cargo");
    // The compiler that runs this chore must not choose the one that Miri belongs to.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").args(["+nightly", "miri"]).current_dir(workspace_root());
    command.env("MIRIFLAGS", FLAGS);
    command
}
