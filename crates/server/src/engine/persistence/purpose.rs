//! The purposes of snapshots, and the reasons for which one does not begin.

use std::fmt;
use std::io;

/// The purpose of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The file that `dbfilename` names.
    File,
    /// A new base of the AOF (an AOF rewrite).
    Base,
    /// A full sync of replicas.
    Replicas,
}

/// The reason why a snapshot does not begin.
#[derive(Debug)]
pub enum Refusal {
    /// Another snapshot is being written, for this purpose.
    Running(Purpose),
    /// The engine ends, and writes no more snapshots.
    Closed,
    /// The snapshot's thread cannot start.
    NoThread(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running(_) => f.write_str("another snapshot is being written"),
            Self::Closed => f.write_str("the engine ends"),
            Self::NoThread(error) => write!(f, "its thread cannot start: {error}"),
        }
    }
}

/// An action for the end of a snapshot; its argument says whether the snapshot was written successfully.
pub type WhenDone = Box<dyn FnOnce(bool) + Send>;
