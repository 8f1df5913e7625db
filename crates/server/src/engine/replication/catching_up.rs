//! Waiting until replicas have the complete stream: before the server ends, and before it hands its role over.
//!
//! Clients that write are held during that time, so the last change stays the last one. Replicas are asked for their offset
//! (REPLCONF GETACK). The question itself is part of the stream, so a replica that answers has all changes before the
//! question, and the question. If all replicas have the complete stream already, none is asked. One thread.

use std::sync::Arc;

use super::replica::{Replica, ReplicaState};
use crate::engine::Engine;
use crate::engine::replication::primary;
use crate::host::log;

/// The offset that replicas have to reach.
#[derive(Debug, Default)]
pub struct CatchingUp {
    /// The offset behind the last change.
    wanted: u64,
    /// The end of the journal, behind the question.
    asked: Option<u64>,
    /// For each replica, by its client: the number of its acknowledgements before the question.
    said: Vec<(u64, u64)>,
}

impl CatchingUp {
    /// Asks all replicas for their offset, if there are changes since the last question.
    pub fn ask(&mut self, engine: &Engine) {
        let end = engine.journal.end();
        if self.asked != Some(end) {
            let replicas = engine.replication.replicas.all();
            let is_level = |replica: &Arc<Replica>| replica.is_online() && replica.acked() >= end;
            let is_asked = !replicas.iter().all(is_level);
            self.wanted = end;
            self.said = replicas.iter().map(|replica| (replica.client.id, replica.answers())).collect();
            self.asked = Some(if is_asked { primary::ask_replicas(engine) } else { end });
        }
    }

    /// Returns whether a replica has all changes.
    pub fn has_all(&self, replica: &Replica) -> bool {
        self.asked.is_some() && replica.is_online() && replica.acked() >= self.wanted
    }

    /// Returns whether a replica also has the question. If it lacks it, this server would be ahead of a replica that takes
    /// its place, and could not continue by a partial sync. Redis and Valkey acknowledge the offset before the question.
    pub fn has_question(&self, replica: &Replica) -> bool {
        let had_said = self.said.iter().find(|(id, _)| *id == replica.client.id).map_or(0, |(_, answers)| *answers);
        self.asked.is_some_and(|asked| replica.acked() >= asked) || replica.answers() > had_said
    }

    /// Returns whether nothing has been appended since the question.
    pub fn is_still_all(&self, engine: &Engine) -> bool {
        self.asked == Some(engine.journal.end())
    }

    /// Returns whether all replicas have the complete stream.
    pub fn is_over(&self, engine: &Engine) -> bool {
        let replicas = engine.replication.replicas.all();
        replicas.iter().filter(|replica| replica.state().is_some()).all(|replica| self.has_all(replica))
    }

    /// Writes to the server log which replicas lag, and how many do not.
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
