//! MEMORY: the memory of a key, and the use of all memory.
//!
//! Each figure is counted by this server (keys, tables, clients, scripts, the journal), except for the resident memory, which
//! is the kernel's. The allocator is not asked, because an embedding program chooses it (`host/allocator`).

use sleeve_wire::number;

use crate::config::Opt;
use crate::context::Cx;
use crate::context::eviction;
use crate::engine::keyspace::memory_accounting::MemoryUse;
use crate::host::allocator;
use crate::host::facts;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// MEMORY USAGE key \[SAMPLES count\]
pub fn usage(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let mut options = request.args.from(3).iter();
    while let Some(word) = options.next() {
        let count = options.next().filter(|_| word.eq_ignore_ascii_case(b"samples")).ok_or(Error::SYNTAX)?;
        // The size of a value is known without sampling, so the number of samples is only checked.
        if number::parse_i64(count).ok_or(Error::NOT_INTEGER)? < 0 {
            return Err(Error::SYNTAX);
        }
    }
    let bytes = cx.peek(request.key(0)).map(|entry| entry.memory_usage());
    let mut reply = cx.reply();
    match bytes {
        Some(bytes) => reply.integer(bytes as i64),
        None => reply.null(),
    }
    Ok(())
}

/// MEMORY PURGE
pub fn purge(cx: &mut Cx<'_>) -> Outcome {
    if let Some(allocator) = allocator::chosen() {
        (allocator.purge)();
    }
    cx.reply().ok();
    Ok(())
}

