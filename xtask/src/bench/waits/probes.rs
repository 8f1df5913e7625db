//! Rows about a lone client's latency: beside nothing, beside a snapshot, and beside a replica that synchronizes.
//!
//! The probe is one connection that sends a GET every half millisecond. A quick run leaves out the other server: less data
//! would be another measurement.

use crate::bench::builds::Builds;
use crate::bench::durability::snapshot::{self, Writers, idle_ms, saving_ms, slowdown};
use crate::bench::effort::Effort;
use crate::bench::fleet::{Contender, Fleet};
use crate::bench::replication::{self, synchronized};
use crate::bench::report::{Bar, Line};
use sleeve_tests::Server;

/// Starts Sleeve and Valkey, in a quick run Sleeve alone, and fills them.
fn filled(contenders: [Contender; 2], builds: &Builds, effort: Effort, keys: u64) -> Result<Fleet, String> {
    let fleet = Fleet::start(if effort.divisor > 1 { &contenders[..1] } else { &contenders }, builds)?;
    fleet.fill(keys)?;
    Ok(fleet)
}

/// Measures the probe while the server does nothing else.
///
/// # Errors
/// When a server fails.
pub fn idle(builds: &Builds, effort: Effort) -> Result<Vec<Line>, String> {
    let fleet = filled([snapshot::SLEEVE, snapshot::VALKEY], builds, effort, snapshot::KEYS)?;
    let rows = [("4,000,000 keys, idle: a probe's p99.9 (ms)", Some(Bar::Ratio(1.0)))];
    fleet.measure(rows, snapshot::BESIDE_VALKEY, effort.rounds, |_, server| Ok([idle_ms(server)?]))
}

/// Measures the probe while the server writes a snapshot, alone and beside SETs at full speed.
///
/// # Errors
/// When a server or the generator fails.
pub fn snapshot(builds: &Builds, effort: Effort) -> Result<Vec<Line>, String> {
    let fleet = filled([snapshot::SLEEVE, snapshot::VALKEY], builds, effort, snapshot::KEYS)?;
    let rows = [
        ("4,000,000 keys, BGSAVE: a probe's p99.9 (ms)", Some(Bar::Absolute("sleeve", 2.5))),
        ("4,000,000 keys, BGSAVE and SETs at depth 16: a probe's p99.9 (ms)", None),
    ];
    fleet.measure(rows, snapshot::BESIDE_VALKEY, effort.rounds, |_, server| {
        let (alone_ms, _) = saving_ms(server)?;
        let mut writers = Writers::start(builds, server, &["-P", "16"])?;
        let (written_ms, _) = saving_ms(server)?;
        writers.check()?;
        Ok([alone_ms, written_ms])
    })
}

/// Measures the rate of SETs at full speed while the server writes a snapshot.
///
/// # Errors
/// When a server or the generator fails, or the snapshot ends before the SETs.
pub fn snapshot_writes(builds: &Builds, effort: Effort) -> Result<Vec<Line>, String> {
    let fleet = filled([snapshot::SLEEVE, snapshot::VALKEY], builds, effort, snapshot::KEYS)?;
    let label = "4,000,000 keys, SETs at depth 16: rate beside BGSAVE divided by that without";
    let rows = [(label, Some(Bar::AbsoluteMin("sleeve", 0.75)))];
    let beside = |_: &Contender, server: &Server| Ok([1.0 / slowdown(builds, server)?]);
    fleet.measure(rows, snapshot::BESIDE_VALKEY, effort.rounds, beside)
}

/// Measures the probe at a primary while a replica without data gets all data.
///
/// # Errors
/// When a server fails.
pub fn replica(builds: &Builds, effort: Effort) -> Result<Vec<Line>, String> {
    let contenders = [replication::SLEEVE, replication::VALKEY];
    let fleet = filled(contenders, builds, effort, replication::KEYS)?;
    let rows = [
        ("primary of 4,970,000 keys: a probe's p99.9 without a replica (ms)", None),
        ("primary of 4,970,000 keys: a probe's p99.9 while a replica synchronizes (ms)", None),
        ("primary of 4,970,000 keys: the latter divided by the former", Some(Bar::Absolute("sleeve", 2.0))),
    ];
    fleet.measure(rows, snapshot::BESIDE_VALKEY, effort.rounds, |contender, primary| {
        let [_, idle_ms, syncing_ms, _] = synchronized(contender, builds, primary)?;
        Ok([idle_ms, syncing_ms, syncing_ms / idle_ms])
    })
}
