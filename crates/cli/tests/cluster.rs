//! `sleeve cli -c` and `sleeve cli --cluster`, beside redis-cli on clusters of Redis and Valkey.
//!
//! Commands that only look print the same to the byte. Commands that change something run on two clusters that are equal, one
//! for each program; ids and addresses are replaced by the nodes' numbers, and lines are compared without their order, because
//! a node lists the others in an order of its own.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use sleeve_tests::cluster::Cluster;
use sleeve_tests::{Kind, Server};

const SLEEVE: &str = env!("CARGO_BIN_EXE_sleeve");

/// The nodes of other projects that are there to be compared with.
const KINDS: [Kind; 2] = [Kind::Redis, Kind::Valkey];

/// The timeout of a condition that a healthy cluster reaches soon.
const PATIENCE: Duration = Duration::from_secs(30);

/// The program that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Ours,
    Theirs,
}

const BOTH: [Program; 2] = [Program::Ours, Program::Theirs];

impl Program {
    /// Runs the program with some standard input.
    fn run(self, arguments: &[&str], input: &str) -> Output {
        let mut command = match self {
            Self::Ours => Command::new(SLEEVE),
            Self::Theirs => Command::new("redis-cli"),
        };
        if self == Self::Ours {
            command.arg("cli");
        }
        command.env_remove("TERM").args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A program that has ended reads no more.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }
}

