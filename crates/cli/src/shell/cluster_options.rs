//! The options of `sleeve cli --cluster`, by the commands that they belong to.

use std::ffi::OsString;

use clap::{ArgMatches, value_parser};

/// The command and its options.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterOptions {
    /// Run a command of the cluster manager: create, check, info, fix, reshard, rebalance, add-node, del-node, call, set-timeout,
    /// import, backup; `--cluster help` lists their arguments and options
    #[arg(id = "cluster", long = "cluster", value_name = "command args", num_args = 1..)]
    pub command: Vec<OsString>,
    /// The nodes' roles.
    #[command(flatten)]
    pub roles: RoleOptions,
    /// The moves of slots.
    #[command(flatten)]
    pub moves: MoveOptions,
    /// The shares of the slots.
    #[command(flatten)]
    pub rebalance: RebalanceOptions,
    /// The check and its repairs.
    #[command(flatten)]
    pub checks: CheckOptions,
    /// The source of an import.
    #[command(flatten)]
    pub import: ImportOptions,
}

/// The roles of nodes.
#[derive(Clone, Debug, clap::Args)]
pub struct RoleOptions {
    /// create: replicas of each primary
    #[arg(id = "cluster-replicas", long = "cluster-replicas", value_name = "n", default_value_t = 0)]
    pub replicas: u16,
    /// add-node: add the node as a replica (of the primary with the fewest, unless --cluster-master-id names one)
    #[arg(id = "cluster-slave", long = "cluster-slave", visible_alias = "cluster-replica")]
    pub replica: bool,
    /// add-node: the id of the new replica's primary
    #[arg(id = "cluster-master-id", long = "cluster-master-id", value_name = "id", requires = "cluster-slave")]
    pub master_id: Option<String>,
    /// call: primaries only
    #[arg(id = "cluster-only-masters", long = "cluster-only-masters")]
    pub only_masters: bool,
    /// call: replicas only
    #[arg(id = "cluster-only-replicas", long = "cluster-only-replicas", conflicts_with = "cluster-only-masters")]
    pub only_replicas: bool,
}

/// The moves of slots and keys.
#[derive(Clone, Debug, clap::Args)]
pub struct MoveOptions {
    /// reshard: ids of the nodes that give slots, with commas between them, or all; import: host:port of the source
    #[arg(id = "cluster-from", long = "cluster-from", value_name = "from")]
    pub from: Option<String>,
    /// reshard: the id of the node that receives the slots
    #[arg(id = "cluster-to", long = "cluster-to", value_name = "id")]
    pub to: Option<String>,
    /// reshard: the number of slots
    #[arg(id = "cluster-slots", long = "cluster-slots", value_name = "n", value_parser = value_parser!(u16).range(0..=16384))]
    pub slots: Option<u16>,
    /// Answer yes to the questions of the commands, except for those of fix about uncovered slots
    #[arg(id = "cluster-yes", long = "cluster-yes")]
    pub yes: bool,
    /// The timeout of MIGRATE, in milliseconds
    #[arg(id = "cluster-timeout", long = "cluster-timeout", value_name = "ms", default_value_t = 60_000)]
    pub timeout: u32,
    /// The most keys of one MIGRATE
    #[arg(id = "cluster-pipeline", long = "cluster-pipeline", value_name = "n", default_value_t = 10,
          value_parser = value_parser!(u32).range(1..))]
    pub pipeline: u32,
    /// Overwrite keys of the target that have other values
    #[arg(id = "cluster-replace", long = "cluster-replace")]
    pub replace: bool,
}

/// The shares of the slots.
#[derive(Clone, Debug, clap::Args)]
pub struct RebalanceOptions {
    /// rebalance: weights of nodes, 1 unless given; a node's id may be abbreviated
    #[arg(id = "cluster-weight", long = "cluster-weight", value_name = "id=weight", num_args = 1..,
          action = clap::ArgAction::Set)]
    pub weight: Vec<OsString>,
    /// rebalance: give slots to primaries without slots too
    #[arg(id = "cluster-use-empty-masters", long = "cluster-use-empty-masters")]
    pub use_empty_masters: bool,
    /// rebalance: print what would be moved
    #[arg(id = "cluster-simulate", long = "cluster-simulate")]
    pub simulate: bool,
    /// rebalance: move slots only if a node is further than so many percent from its share
    #[arg(id = "cluster-threshold", long = "cluster-threshold", value_name = "percent", default_value_t = 2.0)]
    pub threshold: f32,
    /// rebalance: print the balance of each node
    #[arg(id = "verbose", long = "verbose")]
    pub verbose: bool,
}

/// The check and its repairs.
#[derive(Clone, Debug, clap::Args)]
pub struct CheckOptions {
    /// check, fix: look for slots with several owners
    #[arg(id = "cluster-search-multiple-owners", long = "cluster-search-multiple-owners")]
    pub search_multiple_owners: bool,
    /// fix: repair while primaries cannot be reached; their slots are given to others
    #[arg(id = "cluster-fix-with-unreachable-masters", long = "cluster-fix-with-unreachable-masters")]
    pub fix_with_unreachable: bool,
}

