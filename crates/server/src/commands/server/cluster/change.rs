//! The subcommands that change the cluster.
//!
//! They run with all shards locked, so that the workers see the change before the client sees the reply. The thread of the
//! bus carries out the actions behind it: nodes.conf, a new role, packets. The client is blocked until then. In a transaction
//! it may not be, and gets the reply at once.

use sleeve_cluster::Slot;
use sleeve_cluster::admin::{self, Operation, Refusal, SlotMove};
use sleeve_cluster::state::manual_failover::FailoverKind;
use sleeve_wire::number;

use super::{enabled, too_many};
use crate::context::Cx;
use crate::engine::clients::blocking::{Block, OnTimeout};
use crate::engine::cluster::host::{ServerHost, time};
use crate::engine::cluster::view_change;
use crate::engine::readiness::Hindrance;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// Runs a command of an operator, and shows its effect to the workers.
///
/// # Errors
/// The server is no node of a cluster, or the command refuses.
fn operate<T>(cx: &mut Cx<'_>, command: impl FnOnce(&mut Operation<'_>) -> Result<T, Refusal>) -> Result<T, Error> {
    let cluster = enabled(cx.engine)?;
    let (outcome, view) = {
        let mut state = cluster.state.lock();
        let mut host = ServerHost::new(cx.engine, &mut cx.locks, cx.dice, cx.now);
        let before = state.version();
        let outcome = admin::operate(&mut state, time(cx.now), &mut host, command);
        let view = (state.version() != before).then(|| state.view());
        (outcome, view)
    };
    if let Some(view) = view {
        view_change::show(cx.engine, view);
    }
    cluster.wake();
    outcome.map_err(|refusal| Error::naming("ERR {}", &[refusal.text()]))
}

/// Runs a command that replies with OK when its actions are carried out.
fn operate_ok(
    cx: &mut Cx<'_>,
    request: Request<'_>,
    command: impl FnOnce(&mut Operation<'_>) -> Result<(), Refusal>,
) -> Outcome {
    operate(cx, command)?;
    reply_when_done(cx, request, "OK".to_owned())
}

/// Replies when the thread of the bus has carried out the actions that are in the state now.
fn reply_when_done(cx: &mut Cx<'_>, request: Request<'_>, reply: String) -> Outcome {
    let cluster = enabled(cx.engine)?;
    if !cluster.has_bus() || !cx.may_block() {
        cx.reply().simple(&reply);
        return Ok(());
    }
    cx.block(request.row, Block { deadline_ms: None, waits: Vec::new(), on_timeout: OnTimeout::Null });
    if let Some(waiter) = cx.state.blocked.clone() {
        cluster.held_replies.hold(waiter, reply);
        cluster.wake();
    }
    Ok(())
}

/// CLUSTER MEET ip port \[bus-port\]
pub fn meet(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    enabled(cx.engine)?;
    if request.len() > 5 {
        return Err(too_many(request));
    }
    let bus_port = (request.len() == 5).then(|| request.arg(4));
    operate_ok(cx, request, |operation| admin::meet(operation, request.arg(2), request.arg(3), bus_port))
}

/// CLUSTER FORGET node-id
pub fn forget(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    operate_ok(cx, request, |operation| admin::forget(operation, request.arg(2)))
}

/// CLUSTER ADDSLOTS and DELSLOTS slot \[slot ...\]
pub fn slots(cx: &mut Cx<'_>, request: Request<'_>, adds: bool) -> Outcome {
    enabled(cx.engine)?;
    // All slots are read before the first is checked.
    let slots: Result<Vec<Slot>, Refusal> = request.args.from(2).iter().map(admin::slot_of).collect();
    let slots = slots.map_err(|refusal| Error::naming("ERR {}", &[refusal.text()]))?;
    let ranges = slots.into_iter().map(|slot| Ok((slot, slot)));
    operate_ok(cx, request, |operation| match adds {
        true => admin::add_slots(operation, ranges),
        false => admin::delete_slots(operation, ranges),
    })
}

/// CLUSTER ADDSLOTSRANGE and DELSLOTSRANGE first last \[first last ...\]
pub fn slot_ranges(cx: &mut Cx<'_>, request: Request<'_>, adds: bool) -> Outcome {
    enabled(cx.engine)?;
    if !request.len().is_multiple_of(2) {
        return Err(Error::arity(request.row.full_name));
    }
    let range = |at: usize| Ok((admin::slot_of(request.arg(at))?, admin::slot_of(request.arg(at + 1))?));
    let ranges = (2..request.len()).step_by(2).map(range);
    operate_ok(cx, request, |operation| match adds {
        true => admin::add_slots(operation, ranges),
        false => admin::delete_slots(operation, ranges),
    })
}

/// CLUSTER FLUSHSLOTS
pub fn flush_slots(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    operate_ok(cx, request, admin::flush_slots)
}

/// CLUSTER SETSLOT slot IMPORTING node-id | MIGRATING node-id | NODE node-id | STABLE
pub fn set_slot(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if cx.state.origin.is_replaying {
        return copy_set_slot(cx, request);
    }
    // A client that sends a timeout behind the words is told that this server has none.
    let words = |to: &SlotMove<'_>| if matches!(to, SlotMove::Stable) { 4 } else { 5 };
    let to = slot_move(request).filter(|to| request.len() == words(to));
    operate_ok(cx, request, |operation| admin::set_slot(operation, request.arg(2), to))
}

/// Returns the move that CLUSTER SETSLOT names, with any words behind it. None if the words are others.
fn slot_move<'a>(request: Request<'a>) -> Option<SlotMove<'a>> {
    let node = request.args.get(4);
    match (request.arg(3).to_ascii_lowercase().as_slice(), node) {
        (b"migrating", Some(node)) => Some(SlotMove::Migrating(node)),
        (b"importing", Some(node)) => Some(SlotMove::Importing(node)),
        (b"node", Some(node)) => Some(SlotMove::Node(node)),
        (b"stable", _) => Some(SlotMove::Stable),
        _ => None,
    }
}

