//! The table of the cluster commands, and the text of `--cluster help`.

use std::fmt::Write as _;

/// A command.
#[derive(Debug)]
pub struct Entry {
    /// The name.
    pub name: &'static str,
    /// The least number of words behind the name.
    pub words_min: usize,
    /// The greatest number of words behind the name.
    pub words_max: usize,
    /// The words, as the help text names them.
    pub words: &'static str,
    /// The options, with their values, as the help text names them.
    pub options: &'static [&'static str],
    /// Other options that have a meaning to the command.
    pub more_options: &'static [&'static str],
}

const NODE: &str = "<host:port> or <host> <port> - separated by either colon or space";

const fn entry(
    name: &'static str,
    (words_min, words_max): (usize, usize),
    words: &'static str,
    options: &'static [&'static str],
    more_options: &'static [&'static str],
) -> Entry {
    Entry { name, words_min, words_max, words, options, more_options }
}

/// All commands, in the order of the help text.
pub const COMMANDS: &[Entry] = &[
    entry("create", (2, usize::MAX), "host1:port1 ... hostN:portN", &["replicas <arg>"], &["yes"]),
    entry("check", (1, usize::MAX), NODE, &["search-multiple-owners"], &[]),
    entry("info", (1, usize::MAX), NODE, &[], &[]),
    entry(
        "fix",
        (1, usize::MAX),
        NODE,
        &["search-multiple-owners", "fix-with-unreachable-masters"],
        &["timeout", "pipeline", "replace", "yes"],
    ),
    entry(
        "reshard",
        (1, usize::MAX),
        NODE,
        &["from <arg>", "to <arg>", "slots <arg>", "yes", "timeout <arg>", "pipeline <arg>", "replace"],
        &[],
    ),
    entry(
        "rebalance",
        (1, usize::MAX),
        NODE,
        &[
            "weight <node1=w1...nodeN=wN>",
            "use-empty-masters",
            "timeout <arg>",
            "simulate",
            "pipeline <arg>",
            "threshold <arg>",
            "replace",
        ],
        &["yes"],
    ),
    entry("add-node", (2, 2), "new_host:new_port existing_host:existing_port", &["slave", "master-id <arg>"], &["yes"]),
    entry("del-node", (2, 2), "host:port node_id", &[], &["yes"]),
    entry("call", (2, usize::MAX), "host:port command arg arg .. arg", &["only-masters", "only-replicas"], &["yes"]),
    entry("set-timeout", (2, 2), "host:port milliseconds", &[], &["yes"]),
    entry(
        "import",
        (1, 1),
        "host:port",
        &["from <arg>", "from-user <arg>", "from-pass <arg>", "from-askpass", "copy", "replace"],
        &["timeout", "yes"],
    ),
    entry("backup", (2, 2), "host:port backup_directory", &[], &["yes"]),
    entry("help", (0, usize::MAX), "", &[], &[]),
];

impl Entry {
    /// Returns whether an option has a meaning to the command.
    pub fn knows(&self, option: &str) -> bool {
        let names = self.options.iter().chain(self.more_options).filter_map(|option| option.split(' ').next());
        names.into_iter().any(|name| name == option)
    }
}

/// Returns the help text.
pub fn text() -> String {
    let mut out = String::from("Cluster Manager Commands:\n");
    for entry in COMMANDS {
        // Writing to a string does not fail.
        let _ = writeln!(out, "  {:<15}{}", entry.name, entry.words);
        for option in entry.options {
            let _ = writeln!(out, "{:17}--cluster-{option}", "");
        }
    }
    out.push_str(
        "\nFor check, fix, reshard, del-node, set-timeout, info, rebalance, call, import, backup you can specify the host and \
         port of any working node in the cluster.\n\nCluster Manager Options:\n  --cluster-yes  Automatic yes to cluster commands \
         prompts\n\n",
    );
    out
}
