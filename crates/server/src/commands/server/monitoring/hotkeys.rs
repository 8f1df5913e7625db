//! HOTKEYS: starts and stops the collection of the keys that take most of the time and of the network, and reports them. It
//! also reports the keys that were used most recently, for which samples are always taken.
//!
//! The cost of a command is noted when it ends (`context/command_log`); the notes are kept in `engine/observe/hot_keys`. The
//! permanent samples are in `engine/observe/key_samples`.

use sleeve_wire::number;
use sleeve_wire::reply::Writer;

use crate::context::Cx;
use crate::engine::observe::hot_keys::Plan;
use crate::engine::observe::key_samples::{HALF_LIFE_MS, SAMPLE_RATIO};
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The default of COUNT, the number of keys that are reported, and its greatest value.
const COUNT: usize = 10;
const COUNT_MAX: i64 = 64;

/// The longest collection that DURATION can ask for, in seconds.
const DURATION_S_MAX: i64 = 1_000_000;

/// The last slot of a cluster; a server without a cluster has all slots.
const SLOT_LAST: i64 = 16_383;

/// HOTKEYS START METRICS count \[CPU\] \[NET\] \[COUNT k\] \[DURATION seconds\] \[SAMPLE ratio\]
pub fn start(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    const UNDER_WAY: Error = Error::fixed("ERR hotkey tracking session already in progress");
    if cx.engine.observe.hot_keys.is_active(cx.now) {
        return Err(UNDER_WAY);
    }
    let plan = plan(&request)?;
    if !cx.engine.observe.hot_keys.start(plan, &cx.engine.observe.stats, cx.now) {
        return Err(UNDER_WAY);
    }
    cx.reply().ok();
    Ok(())
}

fn plan(request: &Request<'_>) -> Result<Plan, Error> {
    let (by_time, by_bytes, metrics) = metrics(request)?;
    let mut plan = Plan { by_time, by_bytes, count: COUNT, duration_ms: None, sample_ratio: 1 };
    let mut words = request.args.iter().skip(4 + metrics);
    while let Some(word) = words.next() {
        let mut number = |least, most| -> Result<Option<i64>, Error> {
            let text = words.next().ok_or(Error::SYNTAX)?;
            Ok(number::parse_i64(text).filter(|number| (least..=most).contains(number)))
        };
        if word.eq_ignore_ascii_case(b"count") {
            const BAD_COUNT: Error = Error::fixed("ERR COUNT must be between 1 and 64");
            plan.count = number(1, COUNT_MAX)?.ok_or(BAD_COUNT)? as usize;
        } else if word.eq_ignore_ascii_case(b"duration") {
            const BAD_DURATION: Error = Error::fixed("ERR DURATION must be between 1 and 1000000");
            plan.duration_ms = Some(number(1, DURATION_S_MAX)?.ok_or(BAD_DURATION)? as u64 * 1_000);
        } else if word.eq_ignore_ascii_case(b"sample") {
            const BAD_RATIO: Error = Error::fixed("ERR SAMPLE ratio must be positive");
            plan.sample_ratio = number(1, i64::from(i32::MAX))?.ok_or(BAD_RATIO)? as u64;
        } else if word.eq_ignore_ascii_case(b"slots") {
            number(0, 0)?;
            return Err(Error::fixed("ERR SLOTS parameter cannot be used in non-cluster mode"));
        } else {
            return Err(Error::SYNTAX);
        }
    }
    Ok(plan)
}

/// Reads the metrics that are asked for, and how many words name them.
fn metrics(request: &Request<'_>) -> Result<(bool, bool, usize), Error> {
    const NOT_SO_MANY: Error = Error::fixed("ERR METRICS count does not match number of metric types provided");
    let args = request.args;
    let (Some(word), Some(count)) = (args.get(2), args.get(3)) else { return Err(NO_METRICS) };
    if !word.eq_ignore_ascii_case(b"metrics") {
        return Err(NO_METRICS);
    }
    let count = number::parse_i64(count).filter(|count| (1..=2).contains(count));
    let count = count.ok_or(Error::fixed("ERR METRICS count must be > 0 and <= 2"))? as usize;
    if request.len() < 4 + count {
        return Err(NOT_SO_MANY);
    }
    let named = |name: &[u8]| args.iter().skip(4).take(count).filter(|word| word.eq_ignore_ascii_case(name)).count();
    match (named(b"cpu"), named(b"net")) {
        (2.., _) => Err(Error::fixed("ERR METRICS CPU defined more than once!")),
        (_, 2..) => Err(Error::fixed("ERR METRICS NET defined more than once!")),
        (0, 0) => Err(Error::fixed("ERR METRICS no valid metrics passed. Supported: CPU|NET")),
        (cpu, net) if cpu + net < count => Err(NOT_SO_MANY),
        (cpu, net) => Ok((cpu == 1, net == 1, count)),
    }
}

