//! DEBUG: the subcommands that tests of clients and servers use.
//!
//! A gate decides which clients may use it (`enable-debug-command`). All shards are locked. Subcommands of Redis that do not
//! exist here are refused by name; HELP lists those that exist.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sleeve_store::{Deadline, Value, ValueRef};
use sleeve_wire::number;

use super::cluster::change as cluster;
use super::config;
use super::persistence;
use crate::commands::command::help;
use crate::commands::key::object::encoding_name;
use crate::config::rewrite::Added;
use crate::config::{Opt, size};
use crate::context::Cx;
use crate::engine::Debug;
use crate::engine::keyspace::key_clock;
use crate::engine::replication::primary;
use crate::engine::values;
use crate::engine::values::digest::Digest;
use crate::host::crash;
use crate::host::log;
use crate::host::panics;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The subcommands for HELP: each with its form and a sentence.
const SUBCOMMANDS: [(&str, &str); 23] = [
    ("AOF-FLUSH-SLEEP microseconds", "Waits so long in front of each write to the append-only log: for tests."),
    ("CHANGE-REPL-ID", "Gives the stream of replicas a new id: whoever comes back is given all data."),
    ("CLUSTERLINK KILL TO|FROM|ALL node-id", "Closes the links to another node of the cluster, from it, or both."),
    ("CONFIG-REWRITE-FORCE-ALL", "CONFIG REWRITE with the options at their defaults too."),
    ("DIGEST", "Forty digits that stand for all data."),
    ("DIGEST-VALUE key [key ...]", "Forty digits for each key's value."),
    (
        "DROP-CLUSTER-PACKET-FILTER packet-type",
        "Has a node of a cluster lose all packets of this type that arrive; -1 loses none.",
    ),
    ("ERROR message", "Answers with this error."),
    ("LOADAOF", "Loads the data of the append-only log in place of what there is."),
    ("LOG message", "Writes a line to the server's log."),
    ("OBJECT key", "How a key's value is kept."),
    ("PANIC", "Has the thread panic that runs this, which ends the server: for tests of what comes then."),
    (
        "PAUSE-CRON 0|1",
        "Stops or restarts the periodic work: expiry, statistics, timeouts, the end that a signal asks for.",
    ),
    ("POPULATE count [prefix] [size]", "Creates string keys: prefix (or 'key'), a colon and a number."),
    ("PROTOCOL type", "Answers with a value of the type: string, integer, double, null, array, set, map, ..."),
    ("QUICKLIST-PACKED-THRESHOLD size", "From which size on an element of a list stands alone; 0 is the default."),
    (
        "RELOAD [option ...]",
        "Writes the snapshot and loads it in place of what there is. NOSAVE: does not write it. NOFLUSH: keeps what there is \
         beside it. MERGE: what is loaded then takes the place of keys of the same name.",
    ),
    ("REPLICATE word [word ...]", "Sends replicas these words as a command, whatever they mean; nobody here runs it."),
    ("SEGFAULT", "Touches memory that is not there, which ends the server: for tests of what comes then."),
    ("SET-ACTIVE-EXPIRE 0|1", "Stops or restarts the removal of expired keys that nobody looks at."),
    ("SET-DISABLE-DENY-SCRIPTS 0|1", "Lets scripts call the commands that are not for scripts."),
    (
        "SET-SKIP-CHECKSUM-VALIDATION 0|1",
        "Has RESTORE, FUNCTION RESTORE and snapshots pass over the checksums of what they read.",
    ),
    ("SLEEP seconds", "Has the server do nothing for so long; decimals are allowed."),
];

/// Redis's subcommands that do not exist here. Their error says so, instead of reporting a misspelling.
const ABSENT: [&str; 18] = [
    "assert",
    "client-enforce-reply-list",
    "client-eviction",
    "crash-and-recover",
    "hexpires",
    "htstats",
    "htstats-key",
    "leak",
    "listpack",
    "mallctl",
    "mallctl-str",
    "oom",
    "quicklist",
    "replybuffer",
    "restart",
    "sdslen",
    "stringmatch-test",
    "structsize",
];

