//! `test`, `check`, `golden` and `doc`: is the tree right?
//!
//! Tests run in the profile `checked`: optimised, so that a million commands take seconds, with overflow and debug
//! assertions on, and without the whole-program optimisation that would cost more time than the tests.

use std::path::PathBuf;
use std::process::Command;

use crate::clients;
use crate::peers;
use crate::steps::{Steps, build_sleeve, cargo, run, run_tests, target_folder};
use sleeve_tests::Kind;

/// The profile of every test.
pub const PROFILE: &str = "checked";

/// Which transcripts, against whom.
#[derive(Debug, clap::Args)]
pub struct Golden {
    /// Write the replies of Redis 7.0, or Valkey 9 where Redis lacks the option, into the transcripts
    #[arg(long, conflicts_with = "server")]
    record: bool,
    /// Only this server
    #[arg(long, value_parser = ["sleeve", "redis", "valkey"])]
    server: Option<String>,
    /// Only the transcripts whose name has this part
    name: Option<String>,
}

/// Everything, beginning with an empty machine.
pub fn test() -> Result<(), String> {
    let mut steps = Steps::default();
    let mut peers = peers::Peers::default();
    steps.check("peers", || peers::set_up().map(|found| peers = found));
    steps.check("formatting", format);
    steps.check("clippy", clippy);
    steps.check("documentation", document);
    let mut sleeve = None;
    steps.check("build", || build().map(|path| sleeve = Some(path)));
    let Some(sleeve) = sleeve else { return steps.close() };
    steps.step("tests", || {
        let mut tests = tests(&["--workspace", "--no-fail-fast"]);
        run_tests(tests.env("SLEEVE_BIN", &sleeve))
    });
    clients::check(&mut steps, &peers, Kind::Sleeve, &sleeve, "");
    steps.close()
}

/// The part that needs no server.
pub fn check() -> Result<(), String> {
    let mut steps = Steps::default();
    steps.check("formatting", format);
    steps.check("clippy", clippy);
    steps.step("tidy", || run_tests(cargo().args(["test", "--quiet", "--package", "sleeve-tidy"])));
    steps.close()
}

/// The transcripts alone.
pub fn golden(options: &Golden) -> Result<(), String> {
    peers::set_up_servers()?;
    let mut command = tests(&["--package", "sleeve-tests", "--test", "outside", "--"]);
    if options.record {
        command.env("SLEEVE_RECORD", "1").args(["golden::redis", "--nocapture"]);
    } else {
        let server = options.server.as_deref();
        if server.unwrap_or("sleeve") == "sleeve" {
            command.env("SLEEVE_BIN", build_sleeve(PROFILE)?);
        }
        command.arg(format!("golden::{}", server.unwrap_or_default()));
    }
    if let Some(name) = &options.name {
        command.env("SLEEVE_GOLDEN", name);
    }
    let mut steps = Steps::default();
    steps.step("golden", || run_tests(&mut command));
    steps.close()
}

/// The documentation of every crate.
pub fn doc() -> Result<(), String> {
    document()?;
    println!("open target/doc/sleeve/index.html");
    Ok(())
}

/// Builds all tests and, with them and from the same libraries, the binary.
fn build() -> Result<PathBuf, String> {
    run(&mut tests(&["--workspace", "--no-run", "--quiet"]))?;
    Ok(target_folder()?.join(PROFILE).join("sleeve"))
}

fn format() -> Result<(), String> {
    run(cargo().args(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<(), String> {
    run(cargo().args([
        "clippy",
        "--profile",
        PROFILE,
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ]))
}

fn document() -> Result<(), String> {
    run(cargo()
        .args(["doc", "--profile", PROFILE, "--workspace", "--no-deps", "--quiet"])
        .env("RUSTDOCFLAGS", "-D warnings"))
}

/// `cargo test` in that profile, for what these words name.
pub fn tests(which: &[&str]) -> Command {
    let mut command = cargo();
    command.args(["test", "--profile", PROFILE]).args(which);
    command
}
