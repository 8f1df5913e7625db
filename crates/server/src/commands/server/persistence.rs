//! LASTSAVE, SAVE, BGSAVE, BGREWRITEAOF, and DEBUG's RELOAD and LOADAOF.
//!
//! For every command a separate thread writes the snapshot: during SAVE only the client that sent it waits. The same holds
//! for RELOAD and LOADAOF, which replace the data by that of the snapshot or of the AOF; in that time, clients that need data
//! get the error LOADING, as at a start. If the loading fails, the data is as it was before.
//!
//! If a transaction asks for a snapshot, the snapshot begins after the transaction, because its thread takes all shards: the
//! reply is "scheduled".

use std::sync::Arc;

use sleeve_wire::commands::Command;

use crate::context::Cx;
use crate::engine::clients::blocking::{Block, OnTimeout};
use crate::engine::persistence::loading::{Again, NotLoaded};
use crate::engine::persistence::purpose::{Purpose, Refusal, WhenDone};
use crate::engine::readiness::Hindrance;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

const SAVING: Error = Error::fixed("ERR Background save already in progress");
const REWRITING: Error = Error::fixed("ERR Background append only file rewriting already in progress");

/// LASTSAVE: the time at which the data was last saved completely, or at which the server was started.
pub fn last_save(cx: &mut Cx<'_>) -> Outcome {
    let last_save_s = cx.engine.persistence.snapshots.status().last_save_s;
    cx.reply().integer(last_save_s);
    Ok(())
}

/// SAVE
pub fn save(cx: &mut Cx<'_>) -> Outcome {
    if !cx.may_block() {
        return Err(Error::fixed("ERR SAVE waits for the disk, which it cannot do here. Use BGSAVE"));
    }
    let nothing = Block { deadline_ms: None, waits: Vec::new(), on_timeout: OnTimeout::Null };
    cx.block(Command::Save.row(), nothing);
    let Some(waiter) = cx.state.blocked.clone() else { return Ok(()) };
    let (engine, waits) = (cx.engine.handle(), Arc::clone(&waiter));
    let mut answer: Option<WhenDone> = Some(Box::new(move |is_good| {
        engine.answer(&waits, |reply| if is_good { reply.ok() } else { reply.error(b"ERR") });
    }));
    let begun = match cx.engine.persistence.snapshots.start(&cx.engine.handle(), Purpose::File, cx.now, &mut answer) {
        // As in Redis, a running AOF rewrite is no reason to refuse; the snapshot begins after it.
        Err(Refusal::Running(Purpose::Base)) => {
            answer
                .into_iter()
                .for_each(|answer| cx.engine.persistence.snapshots.save_anew(&cx.engine.handle(), answer));
            Ok(())
        }
        begun => begun,
    };
    if begun.is_err() {
        waiter.claim().into_iter().for_each(|claim| claim.finish(&cx.engine.clients.blocking));
        cx.state.blocked = None;
    }
    begun.map_err(refused)
}

/// BGSAVE \[SCHEDULE\]
pub fn bg_save(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let is_scheduled = match request.args.get(1) {
        Some(word) if request.len() > 2 || !word.eq_ignore_ascii_case(b"schedule") => return Err(Error::SYNTAX),
        word => word.is_some(),
    };
    let in_transaction = cx.state.multi.executing.is_some();
    match cx.engine.persistence.snapshots.start(&cx.engine.handle(), Purpose::File, cx.now, &mut None) {
        Ok(()) if in_transaction => cx.reply().simple("Background saving scheduled"),
        Ok(()) => cx.reply().simple("Background saving started"),
        Err(Refusal::Running(Purpose::Base)) if is_scheduled || in_transaction => {
            cx.engine.persistence.snapshots.write_next(&cx.engine.handle(), Purpose::File);
            cx.reply().simple("Background saving scheduled");
        }
        Err(Refusal::Running(Purpose::Base)) => {
            return Err(Error::fixed(
                "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to \
                 schedule a BGSAVE whenever possible.",
            ));
        }
        Err(refusal) => return Err(refused(refusal)),
    }
    Ok(())
}