/// A program's output and exit code.
fn shown(output: &Output) -> (String, String, Option<i32>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("redis-cli", "sleeve cli");
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

/// Starts a node that knows no other.
fn lone_node(kind: Kind) -> Server {
    // The port of the bus is 10,000 above the node's, which may be taken.
    let bus = sleeve_tests::free_port().to_string();
    Server::start_with(kind, &["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", "2000"])
}

fn ask(server: &Server, words: &[&str]) -> String {
    String::from_utf8_lossy(&server.connect().command(words).unwrap()).into_owned()
}

fn until(condition: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "not in time: {condition}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Two equal clusters, one for each program.
struct Pair {
    clusters: [Vec<Server>; 2],
}

impl Pair {
    fn new(clusters: [Vec<Server>; 2]) -> Self {
        Self { clusters }
    }

    fn of(&self, program: Program) -> &[Server] {
        &self.clusters[program as usize]
    }

    /// Replaces `<n>` by the address, `<id n>` by the id, of node n.
    fn filled(&self, program: Program, words: &[&str]) -> Vec<String> {
        let names = self.names(program);
        let fill = |word: &&str| {
            names.iter().fold((*word).to_owned(), |word, (name, value)| word.replace(name.as_str(), value))
        };
        words.iter().map(fill).collect()
    }

    fn names(&self, program: Program) -> BTreeMap<String, String> {
        let mut names = BTreeMap::new();
        for (number, server) in self.of(program).iter().enumerate() {
            names.insert(format!("<{number}>"), server.address().to_string());
            let id = ask(server, &["CLUSTER", "MYID"]);
            if let Some(id) = id.lines().nth(1) {
                names.insert(format!("<id {number}>"), id.to_owned());
            }
        }
        names
    }

    /// Replaces addresses and ids in an output by names, and sorts its lines.
    fn neutral(&self, program: Program, text: &str) -> Vec<String> {
        let names = self.names(program);
        let neutral = names.iter().fold(text.to_owned(), |text, (name, value)| {
            let text = text.replace(value.as_str(), name);
            if name.starts_with("<id") { text.replace(&value[..8], &format!("{name}~")) } else { text }
        });
        let mut lines: Vec<String> = neutral.lines().map(neutral_line).collect();
        lines.sort();
        lines
    }

    /// Runs a command with both programs, and compares everything that they print. Returns our output and the exit code.
    fn compare(&self, words: &[&str], input: &str) -> (Vec<String>, Option<i32>) {
        let [ours, theirs] = BOTH.map(|program| {
            let words = self.filled(program, words);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let (out, error, code) = shown(&program.run(&words, input));
            (self.neutral(program, &out), self.neutral(program, &error), code)
        });
        assert_eq!(ours, theirs, "{words:?}");
        (ours.0, ours.2)
    }

    /// Does something to both clusters.
    fn each(&self, action: impl Fn(&[Server])) {
        BOTH.iter().for_each(|program| action(self.of(*program)));
    }

    /// Waits until all nodes of both clusters say the same and find all slots served.
    fn settle(&self) {
        self.each(|servers| {
            let first = servers[0].address().to_string();
            until("the cluster is in order", || {
                Program::Theirs.run(&["--cluster", "check", &first], "").status.success()
                    && servers.iter().all(|server| {
                        let info = ask(server, &["CLUSTER", "INFO"]);
                        info.contains("cluster_state:ok") || info.contains("cluster_known_nodes:1\r")
                    })
            });
        });
    }
}

/// Removes the dots of a wait from a line, and the order of nodes in a list of several.
fn neutral_line(line: &str) -> String {
    let line = line.trim_start_matches('.');
    match line.strip_prefix("Set as ").and_then(|rest| rest.split_once(": ")) {
        Some((state, nodes)) => {
            let mut nodes: Vec<&str> = nodes.split(',').collect();
            nodes.sort_unstable();
            format!("Set as {state}: {}", nodes.join(","))
        }
        None => line.to_owned(),
    }
}

/// Starts two clusters of three primaries, with the same keys.
fn pair_with_keys(kind: Kind) -> Pair {
    let pair = Pair::new([(); 2].map(|()| Cluster::start(kind, 3, 0, &[]).servers));
    pair.each(|servers| {
        let port = servers[0].port().to_string();
        let lines: String = (0..400).map(|number| format!("SET {{t{}}}:{number} v{number}\n", number % 40)).collect();
        let done = Program::Theirs.run(&["-c", "-p", &port], &lines);
        assert!(done.status.success(), "{done:?}");
    });
    pair
}

/// Returns the slot of the keys `{t0}:…`, and the numbers of its owner and of another node.
fn busy_slot(servers: &[Server]) -> (String, usize, usize) {
    let slot = ask(&servers[0], &["CLUSTER", "KEYSLOT", "{t0}"]).trim().trim_start_matches(':').to_owned();
    let has_keys = |server: &Server| ask(server, &["CLUSTER", "COUNTKEYSINSLOT", &slot]) != ":0\r\n";
    let owner = servers.iter().position(has_keys).unwrap();
    (slot, owner, (owner + 1) % 3)
}

fn id(server: &Server) -> String {
    ask(server, &["CLUSTER", "MYID"]).lines().nth(1).unwrap().to_owned()
}

#[test]
fn commands_that_look_at_a_cluster_print_the_same() {
    for kind in KINDS {
        let cluster = Cluster::start(kind, 3, 1, &[]);
        let (lone, plain) = (lone_node(kind), Server::start(kind));
        let address = cluster.servers[0].address().to_string();
        let (host, port) = address.split_once(':').unwrap();
        let (ids, closed) = ([0, 1].map(|number| cluster.id(number)), sleeve_tests::free_port());
        let weights = [format!("{}=2", &ids[0][..8]), format!("{}=0.5", &ids[1][..8])];
        let (lone, plain, closed) =
            (lone.address().to_string(), plain.address().to_string(), format!("127.0.0.1:{closed}"));
        let unknown = "0".repeat(40);
        for (words, input) in [
            (&["check", &address][..], ""),
            (&["check", host, port], ""),
            (&["check", &address, "--cluster-search-multiple-owners"], ""),
            (&["fix", &address], ""),
            (&["info", &address], ""),
            (&["info", &lone], ""),
            (&["check", &lone], ""),
            (&["check", &plain], ""),
            (&["check", &closed], ""),
            (&["check", "nonsense"], ""),
            (&["check"], ""),
            (&["cheque", &address], ""),
            (&["help"], ""),
            (&["call", &address, "DBSIZE"], ""),
            (&["call", &address, "ECHO", "a b", "--cluster-only-masters"], ""),
            (&["call", "--cluster-only-replicas", &address, "LRANGE", "none", "0", "1"], ""),
            (&["call", &address, "NOSUCHCOMMAND"], ""),
            (&["rebalance", &address], ""),
            (
                &[
                    "rebalance",
                    &address,
                    "--cluster-simulate",
                    "--verbose",
                    "--cluster-weight",
                    &weights[0],
                    &weights[1],
                ],
                "",
            ),
            (&["rebalance", "--cluster-weight", &weights[0], &address, "--cluster-simulate"], ""),
            (&["rebalance", &address, "--cluster-weight", "zz=1"], ""),
            (&["rebalance", &address, "--cluster-threshold", "0"], ""),
            (&["reshard", &address, "--cluster-slots", "7", "--cluster-to", &ids[0], "--cluster-from", "all"], "no\n"),
            (
                &["reshard", &address, "--cluster-slots", "7", "--cluster-to", &ids[0], "--cluster-from", &ids[1]],
                "no\n",
            ),
            (&["reshard", &address, "--cluster-slots", "7", "--cluster-to", &unknown, "--cluster-from", "all"], ""),
            (&["reshard", &address, "--cluster-slots", "7", "--cluster-to", &ids[0], "--cluster-from", &unknown], ""),
            (&["reshard", &address, "--cluster-slots", "7", "--cluster-to", &ids[0], "--cluster-from", &ids[0]], ""),
            (&["del-node", &address, &unknown], ""),
            (&["del-node", &address, &ids[1]], ""),
            (&["add-node", &address, &address], ""),
            (&["add-node", &lone, "nonsense"], ""),
            (&["add-node", &lone, &address, "--cluster-slave", "--cluster-master-id", &unknown], ""),
            (&["set-timeout", &address, "50"], ""),
            (&["import", &address], ""),
            (&["import", &address, "--cluster-from", "nonsense"], ""),
            (&["import", &address, "--cluster-from", &address], ""),
            (&["create", &lone, &plain], ""),
            (&["create", &lone, "nonsense"], ""),
            (&["create", &lone, &lone], ""),
            (&["create", &address, &lone], ""),
        ] {
            let words = [&["--cluster"][..], words].concat();
            let [ours, theirs] = BOTH.map(|program| shown(&program.run(&words, input)));
            assert_eq!(ours, theirs, "{words:?} on {kind:?}");
        }
    }
}

#[test]
fn redirections_are_followed_as_with_redis_cli() {
    for kind in KINDS {
        let pair = pair_with_keys(kind);
        let servers = pair.of(Program::Ours);
        let port = servers[0].port().to_string();
        let same = |words: &[&str], input: &str| {
            let [ours, theirs] = BOTH.map(|program| shown(&program.run(&[&["-p", &port], words].concat(), input)));
            assert_eq!(ours, theirs, "{words:?} {input:?} on {kind:?}");
            ours
        };
        for number in 0..6 {
            let key = format!("{{t{number}}}:{number}");
            same(&["-c", "GET", &key], "");
            same(&["-c", "-r", "2", "SET", &key, "x"], "");
            same(&["-c", "--no-raw", "-e", "GET", &key], "");
        }
        let lines: String =
            (0..6).map(|number| format!("GET {{t{number}}}:{number}\nSET k{number} 1\nSELECT 0\n")).collect();
        let (out, ..) = same(&["-c"], &lines);
        assert!(out.contains("-> Redirected to slot ["), "{out}");
        same(&["-c", "MGET", "a", "b"], "");
        assert!(same(&[], &lines).0.contains("MOVED "));

        let (slot, owner, other) = busy_slot(servers);
        let [from, to] = [owner, other].map(|number| id(&servers[number]));
        assert_eq!(ask(&servers[other], &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from]), "+OK\r\n");
        assert_eq!(ask(&servers[owner], &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to]), "+OK\r\n");
        let (out, ..) = same(&["-c"], "SET {t0}:new 1\nGET {t0}:0\nGET {t0}:new\n");
        assert!(out.matches("-> Redirected").count() >= 2, "{out}");
        same(&["-c", "GET", "{t0}:new"], "");
    }
}

