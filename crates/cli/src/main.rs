//! The binary `sleeve`: argument parsing and printing only, and the load generator.
//!
//! One sub-command per file or folder. Nothing here knows how a command works: facts come from wire's table, data from the
//! server, replies from the client.
//!
//! # The rooms, from top to bottom
//!
//! A room uses only rooms below it.
//!
//! | room | contents |
//! | --- | --- |
//! | `arguments` | The name of the program, one of Redis's or its own; the command line as a sub-command with its options; arguments that cannot be understood are refused. |
//! | `doctor` | `sleeve doctor`: the causes that hold a program up. |
//! | `workload` | The documents' workloads, for `bench --workload` and `sleeve tour`, the newcomer's first minute. |
//! | `bench` | `sleeve bench`: the load generator. |
//! | `cluster` | `sleeve cli --cluster`: the management of a cluster; and `sleeve cluster demo`: one to try. |
//! | `backup` | `sleeve backup` and `sleeve restore`: a server's snapshots, kept with their checksums. |
//! | `shell` | `sleeve cli`: redis-cli's modes. |
//! | `check` | `sleeve check`: the contents of a server's files. |
//! | `migrate` | `sleeve migrate`: a server's data and its role move to another. |
//! | `serve` | `sleeve serve`: a server process; and mimalloc, as MEMORY PURGE and MEMORY MALLOC-STATS reach it. |
//! | `reference` | `sleeve reference`: completions, man pages, the table of options. |
//! | `endpoint` | Where a server is and how to log in to it, with TLS too; the options and URLs that say so. |
//! | `replies` | Whole replies counted in a stream of bytes, and the contents of INFO. |
//! | `unsupported` | Options of other programs that are not there, each with the reason. |
//! | `interrupt` | Ctrl-C, heard instead of suffered. |
//! | `output` | Standard output with a reader that may leave. |

mod arguments;
mod backup;
mod bench;
mod check;
mod cluster;
mod doctor;
mod endpoint;
mod interrupt;
mod migrate;
mod output;
mod reference;
mod replies;
mod serve;
mod shell;
mod unsupported;
mod workload;

use std::ffi::OsString;
use std::process::ExitCode;

use arguments::{Arguments, Command, Program};

/// Servers allocate and free small pieces on several threads all the time, which mimalloc does in fewer instructions than
/// the system's allocator.
#[global_allocator]
static ALLOCATOR: serve::allocator::OffPage = serve::allocator::OffPage;

fn main() -> ExitCode {
    serve::allocator::enter();
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if let Some(program) = Program::called(words.first().map(OsString::as_os_str)) {
        match program.run(words.drain(1..).collect()) {
            Ok(code) => return code,
            Err(same) => words = same,
        }
    }
    let (command, typed) = match arguments::read(words) {
        Ok(read) => read,
        Err(code) => return code,
    };
    match command {
        Command::Serve(options) => serve::run(&options),
        Command::Bench(options) if options.document.workload.is_some() && !options.list => workload::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Cli(options) if !options.cluster.command.is_empty() => cluster::run(&options, &typed),
        Command::Cli(options) => shell::run(&options, &typed),
        Command::Cluster(options) => cluster::demo::run(&options),
        Command::Backup(options) => backup::run(&options),
        Command::Restore(options) => backup::restore::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Migrate(options) => migrate::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Tour(options) => workload::tour::run(&options),
        Command::Reference(options) => reference::run::<Arguments>(&options),
    }
}
