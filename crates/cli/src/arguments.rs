//! Reads the command line. Arguments that cannot be understood are refused with status 1 and a way out, or with status 2
//! where 1 is a finding.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::unsupported::{self, Unsupported};
use crate::workload::tour;
use crate::{bench, check, cluster, doctor, migrate, output, reference, serve, shell};

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
