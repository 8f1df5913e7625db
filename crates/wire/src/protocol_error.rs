//! The errors of a peer's bytes that are no request (in Redis's words, but for that of TLS) or no reply. Pure data; any
//! thread.

use std::borrow::Cow;
use std::fmt;

/// The reason why a peer's bytes cannot be parsed any further. The connection is of no use after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The text after `*` is no number, or the number is too large.
    InvalidMultibulkLength,
    /// The text after `$` is no number, or the number is negative or too large.
    InvalidBulkLength,
    /// An argument began with this byte instead of `$`.
    ExpectedDollar(u8),
    /// More than 10 arguments before authentication.
    UnauthenticatedMultibulkLength,
    /// An argument of more than 16 KiB before authentication.
    UnauthenticatedBulkLength,
    /// A `*` line longer than 64 KiB.
    TooBigMultibulkCount,
    /// A `$` line longer than 64 KiB.
    TooBigBulkCount,
    /// An inline line longer than 64 KiB.
    TooBigInline,
    /// An inline request with an open or badly closed quote.
    UnbalancedQuotes,
    /// The peer speaks TLS.
    TlsHandshake,
}

impl ProtocolError {
    /// Returns the text of the error reply after `-ERR `, without line end: Redis's words.
    pub fn message(self) -> Cow<'static, [u8]> {
        let text: &'static str = match self {
            ProtocolError::InvalidMultibulkLength => "Protocol error: invalid multibulk length",
            ProtocolError::InvalidBulkLength => "Protocol error: invalid bulk length",
            ProtocolError::UnauthenticatedMultibulkLength => "Protocol error: unauthenticated multibulk length",
            ProtocolError::UnauthenticatedBulkLength => "Protocol error: unauthenticated bulk length",
            ProtocolError::TooBigMultibulkCount => "Protocol error: too big mbulk count string",
            ProtocolError::TooBigBulkCount => "Protocol error: too big bulk count string",
            ProtocolError::TooBigInline => "Protocol error: too big inline request",
            ProtocolError::UnbalancedQuotes => "Protocol error: unbalanced quotes in request",
            ProtocolError::TlsHandshake => "Protocol error: this port does not speak TLS (see tls-port)",
            ProtocolError::ExpectedDollar(got) => return Cow::Owned(expected_dollar(got)),
        };
        Cow::Borrowed(text.as_bytes())
    }
}

/// Returns the text for [`ProtocolError::ExpectedDollar`]. An error reply cannot hold a line end; Redis writes a space for
/// it.
fn expected_dollar(got: u8) -> Vec<u8> {
    let shown = if matches!(got, b'\r' | b'\n') { b' ' } else { got };
    [b"Protocol error: expected '$', got '", [shown].as_slice(), b"'"].concat()
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.message()))
    }
}

impl std::error::Error for ProtocolError {}

/// The reason why bytes are not a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The first byte of a frame names no known type.
    UnknownType(u8),
    /// A length or a number cannot be parsed, or is out of bounds.
    BadNumber,
    /// A line is longer than the limit or holds a carriage return that ends nothing.
    BadLine,
    /// A bulk string is not followed by `\r\n`, or a verbatim string has no format.
    BadBulk,
    /// The bytes end inside the frame. Only the decoder reports this; the scanner asks for more bytes instead.
    Truncated,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownType(byte) if speaks_tls(*byte) => f.write_str("it answers in TLS"),
            Self::UnknownType(byte) => write!(f, "a reply begins with '{}', which names no type", byte.escape_ascii()),
            Self::BadNumber => f.write_str("a reply holds a length or number that cannot be read"),
            Self::BadLine => f.write_str("a reply holds a line that is too long or badly ended"),
            Self::BadBulk => f.write_str("a reply holds a string that does not end where its length says"),
            Self::Truncated => f.write_str("a reply ends too early"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Returns whether a server that begins with this byte speaks TLS: it opens a record with an alert, or with a handshake. No
/// reply begins with either.
pub fn speaks_tls(first: u8) -> bool {
    matches!(first, 0x15 | 0x16)
}
