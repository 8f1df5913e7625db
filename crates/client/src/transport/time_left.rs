//! For how long a request may still take that has come back and is sent again: no longer than if it had not.

use crate::pipe::in_flight;
use crate::pipe::routed::Routed;
use crate::sys::{clock_ms, exact_clock_ms};

/// For how long in milliseconds it may still take, where so long is allowed; none where that is for as long as it takes.
pub(super) fn left_ms(routed: &Routed, limit_ms: Option<u32>) -> Option<u32> {
    if routed.is_due {
        return Some(in_flight::left_ms(routed.at_ms, exact_clock_ms()));
    }
    let passed_ms = clock_ms().wrapping_sub(routed.at_ms);
    limit_ms.map(|limit_ms| limit_ms.saturating_sub(passed_ms))
}

/// From now on its time is its own: others that were issued later may go ahead of it.
pub(super) fn own(routed: &mut Routed, limit_ms: Option<u32>) {
    if let Some(left_ms) = left_ms(routed, limit_ms) {
        (routed.at_ms, routed.is_due) = (exact_clock_ms().wrapping_add(left_ms), true);
    }
}
