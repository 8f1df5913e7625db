//! Writing a file: bytes are gathered, summed when they are taken out, and never held back.
//!
//! One thread uses a writer. It knows no clock and no locks: times are arguments, and an entry is borrowed for one call.

use std::fmt;

use super::super::crc64::crc64_of_more;
use super::super::encoder::{Encoder, Version};
use super::super::record::Record;
use super::{Access, opcode};
use crate::value::ValueRef;

/// The settings with which a file is written.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The version of the format that is written.
    pub version: Version,
    /// True if strings may be compressed; `rdbcompression`.
    pub is_compressing: bool,
    /// True if the file ends with a checksum; otherwise it ends with eight zero bytes. `rdbchecksum`.
    pub is_summing: bool,
}

/// The properties that a file states of itself in front of everything else, as in Redis.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The version of the server that writes it.
    pub server_version: &'a str,
    /// The time of writing, in seconds since the epoch.
    pub written_s: i64,
    /// The bytes of memory that the server takes.
    pub used_memory: u64,
    /// True if the file is the base of an AOF.
    pub is_log_base: bool,
}

/// The part of a record in front of its value.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The key's deadline, in milliseconds since the epoch.
    pub deadline: Option<i64>,
    /// The record of the key's use.
    pub access: Access,
}

/// The error of a file with data that the version in its header cannot express: a hash with deadlines in version 10. The file
/// is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outdated {
    /// The version that the file needs.
    pub needed: u16,
}

impl fmt::Display for Outdated {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the file has values that only version {} of the format knows", self.needed)
    }
}

impl std::error::Error for Outdated {}

/// A file that is being written.
pub struct Writer {
    encoder: Encoder,
    sum: Option<u64>,
    /// The number of bytes that were taken out.
    drained: u64,
}

impl Writer {
    /// Begins a file: the header is written.
    pub fn new(format: Format) -> Self {
        let mut encoder = Encoder::new(format.version, format.is_compressing);
        let number = format.version.number();
        let magic = match format.version {
            Version::Ten | Version::Twelve | Version::Thirteen => format!("REDIS{number:04}"),
            Version::Valkey80 => format!("VALKEY{number:03}"),
        };
        encoder.out.extend_from_slice(magic.as_bytes());
        Self { encoder, sum: format.is_summing.then_some(0), drained: 0 }
    }

    /// Writes the fields that Redis writes into every file.
    pub fn about(&mut self, about: &About<'_>) {
        let version = match self.encoder.version {
            Version::Ten | Version::Twelve | Version::Thirteen => "redis-ver",
            Version::Valkey80 => "valkey-ver",
        };
        self.aux(version, about.server_version.as_bytes());
        self.aux("redis-bits", i64::from(usize::BITS));
        self.aux("ctime", about.written_s);
        self.aux("used-mem", about.used_memory.min(i64::MAX as u64) as i64);
        self.aux("aof-base", i64::from(about.is_log_base));
    }

    /// Writes a field about the file. Readers skip fields that they do not know.
    pub fn aux<'v>(&mut self, name: &str, value: impl Into<ValueRef<'v>>) {
        self.encoder.out.push(opcode::AUX);
        self.encoder.text(name.as_bytes());
        self.encoder.string(value.into());
    }

    /// Writes a library of functions.
    pub fn function(&mut self, code: &[u8]) {
        self.encoder.out.push(opcode::FUNCTION);
        self.encoder.text(code);
    }

    /// Selects the database of the keys that follow.
    pub fn select(&mut self, database: usize) {
        self.encoder.out.push(opcode::SELECT);
        self.encoder.len(database as u64);
    }

    /// Writes the number of keys in the database, and the number of keys with a deadline: a reader may make room for them.
    pub fn sizes(&mut self, keys: u64, volatile: u64) {
        self.encoder.out.push(opcode::RESIZE);
        self.encoder.len(keys);
        self.encoder.len(volatile);
    }

    /// Begins the record of a key. The returned record takes the value, or opens it if it comes in parts.
    pub fn record<'a>(&'a mut self, head: &Head<'a>) -> Record<'a> {
        if let Some(deadline) = head.deadline {
            self.encoder.out.push(opcode::DEADLINE_MS);
            self.encoder.number(deadline);
        }
        match head.access {
            Access::Unknown => {}
            Access::Idle(seconds) => {
                self.encoder.out.push(opcode::IDLE);
                self.encoder.len(seconds);
            }
            Access::Frequency(count) => self.encoder.out.extend([opcode::FREQUENCY, count]),
        }
        Record::new(&mut self.encoder, Some(head.key))
    }

    /// Takes the parts of a value that was opened.
    pub fn parts(&mut self) -> &mut Encoder {
        &mut self.encoder
    }

    /// Ends the file.
    ///
    /// # Errors
    /// [`Outdated`] if the header promises an older version than there is in the file.
    pub fn end(&mut self) -> Result<(), Outdated> {
        let (needed, version) = (self.encoder.needed(), self.encoder.version.number());
        if needed > version {
            return Err(Outdated { needed });
        }
        self.encoder.out.push(opcode::END);
        let sum = self.sum.map_or(0, |sum| crc64_of_more(sum, &self.encoder.out));
        self.sum = None;
        self.encoder.out.extend(sum.to_le_bytes());
        Ok(())
    }

    /// Returns the bytes that were written and not yet taken out.
    pub fn pending_len(&self) -> usize {
        self.encoder.out.len()
    }

    /// Returns the bytes that were written.
    pub fn len(&self) -> u64 {
        self.drained + self.encoder.out.len() as u64
    }

    /// Returns whether nothing was written, which is always false: there is a header.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives out the bytes that were written since the last call.
    pub fn drain<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> R {
        let bytes = &self.encoder.out;
        self.sum = self.sum.map(|sum| crc64_of_more(sum, bytes));
        self.drained += bytes.len() as u64;
        let result = take(bytes);
        self.encoder.out.clear();
        // A large value must not leave its room allocated for good.
        self.encoder.out.shrink_to(ROOM_KEPT);
        result
    }
}

/// The room, in bytes, that is kept for the bytes that follow.
const ROOM_KEPT: usize = 1 << 20;
