//! What all output formats share: quoted text, what stands for the unknown, and how deep a reply may nest.

use sleeve_wire::frame::{DEPTH_MAX, FrameError};

/// What is shown of a reply whose type this program is too old for.
pub const UNKNOWN_TYPE: &[u8] = b"(a reply of an unknown type)";

/// Fails when `depth` is more than a reply may nest.
pub fn check_depth(depth: usize) -> Result<(), FrameError> {
    if depth < DEPTH_MAX { Ok(()) } else { Err(FrameError::Truncated) }
}

/// Appends the text in double quotes, with C's escapes and `\xHH` for what does not print.
pub fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(*byte),
            other => out.extend_from_slice(format!("\\x{other:02x}").as_bytes()),
        }
    }
    out.push(b'"');
}
