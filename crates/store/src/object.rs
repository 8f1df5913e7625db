//! Collections as the store sees them, whatever their type: how one is found in an entry, changed, and put back.
//!
//! A small collection is packed and lies in its key's entry; a larger one is an [`Object`] of its own, to which the entry
//! points. A type has an owned form, which is changed, and a borrowed form, which is read; both hide where the bytes
//! lie. What the types are and do is in their own files, and nothing here knows of keys, deadlines or commands.

use std::fmt;

use crate::body::{Body, Form, PACKED_INLINE_MAX};
use crate::hash::HashKey;
use crate::list::List;
use crate::map::Map;
use crate::set::Set;
use crate::sorted_set::SortedSet;
use crate::stream::Stream;
use crate::value::{Encoding, Kind};

/// A collection that does not lie in an entry.
#[derive(Clone)]
pub enum Object {
    /// A hash.
    Hash(Map),
    /// A list.
    List(List),
    /// A set.
    Set(Set),
    /// A sorted set.
    SortedSet(SortedSet),
    /// A stream.
    Stream(Stream),
}

/// One type of collection.
pub trait Collection: Sized + 'static {
    /// Its name for commands.
    const KIND: Kind;

    /// The borrowed form: what reads need, wherever the bytes lie.
    type Ref<'a>: Copy;

    /// An empty collection. Tables inside it hash with `hash_key`.
    fn new(hash_key: HashKey) -> Self;

    /// Whether nothing is in it; an empty collection is not kept.
    fn is_empty(&self) -> bool;

    /// Form and bytes, as long as it is packed.
    fn packed(&self) -> Option<(Form, &[u8])>;

    /// The collection with these packed bytes. `form` is one of this type's.
    fn from_packed(hash_key: HashKey, form: Form, bytes: Vec<u8>) -> Self;

    /// The buffer of a packed collection, to be used again.
    fn into_buffer(self) -> Option<Vec<u8>>;

    /// The borrowed form of packed bytes; None if `form` belongs to another type.
    fn view(form: Form, bytes: &[u8]) -> Option<Self::Ref<'_>>;

    /// The borrowed form.
    fn as_ref(&self) -> Self::Ref<'_>;

    /// How it is kept, as OBJECT ENCODING names it.
    fn encoding(&self) -> Encoding;

    /// The bytes that it owns.
    fn memory(&self) -> usize;

    /// The time in milliseconds since the epoch when some of it is to go, if some of it is: a field with a deadline.
    fn due_ms(&self) -> Option<i64> {
        None
    }

    /// The collection as an object.
    fn into_object(self) -> Object;

    /// The collection of this type in an object; None if it is of another.
    fn of(object: &Object) -> Option<&Self>;

    /// Likewise, to be changed.
    fn of_mut(object: &mut Object) -> Option<&mut Self>;
}

/// Runs `$body` with `$inner` naming the collection in an object, whatever its type.
macro_rules! each {
    ($object:expr, $inner:ident => $body:expr) => {
        match $object {
            Object::Hash($inner) => $body,
            Object::List($inner) => $body,
            Object::Set($inner) => $body,
            Object::SortedSet($inner) => $body,
            Object::Stream($inner) => $body,
        }
    };
}

fn kind_of<C: Collection>(_: &C) -> Kind {
    C::KIND
}

impl Object {
    /// The type.
    pub fn kind(&self) -> Kind {
        each!(self, inner => kind_of(inner))
    }

    /// How it is kept, as OBJECT ENCODING names it.
    pub fn encoding(&self) -> Encoding {
        each!(self, inner => inner.encoding())
    }

    /// The bytes that it takes, its own included.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + each!(self, inner => inner.memory())
    }

    /// When some of it is to go; see [`Collection::due_ms`].
    pub(crate) fn due_ms(&self) -> Option<i64> {
        each!(self, inner => inner.due_ms())
    }

    /// Form and bytes, if they may lie in an entry.
    pub(crate) fn inline(&self) -> Option<(Form, &[u8])> {
        each!(self, inner => inner.packed()).filter(|(_, bytes)| bytes.len() <= PACKED_INLINE_MAX)
    }
}

impl fmt::Debug for Object {
    /// Says what it is; what is in it may be millions of elements.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Object({})", self.kind().name())
    }
}

/// When some of what `body` is is to go; see [`Collection::due_ms`].
#[inline]
pub(crate) fn due_ms(body: &Body<'_>) -> Option<i64> {
    match body {
        Body::Object(object) => object.due_ms(),
        Body::Packed(form, bytes) => Map::view(*form, bytes)?.due_ms(),
        _ => None,
    }
}

/// Form and bytes of a collection that may lie in an entry.
pub(crate) fn inline<C: Collection>(collection: &C) -> Option<Body<'_>> {
    let (form, bytes) = collection.packed()?;
    (bytes.len() <= PACKED_INLINE_MAX).then_some(Body::Packed(form, bytes))
}
