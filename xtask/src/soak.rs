//! `soak`: tests that take minutes or hours, for a change in their area and before a release.
//!
//! A soak is an ordinary test with another size. `cargo xtask test` runs its short form; here it gets the size from the
//! environment ([`sleeve_tests::soak`]) and a seed of its own, which is printed so that a failing run can be repeated. Each
//! is one row of [`SOAKS`]. They run one after the other, because several are about the way in which the machine is shared.

use std::time::{SystemTime, UNIX_EPOCH};

use sleeve_tests::soak::{COUNT, MINUTES};

use crate::steps::{Count, Steps, build_sleeve, run_tests};
use crate::verify::{PROFILE, tests};

/// A test in its long form.
struct Soak {
    name: &'static str,
    /// The property that the test shows when it passes.
    shows: &'static str,
    /// The words for `cargo test`, behind those for the profile: which package, which test program, which test.
    test: &'static [&'static str],
    /// The default length.
    size: Size,
    /// Other variables that the test reads from its environment.
    env: &'static [(&'static str, &'static str)],
}

/// The unit in which the length of a soak is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    /// Minutes of work, for each of the configurations that the test goes through.
    Minutes(u64),
    /// Units of the test's work: commands, histories, dumps.
    Count(u64),
}

const SOAKS: &[Soak] = &[
    Soak {
        name: "differential",
        shows: "random commands get the same replies from one worker, two workers and Redis or Valkey",
        test: &["--package", "sleeve-tests", "--test", "outside", "commands::differential::sleeve_agrees"],
        size: Size::Count(5_000_000),
        env: &[],
    },
    Soak {
        name: "rows",
        shows: "every row of the command table runs where other shards are locked, with so many choices of words",
        test: &["--package", "sleeve-tests", "--test", "outside", "concurrency::workers::rows::"],
        size: Size::Count(20),
        env: &[],
    },
    Soak {
        name: "waiting",
        shows: "clients that wait are answered once, nothing is lost or doubled and no worker spins; 1, 2 and 4 workers",
        test: &["--package", "sleeve-tests", "--test", "outside", "concurrency::workers::waiting::blocked_clients"],
        size: Size::Minutes(10),
        env: &[],
    },
    Soak {
        name: "linearizable",
        shows: "what clients see that work at the same time has an order in which one server would have answered it",
        test: &["--package", "sleeve-tests", "--test", "outside", "concurrency::linearizable::"],
        size: Size::Minutes(10),
        env: &[],
    },
    Soak {
        name: "replica-history",
        shows: "what is read on a replica of a Sleeve and of a Redis 7 is a prefix of its primary's order and never goes back",
        test: &["--package", "sleeve-tests", "--test", "outside", "replication::history::"],
        size: Size::Minutes(10),
        env: &[],
    },
    Soak {
        name: "acl",
        shows: "random rules of a user allow and refuse the same random commands as in Redis",
        test: &["--package", "sleeve-tests", "--test", "outside", "commands::permissions::random_rules"],
        size: Size::Count(200_000),
        env: &[],
    },
    Soak {
        name: "hostile-commands",
        shows: "a million commands with hostile arguments leave 1, 2 and 4 workers alive, idle and in order",
        test: &["--package", "sleeve-tests", "--test", "outside", "attack::hostile::"],
        size: Size::Count(1_000_000),
        env: &[],
    },
    Soak {
        name: "dumps",
        shows: "tampered dumps with the right sum are refused, or bear every command of their type",
        test: &["--package", "sleeve-tests", "--test", "outside", "attack::dumps::"],
        size: Size::Count(100_000),
        env: &[],
    },
    Soak {
        name: "salvage",
        shows: "every record outside of the damage is saved from so many snapshots of each server, damaged at random",
        test: &["--package", "sleeve-cli", "--test", "outside", "salvage::every_record"],
        size: Size::Count(20_000),
        env: &[],
    },
    Soak {
        name: "soak",
        shows: "memory and the slowest of 1,000 replies stay as they are under a mixed load with one worker and two",
        test: &["--package", "sleeve-tests", "--test", "outside", "concurrency::endurance::a_long_day"],
        size: Size::Minutes(10),
        env: &[],
    },
    Soak {
        name: "crowd",
        shows: "the same under each driver, beside 10,000 connections, large values and slow readers",
        test: &["--package", "sleeve-tests", "--test", "outside", "concurrency::endurance::a_crowd"],
        size: Size::Minutes(30),
        env: &[],
    },
    Soak {
        name: "cluster",
        shows: "so many times three slots of a real cluster move under load, with every reply looked at",
        test: &["--package", "sleeve-tests", "--test", "outside", "cluster::a_resharding_under_load"],
        size: Size::Count(200),
        env: &[],
    },
    Soak {
        name: "sentinel",
        shows: "three servers under Sentinels are failed over so often, by kills and stops, and no write is lost that a replica has",
        test: &["--package", "sleeve-tests", "--test", "outside", "sentinel::failovers::no_write"],
        size: Size::Count(50),
        env: &[],
    },
    Soak {
        name: "partitions",
        shows: "the primary is cut off so often, alone or with a replica, and no write is lost that enough replicas have",
        test: &["--package", "sleeve-tests", "--test", "outside", "sentinel::partitions::no_write"],
        size: Size::Count(50),
        env: &[],
    },
    Soak {
        name: "doctor",
        shows: "the doctor names each of twelve planted causes against Sleeve and Redis, and leaves a healthy program in peace",
        test: &["--package", "sleeve-tests", "--test", "outside", "process::doctor::", "--", "--ignored"],
        size: Size::Count(1),
        env: &[("RUST_TEST_THREADS", "1")],
    },
    Soak {
        name: "cluster-partitions",
        shows: "a primary of a real cluster, or a whole shard, is cut off so often, and no write is lost that a replica has",
        test: &["--package", "sleeve-tests", "--test", "outside", "cluster::partitions::nothing_is_lost"],
        size: Size::Count(30),
        env: &[],
    },
    Soak {
        name: "cluster-failovers",
        shows: "so many primaries are killed, and a Sleeve replaces them as soon as a Redis does; other callers wait no longer",
        test: &["--package", "sleeve-tests", "--test", "outside", "cluster::failover_times::"],
        size: Size::Count(50),
        env: &[],
    },
    Soak {
        name: "cluster-three-kinds",
        shows: "so often nodes of three kinds in one cluster are killed and hand shards over, and nothing acknowledged is lost",
        test: &["--package", "sleeve-tests", "--test", "outside", "cluster::mixed::redis_7"],
        size: Size::Count(20),
        env: &[],
    },
    Soak {
        name: "cluster-mixed",
        shows: "Sleeves and each other kind kill, replace and hand over to each other in all directions, so often",
        test: &["--package", "sleeve-tests", "--test", "outside", "cluster::mixed::each_other_kind", "--", "--ignored"],
        size: Size::Count(3),
        env: &[],
    },
    Soak {
        name: "cluster-rolling",
        shows: "a cluster of each other kind is replaced by Sleeves node by node under load, and back, so often",
        test: &["--package", "sleeve-tests", "--test", "outside", "cluster::mixed::a_cluster", "--", "--ignored"],
        size: Size::Count(3),
        env: &[],
    },
    Soak {
        name: "slow-replica",
        shows: "a replica that gets a tenth of what is written catches up with no second synchronization and little memory",
        test: &["--package", "sleeve-tests", "--test", "outside", "replication::primary::slow::a_replica_at_a_tenth"],
        size: Size::Minutes(10),
        env: &[],
    },
    Soak {
        name: "replication",
        shows: "so many lives of primaries, replicas and chains, with cuts, deaths and changes of roles, lose nothing acknowledged",
        test: &["--package", "sleeve-server", "--lib", "simulation::"],
        size: Size::Count(10_000),
        env: &[],
    },
    Soak {
        name: "cluster-simulation",
        shows: "so many clusters of 3 to 9 nodes keep their promises through cuts, crashes and moves of slots, and heal",
        test: &["--package", "sleeve-cluster", "--lib", "simulation::chaos::", "--", "--include-ignored"],
        size: Size::Count(10_000),
        env: &[],
    },
    Soak {
        name: "snapshots",
        shows: "a snapshot is what the store was at its instant, whatever changes meanwhile; so many runs for each type",
        test: &["--package", "sleeve-store", "--test", "outside", "snapshot::"],
        size: Size::Count(500),
        env: &[],
    },
    Soak {
        name: "point-in-time",
        shows: "so many snapshots of an engine that is written to hold what its journal says of their instants, also on slow disks",
        test: &["--package", "sleeve-tests", "--test", "outside", "persistence::point_in_time::"],
        size: Size::Count(1_000),
        env: &[],
    },
    Soak {
        name: "removal",
        shows: "an AOF of so many times 64 MiB is removed by a rewrite, and no request takes longer than 5 ms; wants a quiet machine",
        test: &["--package", "sleeve-tests", "--test", "outside", "persistence::removal::"],
        size: Size::Count(64),
        env: &[],
    },
    Soak {
        name: "kill-nine",
        shows: "what was acknowledged or read is there after so many kills, for each appendfsync; 1, 2 and 4 workers",
        test: &["--package", "sleeve-tests", "--test", "outside", "after_kill_9"],
        size: Size::Count(200),
        env: &[],
    },
    Soak {
        name: "log-cuts",
        shows: "the log keeps what was promised, whole and once, over so many cuts of the power and deaths of the process",
        test: &["--package", "sleeve-disk", "--test", "outside", "simulation::"],
        size: Size::Count(10_000),
        env: &[],
    },
    Soak {
        name: "client-forks",
        shows: "forked children leave their parent's connections alone, and clients of their own work whole",
        test: &["--package", "sleeve", "--test", "outside", "forks::"],
        size: Size::Count(1_000),
        env: &[],
    },
    Soak {
        name: "client-silence",
        shows: "callers of a server that stops and comes back all hear something in time, beside wakers that panic",
        test: &["--package", "sleeve", "--test", "outside", "worst::"],
        size: Size::Count(500),
        env: &[],
    },
    Soak {
        name: "client-abandoned",
        shows: "of so many calls that are let go in every phase, over one server and a cluster, nobody hears another's answer",
        test: &["--package", "sleeve", "--test", "outside", "abandoned::"],
        size: Size::Count(1_000_000),
        env: &[],
    },
    Soak {
        name: "client-runtime",
        shows: "of so many calls of tasks that are let go while their runtime reads, none gets the answer of another",
        test: &["--package", "sleeve", "--features", "tokio", "--test", "outside", "runtime::tasks_that_are_cancelled"],
        size: Size::Count(1_000_000),
        env: &[],
    },
    Soak {
        name: "client",
        shows: "so many lives of callers, connections and servers that fail: each reply is its call's, no cached one is too old",
        test: &["--package", "sleeve", "--lib", "simulation::each_reply"],
        size: Size::Count(10_000),
        env: &[],
    },
    Soak {
        name: "near-moves",
        shows: "so many times a slot of a real cluster moves under a reader with a near cache, who never sees it go back",
        test: &["--package", "sleeve-tests", "--test", "outside", "cluster::near_cache::a_slot_that_moves"],
        size: Size::Count(100),
        env: &[],
    },
    Soak {
        name: "scripts",
        shows: "random programs in Lua that are written to do harm end or are ended, and the server lives",
        test: &["--package", "sleeve-tests", "--test", "outside", "attack::hostile_scripts::random_programs"],
        size: Size::Count(50_000),
        env: &[],
    },
    Soak {
        name: "lua-libraries",
        shows: "the functions of Lua's libraries that are our own answer as those of Redis do",
        test: &["--package", "sleeve-tests", "--test", "outside", "attack::hostile_scripts::libraries"],
        size: Size::Count(500_000),
        env: &[],
    },
];

