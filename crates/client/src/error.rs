//! The errors of a command, and whether it may have been executed all the same.
//!
//! One type for every module of the client. It is cheap to clone, because one broken connection fails thousands of replies at
//! once. It refuses to be a tree of causes: a kind to branch on, a sentence to read, and the one question that matters after
//! a failure, [`Error::effect`]. Pure data; any thread.

use std::fmt;
use std::sync::Arc;

/// The kind of an error, in the terms that a caller may want to branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server answered with an error; [`Error::code`] is its first word.
    Server,
    /// The command was not answered within the command timeout, or within the time that the caller gave.
    Timeout,
    /// The connection broke after the command was written and before it was answered.
    Disconnected,
    /// The queue of unanswered requests is full and the configuration says not to wait.
    QueueFull,
    /// The client was closed, or the batch or transaction was dropped, before the command was sent.
    Closed,
    /// A transaction was not executed: a condition did not hold, or a watched key changed.
    Aborted,
    /// The connection could not be made, or the server refused the greeting (password, database).
    Connect,
    /// The server sent bytes that are not a reply, or a reply that is longer than
    /// [`Config::reply_bytes_max`](crate::Config::reply_bytes_max).
    Protocol,
    /// The reply is of another type than was asked for.
    Conversion,
    /// The command cannot be sent as it was written: a bad argument, or a command that a shared connection cannot carry.
    Usage,
    /// A URL or an option cannot be read.
    Configuration,
}

/// The known effect of a command that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// The command was not executed, and will not be: it never left. It may be sent again as it is. A read that had left and
    /// was to be sent again counts as a command that never did.
    None,
    /// The command was not executed, and will not be: the server refused it before it accessed any key (a read-only replica,
    /// a server that is loading its data or has no memory left). It may be sent again as it is, to another server or later.
    Refused,
    /// The command may or may not have been executed; only the data can tell.
    Unknown,
    /// The server executed it and replied with an error.
    Answered,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "not applied",
            Self::Refused => "refused, not applied",
            Self::Unknown => "effect unknown",
            Self::Answered => "answered",
        })
    }
}

/// The errors with which a server refuses a command before it executes it. Each is a code and the words that follow it,
/// without names that differ between servers. The code alone is not enough: a script may return an error with any code after
/// it has written.
const GATES: [(&str, &str); 14] = [
    ("READONLY", "write against a read only"),
    ("LOADING", "is loading the dataset in memory"),
    ("OOM", "command not allowed when used memory"),
    ("NOAUTH", "Authentication required"),
    ("MASTERDOWN", "is down and replica-serve-stale-data"),
    ("NOREPLICAS", "Not enough good replicas to write"),
    ("MISCONF", "persist"),
    ("BUSY", "is busy running a script"),
    ("CLUSTERDOWN", "cluster is down"),
    ("CLUSTERDOWN", "Hash slot not served"),
    ("TRYAGAIN", "during rehashing of slot"),
    ("UNBLOCKED", "instance state changed"),
    ("NOSCRIPT", "No matching script"),
    ("EXECABORT", "Transaction discarded"),
];

/// Returns whether a server's error says that the command was refused before it was executed. An error that names a script
/// came out of the middle of the script.
fn was_turned_away(text: &str) -> bool {
    let (code, rest) = text.split_once(' ').unwrap_or((text, ""));
    let is_gate = GATES.iter().any(|(gate, words)| *gate == code && rest.contains(words));
    (is_gate || is_redirection(code, rest)) && !rest.contains("script: ")
}

/// Returns whether the error is a redirect that names a slot and a node, and nothing else.
fn is_redirection(code: &str, rest: &str) -> bool {
    let is_place =
        |(slot, node): (&str, &str)| slot.parse::<u16>().is_ok() && node.contains(':') && !node.contains(' ');
    matches!(code, "MOVED" | "ASK") && rest.split_once(' ').is_some_and(is_place)
}

