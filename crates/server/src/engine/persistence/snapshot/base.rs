//! The rewrite of the AOF (BGREWRITEAOF): a snapshot becomes a base. It is the first base of an AOF that is switched on, a
//! new base of the open AOF, or a base that stands alone because there is no AOF.
//!
//! From the base's instant on, the journal is written to a new increment. The files that are already in the folder stay as
//! they are until the base is in place.

use std::io;
use std::time::Duration;

use sleeve_disk::aof::{AofWriter, NewBase, Rotated};
use sleeve_disk::format::manifest::Format as BaseFormat;

use super::output::SnapshotForm;
use super::walk::ABORTED;
use crate::config::Opt;
use crate::config::value::reason;
use crate::engine::Engine;
use crate::engine::persistence::snapshot::walk;
use crate::engine::replication::resume;
use crate::host::waiting;

/// The interval at which a snapshot thread checks whether a failing AOF can be written again.
const SWITCH_TICK: Duration = Duration::from_millis(5);

/// Writes a base of the AOF: the first base, a new one, or one that stands alone.
pub(in crate::engine::persistence) fn write_base(engine: &Engine) -> Result<u64, String> {
    let starting = engine.persistence.aof.take_starting_or_begin(engine)?;
    if starting.is_none() && !engine.persistence.aof.is_open() {
        return write_lone_base(engine);
    }
    let is_first = starting.is_some();
    write_base_of_log(engine, starting).inspect_err(|_| {
        if is_first {
            engine.persistence.aof.begin_again(engine);
        } else {
            // This removes the new increment if nothing was written to it.
            engine.persistence.aof.remove_history(engine);
        }
    })
}

/// Writes a new base of the open AOF, or the first base of the AOF `starting`.
fn write_base_of_log(engine: &Engine, mut starting: Option<AofWriter>) -> Result<u64, String> {
    let file = &engine.persistence.aof;
    let failed = |doing: &str, error: io::Error| format!("cannot {doing}: {}", reason(&error));
    let gone = || "the log was closed meanwhile".to_owned();
    // `dir` may have been changed since the AOF was opened.
    let unfinished = |log: &AofWriter| log.unfinished_base(&engine.identity.mark());
    let temporary = starting.as_ref().map(unfinished).or_else(|| file.with(|open| unfinished(&open.log)));
    let temporary = temporary.ok_or_else(gone)?;
    let is_first = starting.is_some();
    let mut rotated = None;
    if is_first {
        // The final position that an older AOF in this folder has noted belongs to other data.
        resume::take_closing_place(engine);
    } else {
        let rotation = file.with(|open| open.log.rotation()).ok_or_else(gone)?;
        rotated = Some(rotation.run().map_err(|error| failed("begin a new increment", error))?);
    }
    let past_end = starting.as_ref().map_or(Ok(0), AofWriter::past_end).map_err(|error| unreadable(&error))?;
    let begun = walk::begin(engine, past_end, |offset| match (starting.take(), rotated.take()) {
        (Some(mut log), _) => {
            log.begin_at(offset);
            file.open_at_instant(engine, log).map_err(|error| failed("start the log's threads", error))
        }
        (None, Some(rotated)) => order_switch(engine, offset, rotated).ok_or_else(gone),
        (None, None) => Ok(()),
    });
    if let Some(log) = starting {
        // The snapshot's instant was not reached: the AOF will begin with the next base.
        file.keep_starting(engine, log);
    }
    if let Some(rotated) = rotated {
        file.with(|open| open.log.discard(rotated));
    }
    let begun = begun?;
    if is_first && !engine.config.flag(Opt::Appendonly) {
        // The AOF was switched off, and the client that did so may have found no open AOF.
        return Err(gone());
    }
    let (changes, stands_for) = (begun.changes, begun.offset);
    let (form, format) = match engine.config.flag(Opt::AofUseRdbPreamble) {
        true => (SnapshotForm::Base, BaseFormat::Rdb),
        false => {
            let options = file.with(|open| {
                file.set_options(engine, &mut open.log);
                open.log.base_options()
            });
            let options = options.ok_or_else(gone)?;
            (SnapshotForm::Requests(options), BaseFormat::Aof)
        }
    };
    walk::write_to(engine, &temporary, begun, form)?;
    let put_in_place = || {
        let since = if is_first { 0 } else { wait_for_switch(engine)? };
        let base = NewBase { file: temporary.clone(), format, stands_for };
        let rewrite = file.with(|open| open.log.rewrite(base, since)).ok_or_else(gone)?;
        let rewritten = rewrite.and_then(|rewrite| rewrite.run());
        rewritten.map_err(|error| failed("put the new base in its place", error))
    };
    let rewritten = put_in_place().inspect_err(|_| _ = engine.persistence.disk.remove(&temporary))?;
    file.with(|open| {
        open.log.rewritten(rewritten);
        file.note_base();
        // The data up to the base's instant is durable now, without an fsync of the increments.
        file.note_synced(engine, open);
    });
    engine.persistence.tell_synced(engine);
    file.remove_history(engine);
    Ok(changes)
}

