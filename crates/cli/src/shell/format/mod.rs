//! Prints a reply as redis-cli prints it: for people, raw, and as comma-separated values.
//!
//! Scripts and eyes depend on these shapes to the byte, so each rule here was read off redis-cli's output for every type
//! of reply and compared with it again by `tests/formats.rs`. JSON stands in `json`. Pure functions of a frame; nesting
//! beyond a bound is an error, so that no reply can exhaust the stack.

mod json;
mod text;

use sleeve_wire::frame::{Frame, FrameError, Items};
use sleeve_wire::inline::quote;

use text::{UNKNOWN_TYPE, check_depth};

/// An output format of redis-cli.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Typed, numbered and indented, for people.
    Standard,
    /// Bytes as they are.
    Raw {
        /// The separator of an aggregate's elements (`-d`).
        between: Vec<u8>,
        /// The bytes at the end of a reply (`-D`).
        end: Vec<u8>,
    },
    /// Comma-separated values.
    Csv,
    /// JSON with strings as they are.
    Json,
    /// JSON with strings that are escaped to ASCII first.
    QuotedJson,
}

impl Format {
    /// Returns the reply with the line end that belongs to it.
    ///
    /// `text` asks for the bytes of a long text alone, as INFO and CLIENT LIST are shown in every format.
    pub fn render(&self, frame: &Frame<'_>, text: bool) -> Result<Vec<u8>, FrameError> {
        let mut out = Vec::new();
        match self {
            Self::Raw { between, .. } if text => raw(frame, between, 0, &mut out)?,
            _ if text => raw(frame, b"\n", 0, &mut out)?,
            Self::Standard => standard(frame, "", 0, &mut out)?,
            Self::Raw { between, end } => {
                raw(frame, between, 0, &mut out)?;
                out.extend_from_slice(end);
            }
            Self::Csv => {
                csv(frame, 0, &mut out)?;
                out.push(b'\n');
            }
            Self::Json | Self::QuotedJson => {
                json::write(frame, *self == Self::QuotedJson, 0, &mut out)?;
                out.push(b'\n');
            }
        }
        Ok(out)
    }
}

/// Returns the aggregate that a frame is: its items, the sign behind an index, and its name when it is empty.
fn aggregate<'a>(frame: &Frame<'a>) -> Option<(Items<'a>, char, &'static str)> {
    match frame {
        Frame::Array(items) => Some((*items, ')', "(empty array)")),
        Frame::Push(items) => Some((*items, ')', "(empty push)")),
        Frame::Set(items) => Some((*items, '~', "(empty set)")),
        Frame::Map(items) => Some((*items, '#', "(empty hash)")),
        _ => None,
    }
}

fn standard(frame: &Frame<'_>, indent: &str, depth: usize, out: &mut Vec<u8>) -> Result<(), FrameError> {
    if let Some((items, sign, empty)) = aggregate(frame) {
        if items.is_empty() {
            out.extend_from_slice(empty.as_bytes());
            out.push(b'\n');
            return Ok(());
        }
        return standard_items(items, sign, indent, depth, out);
    }
    match frame {
        Frame::Error(text) => {
            out.extend_from_slice(b"(error) ");
            out.extend_from_slice(text);
        }
        Frame::Bulk(text) => quote(text, out),
        Frame::Integer(number) => out.extend_from_slice(format!("(integer) {number}").as_bytes()),
        Frame::Double(text) => {
            out.extend_from_slice(b"(double) ");
            out.extend_from_slice(text);
        }
        Frame::Null => out.extend_from_slice(b"(nil)"),
        other => scalar(other, out),
    }
    out.push(b'\n');
    Ok(())
}

/// Numbers the items; all lines but the first are indented, because the first continues its parent's line.
fn standard_items(
    mut items: Items<'_>,
    sign: char,
    indent: &str,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), FrameError> {
    check_depth(depth)?;
    let is_map = sign == '#';
    let count = if is_map { items.len() / 2 } else { items.len() };
    let width = count.max(1).ilog10() as usize + 1;
    let inner = format!("{indent}{:1$}", "", width + 2);
    let mut number = 0;
    while let Some(item) = items.next() {
        let lead = if number == 0 { "" } else { indent };
        number += 1;
        out.extend_from_slice(format!("{lead}{number:>width$}{sign} ").as_bytes());
        standard(&item?, &inner, depth + 1, out)?;
        if !is_map {
            continue;
        }
        // The value follows on the key's line, unless it is an aggregate of several lines.
        out.pop();
        out.extend_from_slice(b" => ");
        let value = items.next().ok_or(FrameError::Truncated)??;
        let mut text = Vec::new();
        standard(&value, &inner, depth + 1, &mut text)?;
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        if aggregate(&value).is_some() && lines > 1 {
            out.extend_from_slice(format!("\n{inner}").as_bytes());
        }
        out.extend_from_slice(&text);
    }
    Ok(())
}

/// Prints a frame that looks alike in the standard and the raw format.
fn scalar(frame: &Frame<'_>, out: &mut Vec<u8>) {
    match frame {
        Frame::Simple(text) | Frame::Bulk(text) | Frame::Error(text) => out.extend_from_slice(text),
        Frame::Verbatim { text, .. } | Frame::Double(text) | Frame::BigNumber(text) => out.extend_from_slice(text),
        Frame::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Frame::Boolean(true) => out.extend_from_slice(b"(true)"),
        Frame::Boolean(false) => out.extend_from_slice(b"(false)"),
        Frame::Null | Frame::Array(_) | Frame::Set(_) | Frame::Map(_) | Frame::Push(_) => {}
        _ => out.extend_from_slice(UNKNOWN_TYPE),
    }
}

fn raw(frame: &Frame<'_>, between: &[u8], depth: usize, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let Some((items, sign, _)) = aggregate(frame) else {
        scalar(frame, out);
        if matches!(frame, Frame::Error(_)) {
            out.push(b'\n');
        }
        return Ok(());
    };
    check_depth(depth)?;
    for (index, item) in items.enumerate() {
        if index > 0 {
            // A map's value stands behind its key.
            let is_value = sign == '#' && index % 2 == 1;
            out.extend_from_slice(if is_value { b" " } else { between });
        }
        raw(&item?, between, depth + 1, out)?;
    }
    Ok(())
}

fn csv(frame: &Frame<'_>, depth: usize, out: &mut Vec<u8>) -> Result<(), FrameError> {
    if let Some((items, ..)) = aggregate(frame) {
        check_depth(depth)?;
        for (index, item) in items.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            csv(&item?, depth + 1, out)?;
        }
        return Ok(());
    }
    match frame {
        Frame::Error(text) => {
            out.extend_from_slice(b"ERROR,");
            quote(text, out);
        }
        Frame::Simple(text) | Frame::Bulk(text) | Frame::Verbatim { text, .. } => quote(text, out),
        Frame::Null => out.extend_from_slice(b"NULL"),
        Frame::Boolean(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        other => scalar(other, out),
    }
    Ok(())
}
