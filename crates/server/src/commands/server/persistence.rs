//! LASTSAVE, SAVE, BGSAVE and BGREWRITEAOF.
//!
//! Nothing is written to disk yet, and the commands that would do so say it. What Redis says of a server that has not saved
//! since its start is true here too: the data was last whole on disk when there was none.

use crate::context::Cx;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// LASTSAVE: when the server was started, as INFO's `rdb_last_save_time` has it.
pub fn last_save(cx: &mut Cx<'_>) -> Outcome {
    let started_s = cx.engine.started.wall_ms() / 1_000;
    cx.reply().integer(started_s);
    Ok(())
}

/// SAVE
pub fn save() -> Outcome {
    Err(NO_SNAPSHOTS)
}

/// BGSAVE \[SCHEDULE\]
pub fn bg_save(request: Request<'_>) -> Outcome {
    match request.args.get(1) {
        Some(word) if request.len() > 2 || !word.eq_ignore_ascii_case(b"schedule") => Err(Error::SYNTAX),
        _ => Err(NO_SNAPSHOTS),
    }
}

/// BGREWRITEAOF
pub fn bg_rewrite_aof() -> Outcome {
    Err(Error::fixed(
        "ERR There is no append-only file yet: all data lives in memory only. MIGRATE or DUMP can copy it elsewhere",
    ))
}

const NO_SNAPSHOTS: Error = Error::fixed(
    "ERR There are no snapshots yet: all data lives in memory only. MIGRATE or DUMP can copy it elsewhere",
);
