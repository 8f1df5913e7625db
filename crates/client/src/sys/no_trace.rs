//! The twin of `trace` in a build without the feature `tracing`: it collects nothing.

use std::fmt::Display;

use crate::error::Error;

/// Returns whether traces may be collected.
pub(crate) const fn is_collected() -> bool {
    false
}

/// Reports an event of a connection: nothing in this build.
pub(crate) fn happened(_what: &impl Display, _is_well: bool) {}

/// Reports a call that has failed: nothing in this build.
pub(crate) const fn failed(_error: &Error) {}