/// CLUSTER SETSLOT in the stream of the primary, a Valkey. It may have a timeout behind it. A server that is no node of a cluster
/// has no use for it, and neither has an AOF that is loaded: nodes.conf has the slots as they were last.
fn copy_set_slot(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let is_loading = cx.engine.lifecycle.readiness.has(Hindrance::Loading);
    if let Some(to) = slot_move(request)
        && !is_loading
        && cx.engine.cluster.get().is_some()
    {
        operate(cx, |operation| admin::copy_set_slot(operation, request.arg(2), to))?;
    }
    cx.reply().ok();
    Ok(())
}

/// CLUSTER REPLICATE node-id
pub fn replicate(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    operate_ok(cx, request, |operation| admin::replicate(operation, request.arg(2)))
}

/// CLUSTER FAILOVER \[FORCE | TAKEOVER\]
pub fn failover(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    enabled(cx.engine)?;
    let kind = match option(request)? {
        None => FailoverKind::Agreed,
        Some(word) if word.eq_ignore_ascii_case(b"force") => FailoverKind::Forced,
        Some(word) if word.eq_ignore_ascii_case(b"takeover") => FailoverKind::Takeover,
        Some(_) => return Err(Error::SYNTAX),
    };
    operate_ok(cx, request, |operation| admin::failover(operation, kind))
}

/// CLUSTER RESET \[HARD | SOFT\]
pub fn reset(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    enabled(cx.engine)?;
    let is_hard = match option(request)? {
        None => false,
        Some(word) if word.eq_ignore_ascii_case(b"soft") => false,
        Some(word) if word.eq_ignore_ascii_case(b"hard") => true,
        Some(_) => return Err(Error::SYNTAX),
    };
    operate_ok(cx, request, |operation| admin::reset(operation, is_hard))
}

/// Returns the one option of a subcommand.
fn option(request: Request<'_>) -> Result<Option<&[u8]>, Error> {
    match request.len() {
        ..=2 => Ok(None),
        3 => Ok(Some(request.arg(2))),
        _ => Err(too_many(request)),
    }
}

/// CLUSTER BUMPEPOCH
pub fn bump_epoch(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (is_new, epoch) = operate(cx, admin::bump_epoch)?;
    let word = if is_new { "BUMPED" } else { "STILL" };
    reply_when_done(cx, request, format!("{word} {epoch}"))
}

/// CLUSTER SET-CONFIG-EPOCH config-epoch
pub fn set_config_epoch(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    enabled(cx.engine)?;
    let epoch = number::parse_i64(request.arg(2)).ok_or(Error::NOT_INTEGER)?;
    operate_ok(cx, request, |operation| admin::set_config_epoch(operation, epoch))
}

/// CLUSTER SAVECONFIG
pub fn save_config(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    operate_ok(cx, request, admin::save_config)
}

/// DEBUG CLUSTERLINK KILL TO | FROM | ALL node-id
pub fn debug_link(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let word = request.arg(3);
    let (outgoing, incoming) = match word.to_ascii_lowercase().as_slice() {
        b"to" => (true, false),
        b"from" => (false, true),
        b"all" => (true, true),
        _ => return Err(Error::naming("ERR Unknown direction {}", &[word])),
    };
    operate_ok(cx, request, |operation| admin::kill_links(operation, outgoing, incoming, request.arg(4)))
}

/// DEBUG DROP-CLUSTER-PACKET-FILTER packet-type
pub fn debug_drop_packets(cx: &mut Cx<'_>, request: Request<'_>, code: &[u8]) -> Outcome {
    let code = number::parse_i64(code).ok_or(Error::NOT_INTEGER)?;
    operate_ok(cx, request, |operation| admin::drop_packets(operation, code))
}

/// CLUSTER COUNT-FAILURE-REPORTS node-id
pub fn count_failure_reports(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let count = operate(cx, |operation| admin::count_failure_reports(operation, request.arg(2)))?;
    cx.reply().integer(count as i64);
    Ok(())
}
