//! Strings: their digest, and the SET that recreates one from the AOF, with APPENDs after it if the string arrives in parts.
//!
//! SORT refuses them.

use sleeve_store::snapshot::{Bytes, Large};
use sleeve_store::{Digits, EntryRef};

use super::digest::Digest;
use super::request_writer::RequestWriter;
use super::value_type::{LargeRequests, ValueType};

/// The operations of strings.
pub struct StringType;

impl ValueType for StringType {
    fn number(&self) -> u32 {
        0
    }

    fn digest(&self, digest: &mut Digest, entry: &EntryRef<'_>) {
        digest.mix(entry.value().bytes(&mut Digits::default()));
    }

    fn write(&self, writer: &mut RequestWriter, entry: &EntryRef<'_>) {
        writer.request(&[b"SET", entry.key(), entry.value().bytes(&mut Digits::default())]);
    }

    fn begin(&self, _: &Large) -> Box<dyn LargeRequests> {
        Box::new(LargeString { has_begun: false })
    }
}

struct LargeString {
    /// A part has been written.
    has_begun: bool,
}

impl LargeRequests for LargeString {
    fn part(&mut self, writer: &mut RequestWriter, large: &Large, bytes: &Bytes<'_>) {
        let name: &[u8] = if std::mem::replace(&mut self.has_begun, true) { b"APPEND" } else { b"SET" };
        writer.request(&[name, large.key(), &bytes.bytes()]);
    }
}
