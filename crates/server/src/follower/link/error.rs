//! Why a link to a primary has ended: whether the primary is at fault decides how soon it is tried again.

/// Why there is nothing more to be had from this connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkError {
    /// The reason, for the server log.
    pub reason: String,
    /// The side at fault.
    pub fault: Fault,
}

/// The side that is at fault for the end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The primary is as it should be, and only cannot serve now; or this server cannot.
    Passing,
    /// The connection was closed. Within the stream either side or the network may have done that; before the stream the
    /// primary has refused.
    Closed,
    /// The primary has sent something that no primary sends, or that this server cannot use.
    Foreign,
}

impl LinkError {
    /// Returns the error for something that no primary sends.
    pub fn foreign(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), fault: Fault::Foreign }
    }

    /// Returns the error for a temporary failure: a retry may succeed.
    pub fn passing(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), fault: Fault::Passing }
    }

    /// The connection was closed.
    pub fn closed(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), fault: Fault::Closed }
    }
}
