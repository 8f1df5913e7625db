//! The commands of an AOF or of a primary's stream that are not applied: the reason, and the outcome
//! (`propagation-error-behavior`).
//!
//! Of a primary's stream that is an error by default, and the replica asks for all data; it is passed over where the operator has
//! said so. Of a log a command that answers an error is passed over by default, as all servers do: the log may have been written
//! by another server, and the rest of it is worth more. One that is not even known is passed over where the operator has said so.

use sleeve_wire::commands::{Command, Flags, Row};
use sleeve_wire::request::Args;

use crate::config::Opt;
use crate::context::Cx;
use crate::host::log;
use crate::request::error::Error;

/// The reason why no more of a primary's stream is applied.
pub(super) const REPLACED: Error = Error::fixed("ERR this server does not follow that primary any more");

/// A request of an AOF or of a stream that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The offset of its first byte.
    pub offset: u64,
    /// Its name, or as much as is there of one.
    pub command: String,
    /// The error reply that a client would have got.
    pub error: String,
    /// The command is correct: the server follows another primary by now, or none. All before it was applied, and it was not.
    pub is_replaced: bool,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (command, error) = (log::user_data(&self.command), log::user_data(&self.error));
        write!(f, "{command:?} at byte {} cannot be applied: {error}", self.offset)
    }
}

impl std::error::Error for Refused {}

impl Refused {
    pub(super) fn of(offset: u64, args: Args<'_>, error: &Error) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let command = text(args.get(0).unwrap_or_default());
        Self { offset, command, error: text(error.text()), is_replaced: *error == REPLACED }
    }
}

/// Where a command comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandSource {
    /// A primary's stream.
    Primary,
    /// A log.
    Log,
    /// A caller that allows no command to be passed over.
    Strict,
}

/// Passes over a command that answers an error, with a line in the log, if the options have it so.
///
/// # Errors
/// They have it not so.
pub(super) fn pass_over(cx: &Cx<'_>, source: CommandSource, name: &str, error: Error) -> Result<(), Error> {
    let config = &cx.engine.config;
    let behavior = config.propagation_errors();
    let passes_over = match source {
        CommandSource::Primary => behavior.passes_over_in_stream(config.flag(Opt::ReplicaReadOnly)),
        CommandSource::Log => behavior.passes_over_in_log(),
        CommandSource::Strict => false,
    };
    if !passes_over {
        return Err(error);
    }
    let text = String::from_utf8_lossy(error.text());
    let text = log::user_data(text.strip_prefix("ERR ").unwrap_or(&text));
    let whence = if source == CommandSource::Primary { "its master" } else { "its log" };
    log::warning(&format!(
        "== CRITICAL == This server passes over a command of {whence} and may have other data now: '{text}' after processing \
         the command '{name}'"
    ));
    cx.counters.passed_over.add(1);
    Ok(())
}

/// Passes over a command that cannot even be run, likewise. A log with one was written by a newer server, or is damaged: it is
/// passed over only where the operator has said so.
///
/// # Errors
/// The options have it not so.
pub(super) fn pass_over_unrun(cx: &Cx<'_>, source: CommandSource, error: Error) -> Result<(), Error> {
    match source {
        CommandSource::Log if !cx.engine.config.propagation_errors().passes_over_unknown_in_log() => Err(error),
        source => pass_over(cx, source, "<unknown>", error),
    }
}

/// Returns whether a primary may send a command: one that changes data, one that is propagated although it changes none, or
/// one that changes nothing but the things that scripts may change as well. Other commands end servers, change their nature,
/// or give a connection more than replies.
pub(super) fn may_be_sent(row: &Row) -> bool {
    let is_passed_on = row.flags.intersects(Flags::WRITE.or(Flags::MAY_REPLICATE));
    let is_known = matches!(
        row.id,
        Command::Multi | Command::Exec | Command::ReplConf | Command::ScriptLoad | Command::ScriptFlush
    );
    is_passed_on || is_known || !row.flags.contains(Flags::NOSCRIPT)
}
