//! The common parts of all output formats: the text for the unknown, and how deep a reply may nest.

use sleeve_wire::frame::{DEPTH_MAX, FrameError};

/// The text for a reply of a type that is newer than this program.
pub const UNKNOWN_TYPE: &[u8] = b"(a reply of an unknown type)";

/// Fails if `depth` is larger than the limit for nested replies.
pub fn check_depth(depth: usize) -> Result<(), FrameError> {
    if depth < DEPTH_MAX { Ok(()) } else { Err(FrameError::Truncated) }
}
