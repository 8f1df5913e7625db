//! Causes in the resources of the server and the machines.

use super::figures::{percent, size, time};
use super::finding::{COMMANDS_MIN, Cause, DEPTH_MIN, Finding, SHARE_MIN};
use crate::doctor::evidence::Evidence;

/// The length of a pause, in round trips, from which on it is seen in a program's slowest requests.
const PAUSE_ROUND_TRIPS_MIN: f64 = 20.0;

/// The shortest pause that counts, in microseconds. A machine's scheduler makes shorter pauses too.
const PAUSE_US_MIN: f64 = 1_000.0;

/// The length of a pause, in round trips, that has half of the greatest weight.
const PAUSE_ROUND_TRIPS_HALF: f64 = 100.0;

/// The share of writing commands from which on the AOF slows other commands too.
const WRITES_SHARE_MIN: f64 = 0.1;

/// The share of the data in memory below which the rest is swapped out. Normally the share is above 1, because of the
/// allocator's own needs.
const RESIDENT_SHARE_MIN: f64 = 0.9;

/// The amount of data, in bytes, below which the comparison says nothing.
const USED_BYTES_MIN: u64 = 1 << 20;

/// The share of busy time beyond which the time in queues is a multiple of the time in work.
const BUSY_SHARE_MAX: f64 = 0.8;

/// The share of the time from which a program's busiest thread counts as busy: it has a processor for so long that it does
/// not wait for anything else.
const BUSIEST_SHARE_MAX: f64 = 0.9;

/// The share of the possible rate from which a program is as fast as its server.
const POSSIBLE_SHARE: f64 = 0.5;

/// The share of the bandwidth from which on the way has queues.
const FULL_SHARE_MAX: f64 = 0.5;

/// The share of segments sent again from which on losses count. TCP halves its speed at each loss, so a share of one in a
/// hundred is ruinous.
const SENT_AGAIN_SHARE_MAX: f64 = 0.01;

/// The round trip, in microseconds, beyond which the server is at another site.
const NEAR_US_MAX: f64 = 1_000.0;

/// The share of the time on the way to the server from which on the way is the limit.
const WAITING_SHARE_MAX: f64 = 0.5;

/// Returns the weight of a pause: it takes little time, but the requests that it meets wait that much longer.
fn weight_of_pause(pause_us: f64, evidence: &Evidence) -> Option<f64> {
    let round_trips = pause_us / evidence.path.round_trip_us.p50.max(1.0);
    (pause_us >= PAUSE_US_MIN && round_trips >= PAUSE_ROUND_TRIPS_MIN)
        .then(|| round_trips / (round_trips + PAUSE_ROUND_TRIPS_HALF))
}

/// Judges whether the server stands still while it forks.
pub fn fork(evidence: &Evidence) -> Option<Finding> {
    let forks = evidence.forks;
    let weight = weight_of_pause(forks.longest_us as f64, evidence).filter(|_| forks.count > 0)?;
    Some(Finding {
        cause: Cause::Fork,
        weight,
        numbers: vec![
            format!(
                "{} forks, the longest {}: as long as {:.0} round trips, for everybody",
                forks.count,
                time(forks.longest_us as f64),
                forks.longest_us as f64 / evidence.path.round_trip_us.p50.max(1.0)
            ),
            format!("a look-up took {} as a rule and {} at worst", time(evidence.probe_us.p50), time(evidence.probe_us.max)),
        ],
        remedy: "Save less often, or on a replica; keep the process small (several servers); transparent huge pages off. Sleeve \
                 saves without a fork."
            .to_owned(),
    })
}

/// Finds a server that waits until its disk has the written data.
pub fn fsync(evidence: &Evidence) -> Option<Finding> {
    let log = &evidence.log;
    let always = log.policy.as_deref() == Some("always");
    if !log.is_on || evidence.traffic.commands < COMMANDS_MIN || writes_share(evidence) < WRITES_SHARE_MIN {
        return None;
    }
    let disk = evidence.server.disk_share.unwrap_or_default();
    let probe = evidence.probe_us;
    let later = 1.0 - evidence.path.round_trip_us.p50 / probe.p50.max(1.0);
    let has_time = evidence.server.busy_share.is_some_and(|share| share < BUSY_SHARE_MAX);
    let weight = match () {
        () if always => disk.max(if has_time { later } else { 0.0 }),
        () if log.delayed > 0 => weight_of_pause(probe.max, evidence)?.max(disk),
        () => return None,
    };
    let mut numbers = vec![format!(
        "appendfsync {}, {} of the commands write",
        log.policy.as_deref().unwrap_or("(which may not be read)"),
        percent(writes_share(evidence))
    )];
    if let Some(share) = evidence.server.disk_share {
        numbers.push(format!("a thread of the server waited for the disk in {} of all looks", percent(share)));
    }
    numbers.push(format!(
        "a look-up took {} while the program ran; the way alone takes {}",
        time(probe.p50),
        time(evidence.path.round_trip_us.p50)
    ));
    if log.delayed > 0 {
        numbers.push(format!("{} writes waited for a sync that was under way", log.delayed));
    }
    (weight >= SHARE_MIN).then(|| Finding {
        cause: Cause::Fsync,
        weight,
        numbers,
        remedy:
            "Use appendfsync everysec if a second's writes may be lost with the machine's power; otherwise send writes \
                 together, so that a sync serves many, or use a disk with a protected cache."
                .to_owned(),
    })
}

/// Returns the share of commands that write.
fn writes_share(evidence: &Evidence) -> f64 {
    use sleeve_wire::commands::{Flags, find_full};
    let writes = |name: &str| find_full(name.as_bytes()).is_some_and(|row| row.flags.contains(Flags::WRITE));
    let count: u64 = evidence.calls.iter().filter(|calls| writes(&calls.name)).map(|calls| calls.count).sum();
    // If the server does not report calls, all commands are taken as writes.
    if evidence.calls.is_empty() { 1.0 } else { count as f64 / evidence.traffic.commands.max(1) as f64 }
}

