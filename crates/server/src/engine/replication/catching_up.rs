//! Waiting until replicas have everything: at the end of the server, and before it hands its role over.
//!
//! Clients that write are held meanwhile, so what was changed last stays the last. Replicas are asked how far they are, which
//! itself stands in the stream: who answers has all that was changed before the question, and the question. Where all have
//! everything already nobody is asked. One thread.

use std::sync::Arc;

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
    /// How often each replica, by its client, had said how far it is before the question.
    said: Vec<(u64, u64)>,
}

impl CatchingUp {
    /// Asks all replicas how far they are, if something has changed since they were asked last.
    pub fn ask(&mut self, engine: &Engine) {
        let end = engine.journal.end();
        if self.asked != Some(end) {
            let replicas = engine.replication.replicas.all();
            let is_level = |replica: &Arc<Replica>| replica.is_online() && replica.acked() >= end;
            let is_asked = !replicas.iter().all(is_level);
            self.wanted = end;
            self.said = replicas.iter().map(|replica| (replica.client.id, replica.answers())).collect();
            self.asked = Some(if is_asked { engine.ask_replicas() } else { end });
        }
    }

    /// Whether a replica has everything that was changed.
    pub fn has_all(&self, replica: &Replica) -> bool {
        self.asked.is_some() && replica.is_online() && replica.acked() >= self.wanted
    }

    /// Whether a replica has the question, too: without it this server would be ahead of one that takes its place, and could
    /// not go on from where it is. Redis's and Valkey's say in their answer how far they were before the question.
    pub fn has_question(&self, replica: &Replica) -> bool {
        let had_said = self.said.iter().find(|(id, _)| *id == replica.client.id).map_or(0, |(_, answers)| *answers);
        self.asked.is_some_and(|asked| replica.acked() >= asked) || replica.answers() > had_said
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