/// DEBUG subcommand \[arg ...\]
pub fn debug(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let name = request.arg(1);
    match (name.to_ascii_lowercase().as_slice(), request.len()) {
        (b"help", 2) => show_help(cx),
        (b"aof-flush-sleep", 3) => delay_log(cx, request.arg(2)),
        (b"change-repl-id", 2) => change_replication_id(cx),
        (b"clusterlink", 5) if request.arg(2).eq_ignore_ascii_case(b"kill") => return cluster::debug_link(cx, request),
        (b"config-rewrite-force-all", 2) => return config::rewrite_with(cx, Added::All),
        (b"digest", 2) => digest(cx),
        (b"digest-value", _) => digest_value(cx, request),
        (b"drop-cluster-packet-filter", 3) => return cluster::debug_drop_packets(cx, request, request.arg(2)),
        (b"error", 3) => return Err(Error::naming("{}", &[request.arg(2)])),
        (b"loadaof", _) => return persistence::load_aof(cx),
        (b"log", 3) => log_line(cx, request.arg(2)),
        (b"object", 3) => return object(cx, request.arg(2)),
        (b"panic", 2) => panics::on_purpose(),
        (b"pause-cron", 3) => set_switch(cx, |debug| &debug.pauses_cron, request.arg(2)),
        (b"populate", 3..=5) => return populate(cx, request),
        (b"protocol", 3) => return protocol(cx, request.arg(2)),
        (b"quicklist-packed-threshold", 3) => return packed_threshold(cx, request.arg(2)),
        (b"reload", _) => return persistence::reload(cx, request),
        (b"replicate", 3..) => replicate(cx, request),
        (b"segfault", 2) => crash::on_purpose(),
        (b"set-active-expire", 3) => set_switch(cx, |debug| &debug.active_expire, request.arg(2)),
        (b"set-disable-deny-scripts", 3) => set_switch(cx, |debug| &debug.allows_all_to_scripts, request.arg(2)),
        (b"set-skip-checksum-validation", 3) => set_switch(cx, |debug| &debug.skips_checksums, request.arg(2)),
        (b"sleep", 3) => sleep(cx, request.arg(2)),
        (lower, _) if ABSENT.iter().any(|absent| absent.as_bytes() == lower) => {
            let name = String::from_utf8_lossy(name).to_uppercase();
            return Err(Error::new(format!("ERR DEBUG {name} is not supported. Try DEBUG HELP.")));
        }
        _ => return Err(unknown(name)),
    }
    Ok(())
}

fn unknown(name: &[u8]) -> Error {
    Error::subcommand_syntax("DEBUG", name.get(..128).unwrap_or(name))
}

fn show_help(cx: &mut Cx<'_>) {
    let entries: Vec<_> = SUBCOMMANDS.iter().map(|(form, about)| ((*form).to_owned(), *about)).collect();
    help::write(cx, "debug", &entries);
}

/// Replies with the digest of the data at one instant: all shards are locked. An expired key counts as removed.
fn digest(cx: &mut Cx<'_>) {
    let now_ms = cx.now.wall_ms();
    let mut digest = Digest::default();
    for database in 0..cx.engine.keyspace.store.databases() {
        let (mut keys, mut keys_digest) = (0, digest);
        keys_digest.begin_database(database as u32);
        cx.locks.for_each(|shard| {
            if database >= shard.databases() {
                return;
            }
            shard.for_each(database, |entry| {
                if entry.deadline().is_none_or(|deadline_ms| deadline_ms > now_ms) {
                    values::digest_key(&mut keys_digest, &entry);
                    keys += 1;
                }
            });
        });
        if keys != 0 {
            digest = keys_digest;
        }
    }
    cx.reply().simple(&digest.to_hex());
}

fn digest_value(cx: &mut Cx<'_>, request: Request<'_>) {
    let names = request.args.from(2);
    cx.reply().array(names.len());
    for name in names {
        let digest = cx.show(name, cx.now.wall_ms(), |entry| values::digest_of(&entry)).unwrap_or_default();
        cx.reply().simple(&digest.to_hex());
    }
}

fn log_line(cx: &mut Cx<'_>, message: &[u8]) {
    log::warning(&format!("DEBUG LOG: {}", String::from_utf8_lossy(message)));
    cx.reply().ok();
}

/// Replies with Redis's description of an object. The address of the object is left out, and should be.
fn object(cx: &mut Cx<'_>, name: &[u8]) -> Outcome {
    let (config, now) = (&cx.engine.config, cx.now);
    // An expired key is shown as long as it has not been removed.
    let described = cx.show(name, i64::MIN, |entry| {
        let is_lfu = config.counts_uses();
        let idle_s = if is_lfu { 0 } else { key_clock::idle_s(entry.clock(), now) };
        format!(
            "Value at:0x0 refcount:{} encoding:{} serializedlength:{} lru:{} lru_seconds_idle:{idle_s}",
            reference_count(entry.value()),
            encoding_name(config, &entry),
            serialized_len(entry.value()),
            entry.clock(),
        )
    });
    cx.reply().simple(&described.ok_or(Error::NO_SUCH_KEY)?);
    Ok(())
}

/// Returns the reference count that Redis shows: it shares the integers from 0 to 9,999 and shows a very large count for
/// them.
fn reference_count(value: ValueRef<'_>) -> i32 {
    if matches!(value, ValueRef::Integer(0..10_000)) { i32::MAX } else { 1 }
}

