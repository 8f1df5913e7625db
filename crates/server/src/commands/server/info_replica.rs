//! The lines of INFO about a replica's link to its primary, in Redis's order.
//!
//! `info_sections` asks for it where this server is a replica; a primary has none of these fields.

use super::info_writer::Lines;
use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::replication::role::{LinkState, LinkStatus};
use crate::host::clock::Instant;

/// Writes the fields of a replica, in Redis's order.
pub fn fields(engine: &Engine, link: &LinkStatus, now: Instant, lines: &mut Lines) {
    let now_ms = now.monotonic_ms();
    let seconds_since =
        |then_ms: Option<u64>| then_ms.map_or(-1, |then_ms| (now_ms.saturating_sub(then_ms) / 1_000) as i64);
    let (is_up, is_syncing) = (link.state == LinkState::Connected, link.state == LinkState::Sync);
    let (applied, ahead) = (engine.journal.end(), engine.replication.role.ahead_bytes());
    lines.add("role", "slave");
    lines.add("master_host", &link.primary.host);
    lines.add("master_port", link.primary.port);
    lines.add("master_link_status", if is_up { "up" } else { "down" });
    lines.add("master_last_io_seconds_ago", if is_up { seconds_since(link.heard_ms) } else { -1 });
    lines.add("master_sync_in_progress", i64::from(is_syncing));
    lines.add("slave_read_repl_offset", applied + ahead);
    lines.add("slave_repl_offset", applied);
    if is_syncing {
        let transfer = link.transfer.unwrap_or_default();
        let total = transfer.total_bytes.unwrap_or(0);
        let percent = if total == 0 { 0.0 } else { transfer.read_bytes as f64 * 100.0 / total as f64 };
        lines.add("master_sync_total_bytes", total);
        lines.add("master_sync_read_bytes", transfer.read_bytes);
        lines.add("master_sync_left_bytes", total as i64 - transfer.read_bytes as i64);
        lines.add("master_sync_perc", format!("{percent:.2}"));
        lines.add("master_sync_last_io_seconds_ago", seconds_since(link.heard_ms));
    }
    if !is_up {
        lines.add("master_link_down_since_seconds", seconds_since(link.down_since_ms));
    }
    lines.add("slave_priority", engine.config.number(Opt::ReplicaPriority));
    lines.add("slave_read_only", i64::from(engine.config.flag(Opt::ReplicaReadOnly)));
    lines.add("replica_announced", i64::from(engine.config.flag(Opt::ReplicaAnnounced)));
}