/// The soaks to run, and their length.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The soaks to run, or `all`; without a name they are listed
    names: Vec<String>,
    /// How long those run that are measured in minutes, for each of the configurations that they go through
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: Option<u64>,
    /// The length of soaks that are measured by their work
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  cargo xtask soak                                   the list
  cargo xtask soak linearizable                      one, as long as it is meant to be
  cargo xtask soak linearizable --minutes 60         an hour for each number of workers
  cargo xtask soak all                               all of them: some hours
  SLEEVE_SEED=7 cargo xtask soak differential        with the seed that a run has printed
";

/// Runs the soaks that the options name.
///
/// # Errors
/// A name or a size that fits no soak; an empty text when a test failed.
pub fn run(options: &Options) -> Result<(), String> {
    if options.names.is_empty() {
        SOAKS.iter().for_each(|soak| println!("{:<16} {:<20} {}", soak.name, describe(soak.size), soak.shows));
        println!("\ncargo xtask soak NAME runs one, cargo xtask soak all runs all of them.");
        return Ok(());
    }
    let chosen = choose(options)?;
    let seed = std::env::var("SLEEVE_SEED").unwrap_or_else(|_| fresh_seed().to_string());
    println!("seed {seed}: to repeat this run, set SLEEVE_SEED={seed}");
    let sleeve = build_sleeve(PROFILE)?;
    let mut steps = Steps::default();
    for (soak, size) in chosen {
        steps.step(&format!("soak {}, {}", soak.name, describe(size)), || {
            let mut command = tests(soak.test);
            command.args(["--", "--nocapture"]).env("SLEEVE_BIN", &sleeve).env("SLEEVE_SEED", &seed);
            match size {
                Size::Minutes(minutes) => command.env(MINUTES, minutes.to_string()),
                Size::Count(count) => command.env(COUNT, count.to_string()),
            };
            let count = run_tests(command.envs(soak.env.iter().copied()))?;
            if count == Count::default() {
                return Err(format!("no test has this name: cargo test {}", soak.test.join(" ")));
            }
            Ok(count)
        });
    }
    steps.close()
}

