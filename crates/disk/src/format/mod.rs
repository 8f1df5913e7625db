//! The bytes of an AOF's files: the manifest, the lines between requests, the checksum.

pub mod annotation;
pub mod crc32c;
pub mod manifest;
