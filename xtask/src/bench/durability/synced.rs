//! An AOF that is synced before each reply: beside other servers, and beside the disk itself.
//!
//! No server can reply more often than the disk syncs, but each sync may serve every client that waits. The column `disk` is
//! the time of a bare loop, measured in the same folder between two runs. The loop appends the bytes of one request of each
//! client in flight and syncs them; the time is divided by the number of these requests.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::bench::builds::Builds;
use crate::bench::effort::Effort;
use crate::bench::fleet::{Contender, Fleet};
use crate::bench::generator::{Figure, Load, measure as run};
use crate::bench::plan::random_keys;
use crate::bench::report::{Bar, Line, Table};

/// The name that `--only` takes.
pub const NAME: &str = "sync";

/// The duration of the bare loop.
const BARE_TIME: Duration = Duration::from_millis(500);

/// The number of bytes that a SET of these keys and values takes in an AOF.
const REQUEST_BYTES: usize = 58;

/// The options with which a server syncs the AOF before each reply.
pub const ALWAYS: &[&str] = &["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"];

const CONTENDERS: [Contender; 3] = [
    Contender { options: ALWAYS, cpus: &[0, 1], ..Contender::SLEEVE },
    Contender { options: ALWAYS, cpus: &[0, 1], ..Contender::REDIS8 },
    Contender { options: ALWAYS, cpus: &[0, 1], ..Contender::VALKEY },
];

/// The rows: clients, requests in flight of each, requests, and the bars for the ratios to the disk and to Valkey.
const ROWS: [(u32, u32, u64, Option<f64>, f64); 3] =
    [(50, 1, 100_000, Some(1.18), 1.0), (50, 16, 1_000_000, Some(1.43), 1.0), (1_000, 16, 2_000_000, None, 0.67)];

/// Measures two tables of the same samples: Sleeve beside the disk, and beside Valkey.
///
/// # Errors
/// When a server, the generator or the disk fails.
pub fn measure(builds: &Builds, effort: Effort) -> Result<[Table; 2], String> {
    let title = "A log that is synced before each reply: elapsed time per request (us), 16-byte values";
    println!("\n==> {title}");
    let fleet = Fleet::start(&CONTENDERS, builds)?;
    let (mut beside_disk, mut beside_valkey) = (Vec::new(), Vec::new());
    for (clients, pipeline, requests, disk_max, valkey_max) in ROWS {
        let load = Load { clients, pipeline, requests, ..random_keys("set") }.divided(effort.divisor);
        let label = format!("SET, {clients} clients, depth {pipeline}");
        let mut samples: Vec<(&'static str, Vec<f64>)> =
            CONTENDERS.iter().map(|contender| (contender.name, Vec::new())).chain([("disk", Vec::new())]).collect();
        for round in 1..=effort.rounds {
            let (disk, servers) = samples.split_last_mut().expect("the disk has a column");
            let in_flight = clients * pipeline;
            let folder = fleet.servers[0].1.folder();
            disk.1.push(bare_us(folder, in_flight as usize * REQUEST_BYTES)? / f64::from(in_flight));
            for ((_, server), (name, samples)) in fleet.servers.iter().zip(servers) {
                let value = run(builds.generator(), server, &load, Figure::Elapsed)?;
                println!("    {label} round {round}: {name} {value:.3}");
                samples.push(value);
            }
        }
        let line = |samples, against, bar: Option<f64>| Line {
            label: label.clone(),
            samples,
            ratio: Some(("sleeve", against)),
            bar: bar.map(Bar::Ratio),
        };
        beside_disk.push(line(samples.clone(), &["disk"], disk_max));
        beside_valkey.push(line(samples, &["valkey"], Some(valkey_max)));
    }
    let table = |title: String, lines| Table { name: NAME, title, lines };
    Ok([
        table(format!("{title}; beside a bare append and fdatasync"), beside_disk),
        table(format!("{title}; beside Valkey"), beside_valkey),
    ])
}

/// Returns the microseconds of one append of so many bytes with its sync; the median over a short time.
fn bare_us(folder: &Path, bytes: usize) -> Result<f64, String> {
    let failed = |error: std::io::Error| format!("the disk cannot be measured in {}: {error}", folder.display());
    let path = folder.join("bare");
    let mut file = OpenOptions::new().append(true).create(true).open(&path).map_err(failed)?;
    let (block, mut samples, begun) = (vec![b'x'; bytes], Vec::new(), Instant::now());
    while begun.elapsed() < BARE_TIME || samples.is_empty() {
        let before = Instant::now();
        file.write_all(&block).and_then(|()| file.sync_data()).map_err(failed)?;
        samples.push(before.elapsed().as_secs_f64() * 1e6);
    }
    std::fs::remove_file(&path).map_err(failed)?;
    crate::bench::report::median(&samples).ok_or_else(|| "no append was measured".to_owned())
}
