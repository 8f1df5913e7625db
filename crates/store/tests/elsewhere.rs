//! RENAME, MOVE and COPY: out of one place, into another, under the locks of both.

use sleeve_store::{Find, Previous, ShardSet, Store};

/// Takes the value of a key, or copies it, and puts it under another key. Returns the value that the other key had; none if
/// the first key does not exist.
pub fn put_elsewhere(
    store: &Store,
    (db, name): (usize, &[u8]),
    (to_db, to_name): (usize, &[u8]),
    copies: bool,
    now_ms: i64,
) -> Option<Previous> {
    let (key, to_key) = (store.key(name), store.key(to_name));
    let (from, to) = (store.shard_of(key.hash), store.shard_of(to_key.hash));
    let mut locked = store.lock_set(ShardSet::from_iter([from, to]));
    let owned = match copies {
        true => match locked.shard(from).find(db, key, i64::MIN) {
            Find::Live(entry) => Some(entry.detach()),
            _ => None,
        },
        false => locked.shard_mut(from).take(db, key),
    };
    let (previous, garbage) = locked.shard_mut(to).put(to_db, to_key, owned?, now_ms);
    drop((locked, garbage));
    Some(previous)
}
