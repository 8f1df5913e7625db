//! Files of an AOF that another process removes, cuts or exchanges while it is written.
//!
//! Bytes that are written to such a file are not there at the next start, and no call to the system fails for it. So the
//! writer of an AOF checks now and then whether its files are there, and whether the one that is appended to is as long as it
//! was written: a call to the system for each file. It reports the fault and mends nothing; the server, which has the data,
//! begins another AOF ([`super::Folder::wait_anew`]).

use std::fmt;
use std::path::PathBuf;

/// A change that another process has made to a file.
#[derive(Debug)]
pub enum Tampering {
    /// The file was removed.
    Removed(PathBuf),
    /// The path leads to another file.
    Exchanged(PathBuf),
    /// The file is shorter than the AOF's own record says: the bytes that it has, and the bytes that it had.
    Cut(PathBuf, u64, u64),
    /// The file has this many bytes that the AOF did not write.
    Extended(PathBuf, u64),
}

impl fmt::Display for Tampering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Somebody else has ")?;
        match self {
            Tampering::Removed(path) => write!(f, "removed {}", path.display()),
            Tampering::Exchanged(path) => write!(f, "put another file in the place of {}", path.display()),
            Tampering::Cut(path, is, was) => write!(f, "cut {} from {was} bytes to {is}", path.display()),
            Tampering::Extended(path, bytes) => write!(f, "appended {bytes} bytes to {}", path.display()),
        }
    }
}
