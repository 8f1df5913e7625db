//! The timeout of a blocking command, as a deadline. The command's row says which argument holds the timeout.
//!
//! All blocking commands read their timeout here, so that all refuse the same texts in the same words. This module waits for
//! nothing itself.

use sleeve_wire::commands::Unit;
use sleeve_wire::long_double::LongDouble;
use sleeve_wire::number;

use crate::context::Cx;
use crate::request::Request;
use crate::request::error::Error;

/// Returns the deadline of a blocking command, in milliseconds of the wall clock. Its row says which argument holds the
/// timeout. None means that it waits for ever.
pub(super) fn deadline(cx: &Cx<'_>, request: Request<'_>) -> Result<Option<i64>, Error> {
    let Some(timeout) = request.row.timeout else { return Ok(None) };
    let argument = |index| request.args.get(index).unwrap_or_default();
    let Some(position) = timeout.position(request.len(), argument) else { return Ok(None) };
    match timeout.unit {
        Unit::Seconds => deadline_of_seconds(cx, argument(position)),
        Unit::Milliseconds => deadline_of_milliseconds(cx, argument(position)),
    }
}

/// Returns the deadline for a timeout in seconds, which need not be whole; 0 stands for no timeout.
fn deadline_of_seconds(cx: &Cx<'_>, text: &[u8]) -> Result<Option<i64>, Error> {
    let not_float = Error::fixed("ERR timeout is not a float or out of range");
    let Some(seconds) = number::parse_f64(text) else {
        // Redis reads a long double, which holds values that an f64 does not.
        return Err(if LongDouble::parse(text).is_some() { OUT_OF_RANGE } else { not_float });
    };
    let milliseconds = seconds * 1_000.0;
    // The largest 64-bit integer is no f64. A value that is not below the next f64 is out of range.
    if milliseconds >= i64::MAX as f64 {
        return Err(OUT_OF_RANGE);
    }
    deadline_after(cx, milliseconds.ceil() as i64)
}

/// Returns the deadline for a timeout in whole milliseconds; 0 stands for no timeout.
pub(super) fn deadline_of_milliseconds(cx: &Cx<'_>, text: &[u8]) -> Result<Option<i64>, Error> {
    let not_integer = Error::fixed("ERR timeout is not an integer or out of range");
    deadline_after(cx, number::parse_i64(text).ok_or(not_integer)?)
}

const OUT_OF_RANGE: Error = Error::fixed("ERR timeout is out of range");

fn deadline_after(cx: &Cx<'_>, milliseconds: i64) -> Result<Option<i64>, Error> {
    match milliseconds {
        ..0 => Err(Error::fixed("ERR timeout is negative")),
        0 => Ok(None),
        _ => cx.now.wall_ms().checked_add(milliseconds).map(Some).ok_or(OUT_OF_RANGE),
    }
}
