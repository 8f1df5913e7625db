//! Writing a snapshot while clients write: its duration, its memory, and its effect on the clients.
//!
//! Servers and generator share the CPUs, because every server writes a snapshot in a thread or a process of its own.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use sleeve_tests::{Connection, Server};

use crate::bench::builds::Builds;
use crate::bench::effort::Effort;
use crate::bench::filling::{Noise, ask, key};
use crate::bench::fleet::{Contender, Fleet};
use crate::bench::process;
use crate::bench::report::{Bar, Ratio, Table};
use crate::steps::output_of;

/// The name that `--only` takes.
pub const NAME: &str = "snapshot";

/// The number of keys; probes read them.
pub const KEYS: u64 = 4_000_000;

/// The number of writes a second while a snapshot is timed.
const RATE: &str = "20000";

/// The time for which the probe looks at a server that writes no snapshot.
const IDLE: Duration = Duration::from_secs(8);

/// Seconds for which clients write as fast as they can, with a snapshot and without: shorter than any snapshot takes.
const FAST_SECONDS: &str = "1";

const OPTIONS: &[&str] = &["--save", ""];
pub const SLEEVE: Contender = Contender { cpus: &[0, 1], options: OPTIONS, ..Contender::SLEEVE };
pub const VALKEY: Contender = Contender { cpus: &[0, 1], options: OPTIONS, ..Contender::VALKEY };
const CONTENDERS: [Contender; 4] = [
    SLEEVE,
    Contender { name: "2 workers", workers: Some(2), ..SLEEVE },
    Contender { cpus: &[0, 1], options: OPTIONS, ..Contender::REDIS8 },
    VALKEY,
];

pub const BESIDE_VALKEY: Ratio = ("sleeve", &["valkey"]);

/// The figures that are read from a round, each with its bar.
const FIGURES: [(&str, Option<Bar>); 6] = [
    ("seconds that it takes, 20,000 SET/s", Some(Bar::Ratio(1.0))),
    ("memory more than before, of the process alone (MiB)", Some(Bar::Absolute("sleeve", 24.0))),
    ("a probe's p99.9 without it (ms)", None),
    ("a probe's p99.9 with it (ms)", None),
    ("a probe's p99.9 with it, less 1.5 times that without (ms)", Some(Bar::Absolute("sleeve", 1.0))),
    ("SET at depth 16, time per request with it divided by that without", Some(Bar::Absolute("sleeve", 1.075))),
];

/// Fills servers, and has them write snapshots. Sizes need no rounds, but a tenth of them would be another size, so a quick run
/// leaves out the other servers instead.
///
/// # Errors
/// When a server or the generator fails.
pub fn measure(builds: &Builds, effort: Effort) -> Result<Table, String> {
    let title = "A snapshot of 4,000,000 keys of 16 bytes with 200-byte values";
    println!("\n==> {title}");
    let contenders = if effort.divisor > 1 { &CONTENDERS[..2] } else { &CONTENDERS[..] };
    let fleet = Fleet::start(contenders, builds)?;
    fleet.fill(KEYS)?;
    let lines = fleet.measure(FIGURES, BESIDE_VALKEY, effort.rounds, |_, server| {
        let [seconds, more, idle, saving, beyond] = timed(builds, server)?;
        Ok([seconds, more, idle, saving, beyond, slowdown(builds, server)?])
    })?;
    Ok(Table { name: NAME, title: title.to_owned(), lines })
}

/// Measures the first five figures: a snapshot beside a steady stream of writes.
fn timed(builds: &Builds, server: &Server) -> Result<[f64; 5], String> {
    let mut writers = Writers::start(builds, server, &["-P", "1", "--rps", RATE])?;
    let idle_ms = idle_ms(server)?;
    let process_id = server.process_id();
    let before = process::resident_bytes(process_id)?;
    process::forget_peak(process_id)?;
    let (saving_ms, seconds) = saving_ms(server)?;
    let more = process::peak_bytes(process_id)?.saturating_sub(before);
    writers.check()?;
    Ok([seconds, more as f64 / f64::from(1 << 20), idle_ms, saving_ms, saving_ms - 1.5 * idle_ms])
}