#[test]
fn a_cluster_is_created_as_with_redis_cli() {
    for kind in KINDS {
        let pair = Pair::new([(); 2].map(|()| (0..4).map(|_| lone_node(kind)).collect()));
        let (lines, code) = pair.compare(&["--cluster", "create", "<0>", "<1>", "<2>", "<3>"], "yes\n");
        assert_eq!(code, Some(0), "{lines:#?}");
        pair.settle();

        let servers: Vec<Server> = (0..7).map(|_| lone_node(kind)).collect();
        let addresses: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
        let create = ["--cluster", "create", "--cluster-replicas", "1", "--cluster-yes"];
        let words: Vec<&str> = create.into_iter().chain(addresses.iter().map(String::as_str)).collect();
        let created = Program::Ours.run(&words, "");
        assert!(created.status.success(), "{created:?}");
        let (out, ..) = shown(&created);
        assert!(out.contains("Adding extra replicas...") && out.contains("Some slaves are in the same host"), "{out}");
        until("the check finds no fault", || {
            Program::Theirs.run(&["--cluster", "check", &addresses[3]], "").status.success()
        });
        let roles = |role: &str| servers.iter().filter(|server| ask(server, &["ROLE"]).contains(role)).count();
        until("four nodes are replicas", || (roles("master"), roles("slave")) == (3, 4));
    }
    let refused = Program::Ours.run(&["--cluster", "create", "127.0.0.1:1", "--cluster-from", "all"], "");
    assert!(!refused.status.success());
}

