//! The reasons why a connection was not made, and whether another attempt makes sense. Pure data; any thread.

use std::io;

use crate::config::Endpoint;
use crate::error::{Error, ErrorKind};

/// The error text for a server that has not answered a TLS handshake in time.
pub(crate) const HANDSHAKE_UNANSWERED: &str =
    "the server did not answer the TLS handshake in time; if this port does not speak TLS, use redis:// (or valkey://)";

/// The reason why a connection was not made.
pub(crate) struct Refusal {
    pub(crate) error: Error,
    /// True if another attempt is pointless until a person changes the configuration or the server: a wrong password, a
    /// database that does not exist.
    pub(crate) permanent: bool,
}

impl Refusal {
    /// Creates a refusal that another attempt may not meet.
    pub(crate) fn temporary(message: String) -> Self {
        Self { error: Error::unsent(ErrorKind::Connect, message), permanent: false }
    }

    /// Creates a refusal that stays until a person changes the configuration or the server.
    pub(crate) fn permanent(message: String) -> Self {
        Self { error: Error::unsent(ErrorKind::Connect, message), permanent: true }
    }

    /// Creates a refusal with the server's text, without the arguments that it repeats when it does not know a command: one
    /// of them may be the password.
    pub(crate) fn by_server(text: &[u8]) -> Self {
        let shown = String::from_utf8_lossy(text);
        let shown = shown.split(", with args beginning with").next().unwrap_or_default();
        let message = format!("the server refused the connection: {shown}");
        if text.starts_with(b"LOADING") || text.starts_with(b"BUSY ") || text.starts_with(b"ERR max number of clients")
        {
            return Self::temporary(message);
        }
        Self::permanent(message)
    }

    /// Returns the same refusal, as a temporary one if another attempt may not meet it.
    pub(super) fn unless(self, may_change: bool) -> Self {
        Self { permanent: self.permanent && !may_change, ..self }
    }

    /// Returns the error for callers, which may have several servers.
    pub(crate) fn at(&self, endpoint: &Endpoint) -> Error {
        Error::unsent(ErrorKind::Connect, format!("{endpoint}: {}", self.error.message()))
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::temporary(format!("cannot connect: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::Refusal;

    #[test]
    fn no_refusal_repeats_the_password() {
        let said = b"ERR unknown command 'AUTH', with args beginning with: 'admin' 'opensesame' ";
        let error = Refusal::by_server(said).error.to_string();
        assert!(error.contains("unknown command 'AUTH'") && !error.contains("opensesame"), "{error}");
        let said = b"WRONGPASS invalid username-password pair or user is disabled.";
        let error = Refusal::by_server(said).error.to_string();
        assert!(error.contains("WRONGPASS invalid username-password pair or user is disabled."), "{error}");
    }
}