/// Measures the last figure: writes as fast as the server takes them.
///
/// # Errors
/// When the server or the generator fails, or the snapshot ends before the writes.
pub fn slowdown(builds: &Builds, server: &Server) -> Result<f64, String> {
    let rate = || -> Result<f64, String> {
        let mut command = generator(builds, server);
        let text = output_of(command.args(["-P", "16", "--duration", FAST_SECONDS]))?;
        let runs: Value = serde_json::from_str(&text).map_err(|error| format!("{error} in\n{text}"))?;
        runs[0]["rps"].as_f64().ok_or_else(|| format!("the generator printed no rate\n{text}"))
    };
    let without = rate()?;
    let mut connection = server.connect();
    ask(&mut connection, &["BGSAVE"])?;
    let with = rate()?;
    if !is_saving(&mut connection)? {
        return Err("the snapshot was over before the writes that were to be measured beside it".to_owned());
    }
    wait_for_end(&mut connection)?;
    Ok(without / with)
}

fn generator(builds: &Builds, server: &Server) -> Command {
    let mut command = Command::new(builds.generator());
    command.args(["bench", "--json", "-h", "127.0.0.1", "-t", "set", "-d", "200", "-c", "50"]);
    command.args(["-p", &server.port().to_string(), "-r", &KEYS.to_string()]);
    command
}

/// Clients that write until this is dropped.
pub struct Writers(Child);

impl Writers {
    /// Starts the clients; `options` are those of the generator, such as the rate.
    ///
    /// # Errors
    /// When the generator does not start.
    pub fn start(builds: &Builds, server: &Server, options: &[&str]) -> Result<Writers, String> {
        let mut command = generator(builds, server);
        command.args(options).args(["--duration", "3600"]);
        let started = command.stdout(Stdio::null()).spawn();
        started.map(Writers).map_err(|error| format!("the generator does not start: {error}"))
    }

    /// Checks that the writers have written all the time.
    ///
    /// # Errors
    /// When the generator has ended.
    pub fn check(&mut self) -> Result<(), String> {
        match self.0.try_wait() {
            Ok(None) => Ok(()),
            ended => Err(format!("the generator ended early: {ended:?}")),
        }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Returns the probe's p99.9 of a server that does nothing else, or only what its other clients ask.
///
/// # Errors
/// When the server does not answer.
pub fn idle_ms(server: &Server) -> Result<f64, String> {
    let (idle_ms, ()) = probed(server, || {
        thread::sleep(IDLE);
        Ok(())
    })?;
    Ok(idle_ms)
}

/// Returns the probe's p99.9 while the server writes a snapshot, and the seconds that the snapshot takes.
///
/// # Errors
/// When the server does not answer.
pub fn saving_ms(server: &Server) -> Result<(f64, f64), String> {
    probed(server, || {
        let mut connection = server.connect();
        let begun = Instant::now();
        ask(&mut connection, &["BGSAVE"])?;
        wait_for_end(&mut connection)?;
        Ok(begun.elapsed().as_secs_f64())
    })
}

/// Returns the latency in milliseconds that one in a thousand GETs exceeds. The GETs are sent one after the other while
/// `work` runs.
///
/// # Errors
/// When the server does not answer, or `work` fails.
pub fn probed<T>(server: &Server, work: impl FnOnce() -> Result<T, String>) -> Result<(f64, T), String> {
    let is_over = AtomicBool::new(false);
    let (samples, done) = thread::scope(|scope| {
        let probe = scope.spawn(|| probe(&mut server.connect(), &is_over));
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        (probe.join(), done)
    });
    let mut samples = samples.map_err(|_| "the probe panicked")??;
    samples.sort_unstable();
    let at = samples.len() * 999 / 1_000;
    let exceeded = samples.get(at).ok_or("the probe has measured nothing")?;
    Ok((exceeded.as_secs_f64() * 1e3, done?))
}

fn probe(connection: &mut Connection, is_over: &AtomicBool) -> Result<Vec<Duration>, String> {
    let (mut samples, mut noise) = (Vec::new(), Noise(11));
    while !is_over.load(Ordering::Relaxed) {
        let key = key(noise.next() % KEYS);
        let begun = Instant::now();
        ask(connection, &["GET", &key])?;
        samples.push(begun.elapsed());
        thread::sleep(Duration::from_micros(500));
    }
    Ok(samples)
}

fn is_saving(connection: &mut Connection) -> Result<bool, String> {
    Ok(ask(connection, &["INFO", "persistence"])?.contains("rdb_bgsave_in_progress:1"))
}

fn wait_for_end(connection: &mut Connection) -> Result<(), String> {
    while is_saving(connection)? {
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
