//! The reasons for the end of a link to a primary. The side at fault decides how soon the primary is tried again.

/// The reason for which a connection cannot be used any more.
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
    /// A temporary failure: the primary, or this server, cannot serve now.
    Passing,
    /// The connection was closed. Within the stream, either side or the network may have done that; before the stream, the
    /// primary has refused.
    Closed,
    /// The primary has sent bytes that no primary sends, or that this server cannot use.
    Foreign,
}

impl LinkError {
    /// Returns the error for bytes that no primary sends.
    pub fn foreign(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), fault: Fault::Foreign }
    }

    /// Returns the error for a temporary failure: a retry may succeed.
    pub fn passing(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), fault: Fault::Passing }
    }

    /// Returns the error for a closed connection.
    pub fn closed(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), fault: Fault::Closed }
    }
}
