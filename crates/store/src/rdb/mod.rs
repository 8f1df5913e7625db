//! Redis's snapshot format (RDB), in both directions: single values, as DUMP has them, and whole files.
//!
//! | file | contents |
//! | --- | --- |
//! | `file` | Whole files: a [`Writer`](file::Writer), a [`Reader`](file::Reader), and [`salvage`](file::salvage) for damaged ones. |
//! | `types` | A value of each type, written (whole, or a large one part by part), read, and passed over; and the table of them. |
//! | `rdb_type` | The trait of a type in the format. |
//! | `record` | One value that is about to be written. |
//! | `limits` | The limits that decide how a value that is read is kept. |
//! | `packed` | Packed collections, read. |
//! | `encoder`, `scan`, `pass` | Lengths, strings and numbers, written, read, and passed over. |
//! | `old` | The packed forms of Redis before version 7, which are read and never written. |
//! | `bad` | The faults of foreign bytes. |
//! | `crc64` | The sum that stands behind files and dumps. |
//!
//! All bytes that are read are foreign: the reader reserves no memory for a length that they claim, and it unpacks packed
//! values and packs them again under our own limits. The format is described in Redis's `rdb.h`; versions up to 13 (Redis
//! 8.6) and Valkey's 80 are read. A dump is written in the oldest version that has its type, a file in the [`Version`] that
//! its writer was given.

pub mod bad;
pub mod crc64;
pub mod encoder;
pub mod file;
mod limits;
mod old;
mod packed;
mod pass;
mod rdb_type;
pub mod record;
pub mod scan;
pub mod types;

pub use bad::Bad;
pub use crc64::crc64;
pub use encoder::{Encoder, Version, push_len};
pub use limits::Limits;
pub use rdb_type::{Destination, Origin};
pub use record::Record;
pub use scan::{Correction, Input, Source};
pub use types::{Loaded, read, write, write_copied, write_entry};

/// The newest version of Redis's format that is read.
pub const VERSION_MAX: u16 = 13;

/// The version of Valkey's own format that is read.
pub const VERSION_VALKEY: u16 = 80;

/// Returns the project with the format of a dump of this version; none if the version is not known.
pub fn origin_of(version: u16) -> Option<Origin> {
    match version {
        0..=VERSION_MAX => Some(Origin::Redis),
        VERSION_VALKEY => Some(Origin::Valkey),
        _ => None,
    }
}
