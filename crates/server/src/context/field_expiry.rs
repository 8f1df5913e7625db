//! Active expiry of the fields of hashes: removing those whose time has come although nobody looks at them.
//!
//! The shard knows which hashes are due. They are taken one after the other, a bounded part of each; a large one comes
//! again until it is done. What is removed is recorded as an HDEL, under the lock of the shard, and the key goes with the
//! last field. `active_expiry` calls this as part of its slices; a command that looks at a hash does the same for that one (`context`).

use sleeve_store::{ExpiredFields, Shard};

use super::notifications;
use super::notifications::Class;
use crate::engine::Engine;
use crate::engine::clients::blocking::Place;
use crate::messaging::wakeups::Outbox;
use crate::request::Key;

/// Fields of one hash that are looked at in one go; a small hash is looked at whole.
pub const FIELDS_A_LOOK: usize = 128;

/// Hashes that are looked at while one lock is held.
const HASHES_A_STEP: usize = 16;

/// What was done to a key, in the words of a command.
pub fn effect<'a>(key: &'a [u8], expired: &'a ExpiredFields) -> Vec<&'a [u8]> {
    let head: [&[u8]; 2] = [b"HDEL", key];
    head.into_iter().chain(expired.fields.iter().map(|field| &**field)).collect()
}

/// Removes fields that are due from some hashes of a database; whether more are due. `marked` gets the keys that somebody
/// waits for, and `outbox` what is published.
pub fn step(
    engine: &Engine,
    shard: &mut Shard,
    database: usize,
    now_ms: i64,
    marked: &mut Vec<Place>,
    outbox: &mut Outbox,
) -> bool {
    for _ in 0..HASHES_A_STEP {
        let Some((hash, name)) = shard.pop_due(database, now_ms) else { return false };
        let Some(expired) = shard.expire_fields(database, (hash, &name), now_ms, FIELDS_A_LOOK) else { continue };
        let number = database as u32;
        engine.watches.raise(number, &name);
        if engine.tracking.is_used() {
            engine.tracking.changed(&name, None, outbox);
        }
        marked.extend(engine.blocking.mark(number, Key { name: &name, hash }));
        notifications::publish((engine, None, &mut *outbox), number, (Class::Hash, "hexpired"), &name);
        if expired.emptied {
            notifications::publish((engine, None, &mut *outbox), number, (Class::Generic, "del"), &name);
        }
        if engine.journal.is_read() {
            engine.journal.append(number, effect(&name, &expired).into_iter());
        }
    }
    shard.has_due_fields(database, now_ms)
}