/// The reason why a command has no result.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, Effect, ErrorKind, prelude::*};
///
/// let client = Client::embedded();
/// client.set("name", "Ann").wait()?;
/// let error = client.incr("name").wait().unwrap_err();
/// assert_eq!((error.kind(), error.code()), (ErrorKind::Server, Some("ERR")));
/// assert_eq!(error.message(), "ERR value is not an integer or out of range");
/// // After any failure: was it executed?
/// assert_eq!(error.effect(), Effect::Answered);
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    effect: Effect,
    message: Arc<str>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, effect: Effect, message: impl Into<Arc<str>>) -> Self {
        Self { kind, effect, message: message.into() }
    }

    /// Creates an error of a kind that means that nothing was sent.
    pub(crate) fn unsent(kind: ErrorKind, message: impl Into<Arc<str>>) -> Self {
        Self::new(kind, Effect::None, message)
    }

    /// Creates the error that a server's reply carries.
    pub(crate) fn server(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let effect = if was_turned_away(&text) { Effect::Refused } else { Effect::Answered };
        Self::new(ErrorKind::Server, effect, text.into_owned())
    }

    /// Creates the error of a result that cannot be turned into the type that was asked for.
    ///
    /// For implementations of [`FromReply`](crate::FromReply): give the expected type and the received value.
    pub fn conversion(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conversion, Effect::Answered, message.into())
    }

    /// Creates the error of a command that cannot be sent as it was written.
    ///
    /// For implementations of [`ToArgs`](crate::ToArgs), which hand it to [`Request::refuse`](crate::Request::refuse).
    pub fn usage(message: impl Into<String>) -> Self {
        Self::unsent(ErrorKind::Usage, message.into())
    }

    pub(crate) fn protocol(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Protocol, Effect::Unknown, message.to_string())
    }

    pub(crate) fn disconnected(cause: &str) -> Self {
        let message =
            format!("the connection was lost before the answer came, so the command's effect is unknown: {cause}");
        Self::new(ErrorKind::Disconnected, Effect::Unknown, message)
    }

    /// Creates the error for a connection that ended before its server confirmed that a write is synced.
    pub(crate) fn unsynced(cause: &str) -> Self {
        let message = format!(
            "the connection was lost before it was known that the command's effect is synced, so whether it is applied, and whether \
             it is synced, is unknown: {cause}"
        );
        Self::new(ErrorKind::Disconnected, Effect::Unknown, message)
    }

    pub(crate) fn closed(what: &str) -> Self {
        Self::unsent(ErrorKind::Closed, format!("{what}, so the command was never sent"))
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns whether the command may have been executed.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Returns the first word of a server's error (`ERR`, `WRONGTYPE`, `NOAUTH`); `None` for other kinds.
    pub fn code(&self) -> Option<&str> {
        if self.kind == ErrorKind::Server { self.message.split(' ').next() } else { None }
    }

    /// Returns the sentence; for a server's error the whole text that the server sent, code included.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    /// Writes the sentence; behind a server's refusal it adds that the command was not applied.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match (self.kind, self.effect) {
            (ErrorKind::Server, Effect::Refused) => write!(f, " ({})", self.effect),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({}): {}", self.kind, self.effect, self.message)
    }
}

impl std::error::Error for Error {}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.effect == other.effect && self.message == other.message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_turns_away_is_not_applied() {
        for text in [
            "READONLY You can't write against a read only replica.",
            "LOADING Redis is loading the dataset in memory",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "EXECABORT Transaction discarded because of previous errors.",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "CLUSTERDOWN Hash slot not served",
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 :6381",
        ] {
            let error = Error::server(text.as_bytes());
            assert_eq!((error.kind(), error.effect()), (ErrorKind::Server, Effect::Refused), "{text}");
            assert_eq!((error.message(), error.code()), (text, text.split(' ').next()));
            assert_eq!(error.to_string(), format!("{text} (refused, not applied)"));
        }
        for text in [
            "ERR value is not an integer or out of range",
            "OOM is what my script calls it",
            "TRYAGAIN later",
            "CLUSTERDOWN",
            "MOVED to another town",
            "ASK 5 people: all of them",
            "READONLY You can't write against a read only replica. script: 2a, on @user_script:1.",
        ] {
            assert_eq!(Error::server(text.as_bytes()).effect(), Effect::Answered, "{text}");
        }
    }
}
