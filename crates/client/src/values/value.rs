//! A reply as it came, for whoever does not know or care which type it has.
//!
//! Owned and small in concept: one variant a kind of reply. It refuses to be the way of typed results, which are decoded
//! straight from the reply's bytes without it. Pure data; any thread.

use std::fmt;

use sleeve_wire::frame::{DEPTH_MAX, Frame, Items};

use crate::error::Error;

/// Any reply. RESP2 knows only the variants up to `Array`.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, Value, prelude::*};
///
/// let client = Client::embedded();
/// client.rpush("list", ["a", "b"]).wait()?;
/// let value: Value = client.cmd("LRANGE list 0 -1").send().wait()?;
/// assert_eq!(value, Value::Array(vec![Value::Bytes(b"a".to_vec()), Value::Bytes(b"b".to_vec())]));
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Nothing: a missing key, an aborted transaction.
    Nil,
    /// A status line such as `OK`.
    Status(String),
    /// A whole number.
    Integer(i64),
    /// A string of any bytes.
    Bytes(Vec<u8>),
    /// An error inside an aggregate, such as one command's in a transaction. As a whole reply an error is an `Err`.
    Error(String),
    /// Values in order.
    Array(Vec<Value>),
    /// Keys and values in the order in which they came.
    Map(Vec<(Value, Value)>),
    /// Values whose order means nothing.
    Set(Vec<Value>),
    /// A floating point number.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// A whole number that may be too large for `i64`, as text.
    BigNumber(String),
    /// A text with its three-letter format, `txt` or `mkd`.
    Verbatim {
        /// The format.
        format: String,
        /// The text.
        text: String,
    },
}

impl Value {
    /// Copies a frame and everything below it.
    pub(crate) fn from_frame(frame: Frame<'_>) -> Result<Self, Error> {
        Self::at_depth(frame, 0)
    }

    fn at_depth(frame: Frame<'_>, depth: usize) -> Result<Self, Error> {
        if depth > DEPTH_MAX {
            return Err(Error::protocol(format_args!("a reply is nested more than {DEPTH_MAX} deep")));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let all = |items: Items<'_>| items.map(|item| below(item, depth)).collect::<Result<Vec<_>, _>>();
        Ok(match frame {
            Frame::Null => Self::Nil,
            Frame::Simple(line) => Self::Status(text(line)),
            Frame::Error(line) => Self::Error(text(line)),
            Frame::Integer(value) => Self::Integer(value),
            Frame::Bulk(bytes) => Self::Bytes(bytes.to_vec()),
            Frame::Boolean(value) => Self::Boolean(value),
            Frame::Double(line) => Self::Double(sleeve_wire::frame::parse_double(line).unwrap_or(f64::NAN)),
            Frame::BigNumber(line) => Self::BigNumber(text(line)),
            Frame::Verbatim { format, text: body } => Self::Verbatim { format: text(format), text: text(body) },
            Frame::Array(items) | Frame::Push(items) => Self::Array(all(items)?),
            Frame::Set(items) => Self::Set(all(items)?),
            Frame::Map(mut items) => {
                let mut pairs = Vec::with_capacity(items.size_hint().0 / 2);
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    pairs.push((below(key, depth)?, below(value, depth)?));
                }
                Self::Map(pairs)
            }
            _ => return Err(Error::protocol("a reply is of a type that no value stands for")),
        })
    }
}

fn below(item: Result<Frame<'_>, sleeve_wire::frame::FrameError>, depth: usize) -> Result<Value, Error> {
    Value::at_depth(item.map_err(Error::protocol)?, depth + 1)
}

impl fmt::Display for Value {
    /// One line, for logs and messages: strings quoted, aggregates in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Status(text) | Self::Error(text) | Self::BigNumber(text) | Self::Verbatim { text, .. } => {
                f.write_str(text)
            }
            Self::Integer(value) => write!(f, "{value}"),
            Self::Bytes(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Self::Double(value) => write!(f, "{value}"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Array(values) | Self::Set(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{value}")?;
                }
                f.write_str("]")
            }
            Self::Map(pairs) => {
                f.write_str("{")?;
                for (index, (key, value)) in pairs.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{key}: {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}
