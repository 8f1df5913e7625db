//! Active expiry of the fields of hashes: removes expired fields although no command looks at them.
//!
//! The shard knows which hashes are due. They are taken one after the other, a bounded part of each; a large one comes again
//! until it is done. The removal is noted (`key_change`) and recorded as an HDEL, under the lock of the shard, and the key
//! goes with the last field. A hash with a key that has itself expired goes whole: the shard would not name it again.
//! `active_expiry` calls this as part of its slices; a command that looks at a hash does the same for that one (`context`).

use sleeve_store::{Find, Garbage, Shard};

use super::key_change;
use super::key_change::{Cause, Source};
use crate::request::Key;

/// Fields of one hash that are looked at in one go; a small hash is looked at whole.
pub const FIELDS_A_LOOK: usize = 128;

/// Hashes that are looked at while one lock is held.
const HASHES_A_STEP: usize = 16;

/// Removes fields that are due from some hashes of a database; returns whether more are due. `free` is given the garbage of
/// the hashes.
pub fn step(
    source: Source<'_, '_>,
    shard: &mut Shard,
    (database, now_ms): (usize, i64),
    mut free: impl FnMut(Garbage),
) -> bool {
    let Source { engine, counters, state, pending, recorder } = source;
    for _ in 0..HASHES_A_STEP {
        let Some((hash, name)) = shard.pop_due(database, now_ms) else { return false };
        let key = Key { name: &name, hash };
        let source = Source { engine, counters, state, pending: &mut *pending, recorder: &mut *recorder };
        if let Find::Expired(_) = shard.find(database, key, now_ms) {
            shard.remove(database, key).into_iter().for_each(&mut free);
            key_change::tell(source, Cause::Expired, database as u32, key);
        } else if let Some(expired) = shard.expire_fields(database, key, now_ms, FIELDS_A_LOOK) {
            key_change::tell(source, Cause::FieldsExpired(&expired), database as u32, key);
        }
        recorder.end_piece();
    }
    shard.has_due_fields(database, now_ms)
}
