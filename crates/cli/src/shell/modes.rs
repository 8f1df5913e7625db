//! The mode that `sleeve cli` was started in, and the options that have a meaning in it.
//!
//! An option that a mode would not look at is refused: the user expects an effect of it. One table says which options
//! belong to which modes. Pure functions of the command line.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command};

use super::options::{LoginOptions, ModeOptions, ShellOptions};
use crate::endpoint::address::Address;

/// The mode of the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Sends one command.
    Command,
    /// Commands from a file or a pipe.
    Lines,
    /// Commands typed at a prompt.
    Prompt,
    /// `--eval`.
    Eval,
    /// `--pipe`.
    Pipe,
    /// `--scan`.
    Scan,
    /// `--stat`.
    Stat,
    /// `--latency`.
    Latency,
    /// `--latency-history`.
    LatencyHistory,
    /// `--latency-dist`.
    LatencyDist,
    /// `--intrinsic-latency`.
    IntrinsicLatency,
    /// `--bigkeys`.
    BigKeys,
    /// `--memkeys`.
    MemKeys,
    /// `--hotkeys`.
    HotKeys,
    /// `--rdb` or `--functions-rdb`.
    Rdb,
    /// `--replica`.
    Replica,
    /// `--cluster`.
    Cluster,
}

use Mode::{
    BigKeys, Cluster, Eval, HotKeys, IntrinsicLatency, Latency, LatencyDist, LatencyHistory, Lines, MemKeys, Pipe,
    Prompt, Rdb, Replica, Scan, Stat,
};

impl Mode {
    /// Returns the mode that the options ask for; `terminal` says whether standard input is one.
    pub fn of(options: &ShellOptions, terminal: bool) -> Self {
        match &options.modes {
            _ if !options.cluster.command.is_empty() => Cluster,
            _ if options.replica.destination().is_some() => Rdb,
            _ if options.replica.replica => Replica,
            ModeOptions { pipe: true, .. } => Pipe,
            ModeOptions { scan: true, .. } => Scan,
            ModeOptions { eval: Some(_), .. } => Eval,
            ModeOptions { stat: true, .. } => Stat,
            ModeOptions { latency: true, .. } => Latency,
            ModeOptions { latency_history: true, .. } => LatencyHistory,
            ModeOptions { latency_dist: true, .. } => LatencyDist,
            ModeOptions { intrinsic_latency: Some(_), .. } => IntrinsicLatency,
            ModeOptions { bigkeys: true, .. } => BigKeys,
            ModeOptions { memkeys: true, .. } | ModeOptions { memkeys_samples: Some(_), .. } => MemKeys,
            ModeOptions { hotkeys: true, .. } => HotKeys,
            _ if !options.command.is_empty() => Mode::Command,
            _ if terminal => Prompt,
            _ => Lines,
        }
    }

    /// Returns the mode's name in a sentence.
    fn name(self) -> &'static str {
        match self {
            Mode::Command => "a command",
            Lines => "commands from standard input",
            Prompt => "the prompt",
            Eval => "--eval",
            Pipe => "--pipe",
            Scan => "--scan",
            Stat => "--stat",
            Latency => "--latency",
            LatencyHistory => "--latency-history",
            LatencyDist => "--latency-dist",
            IntrinsicLatency => "--intrinsic-latency",
            BigKeys => "--bigkeys",
            MemKeys => "--memkeys",
            HotKeys => "--hotkeys",
            Rdb => "--rdb",
            Replica => "--replica",
            Cluster => "--cluster",
        }
    }
}

/// Modes that send the words of the command line.
const SENT: &[Mode] = &[Mode::Command, Eval];
/// Modes that use the words of the command line.
const WORDED: &[Mode] = &[Mode::Command, Eval, Cluster];
/// Modes with one session at one server.
const CONNECTED: &[Mode] = &[
    Mode::Command,
    Lines,
    Prompt,
    Eval,
    Pipe,
    Scan,
    Stat,
    Latency,
    LatencyHistory,
    LatencyDist,
    IntrinsicLatency,
    BigKeys,
    MemKeys,
    HotKeys,
    Rdb,
    Replica,
];
/// Modes that print replies.
const REPLIES: &[Mode] = &[Mode::Command, Eval, Lines, Prompt];
/// Modes with a format for people and one for programs.
const FORMATTED: &[Mode] = &[Mode::Command, Eval, Lines, Prompt, Scan, Latency, LatencyHistory];
/// Modes that walk through all keys.
const WALKS: &[Mode] = &[Scan, BigKeys, MemKeys, HotKeys];
/// Modes that do something again and again.
const PACED: &[Mode] =
    &[Mode::Command, Eval, Scan, Stat, Latency, LatencyHistory, LatencyDist, BigKeys, MemKeys, HotKeys];

