//! The durability that a caller requests for a write, and the question to a server about it. Plain data.

use std::fmt;

/// The request to be notified of fsyncs. If it is repeated it changes nothing, but its reply has a notification behind it,
/// too.
const FOLLOW: &[u8] = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nJOURNAL\r\n$2\r\nON\r\n";

/// The request to be notified of the replicas' progress, too. Each time that it is sent, the server asks the replicas for
/// their offsets.
const FOLLOW_REPLICAS: &[u8] = b"*4\r\n$6\r\nCLIENT\r\n$7\r\nJOURNAL\r\n$2\r\nON\r\n$8\r\nREPLICAS\r\n";

/// The durability that a caller requests for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The write is on the server's disk.
    Synced,
    /// This many replicas have applied the write.
    Replicated(usize),
    /// This many replicas have the write on their disks.
    SyncedOn(usize),
}

impl Level {
    /// Returns whether replicas have to confirm the write.
    pub(crate) fn is_of_replicas(self) -> bool {
        self != Self::Synced
    }

    /// Returns the request for notifications of fsyncs, or also of the replicas' progress.
    pub(crate) fn question(self) -> &'static [u8] {
        if self.is_of_replicas() { FOLLOW_REPLICAS } else { FOLLOW }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Synced => f.write_str("synced"),
            Self::Replicated(count) => write!(f, "replicated to {count}"),
            Self::SyncedOn(count) => write!(f, "synced on {count} replicas"),
        }
    }
}
