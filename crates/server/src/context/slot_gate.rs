//! The gate of a node of a cluster: whether this node serves the one slot of a request's keys.
//!
//! It is passed twice. Before the locks are taken it refuses most requests that belong elsewhere, in Redis's order among the
//! other gates. Behind the locks it decides again, because the slot may have left in between, and because only there the keys
//! of a slot on the move can be looked up. The commands of a script pass it once, behind the script's locks.

use std::sync::atomic::Ordering;

use sleeve_cluster::Slot;
use sleeve_wire::commands::{Command, Flags, Row};
use sleeve_wire::request::Args;

use super::Cx;
use super::locking;
use crate::engine::cluster;
use crate::engine::cluster::judgement::{Presence, Refusal, SlotRequest, has_owner, judge};
use crate::engine::cluster::slot_marks::Mark;
use crate::engine::cluster::{Cluster, slot_of};
use crate::request::error::{Error, Outcome};
use crate::request::{Key, KeyAt, Request};

/// The slots of a request's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Route {
    /// The slot of the first key.
    slot: Slot,
    /// There are keys of different names.
    has_many_keys: bool,
    /// There are keys of different slots.
    is_cross: bool,
}

impl Route {
    fn of<'n>(mut keys: impl Iterator<Item = (Slot, &'n [u8])>) -> Option<Self> {
        let (slot, first) = keys.next()?;
        let mut route = Self { slot, has_many_keys: false, is_cross: false };
        for (other, name) in keys {
            route.has_many_keys |= name != first;
            route.is_cross |= other != slot;
        }
        Some(route)
    }
}

/// Returns whether a request needs no further look: its one key is of a slot that this node serves, or it has no keys.
#[inline]
pub fn is_served(cluster: &Cluster, request: &Request<'_>) -> bool {
    match request.key_places {
        [key] => cluster.marks.is(key.hash.slot(), Mark::Own),
        [] => !has_other_route(request.row.id),
        _ => false,
    }
}

/// Returns whether a command is routed by channels or by the keys of other commands.
fn has_other_route(command: Command) -> bool {
    command == Command::Exec || is_of_channels(command)
}

fn is_of_channels(command: Command) -> bool {
    matches!(command, Command::SSubscribe | Command::SUnsubscribe | Command::SPublish)
}

/// Decides about a request before its locks are taken. If it is about to be queued for EXEC, and its slot is on the move, the
/// shards of its keys are locked for a moment. `writes` says whether the request, or a command that EXEC runs, writes.
///
/// # Errors
/// The redirect, or the reason why no node serves the request.
pub fn pass(
    cx: &mut Cx<'_>,
    cluster: &Cluster,
    request: &Request<'_>,
    (writes, will_queue): (bool, bool),
) -> Result<(), Error> {
    let Some(route) = route_of(cx, request) else { return Ok(()) };
    if !route.is_cross && cluster.marks.is(route.slot, Mark::Own) {
        return Ok(());
    }
    let asked = slot_request(cx, request.row, route, writes);
    let presence = match will_queue && !request.key_places.is_empty() && !route.is_cross {
        true => Some(presence_at_moment(cx, request)?),
        false => None,
    };
    decide(cx, cluster, (route, asked), presence.map(|presence| move || presence))
}

/// Decides about a request with its locks held.
///
/// # Errors
/// As [`pass`].
pub fn pass_locked(cx: &Cx<'_>, cluster: &Cluster, request: &Request<'_>, writes: bool) -> Result<(), Error> {
    let slots = locked_keys(cx, request).map(|key| (key.hash.slot(), key.name));
    let Some(route) = Route::of(slots) else { return Ok(()) };
    if !route.is_cross && cluster.marks.is(route.slot, Mark::Own) {
        return Ok(());
    }
    let asked = slot_request(cx, request.row, route, writes);
    decide(cx, cluster, (route, asked), Some(|| presence_of(cx, locked_keys(cx, request))))
}

/// Decides about a command of a script. All its locks are held.
///
/// # Errors
/// The script's command uses a key that this node does not serve, or one of another slot than the script's other keys.
pub fn check_script(
    cx: &mut Cx<'_>,
    (row, args, keys): (&'static Row, Args<'_>, &[KeyAt]),
    allows_cross_slot: bool,
) -> Outcome {
    let Some(cluster) = cx.engine.cluster.get().filter(|_| !cx.state.origin.is_replaying) else { return Ok(()) };
    let named = keys_of(args, keys).map(|key| (key.hash.slot(), key.name));
    let channels = is_of_channels(row.id).then(|| routed(row, args));
    let Some(route) = Route::of(named.chain(channels.into_iter().flatten())) else { return Ok(()) };
    if route.is_cross || !cluster.marks.is(route.slot, Mark::Own) {
        let asked = slot_request(cx, row, route, row.flags.contains(Flags::WRITE));
        let presence = || presence_of(cx, keys_of(args, keys));
        judge_all(cx, cluster, (route, asked), Some(presence)).map_err(|refusal| refusal.script_error())?;
    }
    if !allows_cross_slot && *cx.state.multi.slot.get_or_insert(route.slot) != route.slot {
        return Err(Error::fixed("ERR Script attempted to access keys that do not hash to the same slot"));
    }
    Ok(())
}