#[test]
fn slots_are_moved_as_with_redis_cli() {
    for kind in KINDS {
        let pair = pair_with_keys(kind);
        let reshard = ["--cluster", "reshard", "<0>", "--cluster-from", "<id 1>", "--cluster-to", "<id 0>"];
        let (lines, code) = pair.compare(&[&reshard[..], &["--cluster-slots", "3200", "--cluster-yes"]].concat(), "");
        assert!(code == Some(0) && lines.iter().any(|line| line.ends_with(": ..........")), "{lines:#?}");
        pair.settle();
        let all = ["--cluster", "reshard", "<2>", "--cluster-from", "all", "--cluster-to", "<id 1>"];
        pair.compare(&[&all[..], &["--cluster-slots", "40", "--cluster-pipeline", "3"]].concat(), "yes\n");
        pair.settle();
        pair.compare(&["--cluster", "info", "<1>"], "");
        pair.compare(&["--cluster", "rebalance", "<0>", "--cluster-weight", "<id 2>=1.1"], "");
        pair.settle();
        pair.compare(&["--cluster", "check", "<2>"], "");
        // The questions come one by one; an end of the input ends ours.
        let id = id(&pair.of(Program::Ours)[0]);
        let first = pair.of(Program::Ours)[0].address().to_string();
        let asked = Program::Ours.run(&["--cluster", "reshard", &first], &format!("0\n20\n{id}\nall\nyes\n"));
        assert!(asked.status.success(), "{asked:?}");
        let ended = Program::Ours.run(&["--cluster", "reshard", &first], "20\n");
        assert_eq!(ended.status.code(), Some(1));
        assert!(shown(&ended).1.contains("Standard input has ended"), "{ended:?}");
    }
}

