//! TIME, which tells the present time, and SHUTDOWN, which ends the server.
//!
//! This module reads the options of SHUTDOWN, and makes the client wait or closes it. The steps before the end (the last
//! snapshot, the wait for replicas that lack data) are in `engine/persistence/shutdown`. On the thread that executes.

use crate::context::Cx;
use crate::engine::clients::blocking::{Block, OnTimeout};
use crate::engine::persistence::shutdown;
use crate::engine::persistence::shutdown::{FinalSnapshot, Shutdown};
use crate::host::log;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// TIME: the present time of the clock, not the instant that the commands of a batch share, as in Redis. So a script that
/// calls it twice can tell how long it has taken.
pub fn time(cx: &mut Cx<'_>) -> Outcome {
    let wall_us = cx.clock.after(cx.now).wall_us;
    let mut reply = cx.reply();
    reply.array(2);
    reply.bulk_integer(wall_us / 1_000_000);
    reply.bulk_integer(wall_us % 1_000_000);
    Ok(())
}

/// SHUTDOWN \[NOSAVE|SAVE\] \[NOW\] \[FORCE\] \[ABORT\]
///
/// Stops every worker and closes every client, this one first. If the end succeeds, there is no reply: the connection is
/// closed.
pub fn shutdown(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let options = ShutdownOptions::parse(request)?;
    let engine = cx.engine.handle();
    if options.abort {
        if !shutdown::abort(&engine) {
            return Err(Error::fixed("ERR No shutdown in progress."));
        }
        cx.reply().ok();
        return Ok(());
    }
    let final_snapshot = if options.save {
        FinalSnapshot::Save
    } else if options.no_save {
        FinalSnapshot::NoSave
    } else {
        FinalSnapshot::AsConfigured
    };
    log::warning("User requested shutdown...");
    let how = Shutdown { final_snapshot, force: options.force, now: options.now };
    if !shutdown::may_end(&engine, options.force) {
        return Err(Error::fixed("ERR Errors trying to SHUTDOWN. Check logs."));
    }
    let has_to_wait = shutdown::has_last_words(&engine, final_snapshot) || shutdown::has_lagging_replicas(&engine, how);
    if !has_to_wait || !cx.may_block() {
        cx.state.closing = true;
        shutdown::end_now(&engine, final_snapshot);
        return Ok(());
    }
    let nothing = Block { deadline_ms: None, waits: Vec::new(), on_timeout: OnTimeout::Null };
    cx.block(request.row, nothing);
    let Some(waiter) = cx.state.blocked.clone() else { return Ok(()) };
    shutdown::begin(&engine, how, Some(waiter));
    Ok(())
}

#[derive(Debug, Default)]
struct ShutdownOptions {
    save: bool,
    no_save: bool,
    now: bool,
    force: bool,
    abort: bool,
}

impl ShutdownOptions {
    fn parse(request: Request<'_>) -> Result<Self, Error> {
        let mut options = Self::default();
        for word in request.args.from(1) {
            let option = match word.to_ascii_lowercase().as_slice() {
                b"save" => &mut options.save,
                b"nosave" => &mut options.no_save,
                b"now" => &mut options.now,
                b"force" => &mut options.force,
                b"abort" => &mut options.abort,
                _ => return Err(Error::SYNTAX),
            };
            *option = true;
        }
        let goes_on = options.save || options.no_save || options.now || options.force;
        let is_contradiction = (options.save && options.no_save) || (options.abort && goes_on);
        if is_contradiction { Err(Error::SYNTAX) } else { Ok(options) }
    }
}
