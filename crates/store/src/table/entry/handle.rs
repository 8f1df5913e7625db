//! The three ways in which a caller holds an entry: borrowed, borrowed to be changed, and taken out.
//!
//! [`EntryRef`] reads, [`EntryMut`] changes value and deadline where the entry is, and [`OwnedEntry`] belongs to no table.
//! The first two live no longer than the lock of their shard and stay on its thread; the third goes anywhere. Memory that a
//! change releases is returned as [`Garbage`], so that much of it can be freed without the lock.

use std::marker::PhantomData;
use std::ops::Range;
use std::slice;
use std::sync::Arc;

use super::Entry;
use super::body::{Body, INLINE_MAX};
use super::owned::Outside;
use crate::memory::heap::Heap;
use crate::memory::prefetch::PrefetchStep;
use crate::table::bucket::{Slot, VOLATILE};
use crate::value::collection::{Collection, MemberPlace, Object, ObjectRef};
use crate::value::form::Form;
use crate::value::key_hash::HashKey;
use crate::value::{Digits, Encoding, Kind, Value, ValueRef};

/// An entry borrowed from a locked shard.
#[derive(Clone, Copy)]
pub struct EntryRef<'a> {
    entry: Entry,
    /// The pointer inside keeps this type on one thread, as [`EntryRef::touch`] needs.
    life: PhantomData<&'a u8>,
}

/// An entry borrowed from a locked shard, to be changed.
pub struct EntryMut<'a> {
    slot: &'a mut Slot,
    heap: &'a mut Heap,
    volatile: &'a mut usize,
}

/// The result of changing a collection.
pub(crate) struct Change<R> {
    /// The result that the change returned.
    pub result: R,
    /// True if the collection is empty: the key must be removed.
    pub is_empty: bool,
    /// The time at which the first remaining part is due to be removed; see [`Collection::due_ms`].
    pub due_ms: Option<i64>,
    /// The result of [`Collection::needs_newest_format`].
    pub needs_newest_format: bool,
}

impl<R> Change<R> {
    fn of<C: Collection>(collection: &C, result: R) -> Self {
        Self {
            result,
            is_empty: collection.is_empty(),
            due_ms: collection.due_ms(),
            needs_newest_format: collection.needs_newest_format(),
        }
    }
}

/// Memory that a write took out and did not free. Dropping it frees it: at once, or later on another thread.
#[derive(Debug, Default)]
#[must_use = "dropping this may take long; choose where"]
pub struct Garbage(Outside);

impl Garbage {
    pub(crate) fn new(outside: Outside) -> Self {
        Self(outside)
    }

    /// Returns the bytes that dropping this gives back; 0 if there is nothing to do.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Outside::Nothing => 0,
            Outside::Buffer(buffer) => buffer.capacity(),
            Outside::Object(object) => object.memory(),
        }
    }
}

impl<'a> EntryRef<'a> {
    /// # Safety
    /// The entry is alive and not changed during `'a`, and all references to it stay on one thread.
    #[inline]
    pub(crate) unsafe fn new(entry: Entry) -> Self {
        Self { entry, life: PhantomData }
    }

    /// Returns the entry itself, which outlives this borrow only if its table lets it.
    pub(crate) fn entry(&self) -> Entry {
        self.entry
    }