/// Returns the soaks that the options name, each with its size.
fn choose(options: &Options) -> Result<Vec<(&'static Soak, Size)>, String> {
    let is_all = options.names.iter().any(|name| name == "all");
    if let Some(name) = options.names.iter().find(|&name| name != "all" && SOAKS.iter().all(|soak| soak.name != name)) {
        let names: Vec<&str> = SOAKS.iter().map(|soak| soak.name).collect();
        return Err(format!("there is no soak '{name}'; there are {}, and all", names.join(", ")));
    }
    let chosen = SOAKS.iter().filter(|soak| is_all || options.names.iter().any(|name| name == soak.name));
    let chosen: Vec<_> = chosen.map(|soak| (soak, sized(soak.size, options))).collect();
    if options.minutes.is_some() && !chosen.iter().any(|(_, size)| matches!(size, Size::Minutes(_))) {
        return Err("what is named here is measured by --count, not by --minutes".to_owned());
    }
    if options.count.is_some() && !chosen.iter().any(|(_, size)| matches!(size, Size::Count(_))) {
        return Err("what is named here is measured by --minutes, not by --count".to_owned());
    }
    Ok(chosen)
}

fn sized(size: Size, options: &Options) -> Size {
    match size {
        Size::Minutes(minutes) => Size::Minutes(options.minutes.unwrap_or(minutes)),
        Size::Count(count) => Size::Count(options.count.unwrap_or(count)),
    }
}

