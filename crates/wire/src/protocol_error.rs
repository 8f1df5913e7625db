//! The ways in which a peer's bytes can fail to be a request, in Redis's words but for that of TLS. Pure data; any thread.

use std::borrow::Cow;

/// Why a peer's bytes cannot be read on. The connection is of no more use after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The number after `*` is none, or too large.
    InvalidMultibulkLength,
    /// The number after `$` is none, is negative or too large.
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

/// A line end cannot stand in an error reply; Redis puts a space for it.
fn expected_dollar(got: u8) -> Vec<u8> {
    let shown = if matches!(got, b'\r' | b'\n') { b' ' } else { got };
    [b"Protocol error: expected '$', got '", [shown].as_slice(), b"'"].concat()
}

impl std::fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.message()))
    }
}

impl std::error::Error for ProtocolError {}
