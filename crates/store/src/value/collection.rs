//! The interface of collections to the store, for every type: how a collection is found in an entry, changed, and put back.
//!
//! A small collection is packed and lies in its key's entry; a larger one is an [`Object`] of its own, to which the entry
//! points. A type has an owned form, which is changed, and a borrowed form, which is read; both hide where the bytes lie. The
//! types themselves are in their own files, and nothing here knows of keys, deadlines or commands.
//!
//! An object is one address, eight bytes in an entry. At that address the functions of the collection's type stand before the
//! collection itself: the store needs to know of no type, and the types may be built of the store's own tables.

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use super::capture::open_value::{OpenValue, Outline};
use super::capture::source::Budget;
use super::form::{Form, PACKED_INLINE_MAX};
use super::key_hash::HashKey;
use super::{Encoding, Kind};
use crate::memory::prefetch::PrefetchStep;

/// A type of collection.
pub trait Collection: Clone + Send + 'static {
    /// The type's name for commands.
    const KIND: Kind;

    /// The borrowed form, for reading, wherever the bytes lie.
    type Ref<'a>: Copy;

    /// Returns an empty collection. Tables inside it hash with `hash_key`.
    fn new(hash_key: HashKey) -> Self;

    /// Returns whether the collection has no elements; an empty collection is not kept.
    fn is_empty(&self) -> bool;

    /// Returns form and bytes, as long as the collection is packed.
    fn packed(&self) -> Option<(Form, &[u8])>;

    /// Returns the collection with these packed bytes. `form` is one of this type's.
    fn from_packed(hash_key: HashKey, form: Form, bytes: Vec<u8>) -> Self;

    /// Returns the buffer of a packed collection, to be used again.
    fn into_buffer(self) -> Option<Vec<u8>>;

    /// Returns the borrowed form of packed bytes; None if `form` belongs to another type.
    fn view(form: Form, bytes: &[u8]) -> Option<Self::Ref<'_>>;

    /// Returns the borrowed form.
    fn as_ref(&self) -> Self::Ref<'_>;

    /// Returns the encoding, as OBJECT ENCODING names it.
    fn encoding(&self) -> Encoding;

    /// Returns the bytes that the collection owns.
    fn memory(&self) -> usize;

    /// Returns the place of a member or field, to be prefetched; none if the collection is no table.
    fn place_of(&self, _member: &[u8]) -> Option<MemberPlace> {
        None
    }

    /// Takes a step towards a member, ahead of looking for it.
    fn prefetch(&self, _place: MemberPlace, _step: PrefetchStep) {}

    /// Returns the time when the next part of the collection is due to be removed, a field with a deadline: milliseconds
    /// since the epoch, if there is any.
    fn due_ms(&self) -> Option<i64> {
        None
    }

    /// Returns whether only the newest version of the RDB format can express the whole collection.
    fn needs_newest_format(&self) -> bool {
        false
    }

    /// Returns the outline that a snapshot captures when it opens this collection, which is not packed.
    fn outline(&self) -> Outline;

    /// Begins the capture: from now on every part is captured before it changes.
    fn open(&mut self, open_value: &Arc<OpenValue>);

    /// Returns the snapshot's unfinished copy of this collection, while parts are pending capture.
    fn open_value(&self) -> Option<&Arc<OpenValue>>;

    /// Captures more of the pending parts, in order.
    fn capture_more(&mut self, budget: &mut Budget);
}

/// The choice of a member or field of a large collection, to be prefetched.
#[derive(Clone, Copy, Debug)]
pub enum MemberPlace {
    /// The member that should be at this position.
    At(u64),
    /// The member that this random number will choose.
    Random(u64),
}

/// The target of an object's address. The layout is that of C so that `abilities` is first for every `C`.
#[repr(C)]
struct Boxed<C> {
    abilities: &'static Abilities,
    collection: C,
}

/// The form of packed bytes, and the bytes.
type Packed<'a> = (Form, &'a [u8]);