/// MEMORY MALLOC-STATS
pub fn malloc_stats(cx: &mut Cx<'_>) -> Outcome {
    let text = match allocator::chosen() {
        Some(allocator) => (allocator.describe)(),
        None => "Stats not supported for the current allocator".to_owned(),
    };
    cx.reply().verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// A value in MEMORY STATS.
enum Figure {
    Count(u64),
    Difference(i64),
    Ratio(f64),
}

/// MEMORY STATS: the figures that this server knows, under Redis's names.
pub fn stats(cx: &mut Cx<'_>) -> Outcome {
    use Figure::{Count, Difference, Ratio};
    let weighed = Weighed::now(cx);
    let (memory_use, used_bytes) = (&weighed.memory_use, weighed.used_bytes);
    let overhead_bytes = memory_use.overhead();
    let (journal, own_bytes) = (memory_use.journal, weighed.own_bytes);
    let net_bytes = used_bytes.saturating_sub(memory_use.fixed).max(1);
    let ratio = |all: u64, part: u64| Ratio(all as f64 / part.max(1) as f64);
    let percent = |part: u64, whole: u64| Ratio(part as f64 * 100.0 / whole.max(1) as f64);
    let links = cx.engine.cluster.get().map_or(0, |cluster| cluster.gauges.allocated_bytes());
    let figures = [
        ("peak.allocated", Count(weighed.peak_bytes)),
        ("total.allocated", Count(used_bytes)),
        ("startup.allocated", Count(memory_use.fixed)),
        ("replication.backlog", Count(journal.backlog)),
        ("clients.slaves", Count(memory_use.for_replicas())),
        ("clients.normal", Count(memory_use.clients)),
        ("cluster.links", Count(links)),
        ("aof.buffer", Count(journal.for_log)),
        ("lua.caches", Count(memory_use.scripts)),
        ("functions.caches", Count(memory_use.functions)),
        ("journal", Count(journal.held)),
        ("tracking", Count(memory_use.tracking)),
        ("overhead.total", Count(overhead_bytes)),
        ("keys.count", Count(weighed.keys)),
        ("keys.bytes-per-key", Count(net_bytes.checked_div(weighed.keys).unwrap_or(0))),
        ("dataset.bytes", Count(memory_use.data)),
        ("dataset.percentage", percent(memory_use.data, net_bytes)),
        ("peak.percentage", percent(used_bytes, weighed.peak_bytes)),
        ("allocator.allocated", Count(used_bytes)),
        ("allocator.active", Count(own_bytes)),
        ("allocator.resident", Count(own_bytes)),
        ("allocator-fragmentation.ratio", ratio(own_bytes, used_bytes)),
        ("allocator-fragmentation.bytes", Difference(own_bytes as i64 - used_bytes as i64)),
        ("rss-overhead.ratio", ratio(weighed.resident_bytes, own_bytes)),
        ("rss-overhead.bytes", Difference(weighed.resident_bytes as i64 - own_bytes as i64)),
        ("fragmentation", ratio(weighed.resident_bytes, used_bytes)),
        ("fragmentation.bytes", Difference(weighed.resident_bytes as i64 - used_bytes as i64)),
    ];
    let mut reply = cx.reply();
    reply.map(figures.len());
    for (name, figure) in figures {
        reply.bulk(name.as_bytes());
        match figure {
            Count(bytes) => reply.integer(bytes as i64),
            Difference(bytes) => reply.integer(bytes),
            Ratio(ratio) => reply.double(ratio),
        }
    }
    Ok(())
}

/// The figures of MEMORY STATS and MEMORY DOCTOR.
struct Weighed {
    memory_use: MemoryUse,
    used_bytes: u64,
    peak_bytes: u64,
    resident_bytes: u64,
    /// The resident bytes that belong to no file.
    own_bytes: u64,
    keys: u64,
}

impl Weighed {
    fn now(cx: &mut Cx<'_>) -> Self {
        let memory_use = eviction::memory_use(cx);
        let mut keys = 0;
        let databases = cx.engine.keyspace.store.databases();
        cx.locks.for_each(|shard| {
            keys += (0..databases.min(shard.databases())).map(|database| shard.len(database) as u64).sum::<u64>();
        });
        let used_bytes = memory_use.total();
        let peak_bytes = cx.engine.observe.rates.peak_bytes(used_bytes);
        let (resident_bytes, own_bytes) = facts::resident();
        Self { memory_use, used_bytes, peak_bytes, resident_bytes, own_bytes, keys }
    }
}

/// The least memory for which MEMORY DOCTOR looks at ratios; below that, ratios mean nothing.
const WORTH_LOOKING_BYTES: u64 = 5 << 20;
/// The memory per client above which MEMORY DOCTOR calls clients slow or demanding.
const LARGE_CLIENT_BYTES: u64 = 200 << 10;

/// MEMORY DOCTOR
pub fn doctor(cx: &mut Cx<'_>) -> Outcome {
    let weighed = Weighed::now(cx);
    let text = if weighed.used_bytes < WORTH_LOOKING_BYTES {
        "There is very little in memory, too little to judge by. Ask again when there is more.\n".to_owned()
    } else {
        diagnosis(cx, &weighed)
    };
    cx.reply().verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn diagnosis(cx: &Cx<'_>, weighed: &Weighed) -> String {
    let (engine, used_bytes) = (cx.engine, weighed.used_bytes);
    let limit_bytes = engine.config.memory(Opt::Maxmemory);
    let clients = engine.clients.list.len().max(1) as u64;
    let findings = [
        (
            weighed.peak_bytes > used_bytes / 2 * 3,
            "The peak was more than 150 % of what is in use now: the process may still hold memory that it needed then. \
             MEMORY PURGE gives back what is free.",
        ),
        (
            weighed.resident_bytes > used_bytes / 5 * 7 && weighed.resident_bytes - used_bytes > 10 << 20,
            "The process occupies 140 % or more of what is counted: pieces of many sizes have come and gone. MEMORY PURGE \
             gives back what is free; the rest is used again for what comes.",
        ),
        (
            limit_bytes != 0 && used_bytes > limit_bytes / 10 * 9,
            "More than nine tenths of maxmemory are in use: keys are evicted, or writes refused, as maxmemory-policy says.",
        ),
        (
            weighed.memory_use.clients / clients > LARGE_CLIENT_BYTES,
            "Clients have more than 200 KB each on their way, on average: some read too slowly or ask for too much. CLIENT \
             LIST shows them (omem, qbuf); client-output-buffer-limit and maxmemory-clients bound them.",
        ),
        (
            weighed.memory_use.scripts > 100 << 20 || engine.scripts.size().0 > 500,
            "There are very many scripts: pass what varies as KEYS and ARGV instead of writing it into the text.",
        ),
    ];
    let found: Vec<String> =
        findings.iter().filter(|(is_found, _)| *is_found).map(|(_, text)| format!(" * {text}\n")).collect();
    match found.is_empty() {
        true => "Nothing about memory looks wrong.\n".to_owned(),
        false => format!("This looks worth a thought:\n{}", found.concat()),
    }
}
