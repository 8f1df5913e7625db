//! A reply as it arrived, for callers that do not know its type or do not need it.
//!
//! It is owned, and has one variant for each kind of reply. It is not used for typed results, which are decoded straight from
//! the reply's bytes. Pure data; any thread.

use std::fmt;

use sleeve_wire::frame::{DEPTH_MAX, Frame, FrameError, Walk};

use crate::error::Error;

/// Any reply. RESP2 knows only the variants up to `Array`.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, Value, prelude::*};
///
/// let client = Client::embedded();
/// client.rpush("list", ["a", "b"]).wait()?;
/// let value: Value = client.cmd("LRANGE").arg(("list", 0, -1)).send().wait()?;
/// assert_eq!(value, Value::Array(vec![Value::Bytes(b"a".to_vec()), Value::Bytes(b"b".to_vec())]));
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// The nil value: a missing key, an aborted transaction.
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
    /// Keys and values in the order in which they arrived.
    Map(Vec<(Value, Value)>),
    /// Values in an order without a meaning.
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
    /// Copies a frame with all of its elements.
    pub(crate) fn from_frame(frame: Frame<'_>) -> Result<Self, Error> {
        let walk = match frame {
            Frame::Array(items) | Frame::Push(items) | Frame::Set(items) | Frame::Map(items) => items.walk(),
            _ => Walk::default(),
        };
        Reader { walk }.read(frame, 0)
    }
}

/// A reader of values in the order of their bytes, each once: the end of a value is not searched for before the value is
/// read.
struct Reader<'a> {
    walk: Walk<'a>,
}

impl<'a> Reader<'a> {
    /// Returns the value of a frame that was read, with the frames behind it that are its elements.
    fn read(&mut self, frame: Frame<'a>, depth: usize) -> Result<Value, Error> {
        if depth > DEPTH_MAX {
            return Err(Error::protocol(format_args!("a reply is nested more than {DEPTH_MAX} deep")));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(match frame {
            Frame::Null => Value::Nil,
            Frame::Simple(line) => Value::Status(text(line)),
            Frame::Error(line) => Value::Error(text(line)),
            Frame::Integer(value) => Value::Integer(value),
            Frame::Bulk(bytes) => Value::Bytes(bytes.to_vec()),
            Frame::Boolean(value) => Value::Boolean(value),
            Frame::Double(line) => Value::Double(sleeve_wire::frame::parse_double(line).unwrap_or(f64::NAN)),
            Frame::BigNumber(line) => Value::BigNumber(text(line)),
            Frame::Verbatim { format, text: body } => Value::Verbatim { format: text(format), text: text(body) },
            Frame::Array(items) | Frame::Push(items) => {
                Value::Array(self.all(items.len(), |reader| reader.next(depth))?)
            }
            Frame::Set(items) => Value::Set(self.all(items.len(), |reader| reader.next(depth))?),
            Frame::Map(items) => {
                Value::Map(self.all(items.len() / 2, |reader| Ok((reader.next(depth)?, reader.next(depth)?)))?)
            }
            _ => return Err(Error::protocol("a reply is of a type that no value stands for")),
        })
    }

    /// Reads `count` values, each by `one`.
    fn all<T>(&mut self, count: usize, one: impl Fn(&mut Self) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        let mut values = Vec::with_capacity(count.min(self.walk.size_hint().1.unwrap_or(0)));
        for _ in 0..count {
            values.push(one(self)?);
        }
        Ok(values)
    }

    /// Reads the next value, at this depth.
    fn next(&mut self, depth: usize) -> Result<Value, Error> {
        let frame = self.walk.next().unwrap_or(Err(FrameError::Truncated)).map_err(Error::protocol)?;
        self.read(frame, depth + 1)
    }
}

impl fmt::Display for Value {
    /// Writes one line, for logs and messages: strings quoted, aggregates in brackets.
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
