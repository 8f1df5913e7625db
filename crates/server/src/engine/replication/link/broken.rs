//! Why a link to a primary has ended: whether the primary is at fault decides how soon it is tried again.

/// Why there is nothing more to be had from this connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// For the log.
    pub reason: String,
    /// Whose fault it is.
    pub fault: Fault,
}

/// Whose fault it is that a link has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The primary is as it should be, and only cannot serve now; or this server cannot.
    Passing,
    /// The connection was closed: amid the stream anybody may have done that, before it the primary has refused.
    Closed,
    /// The primary has said what none says, or what this server cannot use.
    Foreign,
}

impl Broken {
    /// The primary has said what none says.
    pub fn foreign(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), fault: Fault::Foreign }
    }

    /// It may work the next time.
    pub fn passing(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), fault: Fault::Passing }
    }

    /// The connection was closed.
    pub fn closed(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), fault: Fault::Closed }
    }
}
