//! The time that is left for a request that its node has returned and that is sent again: no more than at the first node.

use crate::pipe::asker;
use crate::pipe::routed::Routed;
use crate::sys::{clock_ms, exact_clock_ms};

/// Returns the milliseconds that are left for a request, if the command timeout is `limit_ms`; none if there is no timeout.
pub(super) fn left_ms(routed: &Routed, limit_ms: Option<u32>) -> Option<u32> {
    if routed.is_due {
        return Some(asker::left_ms(routed.at_ms, exact_clock_ms()));
    }
    let passed_ms = clock_ms().wrapping_sub(routed.at_ms);
    limit_ms.map(|limit_ms| limit_ms.saturating_sub(passed_ms))
}

/// Gives the request a deadline of its own, because requests that were issued later may now leave before it.
pub(super) fn own(routed: &mut Routed, limit_ms: Option<u32>) {
    if let Some(left_ms) = left_ms(routed, limit_ms) {
        (routed.at_ms, routed.is_due) = (exact_clock_ms().wrapping_add(left_ms), true);
    }
}
