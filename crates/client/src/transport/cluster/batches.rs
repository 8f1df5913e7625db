//! Requests that go together: batches, transactions, and gathered calls.
//!
//! Requests that must leave in one piece go to one node, so all of their keys lie in one slot, or they are refused before any
//! of them leaves. Gathered calls promise no more than each call alone, so each goes to its own node. Any thread.

use std::sync::Arc;

use sleeve_wire::commands::ResponsePolicy;

use super::Cluster;
use super::combine::{Parts, ReplyMerge};
use super::map::Map;
use super::slots::{Named, crossing, named};
use crate::config::QueueFull;
use crate::connection::Link;
use crate::error::{Error, ErrorKind};
use crate::pipe::asker::Unit;
use crate::pipe::queued::runs_tasks;
use crate::pipe::routed::{Destination, Routed};
use crate::pipe::slot::Completions;
use crate::pipe::transaction_state::TransactionState;
use crate::resp::request::EncodedRequest;
use crate::resp::request::name::Name;
use crate::resp::request::words::{Places, Words};
use crate::sys::clock_ms;

/// Returns the requests of units, which lie one behind the other in these bytes.
fn requests<'a>(units: &[Unit], bytes: &'a [u8]) -> Vec<EncodedRequest<'a>> {
    let mut rest = bytes;
    let request = |unit: &Unit| {
        let (request, after) = rest.split_at_checked(unit.length).unwrap_or((rest, &[]));
        rest = after;
        EncodedRequest { bytes: request, name: unit.target.name() }
    };
    units.iter().map(request).collect()
}

/// Returns the one slot of the keys of requests that go together; none if they have no keys.
pub(crate) fn one_slot<'a>(
    what: &str,
    requests: impl Iterator<Item = EncodedRequest<'a>>,
) -> Result<Option<u16>, Error> {
    let mut one = None;
    for request in requests {
        match (named(request), one) {
            (Named::One(slot), None) => one = Some(slot),
            (Named::One(slot), Some(one)) if slot != one => return Err(crossing(what, one, slot)),
            (Named::Several(slot, other), _) => return Err(crossing(what, slot, other)),
            (Named::One(_), _) => {}
            (Named::None, _) => {
                let is_for_all = request.name.row().is_some_and(|row| row.tips.request_policy().is_some());
                if is_for_all {
                    let name = request.name;
                    return Err(Error::usage(format!(
                        "{name} is for all nodes of the cluster, and {what} goes to one of them: send it by itself"
                    )));
                }
            }
        }
    }
    Ok(one)
}

/// Sends several requests without another request between them.
pub(crate) fn send_units(cluster: &Cluster, units: Vec<Unit>, bytes: &[u8]) -> Result<(), (Error, Vec<Unit>)> {
    let requests = requests(&units, bytes);
    let slot = cluster.check_open().and_then(|()| one_slot("the batch", requests.iter().copied()));
    let destination = match slot {
        Ok(slot) => slot.map_or(Destination::Anybody, Destination::Slot),
        Err(error) => return Err((error, units)),
    };
    if let Err(error) = make_room(cluster, destination, bytes.len()) {
        return Err((error, units));
    }
    let time = (clock_ms(), false);
    let route = |(unit, request): (Unit, EncodedRequest<'_>)| {
        let request = (request.bytes.into(), request.name);
        let mut routed = Routed::new(cluster.me.clone(), request, unit.database, time, destination);
        routed.attach(unit.target);
        routed
    };
    let routed = units.into_iter().zip(requests).map(route).collect();
    send_attached(cluster, destination, routed);
    Ok(())
}

/// Waits until the connection to this destination has room, or fails if it gets none.
pub(in crate::transport) fn make_room(cluster: &Cluster, destination: Destination, length: usize) -> Result<(), Error> {
    let link = cluster.node_for(&cluster.map.read(), destination).and_then(|node| node.link());
    let Some(link) = link.filter(|link| link.is_overfull()) else { return Ok(()) };
    match cluster.config.limits.queue_full {
        QueueFull::Fail => Err(Error::unsent(
            ErrorKind::QueueFull,
            format!("the queue of {} has no room for {length} bytes, so they were not sent", link.config.endpoint),
        )),
        QueueFull::Wait => {
            link.await_room(cluster.room_deadline(), runs_tasks());
            Ok(())
        }
    }
}

