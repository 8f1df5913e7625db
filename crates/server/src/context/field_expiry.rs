//! Active expiry of the fields of hashes: removing those whose time has come although nobody looks at them.
//!
//! The shard knows which hashes are due. They are taken one after the other, a bounded part of each; a large one comes
//! again until it is done. What is removed is told of (`key_change`) and recorded as an HDEL, under the lock of the
//! shard, and the key goes with the last field. `active_expiry` calls this as part of its slices; a command that looks
//! at a hash does the same for that one (`context`).

use sleeve_store::Shard;

use super::key_change;
use super::key_change::{Cause, Source};
use crate::request::Key;

/// Fields of one hash that are looked at in one go; a small hash is looked at whole.
pub const FIELDS_A_LOOK: usize = 128;

/// Hashes that are looked at while one lock is held.
const HASHES_A_STEP: usize = 16;

/// Removes fields that are due from some hashes of a database; whether more are due.
pub fn step(source: Source<'_, '_>, shard: &mut Shard, database: usize, now_ms: i64) -> bool {
    let Source { engine, counters, state, pending, recorder } = source;
    for _ in 0..HASHES_A_STEP {
        let Some((hash, name)) = shard.pop_due(database, now_ms) else { return false };
        let key = Key { name: &name, hash };
        let Some(expired) = shard.expire_fields(database, key, now_ms, FIELDS_A_LOOK) else { continue };
        let source = Source { engine, counters, state, pending: &mut *pending, recorder: &mut *recorder };
        key_change::tell(source, Cause::FieldsExpired(&expired), database as u32, key);
        recorder.end_piece();
    }
    shard.has_due_fields(database, now_ms)
}
