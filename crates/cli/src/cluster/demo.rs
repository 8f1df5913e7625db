//! `sleeve cluster demo`: a cluster on this machine, for trying one out.
//!
//! Each node is a process of this program, with a folder of its own and one worker. A node's standard input is a pipe from the
//! demo; its end says that the demo has ended, in any way, and then the node removes its folder and ends too. So neither
//! processes nor files are left behind, even if the demo is killed. `sleeve cli --cluster create` forms the cluster.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;

use super::node::BUS_DISTANCE;
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::{output, serve};

/// The least primaries of a cluster: a majority of them has to outlive one.
const PRIMARIES_MIN: u16 = 3;
/// The pause between two looks at the nodes.
const LOOK: Duration = Duration::from_millis(50);
/// The time that nodes get to end by themselves.
const END: Duration = Duration::from_secs(10);

/// The name of a node's log in its folder.
const LOG: &str = "log";

const EXAMPLES: &str = "\
Examples:
  sleeve cluster demo
  sleeve cluster demo 6 --replicas 1
  sleeve cluster demo 3 --port 30000
";

/// Clusters on this machine
#[derive(Clone, Debug, clap::Args)]
pub struct ClusterOptions {
    /// The command.
    #[command(subcommand)]
    pub command: ClusterCommand,
}

/// The commands about clusters on this machine.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum ClusterCommand {
    Demo(DemoOptions),
    Node(NodeOptions),
}

/// Starts the nodes of a cluster on this machine, until Ctrl-C
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DemoOptions {
    /// Number of nodes, replicas included
    #[arg(value_name = "nodes", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub nodes: u16,
    /// Replicas of each primary
    #[arg(long, value_name = "number", default_value_t = 0)]
    pub replicas: u16,
    /// Port of the first node, the others following; 0 for ports that are free
    #[arg(long, value_name = "port", default_value_t = 7000)]
    pub port: u16,
}

/// Serves as a node of a demo, until standard input ends
#[derive(Clone, Debug, clap::Args)]
#[command(hide = true)]
pub struct NodeOptions {
    /// The node's folder, which it removes
    pub folder: PathBuf,
    /// The server's options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Runs the command that the options name.
pub fn run(options: &ClusterOptions) -> ExitCode {
    match &options.command {
        ClusterCommand::Node(options) => node(options),
        ClusterCommand::Demo(options) => show(options).unwrap_or_else(|text| {
            eprintln!("{text}");
            ExitCode::FAILURE
        }),
    }
}

/// Serves as a node of a demo.
fn node(options: &NodeOptions) -> ExitCode {
    let folder = options.folder.clone();
    std::thread::spawn(move || {
        // Nothing is ever written; the pipe ends with the demo.
        _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        remove(&folder);
        // The last node takes the folder of the demo too, unless the demo does it.
        _ = folder.parent().map(std::fs::remove_dir);
        std::process::exit(0);
    });
    serve::run_words(options.arguments.clone())
}

/// Removes a folder in which a server may still write a file.
fn remove(folder: &Path) {
    for _ in 0..10 {
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {}
            _ => break,
        }
    }
}

/// Starts the nodes, forms the cluster, tells how to use it, and waits for the end.
fn show(options: &DemoOptions) -> Result<ExitCode, String> {
    let primaries = options.nodes / (options.replicas + 1);
    if primaries < PRIMARIES_MIN {
        return Err(format!(
            "A cluster needs at least {PRIMARIES_MIN} primaries: with {} replicas of each, at least {} nodes.",
            options.replicas,
            u32::from(PRIMARIES_MIN) * (u32::from(options.replicas) + 1)
        ));
    }
    let interrupt = Interrupt::watch_end().map_err(|error| error.to_string())?;
    let mut demo = Demo::start(&ports(options)?)?;
    let is_up = demo.wait_until(&interrupt, |node| node.connect().is_ok())?
        && demo.form(options.replicas, &interrupt)?
        && demo.wait_until(&interrupt, DemoNode::serves)?;
    if !is_up {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    demo.explain(primaries);
    demo.watch(&interrupt);
    Ok(ExitCode::SUCCESS)
}

/// The ports of a node.
#[derive(Clone, Copy, Debug)]
struct Ports {
    clients: u16,
    bus: u16,
}

/// Returns the ports of all nodes. They are free at this moment.
fn ports(options: &DemoOptions) -> Result<Vec<Ports>, String> {
    // All are held until the last is found, so that none is found twice.
    let mut held = Vec::new();
    let mut take = |port: u16| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|error| format!("Port {port} cannot be used ({error}); --port names another first port."))?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        held.push(listener);
        Ok::<u16, String>(port)
    };
    let numbers = 0..options.nodes;
    if options.port == 0 {
        return numbers.map(|_| Ok(Ports { clients: take(0)?, bus: take(0)? })).collect();
    }
    let port = |number: u16| {
        let clients = options.port.checked_add(number)?;
        Some((clients, clients.checked_add(BUS_DISTANCE)?))
    };
    numbers
        .map(|number| {
            let (clients, bus) = port(number).ok_or_else(|| {
                format!("The port of the bus is {BUS_DISTANCE} above that of a node, so --port has to be lower.")
            })?;
            Ok(Ports { clients: take(clients)?, bus: take(bus)? })
        })
        .collect()
}

/// A running node.
#[derive(Debug)]
struct DemoNode {
    ports: Ports,
    folder: PathBuf,
    /// The process; none if it has ended and that was told.
    process: Option<Child>,
}

/// The running nodes. When this is dropped, they end.
#[derive(Debug)]
struct Demo {
    folder: PathBuf,
    program: PathBuf,
    nodes: Vec<DemoNode>,
}

