//! How long a server has been silent, and what is to be done about it.
//!
//! Silence is judged by what came, not by what was answered: a long reply on its way is no silence. With a command in flight
//! a silence of half the time that is allowed raises suspicion, and the server is asked on a second connection; when it
//! answers there, this one waits on, and when it does not, this one is over. With nothing in flight the server is asked
//! on this very connection. Of the node of a cluster the others are asked sooner (`probe`). It takes times and gives advice: no
//! socket. One task has it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::probe::{ProbeState, ServerHealth};
use crate::config::Config;
use crate::sys::{elapsed, now};

/// Between two looks at a question that somebody has asked.
const LOOK: Duration = Duration::from_millis(50);

/// What is to be done.
pub(crate) enum Advice {
    /// Nothing for so long, or for ever.
    Sleep(Option<Duration>),
    /// The server is to be asked on this connection.
    Ask,
    /// The server is gone.
    GiveUp(String),
}

/// What is in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum InFlight {
    Nothing,
    /// A command that may wait on the server, so that silence is expected.
    Waiting,
    Commands,
}

/// How long a server has been silent, and what was done about it.
pub(crate) struct SilenceWatch {
    config: Config,
    health: Arc<ServerHealth>,
    /// Bytes that had come when somebody looked last.
    received: u64,
    flight: InFlight,
    /// Since when nothing has come, as far as it counts.
    since: Instant,
    /// When somebody looked last.
    looked: Instant,
    /// When somebody looked last and something had come.
    heard: Option<Instant>,
    /// When the other connections were told last that the server is there.
    told: Option<Instant>,
}

impl SilenceWatch {
    pub(crate) fn new(config: &Config, health: &Arc<ServerHealth>) -> Self {
        let (config, health) = (config.clone(), health.clone());
        let now = now();
        let (received, flight) = (0, InFlight::Nothing);
        Self { config, health, received, flight, since: now, looked: now, heard: None, told: None }
    }

    /// For how long nothing has come while something was in flight.
    pub(crate) fn silence(&self) -> Duration {
        elapsed(self.since)
    }

    /// For how long nobody need look where nothing is in flight: short enough for what is sent meanwhile. None where nothing
    /// has come for as long, so that whoever sends the next had better say so.
    pub(crate) fn nap(&self, limit: Option<Duration>) -> Option<Duration> {
        let silence_max = self.config.silence_max;
        // Where calls have no time limit nobody looks for their sake, and others are to be asked in time nevertheless.
        let others = limit.is_none().then(|| silence_max.and_then(|max| self.health.suspicion(max))).flatten();
        let quiet = self.looked.duration_since(self.heard?);
        limit.into_iter().chain(silence_max.map(suspicion)).chain(others).min().filter(|&nap| quiet < nap)
    }

    /// Looks at how many bytes have come by now. What is in flight was issued so long ago, where that is known.
    pub(crate) fn look(&mut self, received: u64, flight: InFlight, waited: Option<Duration>) -> Advice {
        let now = now();
        // What was sent after the last look cannot have been waited for since then.
        let issued = waited.and_then(|waited| now.checked_sub(waited)).filter(|issued| *issued > self.looked);
        self.looked = now;
        if received != self.received {
            (self.received, self.since, self.heard) = (received, issued.unwrap_or(now), Some(now));
            if self.told.is_none_or(|told| now - told > LOOK) {
                self.told = Some(now);
                self.health.hear(now);
            }
        } else if self.flight != flight {
            self.since = issued.unwrap_or(now);
        }
        self.flight = flight;
        let Some(silence_max) = self.config.silence_max else { return Advice::Sleep(None) };
        // The second times leave an answer that comes at the last moment time to come.
        let (doubt, verdict) = match flight {
            InFlight::Nothing => (silence_max / 10 * 9, Duration::MAX),
            InFlight::Waiting => (silence_max / 10 * 9, silence_max.saturating_mul(2)),
            InFlight::Commands => (suspicion(silence_max), silence_max.saturating_add(silence_max / 16)),
        };
        let silence = now.saturating_duration_since(self.since);
        if flight != InFlight::Nothing && self.health.is_replaced(self.since) {
            let why = "and the cluster has others where its slots are";
            return Advice::GiveUp(format!("the server has been silent for {silence:.1?}, {why}"));
        }
        let suspicion = self.health.suspicion(silence_max).filter(|_| flight == InFlight::Commands);
        let is_suspected = suspicion.is_some_and(|suspicion| silence >= suspicion);
        if is_suspected {
            self.health.suspect(now);
        }
        if silence < doubt {
            let next = suspicion.filter(|_| !is_suspected).unwrap_or(doubt) - silence;
            return Advice::Sleep(Some(if is_suspected { next.min(LOOK) } else { next }));
        }
        if flight == InFlight::Nothing {
            self.since = now;
            return Advice::Ask;
        }
        match self.health.known(self.since) {
            ProbeState::Heard(heard) => {
                self.since = heard;
                Advice::Sleep(Some(doubt.saturating_sub(elapsed(heard)).max(LOOK)))
            }
            ProbeState::Gone => Advice::GiveUp(format!(
                "the server has been silent for {silence:.1?} and does not answer on another connection either"
            )),
            ProbeState::Asking => Advice::Sleep(Some(LOOK)),
            ProbeState::None => {
                let deadlines = self.since.checked_add(verdict).zip(now.checked_add(doubt));
                // A time beyond what the machine can count is never over.
                let Some((deadline, least)) = deadlines else { return Advice::Sleep(None) };
                self.health.ask(&self.config, deadline.max(least));
                Advice::Sleep(Some(LOOK))
            }
        }
    }
}

/// How long a server may be silent with a command in flight before it is asked on a second connection.
fn suspicion(silence_max: Duration) -> Duration {
    silence_max / 20 * 9
}
