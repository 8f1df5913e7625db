//! What all output formats share: what stands for the unknown, and how deep a reply may nest.

use sleeve_wire::frame::{DEPTH_MAX, FrameError};

/// What is shown of a reply whose type this program is too old for.
pub const UNKNOWN_TYPE: &[u8] = b"(a reply of an unknown type)";

/// Fails when `depth` is more than a reply may nest.
pub fn check_depth(depth: usize) -> Result<(), FrameError> {
    if depth < DEPTH_MAX { Ok(()) } else { Err(FrameError::Truncated) }
}