/// Returns the bytes that the value takes in a snapshot without compression: integers of up to 32 bits in a form of their
/// own, all other values as a length and the bytes.
fn serialized_len(value: ValueRef<'_>) -> usize {
    let small = value.integer().filter(|number| value.len() <= 11 && i32::try_from(*number).is_ok());
    match (small, value.len()) {
        (Some(-128..=127), _) => 2,
        (Some(-32_768..=32_767), _) => 3,
        (Some(_), _) => 5,
        (None, len @ 0..64) => 1 + len,
        (None, len @ 64..16_384) => 2 + len,
        (None, len) => 5 + len,
    }
}

fn change_replication_id(cx: &mut Cx<'_>) {
    log::warning("Changing replication IDs after receiving DEBUG change-repl-id");
    cx.engine.replication.ids.renew(primary::new_replication_id(cx.engine));
    cx.reply().ok();
}

/// Creates `count` keys in the selected database; existing keys stay as they are.
fn populate(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let natural = |index: usize| {
        let Some(argument) = request.args.get(index) else { return Ok(0) };
        let number = number::parse_i64(argument).and_then(|number| usize::try_from(number).ok());
        number.ok_or(Error::fixed("ERR value is out of range, must be positive"))
    };
    let (count, size) = (natural(2)?, natural(4)?);
    if size as i64 > cx.engine.config.number(Opt::ProtoMaxBulkLen) {
        return Err(Error::STRING_TOO_LONG);
    }
    let prefix = request.args.get(3).unwrap_or(b"key");
    for at in 0..count {
        let name = [prefix, b":", at.to_string().as_bytes()].concat();
        let mut value = format!("value:{at}").into_bytes();
        if size != 0 {
            value.resize(size, 0);
        }
        let key = cx.engine.keyspace.store.key(&name);
        if cx.peek(key).is_none() {
            cx.set(key, &Value::Plain(&value), Deadline::Clear);
        }
    }
    // As in Redis, neither the AOF nor the replicas get these keys.
    cx.locks.recorder.record_nothing();
    cx.reply().ok();
    Ok(())
}

/// Sends a command only to the replicas, to test a replica with a command that it cannot apply.
fn replicate(cx: &mut Cx<'_>, request: Request<'_>) {
    let words = request.args.from(2);
    cx.locks.recorder.send_to_replicas(words.iter(), words.len());
    cx.reply().ok();
}

/// Sets a switch. As in Redis, a text that is no number counts as 0.
fn set_switch(cx: &mut Cx<'_>, switch: fn(&Debug) -> &AtomicBool, argument: &[u8]) {
    let wanted = number::parse_i64(argument).unwrap_or(0) != 0;
    switch(&cx.engine.debug).store(wanted, Ordering::Relaxed);
    cx.reply().ok();
}

fn delay_log(cx: &mut Cx<'_>, argument: &[u8]) {
    let delay_us = number::parse_i64(argument).unwrap_or(0).max(0) as u64;
    cx.engine.debug.log_delay_us.store(delay_us, Ordering::Relaxed);
    cx.reply().ok();
}

/// Sets QUICKLIST-PACKED-THRESHOLD. As in Redis, a size may have a unit, and 4 GiB are too much.
fn packed_threshold(cx: &mut Cx<'_>, argument: &[u8]) -> Outcome {
    const BYTES_MAX: u64 = (1 << 32) - (1 << 20);
    let bytes = size::parse(argument).filter(|bytes| *bytes <= BYTES_MAX);
    let refused = Error::fixed("ERR argument must be a memory value bigger than 1 and smaller than 4gb");
    cx.engine.debug.packed_threshold.store(bytes.ok_or(refused)? as usize, Ordering::Relaxed);
    cx.reply().ok();
    Ok(())
}

/// Sleeps for a time in seconds. As in Redis, a text that is no number counts as 0.
fn sleep(cx: &mut Cx<'_>, argument: &[u8]) {
    let seconds = number::parse_f64(argument).unwrap_or(0.0);
    let now = cx.clock.after(cx.now);
    cx.engine.sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default(), now);
    cx.reply().ok();
}

/// Replies with a fixed value of each type of the protocol, the same as Redis's, for tests of clients.
fn protocol(cx: &mut Cx<'_>, wanted: &[u8]) -> Outcome {
    let mut reply = cx.reply();
    match wanted.to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12_345),
        b"double" => reply.double(3_141.0 / 1_000.0),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        b"attrib" => {
            if reply.attribute(1) {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" => return push(cx),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"verbatim" => reply.verbatim(b"txt", b"This is a verbatim\nstring"),
        _ => {
            return Err(Error::fixed(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}

fn push(cx: &mut Cx<'_>) -> Outcome {
    let mut reply = cx.reply();
    if reply.protocol == sleeve_wire::reply::Protocol::Resp2 {
        return Err(Error::fixed("ERR RESP2 is not supported by this command"));
    }
    reply.push(2);
    reply.bulk(b"server-cpu-usage");
    reply.integer(42);
    reply.bulk(b"Some real reply following the push reply");
    Ok(())
}