/// BGREWRITEAOF
pub fn bg_rewrite_aof(cx: &mut Cx<'_>) -> Outcome {
    match cx.engine.persistence.snapshots.start(&cx.engine.handle(), Purpose::Base, cx.now, &mut None) {
        Ok(()) if cx.state.multi.executing.is_some() => {
            cx.reply().simple("Background append only file rewriting scheduled");
        }
        Ok(()) => cx.reply().simple("Background append only file rewriting started"),
        Err(Refusal::Running(Purpose::File | Purpose::Replicas)) => {
            cx.engine.persistence.snapshots.write_next(&cx.engine.handle(), Purpose::Base);
            cx.reply().simple("Background append only file rewriting scheduled");
        }
        // A rewrite that is being aborted, because the AOF was switched off, is not waited for.
        Err(Refusal::Running(Purpose::Base)) if cx.engine.persistence.snapshots.is_aborted() => {
            cx.engine.persistence.snapshots.rewrite_next(&cx.engine.handle());
            cx.reply().simple("Background append only file rewriting started");
        }
        Err(Refusal::Running(Purpose::Base)) => return Err(REWRITING),
        Err(refusal) => return Err(refused(refusal)),
    }
    Ok(())
}

/// DEBUG RELOAD \[MERGE\] \[NOFLUSH\] \[NOSAVE\]
pub fn reload(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (mut is_saved, mut is_added, mut replaces) = (true, false, false);
    for word in request.args.from(2).iter() {
        match word.to_ascii_lowercase().as_slice() {
            b"merge" => replaces = true,
            b"noflush" => is_added = true,
            b"nosave" => is_saved = false,
            _ => {
                return Err(Error::fixed("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options."));
            }
        }
    }
    let failure = Error::fixed("ERR Error trying to load the RDB dump, check server logs.");
    load_again(cx, Again::Snapshot { is_saved, is_added, replaces }, failure)
}

/// DEBUG LOADAOF
pub fn load_aof(cx: &mut Cx<'_>) -> Outcome {
    load_again(cx, Again::Log, Error::fixed("ERR Error trying to load the append only file, check server logs."))
}

fn load_again(cx: &mut Cx<'_>, what: Again, failure: Error) -> Outcome {
    if !cx.may_block() {
        return Err(Error::fixed("ERR DEBUG RELOAD and DEBUG LOADAOF wait for the disk, which they cannot do here"));
    }
    let readiness = &cx.engine.lifecycle.readiness;
    if readiness.has(Hindrance::Loading) || readiness.has(Hindrance::LoadingBeside) {
        return Err(Error::LOADING);
    }
    let nothing = Block { deadline_ms: None, waits: Vec::new(), on_timeout: OnTimeout::Null };
    cx.block(Command::Debug.row(), nothing);
    let Some(waiter) = cx.state.blocked.clone() else { return Ok(()) };
    let (engine, waits) = (cx.engine.handle(), Arc::clone(&waiter));
    let answer = move |outcome: Result<(), NotLoaded>| {
        engine.answer(&waits, |reply| match &outcome {
            Ok(()) => reply.ok(),
            Err(NotLoaded::Unsaved) => reply.error(b"ERR"),
            Err(NotLoaded::Bad(_)) => reply.error(failure.text()),
        });
    };
    if cx.engine.persistence.loading.load_again(what, Box::new(answer)) {
        return Ok(());
    }
    waiter.claim().into_iter().for_each(|claim| claim.finish(&cx.engine.clients.blocking));
    cx.state.blocked = None;
    Err(Error::fixed("ERR there are no files behind this engine"))
}

fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Running(_) => SAVING,
        Refusal::Closed => Error::fixed("ERR Background saving error: the engine ends"),
        Refusal::NoThread(error) => Error::new(format!("ERR Background saving error: {error}")),
    }
}
