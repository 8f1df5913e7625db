//! What happens, told to whoever collects the program's traces: with feature `tracing`. Its twin is `no_trace`.
//!
//! A call that fails is told of in the thread that hears of it, so the event belongs to the caller's span; what happens to
//! connections, slow replies and the errors of forgotten calls are told on the callback thread. A call that is well is told of
//! nowhere, so it costs nothing. Collectors are foreign code: no lock may be held.

use std::fmt::Display;

use tracing::{Level, dispatcher, event};

use crate::error::{Error, ErrorKind};

/// Whether anybody may collect what is told.
pub(crate) fn is_collected() -> bool {
    dispatcher::has_been_set()
}

/// Something has happened to a connection, which is well, or not.
pub(crate) fn happened(what: &impl Display, is_well: bool) {
    match is_well {
        true => event!(target: "sleeve", Level::INFO, "{what}"),
        false => event!(target: "sleeve", Level::WARN, "{what}"),
    }
}

/// A call has failed. What the caller or the data is to blame for is of less interest than the rest.
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