/// Sends requests that have their callers' slots, without another request between them, or leaves them to the task.
pub(in crate::transport) fn send_attached(cluster: &Cluster, destination: Destination, several: Vec<Routed>) {
    let written: Vec<Arc<[u8]>> = several.iter().filter_map(|routed| cluster.cache.written(routed)).collect();
    let mut done = Completions::default();
    let map = cluster.map.read();
    if let Err(several) = send_together(cluster, &map, destination, several) {
        cluster.leave_to_task(several, &mut done);
    }
    drop(map);
    cluster.cache.wrote_all(written);
    cluster.finish(&mut done);
}

/// Sends requests as `send_attached` does, if they can be sent now; otherwise returns them.
fn send_together(
    cluster: &Cluster,
    map: &Map,
    destination: Destination,
    mut several: Vec<Routed>,
) -> Result<(), Vec<Routed>> {
    let Some((number, link)) = cluster.node_for(map, destination).and_then(|node| Some((node.number, node.link()?)))
    else {
        return Err(several);
    };
    several.iter_mut().for_each(|routed| routed.node = number);
    link.resend_routed(several)
}

/// Sends calls that were gathered, each to its own node. It never waits.
pub(crate) fn send_gathered(cluster: &Cluster, units: Vec<Unit>, bytes: &[u8]) -> Result<(), (Error, Vec<Unit>)> {
    if let Err(error) = cluster.check_open() {
        return Err((error, units));
    }
    let requests = requests(&units, bytes);
    for (unit, request) in units.into_iter().zip(requests) {
        let destination = match named(request) {
            Named::One(slot) => Destination::Slot(slot),
            Named::None => Destination::Anybody,
            Named::Several(one, other) => {
                if let Some(target) = cluster.split_for(unit.target, unit.database, request, None) {
                    cluster.complete(target, crossing(&request.name.to_string(), one, other));
                }
                continue;
            }
        };
        let request = (request.bytes.into(), request.name);
        let mut routed = Routed::new(cluster.me.clone(), request, unit.database, (unit.issued_ms, false), destination);
        routed.attach(unit.target);
        send_attached(cluster, destination, vec![routed]);
    }
    Ok(())
}

/// Sends a transaction to the owner of its slot.
pub(crate) fn send_transaction(cluster: &Cluster, mut transaction: TransactionState, database: u32, request: &[u8]) {
    let parts = [request, transaction.execution().unwrap_or_default()].concat();
    let requests = commands_of(&parts);
    let slot = cluster.check_open().and_then(|()| one_slot("the transaction", requests.iter().copied()));
    let destination = slot.map(|slot| slot.map_or(Destination::Anybody, Destination::Slot));
    match destination.and_then(|destination| link_for(cluster, destination)) {
        Ok(link) => {
            // The outcome passes through here on its way to the caller, so that an error that shows a new owner of the slot
            // is noticed.
            let (outcome, handle) = cluster.source.lock().pair(transaction.name().unwrap_or(Name::UNKNOWN));
            if let Some(target) = transaction.tell_instead(outcome) {
                let recipe = ReplyMerge::Policy(Some(ResponsePolicy::OneSucceeded));
                Parts::gather(cluster.me.clone(), vec![handle], recipe, target);
            }
            link.send_transaction(transaction, database, request);
            requests.into_iter().for_each(|request| cluster.cache.wrote(request));
        }
        Err(error) => {
            cluster.doubt();
            let mut done = Completions::default();
            transaction.fail(&error, &mut done);
            cluster.finish(&mut done);
        }
    }
}

/// Returns the connection to this destination.
fn link_for(cluster: &Cluster, destination: Destination) -> Result<Arc<Link>, Error> {
    let link = cluster.node_for(&cluster.map.read(), destination).and_then(|node| node.link());
    link.filter(|link| link.is_open()).ok_or_else(|| {
        let message = "the node of the cluster that has its keys cannot be reached at the moment, so it was not sent";
        Error::unsent(ErrorKind::Connect, message)
    })
}

/// Returns the requests that lie one behind the other in these bytes.
fn commands_of(bytes: &[u8]) -> Vec<EncodedRequest<'_>> {
    let mut rest = bytes;
    let mut requests = Vec::new();
    while !rest.is_empty() {
        let mut words = Words::of(rest);
        words.by_ref().for_each(drop);
        let Some((request, after)) = rest.split_at_checked(words.at()) else { break };
        let places = Places::of(request);
        let named: Vec<&[u8]> = places.args(request).iter().take(2).collect();
        requests.push(EncodedRequest { bytes: request, name: Name::find(&named) });
        rest = after;
    }
    requests
}
