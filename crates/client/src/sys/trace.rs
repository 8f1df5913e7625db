//! Reports events to the program's collector of traces: with feature `tracing`. Its twin is `no_trace`.
//!
//! A call that fails is reported in the thread that receives the error, so the event belongs to the caller's span; events of
//! connections, slow replies and the errors of forgotten calls are reported on the callback thread. A successful call is not
//! reported, so it costs nothing. Collectors are foreign code: no lock may be held.

use std::fmt::Display;

use tracing::{Level, dispatcher, event};

use crate::error::{Error, ErrorKind};

/// Returns whether traces may be collected.
pub(crate) fn is_collected() -> bool {
    dispatcher::has_been_set()
}

/// Reports an event of a connection, as an information or a warning.
pub(crate) fn happened(what: &impl Display, is_well: bool) {
    match is_well {
        true => event!(target: "sleeve", Level::INFO, "{what}"),
        false => event!(target: "sleeve", Level::WARN, "{what}"),
    }
}

/// Reports a call that has failed. Faults of the caller or of the data have a lower level than others.
#[cold]
pub(crate) fn failed(error: &Error) {
    let (kind, effect) = (error.kind(), error.effect());
    let is_own = matches!(
        kind,
        ErrorKind::Server | ErrorKind::Aborted | ErrorKind::Conversion | ErrorKind::Usage | ErrorKind::Configuration
    );
    match is_own {
        true => event!(target: "sleeve", Level::DEBUG, ?kind, %effect, "{error}"),
        false => event!(target: "sleeve", Level::WARN, ?kind, %effect, "{error}"),
    }
}
