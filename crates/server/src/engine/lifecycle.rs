//! The life of one engine: handles for its threads, the conditions under which it serves, and its end.

use std::sync::{Arc, OnceLock, Weak};

use super::Engine;
use super::readiness::Readiness;
use super::watchdog::Watchdog;

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
