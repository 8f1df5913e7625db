//! The twin of `trace` in a program without the feature: it collects nothing.

use std::fmt::Display;

use crate::error::Error;

/// Returns whether traces may be collected.
pub(crate) const fn is_collected() -> bool {
    false
}

/// Something has happened to a connection, which is well, or not.
pub(crate) fn happened(_what: &impl Display, _is_well: bool) {}

/// A call has failed.
pub(crate) const fn failed(_error: &Error) {}
