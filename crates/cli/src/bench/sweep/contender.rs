//! A server that takes part: one that runs already, or a process that is started for the sweep and ended with it.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::bench::affinity;
use crate::bench::meter::Meter;
use crate::endpoint::address::{TlsOptions, resolve_url};
use crate::endpoint::{Endpoint, Login, cannot_connect, encode, exchange};

/// The placeholder for the port in a command line.
const PORT: &str = "{port}";

/// The longest time that a server may take until it answers PING.
const START_MAX: Duration = Duration::from_secs(10);

/// The interval between two attempts to PING it.
const LOOK: Duration = Duration::from_millis(20);

/// A server, its name in the report, and the meter of its CPU time.
#[derive(Debug)]
pub struct Contender {
    /// The name.
    pub name: String,
    /// The address of the server.
    pub endpoint: Endpoint,
    /// The login that each connection sends first.
    pub login: Login,
    /// The meter; `None` if the server is not on this machine.
    pub meter: Option<Meter>,
    /// True if the sweep has started the server, so that it may change the server's data.
    pub is_ours: bool,
    /// The URL or command line.
    pub words: String,
    /// The process, if the sweep has started it. It is dropped last.
    _process: Option<Process>,
}

/// A process and its folder; dropping this value ends the process and removes the folder.
#[derive(Debug)]
struct Process {
    child: Child,
    folder: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Contender {
    /// Connects to the server that `name=what` names by a URL, or starts it by a command line.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn start(words: &str, cpus: Option<&str>) -> Result<Self, String> {
        let (name, what) = words
            .split_once('=')
            .filter(|(name, what)| !name.trim().is_empty() && !what.trim().is_empty())
            .ok_or_else(|| format!("'{words}' is no server: give name=URL or name=COMMAND"))?;
        let is_url = what.split_whitespace().count() == 1 && what.contains("://");
        let (endpoint, login, process) = if is_url {
            let (endpoint, login) = resolve_url(what, &TlsOptions::default())?;
            (endpoint, login, None)
        } else {
            let (process, port) = launch(name, what, cpus)?;
            (Endpoint::Tcp { host: "127.0.0.1".into(), port }, Login::default(), Some(process))
        };
        let meter = Meter::find(&endpoint, &login).map_err(|error| cannot_connect(&endpoint, &error))?;
        let is_ours = process.is_some();
        let words = what.trim().to_owned();
        Ok(Self { name: name.trim().to_owned(), endpoint, login, meter, is_ours, words, _process: process })
    }

    /// Sends one command and takes its reply.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn ask(&self, words: &[&str]) -> Result<Vec<u8>, String> {
        let mut request = Vec::new();
        encode(words, &mut request);
        let stream = self.login.connect(&self.endpoint).map_err(|error| cannot_connect(&self.endpoint, &error))?;
        exchange(&stream, &request, 1).map_err(|error| format!("{}: {}: {error}", self.name, words.join(" ")))
    }

    /// Returns the name and the version that the server reports, as `valkey 9.1.2`; empty if it does not report them.
    pub fn version(&self) -> String {
        let info = self.ask(&["INFO", "server"]).unwrap_or_default();
        let info = String::from_utf8_lossy(&info).into_owned();
        let field = |name: &str| info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
        let of = |name: &str| field(&format!("{name}_version")).map(|version| format!("{name} {version}"));
        of("sleeve").or_else(|| of("valkey")).or_else(|| of("redis")).unwrap_or_default()
    }
}

/// Starts a command line on a free port and waits until it answers.
fn launch(name: &str, what: &str, cpus: Option<&str>) -> Result<(Process, u16), String> {
    let cannot = |error: io::Error| format!("{name}: {what} cannot be started: {error}");
    // The port is released here, and is free when the server takes it.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|taken| taken.local_addr()).map_err(cannot)?.port();
    let folder = std::env::temp_dir().join(format!("sleeve-sweep-{}-{port}", std::process::id()));
    // The folder must be new: its contents are removed with the process.
    fs::create_dir(&folder).map_err(cannot)?;
    let line = if what.contains(PORT) {
        what.replace(PORT, &port.to_string())
    } else {
        format!("{what} --port {port} --save '' --appendonly no")
    };
    let log = File::create(folder.join("log")).map_err(cannot)?;
    let command = move || {
        if let Some(cpus) = cpus {
            affinity::confine(cpus).map_err(io::Error::other)?;
        }
        let errors = log.try_clone()?;
        let mut command = Command::new("/bin/sh");
        // The server has a process group of its own: Ctrl-C goes to the sweep, which ends the server once it does not need it
        // any more.
        command.args(["-c", &format!("exec {line}")]).process_group(0).current_dir(&folder).stdin(Stdio::null());
        Ok(Process { child: command.stdout(log).stderr(errors).spawn()?, folder })
    };
    // A separate thread starts the process, which inherits that thread's CPUs; this thread keeps the generator's.
    let mut process = thread::scope(|scope| scope.spawn(command).join())
        .unwrap_or_else(|_| Err(io::Error::other("the thread that starts it has ended")))
        .map_err(cannot)?;
    let endpoint = Endpoint::Tcp { host: "127.0.0.1".into(), port };
    let (begun, mut ping) = (Instant::now(), Vec::new());
    encode(&["PING"], &mut ping);
    loop {
        if endpoint.connect().and_then(|stream| exchange(&stream, &ping, 1)).is_ok() {
            return Ok((process, port));
        }
        if let Some(status) = process.child.try_wait().map_err(cannot)? {
            return Err(format!("{name}: {what} has ended with {status}:\n{}", last_lines(&process.folder)));
        }
        if begun.elapsed() > START_MAX {
            return Err(format!(
                "{name}: {what} does not answer on port {port} after {} s:\n{}",
                START_MAX.as_secs(),
                last_lines(&process.folder)
            ));
        }
        thread::sleep(LOOK);
    }
}

/// Returns the last output of a server.
fn last_lines(folder: &Path) -> String {
    let text = fs::read(folder.join("log")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contender_that_cannot_run_is_named_with_its_last_line() {
        let error = Contender::start("here=sh -c 'echo no such thing >&2; exit 3' {port}", None).unwrap_err();
        assert!(
            error.contains("here") && error.contains("exit status: 3") && error.contains("no such thing"),
            "{error}"
        );
        for wrong in ["redis-server", "=redis-server", "name="] {
            assert!(Contender::start(wrong, None).unwrap_err().contains("name=URL"), "{wrong}");
        }
        let error = Contender::start("a=redis://127.0.0.1:1", None).unwrap_err();
        assert!(error.contains("127.0.0.1:1"), "{error}");
    }
}
