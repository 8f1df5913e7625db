//! The error that ends the reading of a file: the fault, its byte, and its record.
//!
//! The reader makes it. A server that starts ends with it, and `sleeve check rdb` says by it how much the damage costs.

use std::fmt;
use std::io;

use super::super::VERSION_MAX;
use super::super::bad::Bad;

/// Valkey's own version of the format.
pub(super) const VALKEY_VERSION: u16 = crate::rdb::VERSION_VALKEY;

/// The reason why the reading of a file ended.
#[derive(Debug)]
pub struct Error {
    /// The byte at which the damaged record or other part begins.
    pub begins_at: u64,
    /// The byte up to which the file was read.
    pub offset: u64,
    /// The database that was selected.
    pub database: usize,
    /// The key of the record, if it has one.
    pub key: Option<Vec<u8>>,
    /// The fault.
    pub fault: Fault,
}

/// A fault of a file.
#[derive(Debug)]
pub enum Fault {
    /// The file does not begin with the magic word of an RDB file.
    Magic,
    /// The version of the file is not known; its magic word.
    Version(String),
    /// A part of the file is damaged.
    Bad(Bad),
    /// The source cannot be read.
    Read(io::Error),
    /// The file has data of the module with this name.
    Module(String),
    /// The file has functions in the form of a release candidate of Redis 7.0.
    EarlyFunction,
    /// The file was written while slots of a cluster were moved to its server.
    SlotImport,
    /// The checksum at the end of the file is not that of its bytes.
    Sum {
        /// The checksum in the file.
        stated: u64,
        /// The sum of the file's bytes.
        actual: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => {
                write!(f, "the file does not begin with REDIS or VALKEY and a version, so it is no RDB file")
            }
            Self::Version(magic) => write!(
                f,
                "the file is of a version that is not known ({magic}); known are REDIS0001 to REDIS{VERSION_MAX:04} and \
                 VALKEY{VALKEY_VERSION:03}"
            ),
            Self::Bad(bad) => write!(f, "{bad}"),
            Self::Read(error) => write!(f, "{error}"),
            Self::Module(name) => write!(f, "the file has data of the module {name}, and there are no modules here"),
            Self::EarlyFunction => write!(
                f,
                "the file has functions in the form of a release candidate of Redis 7.0; load it into Redis 7.0 and save it again"
            ),
            Self::SlotImport => write!(
                f,
                "the file was written while slots of a cluster were being imported; save it again when that is over"
            ),
            Self::Sum { stated, actual } => write!(
                f,
                "RDB CRC error: the sum at the end of the file ({stated:016x}) is not that of its bytes ({actual:016x}), so that \
                 some of them have changed"
            ),
        }
    }
}

impl Error {
    /// Leaves the name of the key out of the text, for a server log that must not contain users' data.
    pub fn hide_key(&mut self) {
        if let Some(key) = &mut self.key {
            *key = REDACTED.to_vec();
        }
    }
}

/// The text in place of a key's name that is left out, as in Redis.
pub const REDACTED: &[u8] = b"*redacted*";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}", self.offset)?;
        if let Some(key) = &self.key {
            let (key, database) = (key.escape_ascii(), self.database);
            write!(
                f,
                ", in the record of the key \"{key}\" of database {database} that begins at byte {}",
                self.begins_at
            )?;
        }
        write!(f, ": {}", self.fault)
    }
}

impl std::error::Error for Error {}

impl From<Bad> for Fault {
    fn from(bad: Bad) -> Self {
        Self::Bad(bad)
    }
}
