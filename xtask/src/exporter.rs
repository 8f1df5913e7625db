//! redis_exporter, of Debian, against Sleeve and redis-server 7.0: a primary and its replica of each.
//!
//! The exporter runs beside many servers of Redis. It must scrape Sleeve without an error, and each metric that it finds at a
//! Redis must be there. The program is unpacked below cargo's output, so nothing is installed.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sleeve_tests::probe::fill;
use sleeve_tests::server::free_port;
use sleeve_tests::{Kind, Server, Settings};

use crate::peers;
use crate::steps::{output_of, target_folder};

/// The package of Debian.
const PACKAGE: &str = "prometheus-redis-exporter";

/// The timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// Compares the metrics of a Sleeve with those of a Redis. Returns a summary.
///
/// # Errors
/// The metrics that Sleeve lacks, or the reason why the exporter cannot be had.
pub fn check(sleeve: &Path) -> Result<String, String> {
    let program = unpack()?;
    let of_redis = scrape_pair(&program, Kind::Redis, &Kind::Redis.binary()?)?;
    let of_sleeve = scrape_pair(&program, Kind::Sleeve, sleeve)?;
    let missing: Vec<&String> = of_redis.difference(&of_sleeve).collect();
    if of_redis.len() < 100 || !missing.is_empty() {
        return Err(format!("of {} metrics of Redis these are missing: {missing:?}", of_redis.len()));
    }
    Ok(format!("{} metrics of a primary and a replica", of_redis.len()))
}

/// Unpacks the package, unless it is there.
fn unpack() -> Result<PathBuf, String> {
    let folder = target_folder()?.join("tools").join(PACKAGE);
    let program = folder.join("usr/bin").join(PACKAGE);
    if !program.is_file() {
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let download = || output_of(Command::new("apt-get").args(["-qq", "download", PACKAGE]).current_dir(&folder));
        // A new machine has no list of packages yet.
        download().or_else(|_| peers::apt_get_install(&[]).and_then(|()| download()))?;
        let names = std::fs::read_dir(&folder).map_err(|error| error.to_string())?.flatten().map(|entry| entry.path());
        let archive = names.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "deb"));
        let archive = archive.ok_or("apt-get has downloaded no package")?;
        output_of(Command::new("dpkg").arg("--extract").arg(archive).arg(&folder))?;
    }
    Ok(program)
}

/// Returns the names of the metrics of a primary with data, and of its replica.
fn scrape_pair(program: &Path, kind: Kind, binary: &Path) -> Result<BTreeSet<String>, String> {
    let launch = || Server::launch(kind, binary, Settings::default());
    let (primary, replica) = (launch()?, launch()?);
    fill(&primary);
    let mut connection = replica.connect();
    let port = primary.port().to_string();
    _ = connection.command(&["REPLICAOF", "127.0.0.1", &port]);
    wait_for("the replica follows", || {
        let says = connection.command(&["INFO", "replication"]).unwrap_or_default();
        String::from_utf8_lossy(&says).contains("master_link_status:up").then_some(())
    })?;
    let mut names = BTreeSet::new();
    for server in [&primary, &replica] {
        let metrics = scrape(program, server.port())?;
        if !metrics.lines().any(|line| line.starts_with("redis_exporter_last_scrape_error{") && line.ends_with(" 0")) {
            return Err(format!("{kind:?} on port {}: the exporter reports an error", server.port()));
        }
        let lines = metrics.lines().filter(|line| line.starts_with("redis_"));
        names.extend(lines.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned));
    }
    Ok(names)
}

/// Runs the exporter beside a server, and returns its page.
fn scrape(program: &Path, port: u16) -> Result<String, String> {
    let own = free_port();
    let mut command = Command::new(program);
    command.arg(format!("-redis.addr=redis://127.0.0.1:{port}")).arg(format!("-web.listen-address=127.0.0.1:{own}"));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?;
    let _ends = Ends(child);
    wait_for("the exporter answers", || {
        let mut stream = TcpStream::connect(("127.0.0.1", own)).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
        let mut page = String::new();
        stream.read_to_string(&mut page).ok()?;
        page.contains("redis_up").then_some(page)
    })
}

/// A program that is ended when this is dropped.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T, String> {
    let since = Instant::now();
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if since.elapsed() > PATIENCE {
            return Err(format!("not within {PATIENCE:?}: {what}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