const NO_METRICS: Error = Error::fixed("ERR METRICS parameter is required");

/// HOTKEYS STOP
pub fn stop(cx: &mut Cx<'_>) -> Outcome {
    match cx.engine.observe.hot_keys.stop(cx.now) {
        true => cx.reply().ok(),
        false => cx.reply().null(),
    }
    Ok(())
}

/// HOTKEYS RESET
pub fn reset(cx: &mut Cx<'_>) -> Outcome {
    if !cx.engine.observe.hot_keys.reset(&cx.engine.observe.stats, cx.now) {
        return Err(Error::fixed("ERR hotkey tracking session in progress, stop tracking first"));
    }
    cx.reply().ok();
    Ok(())
}

/// HOTKEYS GET
pub fn get(cx: &mut Cx<'_>) -> Outcome {
    let (engine, now) = (cx.engine, cx.now);
    let Some((collection, tally)) = engine.observe.hot_keys.found(&engine.observe.stats, now) else {
        cx.reply().null();
        return Ok(());
    };
    let plan = collection.plan;
    let microseconds = |ticks| engine.identity.ticker.nanoseconds(ticks) / 1_000;
    let (user_ms, system_ms) = collection.cpu_ms();
    let mut reply = cx.reply();
    reply.array(1);
    reply.map(7 + 3 * usize::from(plan.by_time) + 2 * usize::from(plan.by_bytes));
    field(&mut reply, "tracking-active", u64::from(collection.is_active()));
    field(&mut reply, "sample-ratio", plan.sample_ratio);
    reply.bulk(b"selected-slots");
    reply.array(1);
    reply.array(2);
    reply.integer(0);
    reply.integer(SLOT_LAST);
    field(&mut reply, "all-commands-all-slots-us", microseconds(tally.elapsed_ticks));
    field(&mut reply, "net-bytes-all-commands-all-slots", tally.bytes);
    field(&mut reply, "collection-start-time-unix-ms", collection.began.wall_ms() as u64);
    field(&mut reply, "collection-duration-ms", collection.duration_ms(now));
    if plan.by_time {
        field(&mut reply, "total-cpu-time-user-ms", user_ms);
        field(&mut reply, "total-cpu-time-sys-ms", system_ms);
    }
    if plan.by_bytes {
        field(&mut reply, "total-net-bytes", tally.key_bytes());
    }
    if plan.by_time {
        let by_time = tally.top_by_ticks(plan.count).into_iter().map(|(name, ticks)| (name, microseconds(ticks)));
        keys(&mut reply, "by-cpu-time-us", by_time);
    }
    if plan.by_bytes {
        keys(&mut reply, "by-net-bytes", tally.top_by_bytes(plan.count).into_iter());
    }
    Ok(())
}

/// HOTKEYS TOP \[count\]
pub fn top(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let count = match request.args.get(2) {
        _ if request.len() > 3 => return Err(Error::arity(request.row.full_name)),
        None => COUNT,
        Some(text) => {
            let count = number::parse_i64(text).filter(|count| (1..=COUNT_MAX).contains(count));
            count.ok_or(Error::fixed("ERR count must be between 1 and 64"))? as usize
        }
    };
    let samples = cx.engine.observe.stats.key_samples();
    let mut reply = cx.reply();
    reply.map(4);
    field(&mut reply, "sample-ratio", SAMPLE_RATIO as u64);
    field(&mut reply, "half-life-ms", HALF_LIFE_MS);
    field(&mut reply, "samples", samples.total());
    keys(&mut reply, "by-samples", samples.top(count).into_iter());
    Ok(())
}

fn field(reply: &mut Writer<'_>, name: &str, value: u64) {
    reply.bulk(name.as_bytes());
    reply.integer(i64::try_from(value).unwrap_or(i64::MAX));
}

fn keys<'k>(reply: &mut Writer<'_>, name: &str, keys: impl ExactSizeIterator<Item = (&'k [u8], u64)>) {
    reply.bulk(name.as_bytes());
    reply.array(2 * keys.len());
    for (key, weight) in keys {
        reply.bulk(key);
        reply.integer(i64::try_from(weight).unwrap_or(i64::MAX));
    }
}
