//! The purposes of snapshots, and the reasons for which one does not begin.

use std::fmt;
use std::io;

/// The purpose of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The file that `dbfilename` names.
    File,
    /// A new base of the AOF.
    Base,
    /// Replicas that wait for all data.
    Replicas,
}

/// Why a snapshot is not begun.
#[derive(Debug)]
pub enum Refusal {
    /// Another is being written, for this purpose.
    Running(Purpose),
    /// The engine ends, and writes none any more.
    Closed,
    /// Its thread cannot start.
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

/// An action for the end of a snapshot; its argument is whether the snapshot is good.
pub type WhenDone = Box<dyn FnOnce(bool) + Send>;