/// Returns the modes in which an option has a meaning; `None` if it has one in every mode.
///
/// Options are named by their fields in [`ShellOptions`].
fn belongs_to(option: &str) -> Option<&'static [Mode]> {
    Some(match option {
        "command" | "last_from_stdin" | "tag_from_stdin" => WORDED,
        "repeat" | "quoted_input" => SENT,
        "follow" => REPLIES,
        "database" | "resp2" | "resp3" => CONNECTED,
        option if option == "verbose" || option.starts_with("cluster-") => &[Cluster],
        "exit_error" => &[Mode::Command, Eval, Lines],
        "interval" => PACED,
        "between" | "end" | "show_pushes" => REPLIES,
        "raw" | "no_raw" | "csv" | "json" | "quoted_json" => FORMATTED,
        "pattern" | "quoted_pattern" | "count" => WALKS,
        "pipe_timeout" => &[Pipe],
        _ => return None,
    })
}

/// Returns whether the option says how to reach a server.
fn is_about_a_server(option: &str) -> bool {
    LoginOptions::augment_args(Address::augment_args(Command::new("")))
        .get_arguments()
        .any(|argument| argument.get_id() == option)
}

/// Returns the names of the options that were typed.
pub fn typed_options(typed: &ArgMatches) -> Vec<String> {
    let known = ShellOptions::augment_args(Command::new("cli"));
    let names = known.get_arguments().map(|argument| argument.get_id().to_string());
    names.filter(|name| typed.value_source(name) == Some(ValueSource::CommandLine)).collect()
}

/// Refuses options that were typed and that the mode would not look at.
pub fn check(mode: Mode, typed: &ArgMatches) -> Result<(), String> {
    let known = ShellOptions::augment_args(Command::new("cli"));
    let given = |option: &str| typed.value_source(option) == Some(ValueSource::CommandLine);
    if given("follow") && given("socket") {
        return Err("Options -c and -s are mutually exclusive.".to_owned());
    }
    for argument in known.get_arguments().filter(|argument| given(argument.get_id().as_str())) {
        let option = argument.get_id().as_str();
        let name = match (argument.get_short(), argument.get_long()) {
            (_, Some(long)) => format!("--{long}"),
            (Some(short), None) => format!("-{short}"),
            (None, None) => "a command".to_owned(),
        };
        if mode == IntrinsicLatency && is_about_a_server(option) {
            return Err(format!(
                "{name} means nothing to --intrinsic-latency: it measures this machine and asks no server"
            ));
        }
        if mode == Cluster && ["host", "port", "socket"].contains(&option) {
            return Err(format!("{name} means nothing to --cluster: name a node behind the command"));
        }
        if let Some(modes) = belongs_to(option).filter(|modes| !modes.contains(&mode)) {
            let names: Vec<&str> = modes.iter().map(|mode| mode.name()).collect();
            return Err(format!("{name} means nothing to {}; it goes with {}", mode.name(), names.join(", ")));
        }
    }
    if SENT.contains(&mode) && given("interval") && !given("repeat") {
        return Err("-i is the time between repetitions of a command: say with -r how many there are".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn try_words(words: &[&str]) -> Result<(), String> {
        use clap::FromArgMatches;
        let command = ShellOptions::augment_args(Command::new("cli").no_binary_name(true));
        let typed = command.try_get_matches_from(words).map_err(|error| error.to_string())?;
        let options = ShellOptions::from_arg_matches(&typed).map_err(|error| error.to_string())?;
        check(Mode::of(&options, true), &typed)
    }

    #[test]
    fn options_that_a_mode_ignores_are_refused() {
        for good in [
            &["-r", "2", "-i", "1", "PING"][..],
            &["--bigkeys", "-i", "0.1", "--pattern", "a*"],
            &["--scan", "--count", "3"],
            &["--eval", "f", "k", ",", "-n"],
            &["--intrinsic-latency", "1"],
            &["GET", "--pattern"],
            &["--", "--pattern"],
            &["-c", "GET", "a"],
            &["-c", "--eval", "f"],
            &["--cluster", "check", "h:1", "--cluster-search-multiple-owners", "-a", "p"],
            &["--cluster", "rebalance", "h:1", "--cluster-weight", "a=1", "b=2", "--verbose"],
            &["--rdb", "-", "-n", "1"],
            &["--slave"],
            &["-6", "PING"],
            &["-x", "--cluster", "call", "h:1", "SET", "a"],
            &[],
        ] {
            assert_eq!(try_words(good), Ok(()), "{good:?}");
        }
        for bad in [
            &["--count", "3", "PING"][..],
            &["--stat", "PING"],
            &["--stat", "--csv"],
            &["--intrinsic-latency", "1", "-p", "6379"],
            &["-i", "1", "PING"],
            &["-x"],
            &["--pipe-timeout", "3", "--scan"],
            &["--scan", "--bigkeys"],
            &["-d", "x", "--csv", "PING"],
            &["-c", "--scan"],
            &["-c", "-s", "/s", "PING"],
            &["--cluster", "check", "h:1", "-p", "1"],
            &["--cluster", "check", "h:1", "-n", "1"],
            &["--cluster", "check", "h:1", "--stat"],
            &["--cluster-yes", "PING"],
            &["--rdb", "f", "PING"],
            &["--rdb", "f", "--replica"],
            &["-4", "-6", "PING"],
            &["--cluster"],
        ] {
            assert!(try_words(bad).is_err(), "{bad:?}");
        }
    }
}
