//! The new file: the kept parts as they stand in the damaged one, databases in order, with right sizes and a right sum.

use std::io::{self, Write};

use super::super::super::crc64::crc64_of_more;
use super::super::super::encoder::push_len;
use super::super::super::rdb_type::Origin;
use super::super::super::scan::{Input, Source};
use super::super::opcode;
use super::super::reader::SUMMED_FROM;
use super::Salvaged;

/// The properties that say where in the stream of a primary the file was made. A server that has them goes on there, and a
/// replica would never be sent the keys that are lost.
const REPLICATION_PLACE: [&[u8]; 3] = [b"repl-id", b"repl-offset", b"repl-stream-db"];

/// Returns whether a part of the head is such a property.
fn is_replication_place(part: &[u8]) -> bool {
    let Some((&opcode::AUX, rest)) = part.split_first() else { return false };
    Input::new(rest).owned().is_ok_and(|name| REPLICATION_PLACE.contains(&name.as_slice()))
}

/// A destination, with the sum of the bytes that it was given.
struct Summed<W> {
    into: W,
    sum: u64,
}

impl<W: Write> Summed<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum = crc64_of_more(self.sum, bytes);
        self.into.write_all(bytes)
    }
}

impl Salvaged {
    /// Writes a whole file of the kept parts of `bytes`, which are the bytes that were salvaged.
    ///
    /// # Errors
    /// The errors of the destination.
    pub fn write(&self, bytes: &[u8], into: impl Write) -> io::Result<()> {
        let mut out = Summed { into, sum: 0 };
        let (origin, version) = self.header;
        out.put(
            match origin {
                // Older versions have no sum. Readers take the form of a value from its type, not from the version.
                Origin::Redis => format!("REDIS{:04}", version.max(SUMMED_FROM)),
                Origin::Valkey => format!("VALKEY{version:03}"),
            }
            .as_bytes(),
        )?;
        let head = self.head.iter().map(|part| bytes.get(part.clone()).unwrap_or_default());
        for part in head.filter(|part| self.is_whole() || !is_replication_place(part)) {
            out.put(part)?;
        }
        for (number, records) in &self.databases {
            let volatile = records.iter().filter(|kept| kept.has_deadline).count();
            let mut front = vec![opcode::SELECT];
            push_len(&mut front, *number as u64);
            front.push(opcode::RESIZE);
            push_len(&mut front, records.len() as u64);
            push_len(&mut front, volatile as u64);
            out.put(&front)?;
            for kept in records {
                out.put(bytes.get(kept.bytes.clone()).unwrap_or_default())?;
            }
        }
        out.put(&[opcode::END])?;
        let sum = out.sum;
        out.into.write_all(&sum.to_le_bytes())?;
        out.into.flush()
    }
}