fn describe(size: Size) -> String {
    match size {
        Size::Minutes(minutes) => format!("--minutes {minutes}"),
        Size::Count(count) => format!("--count {count}"),
    }
}

fn fresh_seed() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_millis())
}

#[cfg(test)]
mod tests {
    use super::{Options, SOAKS, Size, choose};

    fn options(names: &[&str], minutes: Option<u64>, count: Option<u64>) -> Options {
        Options { names: names.iter().map(|&name| name.to_owned()).collect(), minutes, count }
    }

    #[test]
    fn each_soak_has_a_name_of_its_own() {
        for (index, soak) in SOAKS.iter().enumerate() {
            assert!(soak.name != "all" && SOAKS[..index].iter().all(|other| other.name != soak.name), "{}", soak.name);
        }
    }

    #[test]
    fn a_size_is_for_those_that_are_measured_by_it() {
        let chosen = choose(&options(&["linearizable"], Some(7), None)).map(|chosen| chosen[0].1);
        assert_eq!(chosen, Ok(Size::Minutes(7)));
        assert!(choose(&options(&["linearizable"], None, Some(7))).is_err());
        assert!(choose(&options(&["none"], None, None)).is_err_and(|reason| reason.contains("linearizable")));
        assert_eq!(choose(&options(&["all"], None, None)).map(|chosen| chosen.len()), Ok(SOAKS.len()));
    }
}
