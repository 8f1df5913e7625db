//! Waiting until replicas have everything: at the end of the server, and before it hands its role over.
//!
//! Clients that write are held meanwhile, so what was changed last stays the last. Replicas are asked how far they are, which
//! itself stands in the stream: who answers has all that was changed before the question. One thread.

use super::replica::{Replica, ReplicaState};
use crate::engine::Engine;
use crate::host::log;

/// What replicas have to have.
#[derive(Debug, Default)]
pub struct CatchingUp {
    /// The offset behind the last change.
    wanted: u64,
    /// The end of the journal, behind the question.
    asked: Option<u64>,
}

impl CatchingUp {
    /// Asks all replicas how far they are, if something has changed since they were asked last.
    pub fn ask(&mut self, engine: &Engine) {
        let end = engine.journal.end();
        if self.asked != Some(end) {
            self.wanted = end;
            self.asked = Some(engine.ask_replicas());
        }
    }

    /// Whether a replica has everything.
    pub fn has_all(&self, replica: &Replica) -> bool {
        self.asked.is_some() && replica.is_online() && replica.acked() >= self.wanted
    }

    /// Whether nothing has been appended since they were asked.
    pub fn is_still_all(&self, engine: &Engine) -> bool {
        self.asked == Some(engine.journal.end())
    }

    /// Whether all replicas have everything.
    pub fn is_over(&self, engine: &Engine) -> bool {
        let replicas = engine.replication.replicas.all();
        replicas.iter().filter(|replica| replica.state().is_some()).all(|replica| self.has_all(replica))
    }

    /// Says in the log who lacks something, and how many do not.
    pub fn tell(&self, engine: &Engine, now_ms: u64) {
        let replicas = engine.replication.replicas.all();
        let known: Vec<_> = replicas.iter().filter_map(|replica| Some((replica, replica.state()?))).collect();
        let end = engine.journal.end();
        let mut synced = 0;
        for (replica, state) in &known {
            if replica.acked() == end || self.has_all(replica) {
                synced += 1;
                continue;
            }
            let lag_s = if *state == ReplicaState::Online { replica.silent_ms(now_ms) / 1_000 } else { 0 };
            log::warning(&format!(
                "Lagging replica {}:{} reported offset {} behind master, lag={lag_s}, state={}.",
                replica.address(),
                replica.told.lock().port,
                end.saturating_sub(replica.acked()),
                state.name()
            ));
        }
        if !known.is_empty() {
            log::notice(&format!("{synced} of {} replicas are in sync when shutting down.", known.len()));
        }
    }
}
