//! Prints a reply as JSON, in redis-cli's two ways: strings as they are, or escaped to ASCII first.
//!
//! As in redis-cli, values that JSON cannot express are printed all the same: an error as `error:"..."`, infinities as words,
//! and a map's key that is no string as its JSON text in quotes. Bytes that are not UTF-8 pass through unless strings are
//! quoted.

use sleeve_wire::frame::{Frame, FrameError, Items};
use sleeve_wire::inline::quote;

use super::text::{UNKNOWN_TYPE, check_depth};

/// Appends the frame's JSON text.
pub fn write(frame: &Frame<'_>, ascii: bool, depth: usize, out: &mut Vec<u8>) -> Result<(), FrameError> {
    check_depth(depth)?;
    match frame {
        Frame::Error(text) => {
            out.extend_from_slice(b"error:");
            string(text, ascii, out);
        }
        Frame::Simple(text) | Frame::Bulk(text) | Frame::Verbatim { text, .. } => string(text, ascii, out),
        Frame::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Frame::Double(text) | Frame::BigNumber(text) => out.extend_from_slice(text),
        Frame::Null => out.extend_from_slice(b"null"),
        Frame::Boolean(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Frame::Array(items) | Frame::Set(items) | Frame::Push(items) => array(*items, ascii, depth, out)?,
        Frame::Map(items) => object(*items, ascii, depth, out)?,
        _ => string(UNKNOWN_TYPE, ascii, out),
    }
    Ok(())
}

fn array(items: Items<'_>, ascii: bool, depth: usize, out: &mut Vec<u8>) -> Result<(), FrameError> {
    out.push(b'[');
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(&item?, ascii, depth + 1, out)?;
    }
    out.push(b']');
    Ok(())
}

fn object(mut items: Items<'_>, ascii: bool, depth: usize, out: &mut Vec<u8>) -> Result<(), FrameError> {
    out.push(b'{');
    let mut first = true;
    while let Some(key) = items.next() {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        let key = key?;
        let is_string = matches!(key, Frame::Simple(_) | Frame::Bulk(_) | Frame::Verbatim { .. } | Frame::Error(_));
        if is_string {
            write(&key, ascii, depth + 1, out)?;
        } else {
            out.push(b'"');
            write(&key, ascii, depth + 1, out)?;
            out.push(b'"');
        }
        out.push(b':');
        write(&items.next().ok_or(FrameError::Truncated)??, ascii, depth + 1, out)?;
    }
    out.push(b'}');
    Ok(())
}

fn string(text: &[u8], ascii: bool, out: &mut Vec<u8>) {
    if ascii {
        return quoted_string(text, out);
    }
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control if *control < b' ' => out.extend_from_slice(format!("\\u{control:04x}").as_bytes()),
            other => out.push(*other),
        }
    }
    out.push(b'"');
}

/// Appends the quoted form of the text with each of its backslashes doubled, so that JSON readers see the quoted form again.
fn quoted_string(text: &[u8], out: &mut Vec<u8>) {
    let mut quoted = Vec::new();
    quote(text, &mut quoted);
    for byte in quoted {
        if byte == b'\\' {
            out.push(b'\\');
        }
        out.push(byte);
    }
}
