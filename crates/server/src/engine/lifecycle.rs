//! The life of one engine: handles for its threads, the conditions under which it serves, and its end.

use std::sync::{Arc, OnceLock, Weak};

use super::Engine;
use super::readiness::{Hindrance, Readiness};
use super::replication::role::LinkState;
use super::watchdog::Watchdog;

/// The service that an engine offers now, for probes of orchestrators and load balancers. It is read without a lock of the
/// data, so that a long script or a pause of clients does not delay the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// The data is being loaded.
    pub is_loading: bool,
    /// The engine is about to end, or has ended.
    pub is_ending: bool,
    /// This is a replica, and whether the stream of its primary arrives; None for a primary.
    pub replica_is_linked: Option<bool>,
}

impl Service {
    /// Returns the present service of an engine.
    pub fn of(engine: &Engine) -> Self {
        let link = engine.replication.role.link();
        Self {
            is_loading: engine.lifecycle.readiness.has(Hindrance::Loading),
            is_ending: engine.persistence.waiting.until_ms().is_some() || engine.failure().is_some(),
            replica_is_linked: link.map(|link| link.state == LinkState::Connected),
        }
    }
}

/// The life of one engine.
pub struct Lifecycle {
    /// The engine itself, for threads that it starts.
    pub(super) own: Weak<Engine>,
    /// The reason for the engine's end, once it has ended.
    pub(super) failure: OnceLock<String>,
    /// The conditions that keep the engine from serving all requests.
    pub readiness: Readiness,
    /// The watchdog, which logs when clients are not served.
    pub(crate) watchdog: Arc<Watchdog>,
}
