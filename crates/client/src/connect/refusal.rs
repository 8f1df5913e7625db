//! Why a connection did not come about, and whether to try again. Pure data; any thread.

use std::io;

use crate::config::Endpoint;
use crate::error::{Error, ErrorKind};

/// What is said of a server that has not answered a TLS handshake in time.
pub(crate) const HANDSHAKE_UNANSWERED: &str =
    "the server did not answer the TLS handshake in time; if this port does not speak TLS, use redis:// (or valkey://)";

/// Why a connection did not come about.
pub(crate) struct Refusal {
    pub(crate) error: Error,
    /// Whether trying again is pointless until somebody changes something: a wrong password, a database that is not there.
    pub(crate) permanent: bool,
}

impl Refusal {
    /// What another attempt may find otherwise.
    pub(crate) fn temporary(message: String) -> Self {
        Self { error: Error::unsent(ErrorKind::Connect, message), permanent: false }
    }

    /// What stays as it is until somebody changes something.
    pub(crate) fn permanent(message: String) -> Self {
        Self { error: Error::unsent(ErrorKind::Connect, message), permanent: true }
    }

    /// What the server said, but for the arguments that it repeats when it does not know a command: one of them may be the
    /// password.
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

    /// The same, but of what another attempt may find otherwise, where that is so.
    pub(super) fn unless(self, may_change: bool) -> Self {
        Self { permanent: self.permanent && !may_change, ..self }
    }

    /// As it is told to callers, who may have several servers.
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
