//! The traced processes: builds the programs and runs them under valgrind.
//!
//! Each runs to its end before its trace is read. The memory map of a process is read while it lives, so the caller waits for
//! that before it exits. The server is killed, so that its shutdown is no part of the trace.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::samples::Plan;
use super::trace::{self, Cut, Window};
use crate::steps::{cargo, is_installed, output_of, target_folder};
use sleeve_tests::server::free_port;

/// The number of calls before the first that counts: caches are filled, buffers have their size, the connection is warm.
const WARM_UP: usize = 32;

/// The number of calls of which the middle one is shown.
pub const SEEN: usize = 33;

/// The system call that the caller makes between two calls, and nothing else makes.
const MARK: &str = "getppid";

/// The programs that are followed.
pub struct Programs {
    server: PathBuf,
    caller: PathBuf,
}

/// The trace and the memory map of a process.
pub struct Traced {
    pub program: PathBuf,
    /// Its memory map, as `/proc/PID/maps` told it.
    pub map: String,
    /// Its last calls, by their number of instructions.
    pub windows: Vec<Window>,
}

/// Checks that the programs are installed which this chore runs.
///
/// # Errors
/// The missing program, and the way to install it.
pub fn look_for_tools() -> Result<(), String> {
    for (program, package) in [("valgrind", "valgrind"), ("addr2line", "binutils")] {
        if !is_installed(program) {
            return Err(format!("{program} is missing, on Debian: apt-get install {package}"));
        }
    }
    Ok(())
}

/// Builds the server and the caller in the release profile, together, so that shared crates are built once.
///
/// # Errors
/// When they do not compile.
pub fn build() -> Result<Programs, String> {
    println!("==> building for release");
    let mut command = cargo();
    command.args(["build", "--release", "--message-format", "json-render-diagnostics"]);
    command.args(["--package", "sleeve-cli", "--bin", "sleeve"]);
    command.args(["--package", "sleeve", "--features", "sleeve/embedded", "--bench", "walk"]);
    let text = output_of(command.stderr(Stdio::inherit()))?;
    let messages = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let built: Vec<(String, PathBuf)> = messages
        .filter_map(|message| {
            Some((message["target"]["name"].as_str()?.to_owned(), message["executable"].as_str()?.into()))
        })
        .collect();
    let path = |name: &str| {
        let found = built.iter().find(|(target, _)| target == name);
        found.map(|(_, path)| path.clone()).ok_or_else(|| format!("cargo did not say where {name} is"))
    };
    Ok(Programs { server: path("sleeve")?, caller: path("walk")? })
}

/// Follows the command from a client to a server, and returns the traces of the server and of the client.
///
/// # Errors
/// A process that cannot be started or does not do its work.
pub fn over_a_socket(programs: &Programs, plan: &Plan) -> Result<[Traced; 2], String> {
    let traces = Traces::new()?;
    let port = free_port();
    let trace = traces.folder.join("server");
    let mut command = valgrind(&trace, &programs.server);
    // Under valgrind a call takes long: with ten rounds of background work a second, many would have one among them.
    command.args(["serve", "--bind", "127.0.0.1", "--workers", "1", "--hz", "1", "--port", &port.to_string()]);
    let server = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut server = Running(server.map_err(|error| format!("cannot run valgrind: {error}"))?);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if let Ok(Some(status)) = server.0.try_wait() {
            return Err(format!("the server ended with {status} before anybody could connect"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // Under valgrind, on a busy machine, the handshake takes its time.
    let client = call(programs, plan, &format!("redis://127.0.0.1:{port}?connect_timeout=600s"), &traces)?;
    let map = memory_map(&server.0)?;
    drop(server);
    let windows = read(&trace, Cut::AtRequests)?;
    Ok([Traced { program: programs.server.clone(), map, windows }, client])
}

/// Follows the command through the embedded engine.
///
/// # Errors
/// A process that cannot be started or does not do its work.
pub fn embedded(programs: &Programs, plan: &Plan) -> Result<Traced, String> {
    call(programs, plan, "embedded://", &Traces::new()?)
}

/// Runs the caller against a URL.
fn call(programs: &Programs, plan: &Plan, url: &str, traces: &Traces) -> Result<Traced, String> {
    let trace = traces.folder.join("caller");
    let mut command = valgrind(&trace, &programs.caller);
    command.arg(url).arg((WARM_UP + SEEN).to_string());
    for words in plan.before.iter().chain([&plan.command]) {
        command.arg(words.len().to_string()).args(words);
    }
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut caller = Running(spawned.map_err(|error| format!("cannot run valgrind: {error}"))?);
    let mut said = String::new();
    if let Some(output) = caller.0.stdout.take() {
        BufReader::new(output).read_line(&mut said).map_err(|error| error.to_string())?;
    }
    if said != "done\n" {
        return Err("the caller did not come to its end; what it said stands above".to_owned());
    }
    let map = memory_map(&caller.0)?;
    drop(caller);
    Ok(Traced { program: programs.caller.clone(), map, windows: read(&trace, Cut::At(MARK))? })
}

/// Returns a program under valgrind, which writes each instruction and each system call into a file.
fn valgrind(trace: &Path, program: &Path) -> Command {
    let mut log = OsStr::new("--log-file=").to_owned();
    log.push(trace);
    let mut command = Command::new("valgrind");
    command.args(["--tool=lackey", "--basic-counts=no", "--trace-mem=yes", "--trace-syscalls=yes", "--vgdb=no"]);
    command.arg(log).arg(program);
    command
}

fn memory_map(process: &Child) -> Result<String, String> {
    fs::read_to_string(format!("/proc/{}/maps", process.id())).map_err(|error| format!("no memory map: {error}"))
}

fn read(trace: &Path, cut: Cut<'_>) -> Result<Vec<Window>, String> {
    let file = File::open(trace).map_err(|error| format!("cannot open {}: {error}", trace.display()))?;
    trace::windows(BufReader::new(file), cut, SEEN)
}

/// A process that ends with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both calls fail only if the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The folder of the traces, which are large. It is removed with the drop.
struct Traces {
    folder: PathBuf,
}

impl Traces {
    fn new() -> Result<Self, String> {
        let folder = target_folder()?.join(format!("walk-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        Ok(Self { folder })
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // Files that cannot be removed stay in the target folder and harm nothing.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