/// Returns the slots of a request: those of its keys or channels, and for EXEC those of the queued commands.
fn route_of(cx: &Cx<'_>, request: &Request<'_>) -> Option<Route> {
    if request.row.id == Command::Exec {
        let queued = cx.state.multi.transaction.iter().flat_map(|transaction| transaction.queue.iter());
        return Route::of(queued.flat_map(|(row, args)| routed(row, args)));
    }
    if is_of_channels(request.row.id) {
        return Route::of(routed(request.row, request.args));
    }
    Route::of(request.keys().map(|key| (key.hash.slot(), key.name)))
}

/// Returns the keys of a request with its shards locked, and those of the commands that EXEC is about to run.
fn locked_keys<'a>(cx: &'a Cx<'_>, request: &'a Request<'_>) -> impl Iterator<Item = Key<'a>> {
    let is_exec = request.row.id == Command::Exec;
    let transaction = cx.state.multi.transaction.as_ref().filter(|transaction| is_exec && !transaction.aborted);
    let queued = transaction.into_iter().flat_map(|transaction| {
        let commands = transaction.queue.iter().zip(&transaction.places);
        commands.flat_map(|((_, args), places)| keys_of(args, &transaction.keys[places.clone()]))
    });
    request.keys().chain(queued)
}

/// Returns the keys and channels of a command, with their slots.
fn routed<'a>(row: &'static Row, args: Args<'a>) -> impl Iterator<Item = (Slot, &'a [u8])> {
    row.routing_positions(args).filter_map(move |index| args.get(index)).map(|name| (slot_of(name), name))
}

fn keys_of<'a>(args: Args<'a>, places: &'a [KeyAt]) -> impl Iterator<Item = Key<'a>> + Clone {
    places.iter().map(move |place| Key { name: args.arg(place.index as usize), hash: place.hash })
}

fn slot_request(cx: &Cx<'_>, row: &Row, route: Route, writes: bool) -> SlotRequest {
    SlotRequest {
        slot: route.slot,
        writes,
        is_asking: cx.state.origin.is_asking() || row.flags.contains(Flags::ASKING),
        reads_replicas: cx.state.client.settings.reads_replicas.load(Ordering::Relaxed),
        is_of_channels: is_of_channels(row.id),
        moves_keys: row.id == Command::Migrate,
        has_many_keys: route.has_many_keys,
    }
}

/// Decides by the view, and words the refusal for the client.
fn decide<P: FnOnce() -> Presence>(
    cx: &Cx<'_>,
    cluster: &Cluster,
    asked: (Route, SlotRequest),
    presence: Option<P>,
) -> Result<(), Error> {
    let is_tls = cx.state.client.socket.is_tls;
    judge_all(cx, cluster, asked, presence).map_err(|refusal| refusal.error(is_tls))
}

fn judge_all<P: FnOnce() -> Presence>(
    cx: &Cx<'_>,
    cluster: &Cluster,
    (route, asked): (Route, SlotRequest),
    presence: Option<P>,
) -> Result<(), Refusal> {
    let may_read_here = asked.reads_replicas && !asked.writes && cluster.marks.is(route.slot, Mark::OfPrimary);
    if may_read_here && !route.is_cross {
        return Ok(());
    }
    let view = cluster.view();
    match route.is_cross {
        true if has_owner(&view, route.slot) => Err(Refusal::CrossSlot),
        true => Err(Refusal::Unbound),
        false => judge(&view, &asked, cluster::when_down(&cx.engine.config), presence),
    }
}

/// Counts the keys of a request that is about to be queued, with their shards locked for a moment.
fn presence_at_moment(cx: &mut Cx<'_>, request: &Request<'_>) -> Result<Presence, Error> {
    locking::lock_keys(cx, request.key_places.iter().map(|key| key.hash))?;
    let presence = presence_of(cx, request.keys());
    cx.locks.clear();
    Ok(presence)
}

/// Counts the keys that are here. Their shards are locked.
fn presence_of<'a>(cx: &Cx<'_>, keys: impl Iterator<Item = Key<'a>>) -> Presence {
    let mut presence = Presence::default();
    for key in keys {
        match cx.view(cx.state.database, key) {
            Some(_) => presence.here += 1,
            None => presence.missing += 1,
        }
    }
    presence
}
