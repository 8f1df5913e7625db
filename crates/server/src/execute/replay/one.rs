//! One request of an AOF or of a primary's stream: run, held by a pause, shown to the monitors, and put into the journal.
//!
//! Called by a replay with the locks of the request held.

use std::sync::atomic::Ordering;

use crate::commands as families;
use crate::context::Cx;
use crate::context::publish;
use crate::execute;
use crate::execute::gates;
use crate::request::Request;
use crate::request::error::Error;

/// Puts bytes that a primary has sent into this server's journal, as they came.
pub(super) fn put_into_journal(cx: &mut Cx<'_>, bytes: &[u8], is_for_replicas: bool) {
    let database = cx.state.database;
    cx.locks.recorder.foreign(database, bytes, is_for_replicas);
}

/// Returns whether a pause holds a request, if a primary has sent it. If so, gives the request's locks back.
pub(super) fn stays(cx: &mut Cx<'_>, request: &Request<'_>, is_from_primary: bool) -> bool {
    let is_held = is_from_primary && gates::is_stream_held(cx, request);
    if is_held {
        cx.locks.clear();
    }
    is_held
}

/// Runs a command under its locks. The commands of a primary are counted and measured by command, as those of clients are.
pub(super) fn run(cx: &mut Cx<'_>, request: Request<'_>, is_counted: bool) -> Result<(), Error> {
    let mut began_ticks = None;
    if is_counted {
        began_ticks = execute::begin(cx, &request);
        cx.counters.commands[request.row.id as usize].calls.add(1);
    } else {
        execute::begin_unmeasured(cx);
    }
    cx.state.row = Some(request.row);
    let outcome = families::run(cx, request);
    show(cx, &request);
    execute::end(cx, &request, began_ticks);
    cx.counters.executed.add(1);
    outcome
}

/// Shows a request of a primary to the monitors. While an AOF is loaded, there are no monitors.
pub(super) fn show(cx: &mut Cx<'_>, request: &Request<'_>) {
    if cx.engine.pubsub.monitors.load(Ordering::Relaxed) != 0 {
        publish::show_to_monitors(cx, request);
    }
}
