//! Operations of the server on the value of a key of any type: the one table of types, and a file for each type.
//!
//! | file | contents |
//! | --- | --- |
//! | `string`, `list`, `set`, `sorted_set`, `hash`, `stream` | One type: its digest, its requests, its elements for SORT. |
//! | `value_type` | The operations that the server needs of a type. |
//! | `request_writer` | Requests on their way into a base of the AOF. |
//! | `digest` | The number that stands for data. |
//!
//! The commands of a type have a module of their own, and the store defines its representation. Plain functions, called by a
//! thread that has the value's shard, or a copy of the value.

pub mod digest;
mod hash;
mod list;
pub mod request_writer;
mod set;
mod sorted_set;
mod stream;
mod string;
pub mod value_type;

use sleeve_store::{EntryRef, Kind};

use digest::Digest;
use value_type::ValueType;

/// Returns the operations of a type.
pub fn of(kind: Kind) -> &'static dyn ValueType {
    match kind {
        Kind::String => &string::StringType,
        Kind::List => &list::ListType,
        Kind::Set => &set::SetType,
        Kind::SortedSet => &sorted_set::SortedSetType,
        Kind::Hash => &hash::HashType,
        Kind::Stream => &stream::StreamType,
    }
}

/// Adds a key of the current database: its name, its type, its value, and a mark if it has a deadline.
pub fn digest_key(digest: &mut Digest, entry: &EntryRef<'_>) {
    let mut key = Digest::default();
    key.mix(entry.key());
    mix_value(&mut key, entry);
    digest.combine(key);
}

/// Returns the digest of a value and of whether its key has a deadline, without the key's name.
pub fn digest_of(entry: &EntryRef<'_>) -> Digest {
    let mut digest = Digest::default();
    mix_value(&mut digest, entry);
    digest
}

fn mix_value(digest: &mut Digest, entry: &EntryRef<'_>) {
    let values = of(entry.kind());
    digest.mix(&values.number().to_be_bytes());
    values.digest(digest, entry);
    if entry.deadline().is_some() {
        digest.add(b"!!expire!!");
    }
}
