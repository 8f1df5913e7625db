//! RESP3's attributes, which may precede any frame and describe it without being a part of its content.
//!
//! Code that looks at a frame's first byte skips attributes first. Pure functions; any thread.

use crate::frame::{Scanner, parse_integer};

/// Returns the frame without the attributes in front of it. The bytes must begin with a whole frame; other bytes come back
/// unchanged.
#[inline]
pub fn behind_attributes(frame: &[u8]) -> &[u8] {
    if frame.first() == Some(&b'|') { skip(frame) } else { frame }
}

#[cold]
fn skip(frame: &[u8]) -> &[u8] {
    let mut rest = frame;
    while rest.first() == Some(&b'|') {
        match skip_one(rest) {
            Some(after) => rest = after,
            None => return frame,
        }
    }
    rest
}

/// Returns the bytes behind one attribute. Its first line says how many pairs of frames it has.
fn skip_one(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|&byte| byte == b'\r')?;
    let pairs = parse_integer(bytes.get(1..end)?)?;
    let mut rest = bytes.get(end + 2..)?;
    for _ in 0..pairs.checked_mul(2)? {
        // Each frame takes bytes, so a count beyond the bytes that arrived ends the loop here.
        let length = Scanner::new().scan(rest).ok()??;
        rest = rest.get(length..)?;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_found_behind_its_attributes() {
        let push = b">1\r\n+x\r\n".as_slice();
        let one = [b"|1\r\n+a\r\n*2\r\n:1\r\n:2\r\n".as_slice(), push].concat();
        let two = [b"|0\r\n".as_slice(), &one].concat();
        for frame in [push, &one, &two] {
            assert_eq!(behind_attributes(frame), push);
        }
        for bad in [b"|1\r\n+a".as_slice(), b"|9999999999\r\n+a\r\n", b"|x\r\n", b"|"] {
            assert_eq!(behind_attributes(bad), bad);
        }
    }
}