impl Demo {
    fn start(ports: &[Ports]) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let folder = std::env::temp_dir().join(format!("sleeve-cluster-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut demo = Self { folder, program, nodes: Vec::with_capacity(ports.len()) };
        for &ports in ports {
            let started = demo.start_node(ports).map_err(|error| format!("A node does not start: {error}"))?;
            demo.nodes.push(started);
        }
        Ok(demo)
    }

    fn start_node(&self, ports: Ports) -> io::Result<DemoNode> {
        let folder = self.folder.join(ports.clients.to_string());
        std::fs::create_dir(&folder)?;
        let (port, bus) = (ports.clients.to_string(), ports.bus.to_string());
        let process = Command::new(&self.program)
            .args(["cluster", "node"])
            .arg(&folder)
            .args(["--bind", "127.0.0.1", "--port", &port, "--cluster-port", &bus, "--workers", "1"])
            .args(["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--save", ""])
            .arg("--dir")
            .arg(&folder)
            .arg("--logfile")
            .arg(folder.join(LOG))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C is for the demo, which ends the nodes.
            .process_group(0)
            .spawn()?;
        Ok(DemoNode { ports, folder, process: Some(process) })
    }

    /// Waits until all nodes are ready. Returns false if a signal came first.
    fn wait_until(&mut self, interrupt: &Interrupt, is_ready: impl Fn(&DemoNode) -> bool) -> Result<bool, String> {
        for node in &mut self.nodes {
            while !is_ready(node) {
                if node.has_ended() {
                    let log = std::fs::read_to_string(node.folder.join(LOG)).unwrap_or_default();
                    return Err(format!("The node with port {} has ended.\n{log}", node.ports.clients));
                }
                if !interrupt.sleep(LOOK) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Forms the cluster. Returns false if a signal came first.
    fn form(&self, replicas: u16, interrupt: &Interrupt) -> Result<bool, String> {
        let address = |node: &DemoNode| format!("127.0.0.1:{}@{}", node.ports.clients, node.ports.bus);
        let formed = Command::new(&self.program)
            .args(["cli", "--cluster", "create"])
            .args(self.nodes.iter().map(address))
            .args(["--cluster-replicas", &replicas.to_string(), "--cluster-yes"])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| error.to_string())?;
        if interrupt.is_heard() {
            return Ok(false);
        }
        if formed.status.success() {
            return Ok(true);
        }
        let [said, faults] = [&formed.stdout, &formed.stderr].map(|text| String::from_utf8_lossy(text));
        Err(format!("The nodes do not form a cluster.\n{said}{faults}"))
    }

    /// Prints the addresses, and how to use them.
    fn explain(&self, primaries: u16) {
        let replicas = self.nodes.len() - usize::from(primaries);
        output::line(format_args!(
            "A cluster of {primaries} primaries and {replicas} replicas runs on this machine, with its data in memory only:\n"
        ));
        for node in &self.nodes {
            output::line(format_args!("  127.0.0.1:{} (process {})", node.ports.clients, node.process_id()));
        }
        let failover = match replicas {
            0 => "",
            _ => "\nTry a failover:  end the process of a primary",
        };
        let port = self.nodes.first().map_or(0, |node| node.ports.clients);
        output::line(format_args!(
            "\nTalk to it:      sleeve cli -c -p {port}\nLook at it:      sleeve cli --cluster check 127.0.0.1:{port}\n\
             In a program:    redis+cluster://127.0.0.1:{port}{failover}\n\nCtrl-C ends all nodes and removes their data."
        ));
        output::flush();
    }

    /// Waits until a signal comes, the reader of standard output leaves, or all nodes have ended.
    fn watch(&mut self, interrupt: &Interrupt) {
        let (stdout, pause) = (io::stdout(), Timespec::try_from(LOOK * 10).ok());
        while !interrupt.is_heard() && self.nodes.iter().any(|node| node.process.is_some()) {
            let mut descriptors = [PollFd::new(&stdout, PollFlags::empty()), PollFd::new(interrupt, PollFlags::IN)];
            // The loop looks again, however the wait ended.
            _ = poll(&mut descriptors, pause.as_ref());
            if descriptors[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
                return;
            }
            for node in &mut self.nodes {
                if node.process.is_some() && node.has_ended() {
                    eprintln!("The node with port {} has ended.", node.ports.clients);
                    node.process = None;
                }
            }
        }
    }
}

impl DemoNode {
    fn connect(&self) -> io::Result<TcpStream> {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.ports.clients))
    }

    /// Returns whether the node sees a cluster that serves all slots.
    fn serves(&self) -> bool {
        let mut info = [0; 1024];
        let read = self.connect().and_then(|mut socket| {
            socket.write_all(b"CLUSTER INFO\r\n")?;
            socket.read(&mut info)
        });
        read.is_ok_and(|length| String::from_utf8_lossy(&info[..length]).contains("cluster_state:ok"))
    }

    fn has_ended(&mut self) -> bool {
        self.process.as_mut().is_none_or(|process| matches!(process.try_wait(), Ok(Some(_)) | Err(_)))
    }

    fn process_id(&self) -> u32 {
        self.process.as_ref().map_or(0, Child::id)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            drop(node.process.as_mut().and_then(|process| process.stdin.take()));
        }
        let since = Instant::now();
        for node in &mut self.nodes {
            while !node.has_ended() {
                if since.elapsed() > END {
                    // It may have ended in the meantime.
                    _ = node.process.as_mut().map(Child::kill);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        remove(&self.folder);
    }
}
