//! The errors a request can be answered with.
//!
//! An [`Error`] is the text of an error reply without the leading `-`: a code word, a space and a sentence, worded as in
//! Redis 7. By definition the client has caused it: a fault of the disk or the network is a small enum of the module that met
//! it, and a fault in this program is an assertion.

use std::borrow::Cow;

/// The text of an error reply, code word first (`ERR syntax error`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(Cow<'static, [u8]>);

/// The result of a command: its reply is written, or the reason why it was refused.
pub type Outcome = Result<(), Error>;

impl Error {
    /// An option that the grammar of the command does not have, or has at another position.
    pub const SYNTAX: Self = Self::fixed("ERR syntax error");
    /// An argument that should be a signed 64-bit integer and is not.
    pub const NOT_INTEGER: Self = Self::fixed("ERR value is not an integer or out of range");
    /// WAITAOF without an AOF.
    pub const NO_LOG_TO_WAIT_FOR: Self =
        Self::fixed("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
    /// An argument that should be a floating point number and is not.
    pub const NOT_FLOAT: Self = Self::fixed("ERR value is not a valid float");
    /// An argument outside of the range that the command takes.
    pub const OUT_OF_RANGE: Self = Self::fixed("ERR value is out of range");
    /// An argument that Redis keeps in 32 bits and that does not fit.
    pub const INT_RANGE: Self = Self::fixed("ERR value is out of range, value must between -2147483648 and 2147483647");
    /// The key holds another type than the command works on.
    pub const WRONG_TYPE: Self = Self::fixed("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// RENAME, OBJECT and the like on a key that is not there.
    pub const NO_SUCH_KEY: Self = Self::fixed("ERR no such key");
    /// The string would outgrow `proto-max-bulk-len`.
    pub const STRING_TOO_LONG: Self = Self::fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    /// INCR and its family past the ends of a signed 64-bit integer.
    pub const OVERFLOW: Self = Self::fixed("ERR increment or decrement would overflow");
    /// SELECT, MOVE, COPY or SWAPDB with a database number past the last.
    pub const DATABASE_RANGE: Self = Self::fixed("ERR DB index is out of range");
    /// Any command but AUTH, HELLO, RESET and QUIT before the login.
    pub const NO_AUTH: Self = Self::fixed("NOAUTH Authentication required.");
    /// A write that may grow while `maxmemory` is reached.
    pub const OUT_OF_MEMORY: Self = Self::fixed("OOM command not allowed when used memory > 'maxmemory'.");
    /// A write to a replica.
    pub const READ_ONLY: Self = Self::fixed("READONLY You can't write against a read only replica.");
    /// A request to a replica that has no link to its primary and may not answer from its own data.
    pub const NO_PRIMARY: Self =
        Self::fixed("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.");
    /// Any command that needs data while the data is loaded.
    pub const LOADING: Self = Self::fixed("LOADING Redis is loading the dataset in memory");
    /// A write after a snapshot could not be written.
    pub const SNAPSHOT_FAILED: Self = Self::fixed(
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may \
         modify the data set are disabled, because this instance is configured to report errors during writes if RDB \
         snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB \
         error.",
    );
    /// A write while fewer replicas follow than `min-replicas-to-write` asks for.
    pub const NO_REPLICAS: Self = Self::fixed("NOREPLICAS Not enough good replicas to write.");
    /// EXEC after a command that could not be queued.
    pub const EXEC_ABORT: Self = Self::fixed("EXECABORT Transaction discarded because of previous errors.");

    /// Returns an error with a text that is known when the program is built.
    pub const fn fixed(text: &'static str) -> Self {
        Self(Cow::Borrowed(text.as_bytes()))
    }

    /// Returns an error with a text that the server has made.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Cow::Owned(text.into().into_bytes()))
    }

    /// Returns an error with a text that names words of the peer: each `{}` of the pattern stands for the next of `names`,
    /// with its bytes unchanged. A zero byte ends a name, as in Redis, which prints C strings.
    pub fn naming(pattern: &str, names: &[&[u8]]) -> Self {
        let mut text = Vec::with_capacity(pattern.len() + names.iter().map(|name| name.len()).sum::<usize>());
        let mut parts = pattern.split("{}");
        text.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
        for (part, name) in parts.zip(names) {
            text.extend_from_slice(shown(name));
            text.extend_from_slice(part.as_bytes());
        }
        Self(Cow::Owned(text))
    }

    /// Returns the error for a wrong number of arguments for the command of this (lowercase, full) name.
    pub fn arity(name: &str) -> Self {
        Self::new(format!("ERR wrong number of arguments for '{name}' command"))
    }

    /// Returns the error for an expire time that is not positive or does not fit, for the command of this name.
    pub fn invalid_expire(name: &str) -> Self {
        Self::new(format!("ERR invalid expire time in '{name}' command"))
    }

    /// Returns the error for more arguments than the subcommand takes, where Redis's own count lets them pass; names as the
    /// peer wrote them.
    pub fn subcommand_syntax(container: &str, subcommand: &[u8]) -> Self {
        let pattern = "ERR unknown subcommand or wrong number of arguments for '{}'. Try {} HELP.";
        Self::naming(pattern, &[subcommand, container.as_bytes()])
    }

    /// Returns the error that redirects a client to a replica's primary.
    pub fn redirect(primary: &str) -> Self {
        Self::new(format!("REDIRECT {primary}"))
    }

    /// Returns the reply to an EXEC that is refused for another reason than its queue. A redirect, and a refusal of a node of a
    /// cluster, stay as they are.
    pub fn exec_refused(self) -> Self {
        if matches!(self.code(), "REDIRECT" | "MOVED" | "ASK" | "TRYAGAIN" | "CROSSSLOT" | "CLUSTERDOWN") {
            return self;
        }
        let reason = self.text().strip_prefix(b"ERR ").unwrap_or(self.text());
        Self::naming("EXECABORT Transaction discarded because of: {}", &[reason])
    }

    /// Returns the whole text, as it follows the `-` on the wire.
    pub fn text(&self) -> &[u8] {
        &self.0
    }

    /// Returns the code word: `ERR`, `WRONGTYPE`, ...; INFO errorstats counts by it.
    pub fn code(&self) -> &str {
        let code = self.0.split(|&byte| byte == b' ').next().unwrap_or_default();
        std::str::from_utf8(code).unwrap_or("ERR")
    }
}

/// Returns a name as it is printed: up to its first zero byte.
pub fn shown(name: &[u8]) -> &[u8] {
    name.split(|&byte| byte == 0).next().unwrap_or_default()
}

impl From<&'static str> for Error {
    fn from(text: &'static str) -> Self {
        Self::fixed(text)
    }
}
