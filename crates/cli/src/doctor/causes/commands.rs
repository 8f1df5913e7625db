//! Causes in the commands that the program sends.

use super::figures::{percent, size, time};
use super::finding::{COMMANDS_MIN, Cause, Finding, SHARE_MIN};
use crate::doctor::evidence::{Calls, Evidence};

/// The mean size, in bytes, above which a command is big. A TCP connection begins with ten segments, which are 14 KiB. Larger
/// data take round trips of their own on a connection that was idle.
const BYTES_OF_COMMAND_MAX: f64 = 16.0 * 1024.0;

/// The time, in microseconds, from which a command holds up all clients of the server: it is a thousand times the time of a
/// command on one key.
const COMMAND_US_MAX: f64 = 1_000.0;

/// The number of slow commands that a report names.
const NAMED_MAX: usize = 3;

/// The share of all accesses from which a key is hot: only work on that key helps then, because moving other keys to more
/// servers does not.
const HOT_SHARE_MIN: f64 = 0.5;

/// The number of keys from which on the sample counts.
const KEYS_MIN: usize = 100;

/// Judges whether values take longer to send than to ask for.
pub fn big_values(evidence: &Evidence) -> Option<Finding> {
    let bytes = (evidence.traffic.bytes_in + evidence.traffic.bytes_out) as f64;
    let each = bytes / evidence.traffic.commands.max(1) as f64;
    if each < BYTES_OF_COMMAND_MAX || evidence.traffic.commands == 0 {
        return None;
    }
    let weight = match evidence.path.bytes_per_second {
        Some(width) => evidence.traffic.share_of_time(bytes / width * 1e6 / evidence.connections()),
        // The bandwidth is not known; only the size is.
        None => SHARE_MIN,
    };
    (weight >= SHARE_MIN).then(|| Finding {
        cause: Cause::BigValues,
        weight,
        numbers: vec![format!(
            "a command moves {} on average, {} in and {} out in {:.1} s; moving them takes {} of the time",
            size(each),
            size(evidence.traffic.bytes_in as f64),
            size(evidence.traffic.bytes_out as f64),
            evidence.traffic.seconds,
            percent(weight)
        )],
        remedy: "Read and write the parts that are needed: fields of a hash instead of a document, GETRANGE, LRANGE and HSCAN \
                 instead of all; compress; `sleeve cli --bigkeys` finds the keys."
            .to_owned(),
    })
}

/// Judges whether commands occupy the server for long.
pub fn slow_commands(evidence: &Evidence) -> Option<Finding> {
    let mut slow: Vec<&Calls> = evidence.calls.iter().filter(|calls| is_slow(calls)).collect();
    slow.sort_by(|a, b| b.time_us.total_cmp(&a.time_us));
    let time_us: f64 = slow.iter().map(|calls| calls.time_us).sum();
    let weight = evidence.traffic.share_of_time(time_us / evidence.server.workers.max(1.0));
    let worst = slow.first().filter(|_| weight >= SHARE_MIN)?;
    let mut numbers: Vec<String> = slow
        .iter()
        .take(NAMED_MAX)
        .map(|calls| {
            format!(
                "{}: {} calls of {} each, {} of the server's time",
                calls.name.replace('|', " ").to_uppercase(),
                calls.count,
                time(calls.time_us / calls.count as f64),
                percent(evidence.traffic.share_of_time(calls.time_us / evidence.server.workers.max(1.0)))
            )
        })
        .collect();
    numbers.extend(
        evidence
            .slow
            .iter()
            .take(NAMED_MAX)
            .map(|slow| format!("slow log: {}: {}", time(slow.time_us as f64), slow.text)),
    );
    Some(Finding { cause: Cause::SlowCommands, weight, numbers, remedy: instead_of(&worst.name) })
}

/// Returns whether a command takes long because of its own work. A command that may block (BLPOP) does not count, nor one in
/// O(1): if that takes long, the cause is the size of its value, or a server that waits for a processor.
fn is_slow(calls: &Calls) -> bool {
    let row = sleeve_wire::commands::find_full(calls.name.as_bytes());
    let is_innocent = row.is_some_and(|row| row.timeout.is_some() || row.docs.complexity == "O(1)");
    calls.count > 0 && calls.time_us / calls.count as f64 >= COMMAND_US_MAX && !is_innocent
}

/// Returns the remedy for a command that takes long.
fn instead_of(name: &str) -> String {
    match name {
        "keys" => "Use SCAN, or keep a set of the names that are looked for.",
        "smembers" | "hgetall" | "hkeys" | "hvals" => {
            "Take the members in steps (SSCAN, HSCAN), or only those that are needed."
        }
        "lrange" | "zrange" | "zrevrange" | "zrangebyscore" | "zrevrangebyscore" | "xrange" | "xrevrange" => {
            "Take a page at a time (LIMIT, COUNT, narrower ends)."
        }
        "sort" | "sort_ro" => "Keep a sorted set in that order instead.",
        "sinter" | "sunion" | "sdiff" | "zinter" | "zunion" | "zdiff" | "sinterstore" | "sunionstore"
        | "zunionstore" | "zinterstore" => "Store the result and use it again, or do it on a replica.",
        "del" | "flushall" | "flushdb" => "Use UNLINK, or ASYNC, which free the memory beside the work.",
        "eval" | "evalsha" | "eval_ro" | "evalsha_ro" | "fcall" | "fcall_ro" => {
            "Have the script do less in one call, in steps of a thousand elements at most."
        }
        _ => "Ask for less at a time, on a replica, or keep what it computes.",
    }
    .to_owned()
}

/// Judges whether most commands are about one key.
pub fn hot_key(evidence: &Evidence) -> Option<Finding> {
    let sample = evidence.sample.as_ref().filter(|sample| sample.key_count >= KEYS_MIN)?;
    let (key, share) = sample.hottest.as_ref().filter(|(_, share)| *share >= HOT_SHARE_MIN)?;
    // The cost of its commands could be spared, of one processor: a key is on one shard. Waiting for a processor costs none.
    // Where the server's time is not known, all of the key's share counts.
    let server = &evidence.server;
    let run = server.busy_share.map_or(1.0, |busy| (busy - server.delayed_share) * server.workers.max(1.0));
    let weight = share * run.max(evidence.share_of_possible()).min(1.0);
    (weight >= SHARE_MIN && evidence.traffic.commands >= COMMANDS_MIN).then(|| Finding {
        cause: Cause::HotKey,
        weight,
        numbers: vec![format!(
            "{key}: {} of {} keys that were named; {:.0} commands a second, all keys together",
            percent(*share),
            sample.key_count,
            evidence.traffic.per_second()
        )],
        remedy:
            "Keep it in the program's own memory, as long as the server says that it is true (client-side caching, \
                 docs/near-cache.md); split a counter or a queue over several keys; read from replicas."
                .to_owned(),
    })
}