/// Judges whether memory of the server is swapped out to a disk.
pub fn swapping(evidence: &Evidence) -> Option<Finding> {
    let server = &evidence.server;
    let (weight, numbers) = match server.swapped_bytes {
        Some(swapped) => {
            let whole = (swapped + server.resident_bytes).max(1) as f64;
            let weight = if server.major_faults > 0 { swapped as f64 / whole } else { 0.0 };
            let swapped = size(swapped as f64);
            (
                weight,
                format!("{swapped} of the server are swapped out; it read {} pages from a disk", server.major_faults),
            )
        }
        None if server.used_bytes >= USED_BYTES_MIN && server.resident_bytes > 0 => {
            let resident = server.resident_bytes as f64 / server.used_bytes as f64;
            let (used, there) = (size(server.used_bytes as f64), size(server.resident_bytes as f64));
            let weight = if resident < RESIDENT_SHARE_MIN { 1.0 - resident } else { 0.0 };
            (weight, format!("its data take {used}, and {there} of them are in memory"))
        }
        None => return None,
    };
    (weight >= SHARE_MIN).then(|| Finding {
        cause: Cause::Swapping,
        weight,
        numbers: vec![numbers],
        remedy: "Give the machine more memory or the server less data: maxmemory below what is free, with room for a snapshot; \
                 nothing else beside it; vm.swappiness 1."
            .to_owned(),
    })
}

/// Finds a lack of free processors: for the server, or for the program.
pub fn cpu(evidence: &Evidence) -> Option<Finding> {
    let server = &evidence.server;
    if let Some(weight) =
        server.busy_share.filter(|share| *share >= BUSY_SHARE_MAX && evidence.traffic.commands >= COMMANDS_MIN)
    {
        let mut numbers = vec![format!(
            "the server's {} busy for {} of the time, {} of it waiting for a processor",
            if server.workers > 1.0 { format!("{} workers are", server.workers) } else { "thread is".to_owned() },
            percent(weight.min(1.0)),
            percent(server.delayed_share / weight)
        )];
        numbers.push(format!("{:.1} commands a round trip", evidence.traffic.depth()));
        let delayed = "Give the machine more processors, or have less run on it.";
        let remedy = match () {
            () if server.delayed_share > weight / 2.0 => delayed,
            () if evidence.traffic.depth() < DEPTH_MIN => {
                "Send commands together: most of what a lone one costs is the kernel's work for its round trip."
            }
            () => {
                "More workers (`workers` of Sleeve, `io-threads` of Redis), a second server, replicas for reading, or fewer \
                   commands."
            }
        };
        let weight = weight.min(1.0);
        return Some(Finding { cause: Cause::Cpu, weight, numbers, remedy: remedy.to_owned() });
    }
    let program = evidence.program.filter(|program| {
        program.busiest_share + program.delayed_share >= BUSIEST_SHARE_MAX
            && evidence.share_of_possible() < POSSIBLE_SHARE
            && evidence.waiting_share() < WAITING_SHARE_MAX
    })?;
    Some(Finding {
        cause: Cause::Cpu,
        weight: (program.busiest_share + program.delayed_share).min(1.0),
        numbers: vec![format!(
            "the program's busiest thread has a processor for {} of the time and waits for one for {}; round trips take {}",
            percent(program.busiest_share),
            percent(program.delayed_share),
            percent(evidence.waiting_share())
        )],
        remedy: "The program itself is the limit: profile it, or spread its work over threads.".to_owned(),
    })
}

/// Finds a way that is narrow, long, or loses packets.
pub fn network(evidence: &Evidence) -> Option<Finding> {
    if evidence.traffic.commands < COMMANDS_MIN {
        return None;
    }
    let path = &evidence.path;
    let most = evidence.traffic.bytes_in.max(evidence.traffic.bytes_out) as f64;
    // If the server was busy while the way was measured, the measurement shows the server's queue and not the way.
    let has_time = evidence.server.busy_share.is_none_or(|share| share < BUSY_SHARE_MAX);
    let width = path.bytes_per_second.filter(|_| has_time);
    let full = width.map_or(0.0, |width| evidence.traffic.share_of_time(most / width * 1e6));
    let sent_again = evidence.sent_again_share.unwrap_or_default();
    let waiting = evidence.waiting_share();
    let is_far = has_time && path.round_trip_us.p10 >= NEAR_US_MAX && waiting >= WAITING_SHARE_MAX;
    let mut numbers = Vec::new();
    if let Some(width) = width.filter(|_| full >= FULL_SHARE_MAX) {
        let moved = size(most / evidence.traffic.seconds);
        numbers.push(format!("{moved} a second in one direction, of {} that fit: {}", size(width), percent(full)));
    }
    if sent_again >= SENT_AGAIN_SHARE_MAX {
        numbers.push(format!("{} of this machine's TCP segments were sent again", percent(sent_again)));
    }
    if is_far {
        let round_trip = time(path.round_trip_us.p50);
        numbers.push(format!("a round trip takes {round_trip}, and round trips take {} of the time", percent(waiting)));
    }
    let weight = full.max(if is_far { waiting } else { 0.0 }).max((sent_again * 10.0).min(1.0));
    (!numbers.is_empty()).then(|| Finding {
        cause: Cause::Network,
        weight,
        numbers,
        remedy: "Bring program and server nearer together, over a wider line; move less: shorter values, compression, caching in \
                 the program; send more before waiting."
            .to_owned(),
    })
}
