//! File work that the server begins automatically: snapshots and AOF rewrites that are due.
//!
//! A check costs a few loads, and the checking thread begins due work in a separate thread. The worker that ticks checks
//! `save` and scheduled snapshots; the AOF thread checks whether the AOF has grown. Work that cannot begin is left for the
//! next check.

use std::sync::Arc;

use super::Snapshots;
use crate::config::Opt;
use crate::config::save_points::{SavePoint, points};
use crate::engine::Engine;
use crate::engine::persistence::purpose::Purpose;
use crate::engine::persistence::snapshot::SnapshotStatus;
use crate::engine::readiness::Hindrance;
use crate::host::clock::Instant;
use crate::host::log;

/// The time after a failed snapshot until the next automatic attempt, in milliseconds; as in Redis.
const TRY_AGAIN_MS: u64 = 5_000;

impl Snapshots {
    /// Begins scheduled work that is due, and, in a server, snapshots that the rules of `save` ask for. The ticking worker
    /// calls it, with no shard locked.
    pub fn follow_file_rules(&self, engine: &Engine, now: Instant) {
        let snapshots = self;
        if engine.lifecycle.readiness.has(Hindrance::Loading) {
            return;
        }
        let status = snapshots.status();
        if status.running.is_some() {
            return;
        }
        // If the thread of the running snapshot could start, it begins the scheduled work itself.
        let scheduled = snapshots.due(now).filter(|(_, in_ms)| *in_ms == 0).map(|(purpose, _)| purpose);
        if let Some(purpose) = scheduled.or_else(|| self.save_rule(engine, &status, now)) {
            // If its thread cannot start, it is tried again as soon as it is due again.
            _ = engine.persistence.snapshots.start(&engine.handle(), purpose, now, &mut None);
        }
    }

    /// Begins an AOF rewrite if the AOF has grown enough, in a server and in a program that embeds an engine alike. The AOF
    /// thread calls it, with no shard locked.
    pub(in crate::engine::persistence) fn rewrite_grown_log(&self, engine: &Engine, now: Instant) {
        if self.is_running() || engine.lifecycle.readiness.has(Hindrance::Loading) {
            return;
        }
        if self.has_log_grown(engine, now) {
            // If its thread cannot start, the next check tries again.
            _ = engine.persistence.snapshots.start(&engine.handle(), Purpose::Base, now, &mut None);
        }
    }

    /// Returns whether a rule of `save` asks for a snapshot.
    fn save_rule(&self, engine: &Engine, status: &SnapshotStatus, now: Instant) -> Option<Purpose> {
        if !self.are_ruled() || !engine.config.is_set(Opt::Save) {
            return None;
        }
        let changes = engine.observe.stats.changes().saturating_sub(status.saved_changes);
        let seconds = (now.wall_ms() / 1_000 - status.last_save_s).max(0) as u64;
        let may_try = status.file_ok || now.monotonic_ms().saturating_sub(status.last_try_ms) > TRY_AGAIN_MS;
        let rules: Arc<[u8]> = engine.config.text(Opt::Save);
        let is_due = |point: &SavePoint| changes >= point.changes && seconds > point.seconds;
        let point = points(&rules).into_iter().find(is_due).filter(|_| may_try)?;
        log::notice(&format!("{} changes in {} seconds. Saving...", point.changes, point.seconds));
        Some(Purpose::File)
    }

    /// Returns whether the AOF has grown enough to be rewritten.
    fn has_log_grown(&self, engine: &Engine, now: Instant) -> bool {
        let percentage = engine.config.number(Opt::AutoAofRewritePercentage) as u64;
        let log_status = engine.persistence.aof.status();
        let is_large = log_status.current_bytes > engine.config.memory(Opt::AutoAofRewriteMinSize);
        if !log_status.is_open || log_status.is_waiting || percentage == 0 || !is_large {
            return false;
        }
        let base = log_status.base_bytes.max(1);
        let growth = (u128::from(log_status.current_bytes) * 100 / u128::from(base)) as u64;
        if growth < percentage.saturating_add(100) || !engine.persistence.aof.may_rewrite(now.wall_ms() / 1_000) {
            return false;
        }
        log::notice(&format!("Starting automatic rewriting of AOF on {}% growth", growth - 100));
        true
    }

    /// Applies a change of the `save` rules: a failed snapshot may now have writes refused, or no longer.
    pub fn apply_save_rules(&self, engine: &Engine) {
        let has_failed = !self.status().file_ok;
        engine.lifecycle.readiness.set(Hindrance::SnapshotFails, has_failed && self.refuses_after_failure(engine));
    }
}
