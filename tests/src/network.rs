//! Machines of a test's own, which it can cut off from each other: network namespaces on a bridge.
//!
//! A test that wants them runs itself once more in a namespace in which it has all rights ([`in_private`]). There it makes a
//! [`Network`]: so many nodes, each with its own address, all joined. [`Place::command`] starts a process on a node. Nodes
//! that are cut off reach each other and no other node, and packets to them are lost silently, as behind a broken cable.
//! Everything is gone when the test is.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::programs::on_path;

/// The variable that is set when a test runs itself in a network of its own.
const INSIDE: &str = "SLEEVE_PRIVATE_NETWORK";

/// The bridge of the nodes that the test itself reaches.
const HUB: &str = "hub";

/// The bridge of the nodes that are cut off.
const ISLAND: &str = "island";

/// The test's own address on the bridge.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// Runs a body in a network of its own: in a process that runs this one test, which is named in full. If the machine does not
/// allow that, it prints so on standard error, and runs nothing.
///
/// # Panics
/// If the test fails inside.
pub fn in_private(test: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let missing = ["unshare", "nsenter", "ip"].into_iter().find(|program| on_path(program).is_none());
    let reason = match missing {
        Some(program) => format!("{program} is missing (Debian's util-linux and iproute2 have it)"),
        None if !may_make_networks() => "this process may make no network namespaces, or no bridges in them".to_owned(),
        None => {
            let itself = std::env::current_exe().expect("the running test has a name");
            let mut again = unshare();
            again.arg(itself).args([test, "--exact", "--nocapture"]).env(INSIDE, "1").stderr(Stdio::piped());
            let mut inside = again.spawn().expect("unshare is there");
            let panic = first_panic(inside.stderr.take().expect("a pipe"));
            assert!(inside.wait().expect("it was started").success(), "{test} failed in its network: {panic}");
            return;
        }
    };
    eprintln!("skipped {test}: {reason}");
}

/// Passes on a process's standard error until it is closed, and returns the first line about a panic, with the line behind
/// it.
fn first_panic(says: impl Read) -> String {
    let mut panic = Vec::new();
    for line in BufReader::new(says).lines() {
        let line = line.expect("text");
        eprintln!("{line}");
        if panic.len() == 1 || (panic.is_empty() && line.contains(" panicked at ")) {
            panic.push(line);
        }
    }
    panic.join(" ")
}

fn may_make_networks() -> bool {
    let script = "ip link add name hub type bridge && ip link add name node type veth peer name eth0";
    unshare().args(["sh", "-c", script]).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "--fork", "--kill-child", "--"]);
    command
}

/// The place of a process: its address, and the process that keeps its namespace.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    host: Ipv4Addr,
    keeper: u32,
}

impl Place {
    /// Returns the address.
    pub fn host(self) -> Ipv4Addr {
        self.host
    }

    /// Returns a command that runs on the node; its process id is the program's own.
    pub fn command(self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.keeper)).arg("--").arg(program);
        command
    }
}

/// A node: the process that keeps its namespace for as long as packets may be sent to it.
#[derive(Debug)]
struct Node {
    place: Place,
    keeper: Child,
    _lives: ChildStdin,
}

impl Drop for Node {
    fn drop(&mut self) {
        // Both calls fail only if the process has already ended.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// Nodes that are joined by bridges.
#[derive(Debug)]
pub struct Network {
    nodes: Vec<Node>,
}

impl Network {
    /// Makes so many nodes that reach each other and the test, which runs inside.
    ///
    /// # Panics
    /// If the test does not run inside, or the kernel has no bridges.
    pub fn new(nodes: u8) -> Network {
        ip(&["link", "set", "lo", "up"]);
        for bridge in [HUB, ISLAND] {
            ip(&["link", "add", "name", bridge, "type", "bridge"]);
            ip(&["link", "set", bridge, "up"]);
        }
        ip(&["addr", "add", &format!("{HOST}/24"), "dev", HUB]);
        Network { nodes: (0..nodes).map(node).collect() }
    }

    /// Returns the place where the processes of a node run.
    pub fn place(&self, node: usize) -> Place {
        self.nodes[node].place
    }

    /// Cuts these nodes off from all others; those that were cut off before are joined again.
    pub fn cut_off(&self, nodes: &[usize]) {
        for number in 0..self.nodes.len() {
            let bridge = if nodes.contains(&number) { ISLAND } else { HUB };
            ip(&["link", "set", &link(number), "master", bridge]);
        }
    }
}

fn link(number: usize) -> String {
    format!("node{number}")
}

fn node(number: u8) -> Node {
    let mut keeper = Command::new("unshare");
    keeper.args(["--net", "--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut keeper = keeper.spawn().expect("unshare is there");
    let mut lives = keeper.stdin.take().expect("a pipe");
    // The keeper answers once it is in its namespace.
    lives.write_all(b".").expect("it reads");
    let mut answers = keeper.stdout.take().expect("a pipe");
    answers.read_exact(&mut [0]).expect("it answers");
    let place = Place { host: Ipv4Addr::new(10, 77, 0, 10 + number), keeper: keeper.id() };
    let link = link(usize::from(number));
    ip(&["link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &keeper.id().to_string()]);
    ip(&["link", "set", &link, "master", HUB]);
    ip(&["link", "set", &link, "up"]);
    for words in ["addr add HOST/24 dev eth0", "link set eth0 up", "link set lo up"] {
        let words = words.replace("HOST", &place.host.to_string());
        run(place.command("ip".as_ref()).args(words.split(' ')));
    }
    Node { place, keeper, _lives: lives }
}

fn ip(words: &[&str]) {
    run(Command::new("ip").args(words));
}

fn run(command: &mut Command) {
    let output = command.output().expect("the program is there");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
