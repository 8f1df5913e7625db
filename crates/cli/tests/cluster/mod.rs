//! `sleeve cli -c` and `sleeve cli --cluster`, beside redis-cli on clusters of Redis and Valkey.
//!
//! Commands that only look print the same to the byte. Commands that change something run on two clusters that are equal, one
//! for each program; ids and addresses are replaced by the nodes' numbers, and lines are compared without their order, because
//! a node lists the others in an order of its own.

mod demo;
mod look;
mod moves;
mod nodes;

use std::collections::BTreeMap;
use std::io::Write;
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