#[test]
fn keys_of_the_target_are_overwritten_only_on_request() {
    let pair =
        Pair::new([(); 2].map(|()| Cluster::start(Kind::Redis, 3, 0, &["--enable-debug-command", "yes"]).servers));
    let slot =
        ask(&pair.of(Program::Ours)[0], &["CLUSTER", "KEYSLOT", "{t0}"]).trim().trim_start_matches(':').to_owned();
    let mut first = String::new();
    for servers in BOTH.map(|program| pair.of(program)) {
        let done = Program::Theirs
            .run(&["-c", "-p", &servers[0].port().to_string()], "SET {t0}:0 v\nSET {t0}:1 v\nSET {t0}:2 v\n");
        assert!(done.status.success(), "{done:?}");
        let (_, owner, other) = busy_slot(servers);
        first = format!("<{owner}>");
        for (value, key) in [("v", "{t0}:0"), ("w", "{t0}:1")] {
            assert_eq!(
                ask(&servers[other], &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(&servers[owner])]),
                "+OK\r\n"
            );
            let mut connection = servers[other].connect();
            connection.command(&["ASKING"]).unwrap();
            assert_eq!(connection.command(&["SET", key, value]).unwrap(), b"+OK\r\n");
        }
        assert_eq!(ask(&servers[owner], &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(&servers[other])]), "+OK\r\n");
    }
    let (lines, code) = pair.compare(&["--cluster", "fix", &first], "");
    assert_eq!(code, Some(1), "{lines:#?}");
    assert!(lines.iter().any(|line| line.ends_with("- {t0}:1")), "{lines:#?}");
    let (lines, code) = pair.compare(&["--cluster", "fix", &first, "--cluster-replace"], "");
    assert_eq!(code, Some(0), "{lines:#?}");
    pair.settle();
    pair.each(|servers| {
        let port = servers[0].port().to_string();
        // The owner has most keys, so the importing node's value moves there.
        assert_eq!(shown(&Program::Ours.run(&["-c", "-p", &port, "GET", "{t0}:1"], "")).0, "w\n");
    });
}

/// Opens a slot at some nodes, repairs it with both programs, and checks that no key is lost.
fn repaired(pair: &Pair, open: impl Fn(&[Server], &str), case: &str, input: &str) {
    pair.each(|servers| open(servers, &busy_slot(servers).0));
    let (lines, code) = pair.compare(&["--cluster", "fix", "<0>"], input);
    assert!(lines.iter().any(|line| line.contains(case)), "{case}: {lines:#?}");
    assert_eq!(code, Some(0), "{lines:#?}");
    pair.settle();
    let (lines, _) = pair.compare(&["--cluster", "info", "<0>"], "");
    assert!(lines.iter().any(|line| line.starts_with("[OK] 400 keys in ")), "{case}: {lines:#?}");
}

