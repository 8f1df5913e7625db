//! `cargo xtask fuzz`: the targets of `fuzz/`, one for each door that takes foreign bytes.
//!
//! A target is an ordinary program that libFuzzer drives. It needs the nightly compiler for the instrumentation, and nothing
//! else: no cargo sub-command is installed. New inputs that a run finds are kept in `fuzz/corpus/`, inputs that break a
//! target in `fuzz/artifacts/`; both are left out of the repository. Seeds that are worth keeping lie in `fuzz/seeds/`.

use std::process::Command;

use crate::steps::{Steps, output_of, run as run_program};
use sleeve_tests::server::workspace_root;

/// The targets, by the names of their files in `fuzz/targets/`.
const TARGETS: [&str; 13] = [
    "request",
    "inline",
    "reply",
    "configuration",
    "session",
    "restore",
    "rdb_file",
    "manifest",
    "log",
    "link",
    "handshake",
    "rings",
    "cluster_packet",
];

/// The length of an input in bytes: enough for nesting, and for claimed lengths that disagree with the bytes behind them.
const INPUT_BYTES_MAX: u32 = 4096;

/// The largest single allocation of a target, in MiB: far below one that a claimed length could ask for.
const ALLOCATION_MIB_MAX: u32 = 64;

/// The limit of a target's memory in MiB; the address sanitizer keeps much of it.
const MEMORY_MIB_MAX: u32 = 1024;

const EXAMPLES: &str = "\
Examples:
  cargo xtask fuzz                  each target for a minute
  cargo xtask fuzz request 600      one target for ten minutes
  cargo xtask fuzz reply 0 FILE     one input, such as one of fuzz/artifacts/
";

/// The target, and the time for it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// One target instead of all
    #[arg(value_parser = TARGETS.to_vec())]
    target: Option<String>,
    /// Seconds for each target
    #[arg(default_value_t = 60)]
    seconds: u32,
    /// Run this input and end
    input: Option<String>,
}

/// Builds all targets and runs the chosen ones.
///
/// # Errors
/// When they do not build, or one of them finds something.
pub fn run(options: &Options) -> Result<(), String> {
    let host = host()?;
    println!("==> building the fuzz targets");
    run_program(&mut build(&host))?;
    let mut steps = Steps::default();
    for target in TARGETS {
        if options.target.as_deref().is_none_or(|wanted| wanted == target) {
            steps.check(&format!("fuzz {target}"), || run_program(&mut fuzz(target, &host, options)?));
        }
    }
    steps.close()
}

/// Returns the build command with instrumentation as libFuzzer reads it: counters at every edge, compared values, and
/// overflow as a fault.
fn build(host: &str) -> Command {
    let flags = [
        "--cfg=fuzzing",
        "-Cpasses=sancov-module",
        "-Cllvm-args=-sanitizer-coverage-level=4",
        "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
        "-Cllvm-args=-sanitizer-coverage-pc-table",
        "-Cllvm-args=-sanitizer-coverage-trace-compares",
        "-Zsanitizer=address",
        "-Cdebug-assertions",
        "-Coverflow-checks",
        "-Ccodegen-units=1",
    ];
    let mut command = Command::new("cargo");
    // The compiler that runs this chore must not choose the compiler of the targets.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env("RUSTFLAGS", flags.join(" "));
    command.args(["+nightly", "build", "--release", "--target", host]).current_dir(folder());
    command.arg("--target-dir").arg(folder().join("target"));
    command
}

fn fuzz(target: &str, host: &str, options: &Options) -> Result<Command, String> {
    let (corpus, artifacts) = (folder().join("corpus").join(target), folder().join("artifacts").join(target));
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    let mut command = Command::new(folder().join("target").join(host).join("release").join(target));
    if let Some(input) = &options.input {
        command.arg(input);
        return Ok(command);
    }
    command.args([
        format!("-max_total_time={}", options.seconds),
        format!("-max_len={INPUT_BYTES_MAX}"),
        format!("-malloc_limit_mb={ALLOCATION_MIB_MAX}"),
        format!("-rss_limit_mb={MEMORY_MIB_MAX}"),
        format!("-artifact_prefix={}/", artifacts.display()),
        "-timeout=5".to_owned(),
        "-print_final_stats=1".to_owned(),
    ]);
    // New inputs go into the first folder; the others are only read.
    command.arg(corpus).arg(folder().join("seeds").join(target)).current_dir(folder());
    Ok(command)
}

/// Returns the triple that nightly builds for.
fn host() -> Result<String, String> {
    let mut command = Command::new("rustc");
    command.env_remove("RUSTUP_TOOLCHAIN").args(["+nightly", "--version", "--verbose"]);
    let text = output_of(&mut command)
        .map_err(|reason| format!("{reason}\nfuzzing needs the nightly compiler: rustup toolchain install nightly"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or_else(|| "rustc names no host".to_owned())
}

fn folder() -> std::path::PathBuf {
    workspace_root().join("fuzz")
}
