//! DUMP and RESTORE: a value as bytes, in Redis's form: the value as in its snapshot files, the version of that format in 16
//! bits, and a CRC-64 of all bytes before it.

use std::fmt;
use std::sync::atomic::Ordering;

use sleeve_store::rdb::{self, Destination, Input, Origin, Version};
use sleeve_store::{Collection, Deadline, EntryRef, Kind, Stream, Value};
use sleeve_wire::number;

use crate::commands::hash;
use crate::config::Opt;
use crate::context::Cx;
use crate::context::key_change;
use crate::context::key_change::Cause;
use crate::context::notifications::EventClass;
use crate::engine::keyspace::key_clock;
use crate::engine::keyspace::limits;
use crate::host::log;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// DUMP key
pub fn dump(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let now_ms = cx.due_ms;
    let payload = cx.read(request.key(0)).map(|entry| payload_of(&entry, now_ms));
    cx.reply().bulk_or_null(payload.as_deref());
    Ok(())
}

/// Returns the dump of a value, in the form that most servers can restore. A stream goes without the times at which consumers
/// were last active, which Redis 7.0 has no place for, unless it knows producers, which only the form of Redis 8.6 can
/// express. A set goes member by member, because 7.0 knows no packed sets of strings.
pub(super) fn payload_of(entry: &EntryRef<'_>, now_ms: i64) -> Vec<u8> {
    let version = if entry.kind() == Kind::Hash { Version::Twelve } else { oldest_for(entry) };
    payload_for(version, entry, now_ms)
}

/// Returns the oldest version of the format that can express the value; deadlines of fields do not count.
fn oldest_for(entry: &EntryRef<'_>) -> Version {
    let has_producers = entry.collection::<Stream>().is_some_and(|stream| stream.producers().is_some());
    if has_producers { Version::Thirteen } else { Version::Ten }
}

/// Returns the dump of a value in the form of this version.
fn payload_for(version: Version, entry: &EntryRef<'_>, now_ms: i64) -> Vec<u8> {
    let mut payload = Vec::new();
    let version = rdb::write(&mut payload, entry, now_ms, version);
    finish(&mut payload, version);
    payload
}

/// Ends a payload for RESTORE, with its version and its checksum.
pub fn finish(payload: &mut Vec<u8>, version: u16) {
    payload.extend(version.to_le_bytes());
    let sum = rdb::crc64(payload);
    payload.extend(sum.to_le_bytes());
}

/// Returns the version of a payload for RESTORE.
pub fn version_of(payload: &[u8]) -> u16 {
    let (summed, _) = payload.split_last_chunk::<8>().unwrap_or((&[], &[0; 8]));
    summed.last_chunk::<2>().map_or(0, |version| u16::from_le_bytes(*version))
}

/// Returns the value's part of a dump, if version and checksum are right. If `skips_sum` is set, the checksum is not checked.
pub fn checked(payload: &[u8], skips_sum: bool) -> Result<&[u8], Error> {
    const WRONG: Error = Error::fixed("ERR DUMP payload version or checksum are wrong");
    let (summed, sum) = payload.split_last_chunk::<8>().ok_or(WRONG)?;
    let (body, version) = summed.split_last_chunk::<2>().ok_or(WRONG)?;
    let is_known = rdb::origin_of(u16::from_le_bytes(*version)).is_some();
    let is_right = || skips_sum || rdb::crc64(summed) == u64::from_le_bytes(*sum);
    if is_known && is_right() { Ok(body) } else { Err(WRONG) }
}

/// Returns whether DEBUG has told the server to ignore the checksums of dumps.
pub fn skips_sum(cx: &Cx<'_>) -> bool {
    cx.engine.debug.skips_checksums.load(Ordering::Relaxed)
}

/// The options of RESTORE behind the payload.
#[derive(Default)]
struct RestoreOptions {
    replace: bool,
    absolute: bool,
    idle_s: Option<i64>,
    frequency: Option<i64>,
}

