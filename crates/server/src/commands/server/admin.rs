//! TIME and SHUTDOWN.

use crate::context::Cx;
use crate::engine::clients::blocking::{Block, OnTimeout};
use crate::engine::persistence::shutdown::FinalSnapshot;
use crate::host::log;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// TIME: of this moment, not of the instant that the commands around it see, as in Redis: a script that looks twice can tell
/// how long it has taken.
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
/// Stops every worker and closes every client, this one first. Nothing is answered: that the connection closes is the
/// answer. NOW is about replicas, of which there are none to wait for.
pub fn shutdown(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let options = ShutdownOptions::parse(request)?;
    if options.abort {
        // Nobody but the one who asked can be heard until it has failed or the server has ended.
        return Err(Error::fixed("ERR No shutdown in progress."));
    }
    let final_snapshot = if options.save {
        FinalSnapshot::Save
    } else if options.no_save {
        FinalSnapshot::NoSave
    } else {
        FinalSnapshot::AsConfigured
    };
    log::warning("User requested shutdown...");
    let engine = cx.engine.handle();
    let (locks_are_free, force) = (cx.may_block(), options.force);
    let failed = Error::fixed("ERR Errors trying to SHUTDOWN. Check logs.");
    if !engine.may_end(force) {
        return Err(failed);
    }
    if !engine.has_last_words(final_snapshot) || !locks_are_free {
        cx.state.closing = true;
        engine.end_now(final_snapshot);
        return Ok(());
    }
    let nothing = Block { deadline_ms: None, waits: Vec::new(), on_timeout: OnTimeout::Null };
    cx.block(request.row, nothing);
    let Some(waiter) = cx.state.blocked.clone() else { return Ok(()) };
    engine.shut_down(final_snapshot, force, Some((waiter, failed)));
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
