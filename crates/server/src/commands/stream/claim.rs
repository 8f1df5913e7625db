//! XREADGROUP with CLAIM: the entries that have been pending for long enough to be delivered to another consumer, and the
//! time at which the next one will have been.
//!
//! There is no index by time: all pending entries of the group are looked at, as XPENDING with IDLE does. It changes nothing.

use sleeve_store::{Pending, Stream, StreamGroup, StreamId};

use crate::context::Cx;
use crate::request::Key;

/// A waiting command that claims is run again after so many milliseconds at least.
const LOOK_MS_MIN: i64 = 100;

/// Returns the entries that were delivered so many milliseconds ago or earlier and are still there, longest ago first.
pub(super) fn due(group: &StreamGroup, stream: &Stream, now_ms: i64, min_idle_ms: i64) -> Vec<(StreamId, Pending)> {
    let is_due = |pending: &Pending| now_ms.saturating_sub(pending.delivered_ms) >= min_idle_ms;
    let pending = group.pending_in(StreamId::MIN..=StreamId::MAX);
    let mut due: Vec<_> = pending.filter(|(id, pending)| is_due(pending) && stream.get(*id).is_some()).collect();
    due.sort_by_key(|(id, pending)| (pending.delivered_ms, *id));
    due
}

/// Arranges that a blocked command runs again when the next of these streams' entries has been pending for long enough. An
/// entry that is delivered from now on cannot be due before `min_idle_ms` has passed, and after that time the command looks
/// again in any case.
pub(super) fn look_again<'k>(cx: &mut Cx<'_>, keys: impl Iterator<Item = Key<'k>>, group: &[u8], min_idle_ms: i64) {
    let now_ms = cx.now.wall_ms();
    let mut left_ms = min_idle_ms.max(LOOK_MS_MIN);
    for key in keys {
        let Ok(Some(stream)) = cx.peek_as::<Stream>(key) else { continue };
        let pending = stream.group(group).into_iter().flat_map(|group| group.pending_in(StreamId::MIN..=StreamId::MAX));
        // An entry that has been pending for longer is not in the stream any more.
        let left = pending.map(|(_, pending)| pending.delivered_ms.saturating_add(min_idle_ms).saturating_sub(now_ms));
        left_ms = left.filter(|&left| left > 0).fold(left_ms, i64::min);
    }
    cx.look_again_in(left_ms as u64);
}
