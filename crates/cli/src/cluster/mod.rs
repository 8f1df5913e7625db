//! `sleeve cli --cluster`: the management of a cluster, with redis-cli's commands, output and exit codes. `demo` is a cluster to
//! try, which is formed by it.
//!
//! From top to bottom: here (which command) → `commands` (a file for each kind) → `check` → `fix` (the repairs) → `manager` (the
//! state of a command) → `mover` (a slot and its keys from one node to another) → `view` (the nodes as they describe themselves)
//! → `peer` (a connection) → `plan` (which node gets which slots: numbers only, no socket) → `node`, `slots`, `console`, `help`.
//!
//! A command loads the cluster once, at its beginning, and works on that view. Nothing is kept between commands: the nodes know
//! everything. One thread.

mod check;
mod commands;
mod console;
pub mod demo;
mod fix;
mod help;
mod manager;
mod mover;
pub mod node;
mod peer;
mod plan;
pub mod slots;
mod view;

use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use clap::ArgMatches;

use crate::output;
use crate::shell::options::ShellOptions;
use crate::shell::{self, typed_options};
use commands::{backup, create, every_node, import, membership, rebalance, reshard};
use console::{Console, Reported, complain};
use help::Entry;
use manager::Manager;
use peer::Door;
use view::View;

/// Runs the command that the options name; the exit code is redis-cli's. `typed` says which options were on the command line.
pub fn run(options: &ShellOptions, typed: &ArgMatches) -> ExitCode {
    let ended = prepare(options, typed).and_then(|(entry, mut manager)| dispatch(entry, &mut manager));
    output::flush();
    if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn prepare(options: &ShellOptions, typed: &ArgMatches) -> Result<(&'static Entry, Manager), Reported> {
    let (template, login) = shell::reach(options, typed).or_else(|text| complain(format_args!("{text}")))?;
    let mut words = options.cluster.command.iter().chain(options.cluster.rebalance.behind_weights());
    let name = words.next().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut words: Vec<Vec<u8>> = words.chain(&options.command).map(|word| word.clone().into_vec()).collect();
    shell::insert_input(&mut words, &options.input).or_else(|text| complain(format_args!("{text}")))?;
    let Some(entry) = help::COMMANDS.iter().find(|entry| entry.name == name) else {
        return complain(format_args!("Unknown --cluster subcommand"));
    };
    if !(entry.words_min..=entry.words_max).contains(&words.len()) {
        return complain(format_args!("[ERR] Wrong number of arguments for specified --cluster sub command"));
    }
    for option in typed_options(typed).iter().filter_map(|option| option.strip_prefix("cluster-")) {
        let is_replica = option == "replica" || option == "slave";
        if !entry.knows(if is_replica { "slave" } else { option }) {
            return complain(format_args!("--cluster-{option} means nothing to {name}"));
        }
    }
    let console = Console::new();
    let mut options = options.cluster.clone();
    options.moves.yes |= std::env::var("REDISCLI_CLUSTER_YES").is_ok_and(|yes| yes == "1");
    let door = Door::new(template, login, console);
    Ok((entry, Manager { options, words, door, console, is_fix: false, view: View::default() }))
}

fn dispatch(entry: &Entry, manager: &mut Manager) -> Result<(), Reported> {
    match entry.name {
        "create" => create::run(manager),
        "check" => look(manager),
        "fix" => {
            manager.is_fix = true;
            look(manager)
        }
        "info" => {
            manager.load_by_words()?;
            check::print_summary(manager);
            Ok(())
        }
        "reshard" => reshard::run(manager),
        "rebalance" => rebalance::run(manager),
        "add-node" => membership::add(manager),
        "del-node" => membership::delete(manager),
        "call" => every_node::call(manager),
        "set-timeout" => every_node::set_timeout(manager),
        "import" => import::run(manager),
        "backup" => backup::run(manager),
        _ => {
            output::bytes(help::text().as_bytes());
            // The exit code is redis-cli's.
            Err(Reported)
        }
    }
}

/// Prints the summary and the check of a cluster.
fn look(manager: &mut Manager) -> Result<(), Reported> {
    manager.load_by_words()?;
    check::print_summary(manager);
    check::check(manager, false)?.must_be_sound()
}
