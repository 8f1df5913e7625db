//! The silence of a server: its length, and the action that it calls for.
//!
//! Silence is measured by the received bytes, not by the answered requests: while a long reply arrives there is no silence.
//! With a command in flight a silence of half the allowed time raises suspicion, and the server is asked on a second
//! connection. If it answers there, this connection waits on; if it does not, this one ends. With nothing in flight the
//! server is asked on this very connection. A server with `timeout` set closes a connection on which it has heard nothing for
//! so long. The first such close teaches the time ([`IdleLimit`]), and from then on the server is asked within half of it. If
//! the server is the node of a cluster, the other nodes are asked sooner (`probe`). This module takes times and gives advice:
//! no socket. One task has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::probe::{ProbeState, ServerHealth};
use crate::config::Config;
use crate::sys::{elapsed, now};

/// The pause between two checks whether a probe was answered.
const LOOK: Duration = Duration::from_millis(50);

/// The action that the task has to take.
pub(crate) enum Advice {
    /// Do nothing for this time; for ever if none is given.
    Sleep(Option<Duration>),
    /// Send PING on this connection.
    Ask,
    /// Give the connection up, for this reason.
    GiveUp(String),
}

/// The kind of the requests in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum InFlight {
    Nothing,
    /// A command that may wait on the server, so that silence is expected.
    Waiting,
    Commands,
}

/// The shortest idle time that teaches anything: servers count `timeout` in seconds.
const TAUGHT_MIN: Duration = Duration::from_secs(1);

/// The time after which the server closes idle connections, as far as a close has shown it; 0 while none has. It needs no
/// permission to read the server's configuration, and holds for a device in between too.
#[derive(Debug, Default)]
pub(crate) struct IdleLimit {
    ms: AtomicU64,
}

impl IdleLimit {
    /// Notes that the server has closed a connection that had been idle for this time.
    fn learn(&self, idle: Duration) {
        if idle < TAUGHT_MIN {
            return;
        }
        let (known, idle_ms) = (self.ms.load(Ordering::Relaxed), idle.as_millis() as u64);
        self.ms.store(if known == 0 { idle_ms } else { known.min(idle_ms) }, Ordering::Relaxed);
    }

    /// Forgets the time: the server cannot be reached, so its end may have closed the connection.
    pub(crate) fn forget(&self) {
        self.ms.store(0, Ordering::Relaxed);
    }

    /// Returns the pause between two PINGs. Bytes are noticed at the next check only, so the server may hear nothing for twice
    /// the pause: that is half the limit.
    fn pause(&self) -> Option<Duration> {
        let ms = self.ms.load(Ordering::Relaxed);
        (ms != 0).then(|| Duration::from_millis(ms / 4))
    }
}

/// The length of a server's silence, and the actions that were taken.
pub(crate) struct SilenceWatch {
    config: Config,
    health: Arc<ServerHealth>,
    /// The number of bytes that had been received at the last check.
    received: u64,
    flight: InFlight,
    /// The time since which the silence counts.
    since: Instant,
    /// The time of the last check.
    looked: Instant,
    /// The time of the last check that found new bytes.
    heard: Option<Instant>,
    /// The time at which the other connections were last told that the server answers.
    told: Option<Instant>,
    idle_limit: Arc<IdleLimit>,
}

impl SilenceWatch {
    pub(crate) fn new(config: &Config, health: &Arc<ServerHealth>, idle_limit: &Arc<IdleLimit>) -> Self {
        let (config, health, idle_limit) = (config.clone(), health.clone(), idle_limit.clone());
        let now = now();
        let (received, flight) = (0, InFlight::Nothing);
        Self { config, health, received, flight, since: now, looked: now, heard: None, told: None, idle_limit }
    }

    /// Notes that the server has closed the connection after so many bytes, while nothing was in flight.
    pub(crate) fn learn(&self, received: u64) {
        // With bytes that came after the last check, it is unknown how long the connection was idle.
        if received == self.received && self.flight == InFlight::Nothing {
            self.idle_limit.learn(self.silence());
        }
    }

    /// Returns the length of the silence while a request was in flight.
    pub(crate) fn silence(&self) -> Duration {
        elapsed(self.since)
    }

    /// Returns the time for which no check is needed while nothing is in flight. It is short enough for requests that are
    /// sent in that time. Returns none if the silence has lasted for as long; then the sender of the next request has to wake
    /// the task.
    pub(crate) fn nap(&self, limit: Option<Duration>) -> Option<Duration> {
        let silence_max = self.config.silence_max;
        // If calls have no time limit, they need no check; but other nodes still have to be asked in time.
        let others = limit.is_none().then(|| silence_max.and_then(|max| self.health.suspicion(max))).flatten();
        let quiet = self.looked.duration_since(self.heard?);
        limit.into_iter().chain(silence_max.map(suspicion)).chain(others).min().filter(|&nap| quiet < nap)
    }

    /// Decides what an idle connection calls for after a silence of this length.
    fn look_at_idle(&mut self, silence: Duration, now: Instant) -> Advice {
        let doubt = self.config.silence_max.map(|max| max / 10 * 9);
        let Some(doubt) = doubt.into_iter().chain(self.idle_limit.pause()).min() else { return Advice::Sleep(None) };
        if silence < doubt {
            return Advice::Sleep(Some(doubt - silence));
        }
        self.since = now;
        Advice::Ask
    }

    /// Checks the number of bytes that have arrived by now. `waited` is the age of the requests in flight, if it is known.
    pub(crate) fn look(&mut self, received: u64, flight: InFlight, waited: Option<Duration>) -> Advice {
        let now = now();
        // A request that was sent after the last check has been in flight only since then.
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
        let silence = now.saturating_duration_since(self.since);
        let silence_max = self.config.silence_max;
        // The second time of each pair leaves time for an answer that is sent at the last moment.
        let (silence_max, (doubt, verdict)) = match (flight, silence_max) {
            (InFlight::Nothing, _) => return self.look_at_idle(silence, now),
            (_, None) => return Advice::Sleep(None),
            (InFlight::Waiting, Some(max)) => (max, (max / 10 * 9, max.saturating_mul(2))),
            (InFlight::Commands, Some(max)) => (max, (suspicion(max), max.saturating_add(max / 16))),
        };
        if self.health.is_replaced(self.since) {
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
                // A time beyond the range of the machine's clock never passes.
                let Some((deadline, least)) = deadlines else { return Advice::Sleep(None) };
                self.health.ask(&self.config, deadline.max(least));
                Advice::Sleep(Some(LOOK))
            }
        }
    }
}

/// Returns how long a server may be silent with a command in flight before it is asked on a second connection.
fn suspicion(silence_max: Duration) -> Duration {
    silence_max / 20 * 9
}
