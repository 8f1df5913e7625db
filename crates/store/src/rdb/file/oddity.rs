//! A record that is odd and no reason to refuse its file, because other servers load the file as well: the key of an empty
//! collection is left out, and false statements of a stream about itself are put right.
//!
//! The reader and the decoders of batches make it; the loader of the file reports it.

use std::fmt;

use super::super::scan::Correction;
use super::fault::REDACTED;

/// A record that was left out or put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oddity {
    /// The byte of the file at which the record begins.
    pub offset: u64,
    /// The database of the record.
    pub database: usize,
    /// The key of the record.
    pub key: Vec<u8>,
    /// The treatment of the record.
    pub what: Odd,
}

/// The treatment of an odd record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Odd {
    /// The record is a collection without elements, and was left out.
    Empty,
    /// The value was corrected.
    Corrected(Correction),
}

impl Oddity {
    /// Leaves out the key's name, which is a user's.
    pub fn hide_key(&mut self) {
        self.key = REDACTED.to_vec();
    }
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, database, offset) = (self.key.escape_ascii(), self.database, self.offset);
        match self.what {
            Odd::Empty => write!(f, "skipping empty key: {key} (database {database}, at byte {offset})"),
            Odd::Corrected(correction) => {
                write!(f, "correcting key: {key} (database {database}, at byte {offset}): {correction}")
            }
        }
    }
}
