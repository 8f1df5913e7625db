//! The commands of an AOF or of a primary's stream that are not applied: the reason, and the outcome
//! (`propagation-error-behavior`).
//!
//! If a command of a primary's stream answers an error, the replica asks for a full sync by default, and passes over the
//! command if the options say so. If a command of an AOF answers an error, it is passed over by default, as in Redis: the AOF
//! may have been written by another server, and the rest of it is worth more. An unknown command of an AOF is passed over
//! only if the options say so.

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
    /// The command's name, or the part of it that has arrived.
    pub command: String,
    /// The error reply that a client would have got.
    pub error: String,
    /// The command is correct, but this server follows another primary by now, or none. All commands before it were applied,
    /// and it was not.
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

/// The source of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandSource {
    /// A primary's stream.
    Primary,
    /// An AOF.
    Log,
    /// A caller that allows no command to be passed over.
    Strict,
}

/// Passes over a command that answers an error, with a line in the server log, if the options allow that.
///
/// # Errors
/// Returned if the options do not allow it.
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

/// Passes over a command that cannot even be run, with a line in the server log, if the options allow that. An AOF with such
/// a command was written by a newer server, or is damaged.
///
/// # Errors
/// Returned if the options do not allow it.
pub(super) fn pass_over_unrun(cx: &Cx<'_>, source: CommandSource, error: Error) -> Result<(), Error> {
    match source {
        CommandSource::Log if !cx.engine.config.propagation_errors().passes_over_unknown_in_log() => Err(error),
        source => pass_over(cx, source, "<unknown>", error),
    }
}

/// Returns whether a primary may send a command: one that changes data, one that is propagated although it changes none, or
/// one that changes only state that scripts may change as well. Other commands end servers, change their role or
/// configuration, or give a connection more than replies.
pub(super) fn may_be_sent(row: &Row) -> bool {
    let is_passed_on = row.flags.intersects(Flags::WRITE.or(Flags::MAY_REPLICATE));
    let is_known = matches!(
        row.id,
        Command::Multi | Command::Exec | Command::ReplConf | Command::ScriptLoad | Command::ScriptFlush
    );
    is_passed_on || is_known || !row.flags.contains(Flags::NOSCRIPT)
}