impl RestoreOptions {
    fn of(request: Request<'_>) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut words = request.args.from(4).iter();
        while let Some(word) = words.next() {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            if is("replace") {
                options.replace = true;
            } else if is("absttl") {
                options.absolute = true;
            } else if is("idletime") && options.frequency.is_none() && words.len() > 0 {
                let seconds = number::parse_i64(words.next().unwrap_or_default()).ok_or(Error::NOT_INTEGER)?;
                if seconds < 0 {
                    return Err(Error::fixed("ERR Invalid IDLETIME value, must be >= 0"));
                }
                options.idle_s = Some(seconds);
            } else if is("freq") && options.idle_s.is_none() && words.len() > 0 {
                let count = number::parse_i64(words.next().unwrap_or_default()).ok_or(Error::NOT_INTEGER)?;
                if !(0..=255).contains(&count) {
                    return Err(Error::fixed("ERR Invalid FREQ value, must be >= 0 and <= 255"));
                }
                options.frequency = Some(count);
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(options)
    }
}

/// RESTORE key ttl serialized-value \[REPLACE\] \[ABSTTL\] \[IDLETIME seconds\] \[FREQ frequency\]
pub fn restore(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, now_ms) = (request.key(0), cx.due_ms);
    let options = RestoreOptions::of(request)?;
    if !options.replace && cx.look(key).is_some() {
        return Err(Error::fixed("BUSYKEY Target key name already exists."));
    }
    let ttl_ms = number::parse_i64(request.arg(2)).ok_or(Error::NOT_INTEGER)?;
    if ttl_ms < 0 {
        return Err(Error::fixed("ERR Invalid TTL value, must be >= 0"));
    }
    let mut input = Input::new(checked(request.arg(3), skips_sum(cx))?);
    cx.counters.payloads_checked.add(1);
    let origin = rdb::origin_of(version_of(request.arg(3))).unwrap_or(Origin::Redis);
    let loaded = rdb::read(&mut input, origin, &limits::of_all(cx.engine, cx.due_ms));
    let loaded = loaded.map_err(|bad| refusal(&bad))?;
    if let Some(correction) = input.corrected().filter(|correction| !correction.is_taken()) {
        return Err(refusal(&correction));
    }
    if !input.is_empty() {
        return Err(refusal(&"bytes stand behind the value"));
    }
    let at_ms = match (ttl_ms, options.absolute) {
        (0, _) => None,
        (_, true) => Some(ttl_ms),
        (_, false) => Some(cx.now.wall_ms().saturating_add(ttl_ms)),
    };
    let replaced = cx.take_off(Cause::Uncounted, key);
    let was_there = replaced.map(|garbage| cx.free(garbage, Opt::LazyfreeLazyServerDel)).is_some();
    let is_over = at_ms.is_some_and(|at_ms| at_ms <= now_ms);
    if is_over || !loaded.put(UnderKey(cx, key)) {
        if was_there {
            cx.changed_many(1);
            cx.notify(EventClass::Generic, "del", key);
            cx.record(&[key_change::removal(cx.engine, Opt::LazyfreeLazyServerDel), key.name]);
        }
        cx.reply().ok();
        return Ok(());
    }
    set_clock_and_deadline(cx, key, &options, at_ms);
    cx.notify(EventClass::Generic, "restore", key);
    let is_relative = at_ms.is_some() && !options.absolute;
    record_restored(cx, request, at_ms, is_relative);
    cx.reply().ok();
    Ok(())
}

/// Logs the reason why a payload is not restored, and returns the error for the client.
fn refusal(why: &dyn fmt::Display) -> Error {
    log::warning(&format!("RESTORE refuses a payload: {why}"));
    Error::fixed("ERR Bad data format")
}

/// Records the restored value: the request as it came, with the time of its deadline in place of a relative one. If the form
/// of the payload is newer than Redis 7.0, the value is recorded in the oldest form that has its type. Expired fields are left
/// out, because a server that executes the record may have another clock.
fn record_restored(cx: &mut Cx<'_>, request: Request<'_>, at_ms: Option<i64>, is_relative: bool) {
    let (key, payload) = (request.key(0), request.arg(3));
    let (digits, now_ms) = (number::Digits::new(at_ms.unwrap_or(0)), cx.due_ms);
    // A replica, or a server that loads the AOF, would refuse a wrong checksum that was ignored here.
    let is_odd = version_of(payload) > Version::Ten.number() || skips_sum(cx);
    let is_new = is_odd && cx.locks.recorder.is_recording();
    if is_new && hash::timed::record_whole(cx, key) {
        if at_ms.is_some() {
            cx.record(&[b"PEXPIREAT", key.name, digits.as_bytes()]);
        }
        return;
    }
    let kept = if is_new { cx.peek(key).map(|entry| payload_for(oldest_for(&entry), &entry, now_ms)) } else { None };
    if kept.is_none() && !is_relative {
        return;
    }
    let head: [&[u8]; 4] = [b"RESTORE", key.name, digits.as_bytes(), kept.as_deref().unwrap_or(payload)];
    let options = request.args.from(4);
    if let Some(mut words) = cx.effect(head.len() + options.len() + usize::from(is_relative)) {
        words.bulks(&head);
        options.iter().for_each(|word| words.bulk(word));
        if is_relative {
            words.bulk(b"ABSTTL");
        }
    }
}

/// The destination of a restored value: a key of the selected database. The result is false if the value is empty, because
/// all its fields have expired.
struct UnderKey<'c, 'a, 'k>(&'c mut Cx<'a>, Key<'k>);

impl Destination for UnderKey<'_, '_, '_> {
    fn string(self, bytes: Vec<u8>) -> bool {
        self.0.set(self.1, &Value::Plain(&bytes), Deadline::Clear);
        true
    }

    fn collection<C: Collection>(self, collection: C) -> bool {
        self.0.set_collection(self.1, collection)
    }
}

fn set_clock_and_deadline(cx: &mut Cx<'_>, key: Key<'_>, options: &RestoreOptions, at_ms: Option<i64>) {
    let (engine, now) = (cx.engine, cx.now);
    let Some(mut entry) = cx.edit(key) else { return };
    entry.set_deadline(at_ms);
    if let Some(idle_s) = options.idle_s {
        entry.touch(key_clock::idle_for(&engine.config, idle_s, now));
    }
    if let Some(frequency) = options.frequency {
        entry.touch(key_clock::used(&engine.config, frequency as u32, now));
    }
    if let Some(at_ms) = at_ms {
        cx.deadline_given(cx.state.database, key, at_ms);
    }
}
