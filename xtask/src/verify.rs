//! `test`, `check`, `golden` and `doc`: is the tree right?
//!
//! Tests run in the profile `checked`: optimised, so that a million commands take seconds, with overflow and debug
//! assertions on, and without the whole-program optimisation that would cost more time than the tests.

use std::path::PathBuf;
use std::process::Command;

use crate::clients;
use crate::counts;
use crate::machine::Machine;
use crate::miri;
use crate::peers;
use crate::release::{image, package, sbom};
use crate::steps::{Count, Steps, build_sleeve, cargo, run, run_tests, target_folder};
use sleeve_tests::Kind;
use sleeve_tests::server::workspace_root;

/// The profile of every test.
pub const PROFILE: &str = "checked";

/// The transcripts to play, and the server.
#[derive(Debug, clap::Args)]
pub struct Golden {
    /// Write the replies and the effects of Redis 7.0, or of Valkey 9 where Redis lacks the option, into the transcripts
    #[arg(long, conflicts_with = "server")]
    record: bool,
    /// Only this server
    #[arg(long, value_parser = ["sleeve", "redis", "valkey"])]
    server: Option<String>,
    /// Only the transcripts with this text in their name
    name: Option<String>,
}

/// Runs every check and every test, beginning with an empty machine.
pub fn test() -> Result<(), String> {
    let mut steps = Steps::default();
    let mut peers = peers::Peers::default();
    steps.check("peers", || peers::set_up().map(|found| peers = found));
    steps.check("formatting", format);
    steps.check("clippy", clippy);
    steps.check("documentation", document);
    steps.step("client on macOS", client_elsewhere);
    steps.step("client with an older Rust", client_of_old);
    let mut sleeve = None;
    steps.check("build", || build().map(|path| sleeve = Some(path)));
    let Some(sleeve) = sleeve else { return steps.close() };
    let mut machine = None;
    steps.check("the machine before the tests", || Machine::look().map(|looked| machine = Some(looked)));
    steps.step("tests", || {
        let mut tests = tests(&["--workspace", "--no-fail-fast"]);
        // Most of a test's time is waiting for servers.
        let at_once = std::thread::available_parallelism().map_or(2, usize::from) * 2;
        tests.env("SLEEVE_BIN", &sleeve).env("RUST_TEST_THREADS", at_once.to_string());
        machine.iter().for_each(|machine| _ = machine.confine(&mut tests));
        run_tests(&mut tests)
    });
    steps.check("the machine as it was", || machine.map_or(Ok(()), Machine::compare));
    steps.check("list of components", sbom::check);
    steps.step("package", || package::check(&sleeve));
    steps.step("image", || image::check(&sleeve));
    steps.step("instruction counts", counts::check);
    miri::check(&mut steps);
    clients::check(&mut steps, &peers, Kind::Sleeve, &sleeve, "");
    steps.close()
}

/// Runs the checks that need no server.
pub fn check() -> Result<(), String> {
    let mut steps = Steps::default();
    steps.check("formatting", format);
    steps.check("clippy", clippy);
    steps.step("tidy", tidy);
    steps.close()
}

/// Runs the tests that need no peer: units, golden transcripts against Sleeve, tidy.
pub fn quick() -> Result<(), String> {
    let mut steps = Steps::default();
    let mut sleeve = None;
    steps.check("build", || build().map(|path| sleeve = Some(path)));
    let Some(sleeve) = sleeve else { return steps.close() };
    steps.step("unit tests", || run_tests(&mut tests(&["--workspace", "--lib", "--bins", "--quiet"])));
    steps.step("golden transcripts", || {
        let mut golden = tests(&["--package", "sleeve-tests", "--test", "outside", "--", "commands::golden::sleeve"]);
        run_tests(golden.env("SLEEVE_BIN", &sleeve))
    });
    steps.step("tidy", tidy);
    steps.close()
}

/// Plays the transcripts alone, of replies and of effects.
pub fn golden(options: &Golden) -> Result<(), String> {
    peers::set_up_servers()?;
    let mut command = tests(&["--package", "sleeve-tests", "--test", "outside", "--"]);
    if options.record {
        command.env("SLEEVE_RECORD", "1").args(["commands::golden::redis", "commands::effects::redis", "--nocapture"]);
    } else {
        let server = options.server.as_deref();
        if server.unwrap_or("sleeve") == "sleeve" {
            command.env("SLEEVE_BIN", build_sleeve(PROFILE)?);
        }
        command.args(["golden", "effects"].map(|tests| format!("commands::{tests}::{}", server.unwrap_or_default())));
    }
    if let Some(name) = &options.name {
        command.env("SLEEVE_GOLDEN", name).env("SLEEVE_EFFECTS", name);
    }
    let mut steps = Steps::default();
    steps.step("golden", || run_tests(&mut command));
    steps.close()
}

/// Builds the documentation of every crate.
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

fn tidy() -> Result<Count, String> {
    run_tests(cargo().args(["test", "--quiet", "--package", "sleeve-tidy"]))
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

/// Checks that the client builds for a system that is not Linux. It is built without TLS, because TLS has C code that needs a
/// compiler for that system.
fn client_elsewhere() -> Result<Count, String> {
    const TARGET: &str = "x86_64-apple-darwin";
    let installed = Command::new("rustup").args(["target", "list", "--installed"]).output();
    let is_there =
        installed.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).lines().any(|line| line == TARGET));
    if !is_there
        && !Command::new("rustup").args(["target", "add", TARGET]).status().is_ok_and(|status| status.success())
    {
        println!("skipped: the standard library of {TARGET} is not there; `rustup target add {TARGET}` installs it");
        return Ok(Count { skipped: 1, ..Count::default() });
    }
    run(cargo().args(["check", "--quiet", "--package", "sleeve", "--no-default-features", "--target", TARGET]))?;
    Ok(Count { passed: 1, ..Count::default() })
}

/// Checks that the client without an engine builds with the oldest compiler that its manifest promises.
fn client_of_old() -> Result<Count, String> {
    let manifest = std::fs::read_to_string(workspace_root().join("crates/client/Cargo.toml"));
    let manifest = manifest.map_err(|error| format!("cannot read the client's manifest: {error}"))?;
    let promise = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let version = promise.ok_or("the client's manifest names no rust-version")?.trim_matches('"');
    let has = |words: &[&str]| Command::new("rustup").args(words).status().is_ok_and(|status| status.success());
    if !has(&["toolchain", "install", version, "--profile", "minimal", "--no-self-update"]) {
        println!("skipped: Rust {version} is not there; `rustup toolchain install {version}` installs it");
        return Ok(Count { skipped: 1, ..Count::default() });
    }
    // The build has a folder of its own: the other compiler would rebuild everything each time.
    let folder = target_folder()?.join("older-rust");
    let mut check = Command::new("rustup");
    check.args(["run", version, "cargo", "check", "--quiet", "--package", "sleeve", "--features", "serde,tracing"]);
    run(check.current_dir(workspace_root()).env("CARGO_TARGET_DIR", folder).env_remove("RUSTUP_TOOLCHAIN"))?;
    Ok(Count { passed: 1, ..Count::default() })
}

/// Returns `cargo test` in the tests' profile, with these further arguments.
pub fn tests(which: &[&str]) -> Command {
    let mut command = cargo();
    command.args(["test", "--profile", PROFILE]).args(which);
    command
}