    /// Returns the key.
    pub fn key(&self) -> &'a [u8] {
        self.entry.key()
    }

    /// Returns the type of the value.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.entry.kind()
    }

    /// Returns whether the value is a string.
    #[inline]
    pub fn is_string(&self) -> bool {
        self.entry.is_string()
    }

    /// Returns the collection, if it is of this type.
    #[inline]
    pub fn collection<C: Collection>(&self) -> Option<C::Ref<'a>> {
        match self.entry.packed() {
            Some((form, bytes)) => C::view(form, bytes),
            None => self.entry.object().and_then(ObjectRef::get).map(C::as_ref),
        }
    }

    /// Returns the expected place of a member or field of a large collection; see [`Collection::place_of`].
    pub fn place_of(&self, member: &[u8]) -> Option<MemberPlace> {
        self.entry.object().and_then(|object| object.place_of(member))
    }

    /// Takes a prefetch step towards a member; see [`Collection::prefetch`].
    pub fn prefetch(&self, place: MemberPlace, step: PrefetchStep) {
        if let Some(object) = self.entry.object() {
            object.prefetch(place, step);
        }
    }

    /// Returns the encoding of the value.
    pub fn encoding(&self) -> Encoding {
        self.entry.encoding()
    }

    /// Returns the value of a string; no bytes for a collection.
    #[inline]
    pub fn value(&self) -> ValueRef<'a> {
        self.entry.value()
    }

    /// Returns the value's own buffer, if it has one (above [`INLINE_MAX`] bytes it does): a large value can be sent without
    /// being copied, and keeps its bytes through later writes.
    pub fn shared(&self) -> Option<Arc<Vec<u8>>> {
        self.entry.shared().map(|buffer| Arc::clone(&buffer))
    }

    /// Returns the key's deadline, in milliseconds since the epoch.
    #[inline]
    pub fn deadline(&self) -> Option<i64> {
        self.entry.deadline()
    }

    /// Returns the access clock: 24 bits that the caller interprets.
    pub fn clock(&self) -> u32 {
        self.entry.clock()
    }

    /// Sets the access clock (the lowest 24 bits of `clock`).
    #[inline]
    pub fn touch(&self, clock: u32) {
        self.entry.set_clock(clock);
    }

    /// Returns the bytes that the entry takes: its block, its buffer, and its slot in the table.
    pub fn memory_usage(&self) -> usize {
        size_of::<u64>() + self.entry.memory()
    }

    pub(crate) fn copy_body(&self) -> Body<'a> {
        self.entry.copy_body()
    }

    /// Returns a copy of value, deadline and clock that belongs to no table. A large string is shared, not copied.
    pub fn detach(&self) -> OwnedEntry {
        OwnedEntry::new(self.entry.copy_body(), self.entry.deadline(), self.entry.clock())
    }
}

/// A value with its deadline and clock, outside any table: on its way to another key or another database.
#[derive(Clone, Debug)]
pub struct OwnedEntry {
    value: OwnedValue,
    /// The key's deadline, in milliseconds since the epoch.
    pub deadline: Option<i64>,
    /// The access clock.
    pub clock: u32,
}

#[derive(Clone, Debug)]
enum OwnedValue {
    Integer(i64),
    Whole(Box<[u8]>),
    Edited(Box<[u8]>),
    Shared(Arc<Vec<u8>>),
    /// An object; none once it was moved out.
    Object(Option<Object>),
    Packed(Form, Box<[u8]>),
}

impl OwnedEntry {
    pub(crate) fn new(body: Body<'_>, deadline: Option<i64>, clock: u32) -> Self {
        let value = match body {
            Body::Integer(number) | Body::Scored(number) => OwnedValue::Integer(number),
            Body::Whole(bytes) => OwnedValue::Whole(bytes.into()),
            Body::Member => OwnedValue::Whole(Box::default()),
            Body::Edited(bytes) => OwnedValue::Edited(bytes.into()),
            Body::Zeros(length) => OwnedValue::Edited(vec![0; length].into()),
            Body::Shared(buffer) => OwnedValue::Shared(buffer),
            Body::Object(object) => OwnedValue::Object(Some(object)),
            Body::Packed(form, bytes) => OwnedValue::Packed(form, bytes.into()),
        };
        Self { value, deadline, clock }
    }

    /// Returns the value as a body, with its large parts moved out.
    pub(crate) fn body(&mut self) -> Body<'_> {
        match &mut self.value {
            OwnedValue::Integer(number) => Body::Integer(*number),
            OwnedValue::Whole(bytes) => Body::Whole(bytes),
            OwnedValue::Edited(bytes) => Body::Edited(bytes),
            OwnedValue::Shared(buffer) => Body::Shared(Arc::clone(buffer)),
            OwnedValue::Object(object) => Body::Object(object.take().expect("a value is moved out once")),
            OwnedValue::Packed(form, bytes) => Body::Packed(*form, bytes),
        }
    }
}

impl<'a> EntryMut<'a> {
    /// # Safety
    /// `slot` is the slot of a living entry in a table that owns `heap` and counts its volatile keys in `volatile`.
    pub(crate) unsafe fn new(slot: &'a mut Slot, heap: &'a mut Heap, volatile: &'a mut usize) -> Self {
        Self { slot, heap, volatile }
    }

    #[inline]
    fn entry(&self) -> Entry {
        // SAFETY: the slot is that of a living entry, as `new` was promised.
        unsafe { Entry::at(self.slot.address()) }
    }

