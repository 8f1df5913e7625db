//! Inline requests: one line of text, split into arguments as Redis's `sdssplitargs` does.
//!
//! Arguments are parted by white space. `"..."` knows `\xHH`, `\n`, `\r`, `\t`, `\b`, `\a` and takes any other escaped byte
//! as it is; `'...'` knows only `\'`. A closing quote must be followed by white space or the line's end. A quote may open
//! in the middle of an argument. A zero byte ends the line, because the original reads C strings.
//!
//! The unescaped bytes are appended to a buffer of the caller. The same rules serve the command line, configuration files
//! and the manifest of an AOF, which is why [`split`] and [`quote`] are public. Pure functions; any thread.

use crate::arguments::Span;
use crate::protocol_error::ProtocolError;

/// The first bytes of a client that speaks TLS (RFC 8446, section 5.1): a record of a handshake, and the first byte of its
/// version.
const TLS_HANDSHAKE: &[u8] = &[0x16, 0x03];

/// Refuses bytes that may not begin a line: a client that speaks TLS gets an error at once, instead of waiting for the end of
/// a line.
pub(crate) fn check(line: &[u8]) -> Result<(), ProtocolError> {
    if line.starts_with(TLS_HANDSHAKE) { Err(ProtocolError::TlsHandshake) } else { Ok(()) }
}

/// Splits `line` (without its line end) into arguments: bytes go to the end of `out`, their places to the end of `spans`.
/// Returns false when quotes are not balanced; the caller then drops everything that was appended.
#[must_use]
pub fn split(line: &[u8], out: &mut Vec<u8>, spans: &mut Vec<Span>) -> bool {
    let line = memchr::memchr(0, line).and_then(|end| line.get(..end)).unwrap_or(line);
    let mut rest = line;
    loop {
        rest = skip_space(rest);
        if rest.is_empty() {
            return true;
        }
        let start = out.len();
        let Some(after) = token(rest, out) else { return false };
        rest = after;
        let (Ok(start), Ok(len)) = (u32::try_from(start), u32::try_from(out.len() - start)) else { return false };
        spans.push(Span { start, len });
    }
}

/// Returns whether C's `isspace` is true for the byte in the C locale.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

fn skip_space(bytes: &[u8]) -> &[u8] {
    let skip = bytes.iter().take_while(|&&byte| is_space(byte)).count();
    bytes.get(skip..).unwrap_or_default()
}

/// Reads one argument and returns the bytes behind it; `None` for unbalanced quotes.
fn token<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    while let Some((&byte, after)) = rest.split_first() {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => return Some(rest),
            b'"' => return closed(double_quoted(after, out)?),
            b'\'' => return closed(single_quoted(after, out)?),
            other => out.push(other),
        }
        rest = after;
    }
    Some(rest)
}

/// Returns the bytes behind a closing quote, which must begin with white space or be empty.
fn closed(rest: &[u8]) -> Option<&[u8]> {
    match rest.first() {
        Some(&byte) if !is_space(byte) => None,
        _ => Some(rest),
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.push(hex(*high) << 4 | hex(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                out.push(unescape(*escaped));
                after
            }
            [byte, after @ ..] => {
                out.push(*byte);
                after
            }
            [] => return None,
        };
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'\'', after @ ..] => return Some(after),
            [b'\\', b'\'', after @ ..] => {
                out.push(b'\'');
                after
            }
            [byte, after @ ..] => {
                out.push(*byte);
                after
            }
            [] => return None,
        };
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

/// Appends a word in double quotes, with escapes for characters that are not printable or cannot stand in quotes, so that
/// [`split`] returns the same word.
pub fn quote(word: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in word {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    out.push(b'"');
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'A').wrapping_add(10),
    }
}
