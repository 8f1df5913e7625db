//! The lines of INFO that exist while there is an AOF.

use super::info_writer::Lines;
use crate::engine::Engine;
use crate::engine::persistence::aof::LogStatus;

/// Writes the lines for an AOF with this state; `is_scheduled` says whether a rewrite waits.
pub fn lines(engine: &Engine, (log, is_scheduled): (LogStatus, bool), lines: &mut Lines) {
    let journal = &engine.journal;
    lines.add("aof_current_size", log.current_bytes);
    lines.add("aof_base_size", log.base_bytes);
    lines.add("aof_pending_rewrite", u8::from(is_scheduled));
    lines.add("aof_buffer_length", journal.end().saturating_sub(journal.written()));
    lines.add("aof_pending_bio_fsync", u8::from(log.is_syncing));
    lines.add("aof_delayed_fsync", log.delayed_syncs);
    lines.add("aof_written_offset", journal.written());
    lines.add("aof_synced_offset", journal.synced());
    let totals = engine.persistence.aof.totals().read();
    lines.add("aof_total_written_bytes", totals.bytes);
    lines.add("aof_total_writes", totals.writes);
    lines.add("aof_total_syncs", totals.syncs);
    let per = |amount: u64, count: u64| format!("{:.2}", amount as f64 / count.max(1) as f64);
    lines.add("aof_bytes_per_write", per(totals.bytes, totals.writes));
    lines.add("aof_writes_per_sync", per(totals.writes, totals.syncs));
}
