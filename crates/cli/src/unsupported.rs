//! The options of redis-cli, redis-benchmark and Valkey's programs that `sleeve cli` and `sleeve bench` do not have, each
//! with the reason.
//!
//! If a user types one, the program says so. The option is neither guessed at nor sent to the server as a command. `--help` and
//! `docs/differences.md` list the same options.

/// An option of another program that this program does not have.
#[derive(Debug)]
pub struct Unsupported {
    /// The option, as it is typed.
    pub name: &'static str,
    /// The reason why it is missing, or its replacement.
    pub why: &'static str,
}

const fn absent(name: &'static str, why: &'static str) -> Unsupported {
    Unsupported { name, why }
}

const CLUSTER: &str = "redirections of a cluster are not followed yet";
const CIPHERS: &str = "the TLS library offers safe ciphers only, and there is nothing to choose from";
const DEBUGGER: &str = "there is no debugger for scripts; Redis has one";
const MULTIPATH: &str = "connections are plain TCP, TLS or Unix sockets";
const LIBRARY: &str = "the tests are those of --list; give the command itself for others";
const FUZZ: &str = "hostile commands are a test of the project, not of its load generator";

/// The options of redis-cli 7.0 and valkey-cli 9 that `sleeve cli` does not have.
pub static OF_CLI: &[Unsupported] = &[
    absent("--lru-test", "there is no simulation of caches; `sleeve bench` puts load on one"),
    absent("--ldb", DEBUGGER),
    absent("--ldb-sync-mode", DEBUGGER),
    absent("--tls-ciphers", CIPHERS),
    absent("--tls-ciphersuites", CIPHERS),
    absent("-t", "there is no limit for connecting but the system's"),
    absent("--mptcp", MULTIPATH),
    absent("--hotkeys-count", "--hotkeys names the 16 hottest"),
];

/// The options of redis-benchmark 7.0 and valkey-benchmark 9 that `sleeve bench` does not have.
pub static OF_BENCH: &[Unsupported] = &[
    absent("--cluster", CLUSTER),
    absent("--rfr", CLUSTER),
    absent("--tls-ciphers", CIPHERS),
    absent("--tls-ciphersuites", CIPHERS),
    absent("--sequential", "--fill writes every key of the key space once"),
    absent("--num-functions", LIBRARY),
    absent("--num-keys-in-fcall", LIBRARY),
    absent("--dataset", LIBRARY),
    absent("--maxdocs", LIBRARY),
    absent("--mptcp", MULTIPATH),
    absent("--rdma", MULTIPATH),
    absent("--fuzz", FUZZ),
    absent("--fuzz-mode", FUZZ),
    absent("--fuzz-loglevel", FUZZ),
];

/// Returns the entry of an option as it was typed, with or without `=value`.
pub fn find(table: &'static [Unsupported], typed: &str) -> Option<&'static Unsupported> {
    let name = typed.split_once('=').map_or(typed, |(name, _)| name);
    table.iter().find(|absent| absent.name == name)
}

/// Returns the text of `--help` about these options.
pub fn listing(table: &[Unsupported]) -> String {
    let names: Vec<&str> = table.iter().map(|absent| absent.name).collect();
    format!("Not there, and refused with the reason: {}.", names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stands_in_the_list_of_differences() {
        let text = include_str!("../../../docs/differences.md");
        for absent in OF_CLI.iter().chain(OF_BENCH) {
            assert!(text.contains(&format!("`{}`", absent.name)), "docs/differences.md does not name {}", absent.name);
        }
    }

    #[test]
    fn a_value_behind_the_name_is_passed_over() {
        assert!(find(OF_CLI, "--lru-test=10").is_some());
        assert!(find(OF_CLI, "--lru-testx").is_none());
    }
}
