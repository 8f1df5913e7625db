//! Writing the parts of all values: lengths, strings, numbers. [`Encoder`] gathers bytes, and knows which version of the
//! format they are for.
//!
//! Strings are compressed by LZF where that is shorter, with one table for all strings of an encoder; so a caller that writes
//! many values keeps one encoder.

use crate::packed::listpack::Packed;
use crate::packed::ways::Ways;
use crate::types::list::lzf::Packer;
use crate::types::stream::id::StreamId;
use crate::value::{Digits, ValueRef, parse_integer};

/// The length in bytes up to which strings are not worth compressing.
const PLAIN_MAX: usize = 20;

/// The longest string that may be an integer of 32 bits, in bytes.
const INTEGER_MAX: usize = 11;

/// The version of the format that is written. Each value is written in a form that the readers of that version know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Version 10, of Redis 7.0, which all later servers read. Fields with deadlines are unknown to it.
    Ten,
    /// Version 12, of Redis 7.4 and 8.
    Twelve,
    /// Version 13, of Redis 8.6, which knows producers of streams that number their messages; other versions leave them out.
    Thirteen,
    /// Version 80, of Valkey 9, which writes fields with deadlines in another form than Redis.
    Valkey80,
}

impl Version {
    /// Returns the number that stands in files and dumps.
    pub fn number(self) -> u16 {
        match self {
            Self::Ten => 10,
            Self::Twelve => 12,
            Self::Thirteen => 13,
            Self::Valkey80 => 80,
        }
    }
}

/// A buffer of bytes in the format.
pub struct Encoder {
    /// The bytes that are written and not yet taken.
    pub(super) out: Vec<u8>,
    pub(super) version: Version,
    is_compressing: bool,
    packer: Packer,
    packed: Vec<u8>,
    listpack: Vec<u8>,
    /// The oldest version that knows all forms that were written.
    pub(super) needed: u16,
    /// The parts of each field of the hash that is being written.
    pub(super) fields: Fields,
}

/// The form in which the fields of a hash are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fields {
    /// Field and value.
    Plain,
    /// The deadline, then field and value. The deadline is written less this time, plus one.
    From(i64),
    /// Field and value, then the deadline.
    Valkey,
}

impl Encoder {
    /// Returns an encoder for this version; `is_compressing` says whether strings may be compressed.
    pub fn new(version: Version, is_compressing: bool) -> Self {
        Self {
            out: Vec::new(),
            version,
            is_compressing,
            packer: Packer::default(),
            packed: Vec::new(),
            listpack: Vec::new(),
            needed: Version::Ten.number(),
            fields: Fields::Plain,
        }
    }

    /// Returns the bytes that are written.
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Returns the oldest version that knows all words that were written.
    pub fn needed(&self) -> u16 {
        self.needed
    }

    pub(super) fn need(&mut self, version: u16) {
        self.needed = self.needed.max(version);
    }

    /// Appends a length in as few bytes as it takes.
    pub(super) fn len(&mut self, length: u64) {
        push_len(&mut self.out, length);
    }

    /// Appends a string: as an integer or compressed if that is shorter.
    pub(super) fn string(&mut self, value: ValueRef<'_>) {
        let integer = match value {
            ValueRef::Integer(number) => Some(number),
            ValueRef::Bytes(bytes) if bytes.len() <= INTEGER_MAX => parse_integer(bytes),
            ValueRef::Bytes(_) => None,
        };
        if let Some(number) = integer.and_then(|number| i32::try_from(number).ok()) {
            return self.integer(number);
        }
        let mut digits = Digits::default();
        let bytes = value.bytes(&mut digits);
        if self.is_compressing && bytes.len() > PLAIN_MAX && self.packer.pack(bytes, &mut self.packed) {
            self.out.push(0xc3);
            push_len(&mut self.out, self.packed.len() as u64);
            push_len(&mut self.out, bytes.len() as u64);
            self.out.extend_from_slice(&self.packed);
        } else {
            push_len(&mut self.out, bytes.len() as u64);
            self.out.extend_from_slice(bytes);
        }
    }

    fn integer(&mut self, number: i32) {
        if let Ok(byte) = i8::try_from(number) {
            self.out.extend([0xc0, byte as u8]);
        } else if let Ok(short) = i16::try_from(number) {
            self.out.push(0xc1);
            self.out.extend(short.to_le_bytes());
        } else {
            self.out.push(0xc2);
            self.out.extend(number.to_le_bytes());
        }
    }

    /// Appends a string of these bytes.
    pub(super) fn text(&mut self, bytes: &[u8]) {
        self.string(ValueRef::Bytes(bytes));
    }

    /// Appends packed elements as a listpack of Redis.
    pub(super) fn packed<W: Ways>(&mut self, packed: Packed<'_, W>) {
        let mut listpack = std::mem::take(&mut self.listpack);
        listpack.clear();
        packed.append_redis(&mut listpack);
        self.text(&listpack);
        self.listpack = listpack;
    }

    /// Appends eight bytes, lowest first.
    pub(super) fn number(&mut self, number: i64) {
        self.out.extend(number.to_le_bytes());
    }

    /// Appends the two numbers of an id, as lengths.
    pub(super) fn id(&mut self, id: StreamId) {
        self.len(id.ms);
        self.len(id.seq);
    }

    /// Appends the sixteen bytes of an id, highest first.
    pub(super) fn raw_id(&mut self, id: StreamId) {
        self.out.extend(raw_id(id));
    }
}

/// Returns an id of sixteen bytes, highest first.
pub(super) fn raw_id(id: StreamId) -> [u8; 16] {
    (u128::from(id.ms) << 64 | u128::from(id.seq)).to_be_bytes()
}

/// Appends a length in as few bytes as it takes.
pub fn push_len(out: &mut Vec<u8>, length: u64) {
    match length {
        0..=0x3f => out.push(length as u8),
        0x40..=0x3fff => out.extend([0x40 | (length >> 8) as u8, length as u8]),
        0x4000..=0xffff_ffff => {
            out.push(0x80);
            out.extend((length as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend(length.to_be_bytes());
        }
    }
}
