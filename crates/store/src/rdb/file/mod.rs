//! Whole files: a header, fields about the file, function libraries, and for each database its keys; then a sum.
//!
//! ```text
//! "REDIS" and four digits of version, or "VALKEY" and three
//! 250 name value               about the file
//! 245 code                     a library of functions
//! 254 database
//! 251 keys, keys with deadline
//! [252 deadline][248 seconds idle | 249 frequency] type key value       a record, and so on
//! 255, CRC-64 of all that stands before
//! ```
//!
//! [`Writer`] gathers bytes, which its owner takes out as they come; [`Reader`] draws bytes from anything that can be read
//! and gives out one [`Event`] after the other, or fills a [`Batch`] with records that others decode. Neither opens a file,
//! and neither holds more than one record.
//!
//! # How a file is written
//!
//! ```ignore
//! let mut writer = Writer::new(Format { version: Version::Ten, is_compressing: true, is_summing: true });
//! writer.about(&about);
//! writer.function(b"#!lua name=mylib\n...");
//! writer.select(0);
//! writer.sizes(keys, keys_with_deadlines);
//! write_entry(writer.record(&Head { key, deadline, access: Access::Unknown }), &entry, now_ms); // whole, under the lock
//! write_copied(writer.record(&head), form, bytes, now_ms);                           // whole, from copied bytes
//! hash::open(writer.record(&head), 2, false);                                        // in parts
//! hash::write_field(writer.parts(), field, value, None);
//! hash::write_field(writer.parts(), field, value, None);
//! writer.drain(|bytes| file.write_all(bytes))?;                                          // as often as one likes
//! writer.end()?;
//! writer.drain(|bytes| file.write_all(bytes))?;
//! ```
//!
//! The forms of a value, and the parts in which large ones come, are described in [`record`](super::record).

pub mod batch;
pub mod fault;
pub mod feed;
pub mod oddity;
pub mod reader;
pub mod salvage;
pub mod writer;

pub use batch::{Batch, KeyRecord};
pub use fault::{Error, Fault};
pub use oddity::{Odd, Oddity};
pub use reader::{Event, Reader};
pub use writer::{About, Format, Head, Outdated, Writer};

/// The record of a key's use: how recently or how often. A file has it if the server evicts by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// The file has no record of it.
    #[default]
    Unknown,
    /// The seconds since the last use.
    Idle(u64),
    /// The frequency of use, on the logarithmic scale of LFU.
    Frequency(u8),
}

/// The opcodes: bytes that can stand in the place of a type.
mod opcode {
    /// The lowest number that is not the number of a type; higher ones are not either.
    pub const FIRST: u8 = 243;
    pub const SLOT_IMPORT: u8 = 243;
    pub const SLOT_INFO: u8 = 244;
    pub const FUNCTION: u8 = 245;
    pub const FUNCTION_EARLY: u8 = 246;
    pub const MODULE_AUX: u8 = 247;
    pub const IDLE: u8 = 248;
    pub const FREQUENCY: u8 = 249;
    pub const AUX: u8 = 250;
    pub const RESIZE: u8 = 251;
    pub const DEADLINE_MS: u8 = 252;
    pub const DEADLINE_S: u8 = 253;
    pub const SELECT: u8 = 254;
    pub const END: u8 = 255;
}