/// Orders a switch of the open AOF to this increment, which begins with a SELECT, at the present instant. Returns None if
/// there is no AOF.
fn order_switch(engine: &Engine, offset: u64, rotated: Rotated) -> Option<()> {
    let database = engine.journal.copied_database();
    engine.journal.forget_database();
    engine.persistence.aof.switch().map(|switch| switch.order(offset, rotated, database))
}

/// Writes a base to which nothing is appended, because the AOF is switched off.
fn write_lone_base(engine: &Engine) -> Result<u64, String> {
    engine.persistence.aof.end.wait_until_closed();
    // The folder has to exist, and no other AOF may use it.
    let past_end = engine.persistence.aof.open_folder(engine)?.past_end().map_err(|error| unreadable(&error))?;
    let temporary = engine.persistence.aof.options(engine).unfinished_base(&engine.identity.mark());
    let begun = walk::begin(engine, past_end, |_| Ok(()))?;
    let (changes, stands_for) = (begun.changes, begun.offset);
    let (form, format) = match engine.config.flag(Opt::AofUseRdbPreamble) {
        true => (SnapshotForm::Base, BaseFormat::Rdb),
        false => (SnapshotForm::Requests(engine.persistence.aof.options(engine)), BaseFormat::Aof),
    };
    walk::write_to(engine, &temporary, begun, form)?;
    let base = NewBase { file: temporary.clone(), format, stands_for };
    let replaced = engine.persistence.aof.open_folder(engine).and_then(|folder| {
        folder.replace(&base, engine.config.flag(Opt::AofDisableAutoGc)).map_err(|error| reason(&error))
    });
    replaced.map_err(|why| {
        _ = engine.persistence.disk.remove(&temporary);
        format!("cannot put the new base in its place: {why}")
    })?;
    Ok(changes)
}

/// Waits until the AOF has switched to the new increment; returns the increment's number.
fn wait_for_switch(engine: &Engine) -> Result<i64, String> {
    loop {
        // If the AOF fails, its own thread retries, at a longer interval than this loop's.
        if !engine.persistence.fails() {
            engine.persistence.aof.write(engine);
        }
        match engine.persistence.aof.switch().map(|switch| switch.take_outcome()) {
            None => return Err("the log was closed meanwhile".into()),
            Some(Some(switched)) => return switched.map_err(|error| reason(&error)),
            Some(None) if engine.persistence.snapshots.is_aborted() => return Err(ABORTED.into()),
            Some(None) => waiting::sleep(SWITCH_TICK),
        }
    }
}

fn unreadable(error: &io::Error) -> String {
    format!("cannot read how far the log goes that is there already: {}", reason(error))
}