/// The source of an import.
#[derive(Clone, Debug, clap::Args)]
pub struct ImportOptions {
    /// import: the user at the source
    #[arg(id = "cluster-from-user", long = "cluster-from-user", value_name = "user")]
    pub from_user: Option<String>,
    /// import: the password at the source
    #[arg(id = "cluster-from-pass", long = "cluster-from-pass", value_name = "password")]
    pub from_pass: Option<String>,
    /// import: ask for the password at the source on the terminal
    #[arg(id = "cluster-from-askpass", long = "cluster-from-askpass")]
    pub from_askpass: bool,
    /// import: keep the keys at the source
    #[arg(id = "cluster-copy", long = "cluster-copy")]
    pub copy: bool,
}

impl RebalanceOptions {
    /// Returns the words that are weights.
    pub fn weights(&self) -> impl Iterator<Item = String> {
        self.weight.iter().map(|word| word.to_string_lossy().into_owned()).take_while(|word| word.contains('='))
    }

    /// Returns the words behind the weights: those of the command, if it was given in front of them without any.
    pub fn behind_weights(&self) -> impl Iterator<Item = &OsString> {
        self.weight.iter().skip_while(|word| word.to_string_lossy().contains('='))
    }
}

/// Returns the words of the command line in an order in which those of `--cluster` follow it, or `None` if they do.
///
/// redis-cli takes them from behind the options too: `--cluster create --cluster-yes host:port …`. Elsewhere the first word that
/// is no option begins a command, and everything behind it is the command's. Words behind `--` stay there.
pub fn gather(words: &[OsString], typed: &ArgMatches) -> Option<Vec<OsString>> {
    let given = typed.get_many::<OsString>("cluster")?.len();
    let behind = typed.get_many::<OsString>("command")?.len();
    let (before, behind) = words.split_at(words.len().checked_sub(behind)?);
    if before.last().is_none_or(|word| word == "--") {
        return None;
    }
    let option =
        before.iter().position(|word| word.to_string_lossy().starts_with("--cluster=") || word == "--cluster")?;
    let is_joined = before.get(option).is_some_and(|word| word != "--cluster");
    let (before, options) = before.split_at_checked(option + 1 + given - usize::from(is_joined))?;
    let before: Vec<OsString> = match before.split_last() {
        // `--cluster=name` takes no further word, and so becomes two.
        Some((joined, before)) if is_joined => {
            let name = joined.to_string_lossy().trim_start_matches("--cluster=").into();
            [before, &["--cluster".into(), name]].concat()
        }
        _ => before.to_vec(),
    };
    let (own, rest) =
        behind.split_at(behind.iter().take_while(|word| !word.to_string_lossy().starts_with('-')).count());
    (!own.is_empty()).then(|| [&before, own, options, rest].concat())
}

#[cfg(test)]
mod tests {
    use super::super::options::ShellOptions;
    use super::*;
    use clap::{Args, Command};

    fn gathered(line: &str) -> Option<String> {
        let mut words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let mut is_changed = false;
        loop {
            let typed = ShellOptions::augment_args(Command::new("cli")).try_get_matches_from(&words).unwrap();
            match gather(&words, &typed) {
                Some(next) => words = next,
                None => break,
            }
            is_changed = true;
        }
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        is_changed.then(|| words.join(" "))
    }

    #[test]
    fn words_behind_options_belong_to_the_cluster_command() {
        for (typed, wanted) in [
            ("cli --cluster create --cluster-yes a:1 b:2 -a p", "cli --cluster create a:1 b:2 --cluster-yes -a p"),
            (
                "cli -a p --cluster create --cluster-replicas 1 a:1 b:2 --cluster-yes c:3",
                "cli -a p --cluster create a:1 b:2 c:3 --cluster-replicas 1 --cluster-yes",
            ),
            ("cli --cluster=check --verbose h:1", "cli --cluster check h:1 --verbose"),
        ] {
            assert_eq!(gathered(typed).as_deref(), Some(wanted), "{typed}");
        }
        for typed in [
            "cli --cluster check h:1 -a p",
            "cli --cluster call h:1 --cluster-only-masters -- ECHO -1",
            "cli GET --cluster",
        ] {
            assert_eq!(gathered(typed), None, "{typed}");
        }
    }

    #[test]
    fn weights_end_at_the_first_word_that_is_none() {
        use clap::FromArgMatches;
        let command = ShellOptions::augment_args(Command::new("cli").no_binary_name(true));
        let words = ["--cluster", "rebalance", "--cluster-weight", "a=1", "b=2", "h:1", "--cluster-simulate"];
        let options = ShellOptions::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap();
        let rebalance = &options.cluster.rebalance;
        assert_eq!(rebalance.weights().collect::<Vec<_>>(), ["a=1", "b=2"]);
        assert_eq!(rebalance.behind_weights().collect::<Vec<_>>(), ["h:1"]);
        assert!(rebalance.simulate && options.command.is_empty());
    }
}
