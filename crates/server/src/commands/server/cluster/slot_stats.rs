//! CLUSTER SLOT-STATS: the keys of the slots of this node's shard, and with `cluster-slot-stats-enabled yes` the time and the
//! bytes of the requests for them.

use std::cmp::Reverse;

use sleeve_cluster::{SLOTS, Slot};
use sleeve_store::keys_in_slot;
use sleeve_wire::number;

use super::keys::parse_slot;
use super::{enabled, too_many};
use crate::config::Opt;
use crate::context::Cx;
use crate::engine::cluster::is_of_shard;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The names of the figures, in the order of the reply. The first is always there, the others if they are counted.
const METRICS: [&str; 4] = ["key-count", "cpu-usec", "network-bytes-in", "network-bytes-out"];

/// The figures of a slot, in the order of [`METRICS`].
type Figures = [u64; METRICS.len()];

/// The order of ORDERBY: the slots with the most, or the least, of one figure.
struct Ranking {
    /// The figure, as an index of [`METRICS`].
    metric: usize,
    is_ascending: bool,
    limit: usize,
}

/// CLUSTER SLOT-STATS SLOTSRANGE first last | ORDERBY metric \[LIMIT limit\] \[ASC | DESC\]
pub fn show(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    enabled(cx.engine)?;
    let metrics = if cx.engine.config.flag(Opt::ClusterSlotStatsEnabled) { METRICS.len() } else { 1 };
    let word = request.arg(2);
    if word.eq_ignore_ascii_case(b"slotsrange") && request.len() == 5 {
        let (first, last) = (parse_slot(request.arg(3))?, parse_slot(request.arg(4))?);
        if first > last {
            let text = format!("ERR Start slot number {first} is greater than end slot number {last}");
            return Err(Error::new(text));
        }
        let found = figures(cx, first..=last)?;
        write(cx, &found, metrics);
        return Ok(());
    }
    if !word.eq_ignore_ascii_case(b"orderby") {
        return Err(too_many(request));
    }
    let order = parse_order(request, metrics)?;
    let mut found = figures(cx, 0..=SLOTS - 1)?;
    // Slots with the same figure stand in the order of their numbers.
    match order.is_ascending {
        true => found.sort_by_key(|(_, figures)| figures[order.metric]),
        false => found.sort_by_key(|(_, figures)| Reverse(figures[order.metric])),
    }
    found.truncate(order.limit);
    write(cx, &found, metrics);
    Ok(())
}

fn parse_order(request: Request<'_>, metrics: usize) -> Result<Ranking, Error> {
    let metric = METRICS[..metrics].iter().position(|name| request.arg(3).eq_ignore_ascii_case(name.as_bytes()));
    let metric = metric.ok_or(Error::fixed("ERR Unrecognized sort metric for ORDERBY."))?;
    let mut order = Ranking { metric, is_ascending: false, limit: usize::from(SLOTS) };
    let (mut limits, mut orders, mut at) = (0, 0, 4);
    while at < request.len() {
        let word = request.arg(at).to_ascii_lowercase();
        match (word.as_slice(), request.args.get(at + 1)) {
            (b"limit", Some(limit)) => {
                let limit = number::parse_i64(limit).filter(|limit| (1..=i64::from(SLOTS)).contains(limit));
                order.limit = limit
                    .and_then(|limit| usize::try_from(limit).ok())
                    .ok_or(Error::fixed("ERR Limit has to lie in between 1 and 16384 (maximum number of slots)."))?;
                limits += 1;
                at += 1;
            }
            (b"asc" | b"desc", _) => {
                order.is_ascending = word == b"asc";
                orders += 1;
            }
            _ => return Err(Error::SYNTAX),
        }
        if limits > 1 || orders > 1 {
            return Err(Error::fixed("ERR Multiple filters of the same type are disallowed."));
        }
        at += 1;
    }
    Ok(order)
}

/// Returns the figures of the slots in the range that this node's shard owns.
fn figures(cx: &mut Cx<'_>, range: std::ops::RangeInclusive<Slot>) -> Result<Vec<(Slot, Figures)>, Error> {
    let engine = cx.engine;
    let cluster = enabled(engine)?;
    let (view, store) = (cluster.view(), &engine.keyspace.store);
    let of_slot = |slot: Slot| {
        let count = cx.locks.with(store.shard_of_slot(slot), |shard| {
            (0..store.databases()).map(|database| keys_in_slot(shard, database, slot)).sum()
        });
        let cost = cluster.costs.of(slot);
        let cpu_us = engine.identity.ticker.nanoseconds(cost.ticks) / 1_000;
        (slot, [count, cpu_us, cost.input_bytes, cost.output_bytes])
    };
    Ok(range.filter(|slot| is_of_shard(&view, *slot)).map(of_slot).collect())
}

fn write(cx: &mut Cx<'_>, found: &[(Slot, Figures)], metrics: usize) {
    let mut reply = cx.reply();
    reply.array(found.len());
    for (slot, figures) in found {
        reply.array(2);
        reply.integer(i64::from(*slot));
        reply.map(metrics);
        for (name, figure) in METRICS.iter().zip(figures).take(metrics) {
            reply.bulk(name.as_bytes());
            reply.integer(i64::try_from(*figure).unwrap_or(i64::MAX));
        }
    }
}