#[test]
fn interrupted_moves_are_repaired_as_with_redis_cli() {
    for kind in KINDS {
        let pair = pair_with_keys(kind);
        let set = |server: &Server, slot: &str, state: &[&str]| {
            let words = [&["CLUSTER", "SETSLOT", slot], state].concat();
            assert_eq!(ask(server, &words), "+OK\r\n", "{words:?}");
        };
        let begin = |servers: &[Server], slot: &str| {
            let (_, owner, other) = busy_slot(servers);
            set(&servers[other], slot, &["IMPORTING", &id(&servers[owner])]);
            set(&servers[owner], slot, &["MIGRATING", &id(&servers[other])]);
        };
        let go_on = |servers: &[Server], slot: &str| {
            let (_, owner, other) = busy_slot(servers);
            begin(servers, slot);
            let (host, port) = ("127.0.0.1", servers[other].port().to_string());
            assert_eq!(ask(&servers[owner], &["MIGRATE", host, &port, "{t0}:0", "0", "5000"]), "+OK\r\n");
        };
        repaired(&pair, begin, ">>> Case 1: ", "");
        repaired(&pair, go_on, ">>> No single clear owner for the slot", "");
        let import_alone = |servers: &[Server], slot: &str| {
            let (_, owner, other) = busy_slot(servers);
            set(&servers[other], slot, &["IMPORTING", &id(&servers[owner])]);
        };
        repaired(&pair, import_alone, ">>> Case 2: ", "");
        let import_twice = |servers: &[Server], slot: &str| {
            let (_, owner, other) = busy_slot(servers);
            for number in (0..3).filter(|number| *number != owner) {
                set(&servers[number], slot, &["IMPORTING", &id(&servers[owner])]);
            }
            set(&servers[owner], slot, &["MIGRATING", &id(&servers[other])]);
        };
        repaired(&pair, import_twice, ">>> Case 3: Moving", "");
        let migrate_alone = |servers: &[Server], slot: &str| {
            let (_, owner, other) = busy_slot(servers);
            set(&servers[owner], slot, &["MIGRATING", &id(&servers[other])]);
        };
        repaired(&pair, migrate_alone, ">>> Case 4: ", "");
        let lose = |servers: &[Server], slot: &str| {
            for server in servers {
                ask(server, &["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
                ask(server, &["CLUSTER", "DELSLOTS", slot]);
            }
        };
        repaired(&pair, lose, "[ERR] Not all 16384 slots are covered", "yes\n");
    }
}

#[test]
fn nodes_join_and_leave_as_with_redis_cli() {
    for kind in KINDS {
        let pair = Pair::new([(); 2].map(|()| {
            let mut servers = Cluster::start(kind, 3, 0, &[]).servers;
            servers.extend((0..2).map(|_| lone_node(kind)));
            servers
        }));
        pair.each(|servers| {
            ask(
                &servers[0],
                &["FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 1 end)"],
            );
        });
        let (_, code) = pair.compare(&["--cluster", "add-node", "<3>", "<0>"], "");
        assert_eq!(code, Some(0));
        pair.each(|servers| {
            until("the node is known", || {
                servers[..4].iter().all(|server| ask(server, &["CLUSTER", "INFO"]).contains("known_nodes:4\r"))
            });
            assert!(ask(&servers[3], &["FUNCTION", "LIST"]).contains("lib"));
        });
        pair.settle();
        let replica = ["--cluster", "add-node", "<4>", "<1>", "--cluster-slave", "--cluster-master-id", "<id 2>"];
        let (_, code) = pair.compare(&replica, "");
        assert_eq!(code, Some(0));
        pair.settle();
        pair.each(|servers| until("the node is a replica", || ask(&servers[4], &["ROLE"]).contains("slave")));
        let (_, code) = pair.compare(&["--cluster", "rebalance", "<0>", "--cluster-use-empty-masters"], "");
        assert_eq!(code, Some(0));
        pair.settle();
        assert_eq!(pair.compare(&["--cluster", "del-node", "<0>", "<id 3>"], "").1, Some(1));
        assert_eq!(pair.compare(&["--cluster", "del-node", "<0>", "<id 4>"], "").1, Some(0));
        pair.each(|servers| assert!(ask(&servers[0], &["CLUSTER", "INFO"]).contains("known_nodes:4\r")));
        let (_, code) = pair.compare(&["--cluster", "set-timeout", "<0>", "3000"], "");
        assert_eq!(code, Some(0));
    }
}

#[test]
fn the_keys_of_a_single_server_are_imported() {
    for kind in KINDS {
        let pair = Pair::new([(); 2].map(|()| {
            let mut servers = Cluster::start(kind, 3, 0, &[]).servers;
            servers.push(Server::start(kind));
            servers
        }));
        pair.each(|servers| {
            for number in 0..30 {
                ask(&servers[3], &["SET", &format!("k{number}"), "v"]);
            }
        });
        let import = ["--cluster", "import", "<0>", "--cluster-from", "<3>"];
        let (lines, code) = pair.compare(&[&import[..], &["--cluster-copy"]].concat(), "");
        assert!(code == Some(0) && lines.iter().any(|line| line == "*** Importing 30 keys from DB 0"), "{lines:#?}");
        pair.each(|servers| {
            let keys = |server| ask(server, &["DBSIZE"]).trim().trim_start_matches(':').parse::<u32>().unwrap();
            assert_eq!((servers[..3].iter().map(keys).sum::<u32>(), keys(&servers[3])), (30, 30));
        });
        // Which key is the first that the cluster has already is by chance.
        let codes = BOTH.map(|program| {
            let words = pair.filled(program, &import);
            program.run(&words.iter().map(String::as_str).collect::<Vec<_>>(), "").status.code()
        });
        assert_eq!(codes, [Some(1), Some(1)]);
        assert_eq!(pair.compare(&[&import[..], &["--cluster-replace"]].concat(), "").1, Some(0));
        pair.each(|servers| assert_eq!(ask(&servers[3], &["DBSIZE"]), ":0\r\n"));
    }
}

#[test]
fn a_backup_has_each_primarys_snapshot_and_the_configuration() {
    for kind in KINDS {
        let pair = pair_with_keys(kind);
        let folders = BOTH.map(|program| {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("backup-{kind:?}-{program:?}"));
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir(&folder).unwrap();
            let first = pair.of(program)[0].address().to_string();
            let made = program.run(&["--cluster", "backup", &first, folder.to_str().unwrap()], "");
            assert!(made.status.success(), "{made:?}");
            let (out, ..) = shown(&made);
            assert!(out.ends_with(&format!("[OK] Backup created into: {}\n", folder.display())), "{out}");
            folder
        });
        let names = |program: Program| {
            let folder = &folders[program as usize];
            let entries =
                std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let names: Vec<String> = entries.map(|name| name.replace("127.0.0.1-", "127.0.0.1:")).collect();
            pair.neutral(program, &names.join("\n"))
        };
        assert_eq!(names(Program::Ours), names(Program::Theirs));
        let json = BOTH.map(|program| {
            pair.neutral(program, &std::fs::read_to_string(folders[program as usize].join("nodes.json")).unwrap())
                .into_iter()
                .filter(|line| !line.contains("\"port\""))
                .map(|line| line.trim_end_matches(',').to_owned())
                .collect::<Vec<_>>()
        });
        assert_eq!(json[0], json[1]);
        let mut keys = 0;
        for entry in std::fs::read_dir(&folders[0]).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.extension().is_some_and(|extension| extension == "rdb") {
                let checked = Command::new(SLEEVE).args(["check", "rdb"]).arg(&entry).output().unwrap();
                assert!(checked.status.success(), "{checked:?}");
                let text = shown(&checked).0;
                let line =
                    text.lines().find(|line| line.contains("with a deadline")).unwrap_or_else(|| panic!("{text}"));
                let words: Vec<&str> = line.split_whitespace().collect();
                let at = words.iter().position(|word| word.starts_with("key")).unwrap();
                keys += words[at - 1].parse::<u32>().unwrap();
            }
        }
        assert_eq!(keys, 400);
        let missing = Program::Ours
            .run(&["--cluster", "backup", &pair.of(Program::Ours)[0].address().to_string(), "/nonexistent"], "");
        assert_eq!(missing.status.code(), Some(1));
        folders.iter().for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
    }
}

#[test]
fn options_that_a_cluster_command_ignores_are_refused() {
    for (words, named) in [
        (&["--cluster", "check", "h:1", "--cluster-copy"][..], "--cluster-copy means nothing to check"),
        (&["--cluster", "info", "h:1", "-p", "7000"], "-p means nothing to --cluster"),
        (&["--cluster", "reshard", "h:1", "--cluster-slots", "16385"], "16385"),
        (&["-c", "--scan"], "-c means nothing to --scan"),
    ] {
        let refused = Program::Ours.run(words, "");
        assert_eq!(refused.status.code(), Some(1));
        assert!(shown(&refused).1.contains(named), "{refused:?}");
    }
}