    /// Returns the entry, for reads.
    #[inline]
    pub fn view(&self) -> EntryRef<'_> {
        // SAFETY: the entry cannot change while `self` is borrowed.
        unsafe { EntryRef::new(self.entry()) }
    }

    /// Returns the value.
    #[inline]
    pub fn value(&self) -> ValueRef<'_> {
        self.entry().value()
    }

    /// Returns the key's deadline, in milliseconds since the epoch.
    pub fn deadline(&self) -> Option<i64> {
        self.entry().deadline()
    }

    /// Sets the access clock (the lowest 24 bits of `clock`).
    #[inline]
    pub fn touch(&mut self, clock: u32) {
        self.entry().set_clock(clock);
    }

    /// Replaces the value; deadline and clock stay.
    pub fn set_value(&mut self, value: &Value<'_>) -> Garbage {
        let (deadline, clock) = (self.deadline(), self.entry().clock());
        self.assign(Body::new(value), deadline, clock)
    }

    /// Replaces the value by an integer; deadline and clock stay.
    #[inline]
    pub fn set_integer(&mut self, number: i64) -> Garbage {
        let entry = self.entry();
        if entry.is_integer() {
            // SAFETY: the value is a number, and numbers are not lent.
            unsafe { entry.overwrite_number(number) };
            return Garbage::default();
        }
        let (deadline, clock) = (self.deadline(), self.entry().clock());
        self.assign(Body::Integer(number), deadline, clock)
    }

    /// Replaces a score in place: the entry does not move.
    ///
    /// # Safety
    /// The value is a number or a score.
    #[inline]
    pub(crate) unsafe fn overwrite_score(&mut self, score: i64) {
        // SAFETY: as the caller promises; numbers are not lent.
        unsafe { self.entry().overwrite_number(score) };
    }

    /// Changes a collection in place, or takes a packed one out and puts it back. `scratch` is a buffer to use for that.
    /// Returns none, and changes nothing, if the value is of another type.
    pub(crate) fn update<C: Collection, R>(
        &mut self,
        hash_key: HashKey,
        scratch: &mut Vec<u8>,
        change: impl FnOnce(&mut C) -> R,
    ) -> Option<Change<R>> {
        let entry = self.entry();
        if entry.kind() != C::KIND {
            return None;
        }
        let Some((form, bytes)) = entry.packed() else { return self.update_object(change) };
        let mut buffer = std::mem::take(scratch);
        buffer.clear();
        buffer.extend_from_slice(bytes);
        let mut collection = C::from_packed(hash_key, form, buffer);
        let result = change(&mut collection);
        let changed = Change::of(&collection, result);
        if changed.is_empty {
            return Some(changed);
        }
        let (deadline, clock) = (entry.deadline(), entry.clock());
        if let Some(body) = Body::inline(&collection) {
            drop(self.assign(body, deadline, clock));
            *scratch = collection.into_buffer().unwrap_or_default();
        } else {
            drop(self.assign(Body::Object(Object::new(collection)), deadline, clock));
        }
        Some(changed)
    }

    fn update_object<C: Collection, R>(&mut self, change: impl FnOnce(&mut C) -> R) -> Option<Change<R>> {
        let entry = self.entry();
        // SAFETY: no other reference to the entry exists while `self` is borrowed.
        let changed = unsafe {
            entry.change_object(self.heap, |object| {
                let collection = object.get_mut::<C>()?;
                let result = change(collection);
                Some(Change::of(collection, result))
            })
        };
        let changed = changed.flatten()?;
        if let Some((form, bytes)) = entry.object().and_then(ObjectRef::inline) {
            // The bytes lie in the object that the new body replaces, and are gone when it is dropped.
            let (bytes, deadline, clock) = (bytes.to_vec(), entry.deadline(), entry.clock());
            drop(self.assign(Body::Packed(form, &bytes), deadline, clock));
        }
        Some(changed)
    }

    /// Sets or removes the deadline (milliseconds since the epoch).
    pub fn set_deadline(&mut self, deadline: Option<i64>) {
        // SAFETY: it is the table's heap. References that were lent are gone while `self` is borrowed, and the slot gets the
        // new address.
        let entry = unsafe { self.entry().set_deadline(self.heap, deadline) };
        self.moved(entry);
    }

    /// Adds `bytes` at the end of the value; an integer becomes its digits. Returns the new length in bytes.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let length = self.value().len();
        let total = length + bytes.len();
        if self.make_editable(total) {
            let change = |buffer: &mut Arc<Vec<u8>>| unshared(buffer, total).extend_from_slice(bytes);
            // SAFETY: it is the table's heap, and references that were lent are gone while `self` is borrowed.
            unsafe { self.entry().change_shared(self.heap, slice::from_ref(&(length..total)), change) };
            return total;
        }
        let entry = self.grow_inline(bytes.len());
        // SAFETY: no other reference to the entry exists while `self` is borrowed.
        if let Some(tail) = unsafe { entry.inline_mut() } {
            tail[length..].copy_from_slice(bytes);
        }
        total
    }

    /// Makes the value at least `length_min` bytes long, with zeros at the end, and lets `edit` change those of its bytes that
    /// are `touched`. An integer becomes its digits first.
    pub fn with_bytes_mut<R>(
        &mut self,
        length_min: usize,
        touched: &[Range<usize>],
        edit: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        let length = self.value().len();
        let total = length.max(length_min);
        if self.make_editable(total) {
            let mut result = None;
            let change = |buffer: &mut Arc<Vec<u8>>| {
                let bytes = unshared(buffer, total);
                bytes.resize(total, 0);
                result = Some(edit(bytes));
            };
            // SAFETY: it is the table's heap, and references that were lent are gone while `self` is borrowed.
            unsafe { self.entry().change_shared(self.heap, touched, change) };
            return result.expect("change_shared calls its argument once");
        }
        let entry = self.grow_inline(total - length);
        // SAFETY: no other reference to the entry exists while `self` is borrowed.
        let bytes = unsafe { entry.inline_mut() };
        edit(bytes.expect("an entry that grew in place is an inline string"))
    }

    /// Makes an inline string longer by so many zeros; the entry may move.
    fn grow_inline(&mut self, extra: usize) -> Entry {
        // SAFETY: the callers have made it an inline string. It is the table's heap; references that were lent are gone while
        // `self` is borrowed, and the slot gets the new address.
        let entry = unsafe { self.entry().grow_inline(self.heap, extra) };
        self.moved(entry);
        entry
    }

    /// Turns the value into a form that can hold `total` bytes: returns true for a shared buffer, false for an inline string.
    fn make_editable(&mut self, total: usize) -> bool {
        if self.entry().shared().is_some() {
            return true;
        }
        let (deadline, clock) = (self.deadline(), self.entry().clock());
        let mut digits = Digits::default();
        if total > INLINE_MAX {
            let mut buffer = Vec::with_capacity(total);
            buffer.extend_from_slice(self.value().bytes(&mut digits));
            drop(self.assign(Body::Shared(Arc::new(buffer)), deadline, clock));
            return true;
        }
        if let ValueRef::Integer(number) = self.value() {
            drop(self.assign(Body::Edited(digits.write(number)), deadline, clock));
        }
        false
    }

    /// Replaces value, deadline and clock. Always inline: the released memory is nearly always none, and would be returned
    /// through memory.
    #[inline(always)]
    pub(crate) fn assign(&mut self, body: Body<'_>, deadline: Option<i64>, clock: u32) -> Garbage {
        // SAFETY: references that were lent are gone while `self` is borrowed, and so `body` does not refer to the entry.
        if unsafe { self.entry().overwrite(&body, deadline, clock) } {
            Garbage::default()
        } else {
            self.replace(body, deadline, clock)
        }
    }

    #[cold]
    fn replace(&mut self, body: Body<'_>, deadline: Option<i64>, clock: u32) -> Garbage {
        // SAFETY: it is the table's heap. References that were lent are gone while `self` is borrowed, so `body` does not
        // refer to the entry, and the slot gets the new address.
        let (entry, buffer) = unsafe { self.entry().assign(self.heap, body, deadline, clock) };
        self.moved(entry);
        Garbage::new(buffer)
    }

    /// Brings the slot and the table's count up to date with the new state of the entry.
    fn moved(&mut self, entry: Entry) {
        let flags = entry.slot_flags();
        let (was, is) = (self.slot.has(VOLATILE), flags & VOLATILE != 0);
        *self.volatile = *self.volatile + usize::from(is) - usize::from(was);
        *self.slot = Slot::new(self.slot.tag(), entry.address(), flags);
    }
}

/// Returns the bytes of a buffer without other owners, with room for `needed` of them: its own if possible, else a copy.
fn unshared(buffer: &mut Arc<Vec<u8>>, needed: usize) -> &mut Vec<u8> {
    if Arc::strong_count(buffer) > 1 {
        let mut copy = Vec::with_capacity(needed);
        copy.extend_from_slice(buffer);
        *buffer = Arc::new(copy);
    }
    let bytes = Arc::make_mut(buffer);
    if needed > bytes.capacity() {
        // Twice the length, but for large values not more than 1 MiB or an eighth of spare room.
        let spare = needed.min((1 << 20).max(needed / 8));
        bytes.reserve_exact(needed + spare - bytes.len());
    }
    bytes
}
