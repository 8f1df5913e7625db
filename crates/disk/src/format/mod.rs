//! The bytes of a log's files: the manifest, the lines between requests, the sum.

pub mod annotation;
pub mod crc32c;
pub mod manifest;
