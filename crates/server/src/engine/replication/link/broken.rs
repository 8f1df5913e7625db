//! Why a link to a primary has ended: whether the primary is at fault decides how soon it is tried again.

/// Why there is nothing more to be had from this connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// For the log.
    pub reason: String,
    /// Whether the primary is as it should be, and only cannot serve now.
    pub is_passing: bool,
}

impl Broken {
    /// The primary has said what none says.
    pub fn foreign(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_passing: false }
    }

    /// It may work the next time.
    pub fn passing(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_passing: true }
    }
}
