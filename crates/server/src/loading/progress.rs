//! The progress of a loading, and its end.

use std::sync::Arc;

use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::persistence::purpose::Purpose;
use crate::engine::readiness::Hindrance;
use crate::host::clock;
use crate::host::clock::Instant;
use crate::host::log;

/// Ends the loading, and lets waiting clients go on. Requests that concerned the AOF and came during the loading are carried
/// out now.
pub fn end(engine: &Arc<Engine>) {
    engine.lifecycle.readiness.set(Hindrance::Loading, false);
    engine.clients.post_resume();
    let is_on = engine.config.flag(Opt::Appendonly);
    if is_on != engine.persistence.aof.exists()
        && let Err(why) = engine.persistence.aof.toggle(engine, is_on)
    {
        log::warning(&format!("The append-only file cannot be begun: {why}. It is tried again"));
        if is_on {
            engine.persistence.snapshots.schedule(Purpose::Base);
        }
    }
}

/// Adds so many read bytes to the progress, which is logged once in a while.
pub(super) fn note_loaded_bytes(engine: &Engine, bytes: u64) {
    if let Some(status) = engine.persistence.loading.add_bytes(bytes, clock::monotonic_ms()) {
        log::notice(&format!(
            "Loading: {:.1} % of {} bytes, about {} seconds left",
            status.percent(),
            status.total_bytes,
            status.eta_s(Instant::now().wall_ms() / 1_000)
        ));
    }
}
