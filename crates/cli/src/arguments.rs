//! Reads the command line, and the name by which the program was called: under the names of Redis's and Valkey's
//! programs, by a link or a copy, it behaves as they do, so that images, scripts and packages find the programs that
//! they start. Arguments that cannot be understood are refused with status 1 and a way out, or with status 2 where 1 is
//! a finding.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use sleeve_server::REDIS_VERSION;

use crate::unsupported::{self, Unsupported};
use crate::workload::tour;
use crate::{backup, bench, check, cluster, doctor, migrate, output, reference, serve, shell};

/// A Redis-compatible engine, its command line and its load generator in one binary.
#[derive(Debug, Parser)]
#[command(name = "sleeve", version, about, arg_required_else_help = true)]
pub struct Arguments {
    /// The sub-command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The sub-commands. Each is described at its options, which `--help` prints.
#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(serve::ServeOptions),
    Bench(Box<bench::options::BenchOptions>),
    Cli(Box<shell::options::ShellOptions>),
    Cluster(cluster::demo::ClusterOptions),
    Backup(Box<backup::options::BackupOptions>),
    Restore(backup::options::RestoreOptions),
    Check(check::CheckOptions),
    Migrate(Box<migrate::options::MigrateOptions>),
    Doctor(Box<doctor::options::DoctorOptions>),
    Tour(tour::TourOptions),
    Reference(reference::ReferenceOptions),
}

/// Returns the command that these words ask for, the program's name first, and which of its options were typed; `Err` when
/// there is nothing more to do.
pub fn read(mut words: Vec<OsString>) -> Result<(Command, ArgMatches), ExitCode> {
    let tool = words.get(1).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let mut command = Arguments::command();
    let matches = loop {
        let matches = command.try_get_matches_from_mut(&words).map_err(|error| {
            // `-h` alone asks for help, as in redis-cli. If a word follows, `-h` names the host.
            let asks_for_help = matches!(words.as_slice(), [_, _, last] if last == "-h");
            match command.find_subcommand_mut(&tool).filter(|_| asks_for_help) {
                Some(tool) => {
                    output::line(format_args!("{}", tool.render_help()));
                    ExitCode::SUCCESS
                }
                None => refuse(&error, &tool),
            }
        })?;
        match matches.subcommand_matches("cli").and_then(|typed| shell::gather(&words, typed)) {
            Some(gathered) => words = gathered,
            None => break matches,
        }
    };
    let arguments = Arguments::from_arg_matches(&matches).map_err(|error| refuse(&error, &tool))?;
    let typed = matches.subcommand().map(|(_, typed)| typed.clone()).unwrap_or_default();
    Ok((arguments.command, typed))
}

/// Prints the requested text (help, the version) or the fault in the arguments.
fn refuse(error: &clap::Error, tool: &str) -> ExitCode {
    let table = match tool {
        "cli" => unsupported::OF_CLI,
        "bench" => unsupported::OF_BENCH,
        _ => &[],
    };
    if let Some(absent) = not_there(error, table) {
        eprintln!(
            "error: {} is not there: {}\n\nFor what there is, try 'sleeve {tool} --help'.",
            absent.name, absent.why
        );
        return ExitCode::FAILURE;
    }
    // If standard output is closed, nothing can be done about it.
    let _ = error.print();
    match error.use_stderr() {
        true if tool == "doctor" => ExitCode::from(doctor::UNKNOWN),
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// Returns the entry of an option that this program does not know, if Redis's or Valkey's program knows it.
fn not_there(error: &clap::Error, table: &'static [Unsupported]) -> Option<&'static Unsupported> {
    let unknown = error.kind() == ErrorKind::UnknownArgument;
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(typed)) if unknown => unsupported::find(table, typed),
        _ => None,
    }
}

/// A program of Redis or Valkey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `redis-server`.
    Server,
    /// `redis-sentinel`.
    Sentinel,
    /// `redis-cli`.
    Cli,
    /// `redis-benchmark`.
    Benchmark,
    /// `redis-check-rdb`.
    CheckRdb,
    /// `redis-check-aof`.
    CheckAof,
}

impl Program {
    /// Returns the program by the name of which this process was called; `None` for `sleeve` and any other name.
    pub fn called(path: Option<&OsStr>) -> Option<Self> {
        let name = Path::new(path?).file_name()?.to_str()?;
        let name = name.strip_prefix("redis-").or_else(|| name.strip_prefix("valkey-"))?;
        Some(match name {
            "server" => Self::Server,
            "sentinel" => Self::Sentinel,
            "cli" => Self::Cli,
            "benchmark" => Self::Benchmark,
            "check-rdb" => Self::CheckRdb,
            "check-aof" => Self::CheckAof,
            _ => return None,
        })
    }

    /// Runs the program with the words behind its name, or returns the words by which `sleeve` is asked for the same.
    pub fn run(self, words: Vec<OsString>) -> Result<ExitCode, Vec<OsString>> {
        match self {
            Self::Server => Ok(serve::run_words(words)),
            Self::Sentinel => Ok(serve::refuse_sentinel()),
            Self::CheckRdb => Ok(check::run_rdb_words(&words)),
            Self::CheckAof => Ok(check::run_aof_words(&words)),
            Self::Cli => as_sub_command("cli", "redis-cli", words),
            Self::Benchmark => as_sub_command("bench", "redis-benchmark", words),
        }
    }
}

/// Prints the version if it was asked for, in the form that scripts take apart: the program's name, then the version of Redis.
fn as_sub_command(name: &str, program: &str, words: Vec<OsString>) -> Result<ExitCode, Vec<OsString>> {
    if let [word] = words.as_slice()
        && (word == "-v" || word == "--version")
    {
        output::line(format_args!("{program} {REDIS_VERSION} (sleeve {})", env!("CARGO_PKG_VERSION")));
        return Ok(ExitCode::SUCCESS);
    }
    Err(["sleeve".into(), name.into()].into_iter().chain(words).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_the_file_counts() {
        let called = |path: &str| Program::called(Some(OsStr::new(path)));
        assert_eq!(called("/usr/bin/redis-server"), Some(Program::Server));
        assert_eq!(called("valkey-cli"), Some(Program::Cli));
        assert_eq!(called("./redis-check-aof"), Some(Program::CheckAof));
        assert_eq!(called("/usr/bin/valkey-sentinel"), Some(Program::Sentinel));
        for other in ["/redis-server/sleeve", "sleeve", "redis-servers", "server", ""] {
            assert_eq!(called(other), None, "{other}");
        }
        assert_eq!(Program::called(None), None);
    }
}