/// The functions of an object of unknown type. They may be called only with objects of that type.
struct Abilities {
    type_id: TypeId,
    kind: Kind,
    encoding: fn(ObjectRef<'_>) -> Encoding,
    memory: fn(ObjectRef<'_>) -> usize,
    due_ms: fn(ObjectRef<'_>) -> Option<i64>,
    needs_newest_format: fn(ObjectRef<'_>) -> bool,
    packed: for<'a> fn(ObjectRef<'a>) -> Option<Packed<'a>>,
    place_of: fn(ObjectRef<'_>, &[u8]) -> Option<MemberPlace>,
    prefetch: fn(ObjectRef<'_>, MemberPlace, PrefetchStep),
    copy: fn(ObjectRef<'_>) -> Object,
    outline: fn(ObjectRef<'_>) -> Outline,
    open: fn(&mut Object, &Arc<OpenValue>),
    open_value: for<'a> fn(ObjectRef<'a>) -> Option<&'a Arc<OpenValue>>,
    capture_more: fn(&mut Object, &mut Budget),
    /// # Safety
    /// The object is used no more, nor dropped once more.
    drop: unsafe fn(&mut Object),
}

impl Abilities {
    const fn of<C: Collection>() -> &'static Self {
        const {
            &Self {
                type_id: TypeId::of::<C>(),
                kind: C::KIND,
                encoding: |object| object.known::<C>().encoding(),
                memory: |object| size_of::<Boxed<C>>() + object.known::<C>().memory(),
                due_ms: |object| object.known::<C>().due_ms(),
                needs_newest_format: |object| object.known::<C>().needs_newest_format(),
                packed: |object| object.known::<C>().packed(),
                place_of: |object, member| object.known::<C>().place_of(member),
                prefetch: |object, place, step| object.known::<C>().prefetch(place, step),
                copy: |object| Object::new(object.known::<C>().clone()),
                outline: |object| object.known::<C>().outline(),
                open: |object, open_value| object.get_mut::<C>().expect("it is of this type").open(open_value),
                open_value: |object| object.known::<C>().open_value(),
                capture_more: |object, budget| object.get_mut::<C>().expect("it is of this type").capture_more(budget),
                drop: |object| {
                    // SAFETY: `Object::new` made the address of such a box, and the object ends here.
                    drop(unsafe { Box::from_raw(object.0.cast::<Boxed<C>>().as_ptr()) });
                },
            }
        }
    }
}

/// A collection that does not lie in an entry, of any type.
pub(crate) struct Object(NonNull<&'static Abilities>);

// SAFETY: an object owns its collection alone, and collections may go to another thread.
unsafe impl Send for Object {}

impl Object {
    pub fn new<C: Collection>(collection: C) -> Self {
        let boxed = Box::new(Boxed { abilities: Abilities::of::<C>(), collection });
        Self(NonNull::from(Box::leak(boxed)).cast())
    }

    /// Returns the address, to be kept instead of the object.
    pub fn into_address(self) -> usize {
        std::mem::ManuallyDrop::new(self).0.as_ptr().expose_provenance()
    }

    /// Returns the object again.
    ///
    /// # Safety
    /// `address` is from [`Object::into_address`], and this is the only object with it that is used or dropped.
    pub unsafe fn from_address(address: usize) -> Self {
        // SAFETY: it is the address of a box.
        Self(unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(address)) })
    }

    pub fn view(&self) -> ObjectRef<'_> {
        ObjectRef { address: self.0, life: PhantomData }
    }

    /// Returns the bytes that the object takes, with those of the object itself.
    pub fn memory(&self) -> usize {
        self.view().memory()
    }

    /// Opens the collection; see [`Collection::open`].
    pub fn open(&mut self, open_value: &Arc<OpenValue>) {
        (self.view().abilities().open)(self, open_value);
    }

    /// See [`Collection::capture_more`].
    pub fn capture_more(&mut self, budget: &mut Budget) {
        (self.view().abilities().capture_more)(self, budget);
    }

    /// Returns the collection, to be changed, if it is of this type.
    pub fn get_mut<C: Collection>(&mut self) -> Option<&mut C> {
        // SAFETY: the box is of this type, and there is no other reference to it while `self` is borrowed.
        self.view().is::<C>().then(|| unsafe { &mut self.0.cast::<Boxed<C>>().as_mut().collection })
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let drop = self.view().abilities().drop;
        // SAFETY: an object is dropped once, and gone then.
        unsafe { drop(self) };
    }
}

impl Clone for Object {
    fn clone(&self) -> Self {
        self.view().copy()
    }
}

impl fmt::Debug for Object {
    /// Prints the type only; there may be millions of elements.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Object({})", self.view().kind().name())
    }
}

/// An object that is borrowed.
#[derive(Clone, Copy)]
pub(crate) struct ObjectRef<'a> {
    address: NonNull<&'static Abilities>,
    life: PhantomData<&'a Object>,
}

impl<'a> ObjectRef<'a> {
    /// # Safety
    /// `address` is from [`Object::into_address`], and the object is neither changed nor dropped during `'a`.
    #[inline]
    pub unsafe fn at(address: usize) -> Self {
        // SAFETY: it is the address of a box.
        let address = unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(address)) };
        Self { address, life: PhantomData }
    }

    #[inline]
    fn abilities(self) -> &'static Abilities {
        // SAFETY: every box begins with this reference, and it lives during `'a`.
        unsafe { self.address.as_ref() }
    }

    #[inline]
    fn is<C: Collection>(self) -> bool {
        self.abilities().type_id == TypeId::of::<C>()
    }

    /// Returns the collection, which is of this type.
    #[inline]
    fn known<C: Collection>(self) -> &'a C {
        assert!(self.is::<C>());
        // SAFETY: the box is of this type and lives, unchanged, during `'a`.
        unsafe { &self.address.cast::<Boxed<C>>().as_ref().collection }
    }

    /// Returns the collection, if it is of this type.
    #[inline]
    pub fn get<C: Collection>(self) -> Option<&'a C> {
        self.is::<C>().then(|| self.known())
    }

    /// Returns the place of a member; see [`Collection::place_of`].
    pub fn place_of(self, member: &[u8]) -> Option<MemberPlace> {
        (self.abilities().place_of)(self, member)
    }

    /// Takes a prefetch step towards a member; see [`Collection::prefetch`].
    pub fn prefetch(self, place: MemberPlace, step: PrefetchStep) {
        (self.abilities().prefetch)(self, place, step);
    }

    /// Returns the type.
    #[inline]
    pub fn kind(self) -> Kind {
        self.abilities().kind
    }

    /// Returns the encoding, as OBJECT ENCODING names it.
    pub fn encoding(self) -> Encoding {
        (self.abilities().encoding)(self)
    }

    /// Returns the bytes that the object takes, with those of the object itself.
    pub fn memory(self) -> usize {
        (self.abilities().memory)(self)
    }

    /// Returns the time when the next part of the collection is due to be removed; see [`Collection::due_ms`].
    pub fn due_ms(self) -> Option<i64> {
        (self.abilities().due_ms)(self)
    }

    /// See [`Collection::needs_newest_format`].
    pub fn needs_newest_format(self) -> bool {
        (self.abilities().needs_newest_format)(self)
    }

    /// Returns form and bytes, as long as the collection is packed.
    pub fn packed(self) -> Option<Packed<'a>> {
        (self.abilities().packed)(self)
    }

    /// See [`Collection::outline`].
    pub fn outline(self) -> Outline {
        (self.abilities().outline)(self)
    }

    /// Returns the snapshot's unfinished copy of this collection, while parts are pending capture; see
    /// [`Collection::open_value`].
    pub fn open_value(self) -> Option<&'a Arc<OpenValue>> {
        (self.abilities().open_value)(self)
    }

    /// Returns form and bytes, if they may lie in an entry.
    pub fn inline(self) -> Option<Packed<'a>> {
        self.packed().filter(|(_, bytes)| bytes.len() <= PACKED_INLINE_MAX)
    }

    /// Returns a new object with a copy of the collection.
    pub fn copy(self) -> Object {
        (self.abilities().copy)(self)
    }
}
