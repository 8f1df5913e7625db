//! `sleeve cluster demo`: a cluster that works, and leaves nothing behind however its process ends.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use sleeve_tests::Connection;

use super::{SLEEVE, until};

/// A running demo, with its nodes as it has told them.
struct Demo {
    process: Child,
    lines: Option<BufReader<ChildStdout>>,
    folder: PathBuf,
    nodes: Vec<SocketAddr>,
}

impl Demo {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(SLEEVE);
        command.args(["cluster", "demo", "--port", "0"]).args(arguments);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let mut nodes = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it has ended");
            if let Some(node) = line.trim().strip_prefix("127.0.0.1:") {
                let (port, _) = node.split_once(" (process ").unwrap();
                nodes.push(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().unwrap())));
            }
            if line.starts_with("Ctrl-C") {
                break;
            }
        }
        let folder = std::env::temp_dir().join(format!("sleeve-cluster-{}", process.id()));
        Self { process, lines: Some(lines), folder, nodes }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Waits until the process has ended, and returns its exit code; no node and no file may be left.
    fn end(mut self) -> Option<i32> {
        let status = self.process.wait().unwrap();
        until("no node listens", || self.nodes.iter().all(|node| TcpStream::connect(node).is_err()));
        until("no file is left", || !self.folder.exists());
        status.code()
    }
}

#[test]
fn a_demo_is_a_cluster_and_its_nodes_end_with_it_by_a_signal() {
    let demo = Demo::start(&["6", "--replicas", "1"]);
    assert_eq!((demo.nodes.len(), demo.folder.exists()), (6, true));
    let mut connection = Connection::open(demo.nodes[0]).unwrap();
    until("a node sees the primaries and their replicas", || {
        let nodes = String::from_utf8(connection.command(&["CLUSTER", "NODES"]).unwrap()).unwrap();
        (nodes.matches("master").count(), nodes.matches("slave").count()) == (3, 3)
    });
    demo.signal(Signal::TERM);
    assert_eq!(demo.end(), Some(0));
}

#[test]
fn the_nodes_of_a_demo_end_if_it_is_killed() {
    let demo = Demo::start(&[]);
    demo.signal(Signal::KILL);
    assert_eq!(demo.end(), None);
}

#[test]
fn a_demo_ends_when_the_reader_of_its_output_leaves() {
    let mut demo = Demo::start(&[]);
    demo.lines = None;
    assert_eq!(demo.end(), Some(0));
}

#[test]
fn a_demo_with_too_few_nodes_says_how_many_it_needs() {
    let output = Command::new(SLEEVE).args(["cluster", "demo", "5", "--replicas", "1"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains("at least 6 nodes"), "{text}");
}
