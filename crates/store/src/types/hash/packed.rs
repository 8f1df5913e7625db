//! A small hash as one run of packed elements: fields and values in turn, in the order in which they came.
//!
//! Once a field has been given a deadline, each field has a third element: its deadline in milliseconds since the epoch, or 0
//! for none. The [`Shape`] says whether the elements come in twos or threes, and whether the hash has outgrown the limits
//! under which Redis keeps one packed; both are for good, as in Redis. The module knows the time only as an argument: an
//! expired field is not found, and stays until it is removed. Used by `hash` alone. Plain data, any thread.

use crate::packed::listpack::Packed;
use crate::packed::pack::Pack;
use crate::packed::ways::Forwards;
use crate::value::form::Form;
use crate::value::{Deadline, Encoding, ValueRef, is_expired};

/// The meaning of the packed elements of a hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// True if each field has a third element, its deadline.
    pub timed: bool,
    /// True if the hash has outgrown the limits for packing: it is called a table and stays packed to save memory.
    pub wide: bool,
}

impl Shape {
    pub fn form(self) -> Form {
        match (self.timed, self.wide) {
            (false, false) => Form::PackedHash,
            (false, true) => Form::WideHash,
            (true, false) => Form::TimedHash,
            (true, true) => Form::WideTimedHash,
        }
    }

    pub fn of(form: Form) -> Option<Self> {
        let (timed, wide) = match form {
            Form::PackedHash => (false, false),
            Form::WideHash => (false, true),
            Form::TimedHash => (true, false),
            Form::WideTimedHash => (true, true),
            _ => return None,
        };
        Some(Self { timed, wide })
    }

    pub fn encoding(self) -> Encoding {
        match (self.timed, self.wide) {
            (_, true) => Encoding::Hashtable,
            (true, false) => Encoding::ListpackEx,
            (false, false) => Encoding::Listpack,
        }
    }

    /// Returns the number of elements for each field.
    pub(super) fn stride(self) -> usize {
        if self.timed { 3 } else { 2 }
    }
}

/// A field with its value and its deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub field: ValueRef<'a>,
    pub value: ValueRef<'a>,
    pub deadline: Option<i64>,
}

impl Item<'_> {
    #[inline]
    pub fn is_over(&self, now_ms: i64) -> bool {
        is_expired(self.deadline, now_ms)
    }
}

/// A view of a small hash, for reads.
#[derive(Clone, Copy)]
pub(crate) struct PackedMapRef<'a> {
    pub packed: Packed<'a, Forwards>,
    pub shape: Shape,
}

/// A small hash, to be changed.
#[derive(Clone)]
pub(crate) struct PackedMap {
    pub pack: Pack<Forwards>,
    pub shape: Shape,
}

impl<'a> PackedMapRef<'a> {
    /// Returns the number of fields, expired ones included.
    #[inline]
    pub fn len(self) -> usize {
        self.packed.len() / self.shape.stride()
    }

    /// Returns all fields, expired ones included.
    #[inline]
    pub fn items(self) -> impl Iterator<Item = Item<'a>> {
        let (mut elements, timed) = (self.packed.iter(), self.shape.timed);
        std::iter::from_fn(move || {
            let (field, value) = (elements.next()?, elements.next()?);
            let deadline = if timed { elements.next().and_then(deadline_of) } else { None };
            Some(Item { field, value, deadline })
        })
    }

    /// Returns where a field begins.
    #[inline]
    fn place(self, field: &[u8]) -> Option<usize> {
        self.packed.find(field, self.shape.stride() - 1)
    }

    /// Returns value and deadline of a field, expired or not.
    #[inline]
    pub fn find(self, field: &[u8]) -> Option<(ValueRef<'a>, Option<i64>)> {
        let at = self.packed.after(self.place(field)?);
        let (value, next) = self.packed.read(at)?;
        let deadline =
            if self.shape.timed { self.packed.read(next).and_then(|(time, _)| deadline_of(time)) } else { None };
        Some((value, deadline))
    }

    /// Returns the earliest of all deadlines.
    pub fn earliest_ms(self) -> Option<i64> {
        if !self.shape.timed {
            return None;
        }
        self.items().filter_map(|item| item.deadline).min()
    }
}

fn deadline_of(element: ValueRef<'_>) -> Option<i64> {
    element.integer().filter(|&deadline_ms| deadline_ms != 0)
}

impl PackedMap {
    #[inline]
    pub fn as_ref(&self) -> PackedMapRef<'_> {
        PackedMapRef { packed: self.pack.as_packed(), shape: self.shape }
    }

    /// Sets a field; returns whether it is new. An expired field counts as new and loses its deadline.
    #[inline]
    pub fn set(&mut self, field: &[u8], value: ValueRef<'_>, deadline: Deadline, now_ms: i64) -> bool {
        if matches!(deadline, Deadline::At(_)) {
            self.make_timed();
        }
        let Some(place) = self.as_ref().place(field) else {
            self.pack.push_back(field);
            self.pack.push_back(value);
            if self.shape.timed {
                self.pack.push_back(if let Deadline::At(at_ms) = deadline { at_ms } else { 0 });
            }
            return true;
        };
        let behind = self.pack.replace_at(self.pack.as_packed().after(place), value);
        self.shape.timed && self.retime(behind, deadline, now_ms)
    }

    /// Changes the deadline at `place`; returns whether the old one had passed.
    fn retime(&mut self, place: usize, deadline: Deadline, now_ms: i64) -> bool {
        let old = self.pack.as_packed().read(place).and_then(|(time, _)| deadline_of(time));
        let was_over = is_expired(old, now_ms);
        let new = match deadline {
            Deadline::At(at_ms) => Some(at_ms),
            Deadline::Keep if !was_over => old,
            Deadline::Keep | Deadline::Clear => None,
        };
        if new != old {
            self.pack.replace_at(place, new.unwrap_or(0));
        }
        was_over
    }

    /// Sets or removes the deadline of a field, which is there.
    pub fn set_deadline(&mut self, field: &[u8], deadline: Option<i64>) {
        if deadline.is_some() {
            self.make_timed();
        }
        if let (true, Some(place)) = (self.shape.timed, self.as_ref().place(field)) {
            let packed = self.pack.as_packed();
            let place = packed.after(packed.after(place));
            self.pack.replace_at(place, deadline.unwrap_or(0));
        }
    }

    /// Removes a field; returns whether it was there, expired or not.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let Some(place) = self.as_ref().place(field) else { return false };
        self.pack.remove_range(place, self.shape.stride());
        true
    }

    /// Removes the expired fields, and shows each.
    pub fn expire(&mut self, now_ms: i64, on_expired: &mut dyn FnMut(ValueRef<'_>)) {
        if self.as_ref().earliest_ms().is_none_or(|earliest_ms| !is_expired(Some(earliest_ms), now_ms)) {
            return;
        }
        let mut kept = PackedMap { pack: Pack::with_room_behind(self.pack.as_bytes().len()), shape: self.shape };
        for item in self.as_ref().items() {
            if item.is_over(now_ms) {
                on_expired(item.field);
            } else {
                kept.push(item);
            }
        }
        *self = kept;
    }

    pub(super) fn push(&mut self, item: Item<'_>) {
        self.pack.push_back(item.field);
        self.pack.push_back(item.value);
        if self.shape.timed {
            self.pack.push_back(item.deadline.unwrap_or(0));
        }
    }

    /// Gives each field its third element.
    fn make_timed(&mut self) {
        if self.shape.timed {
            return;
        }
        let room = self.pack.as_bytes().len() + self.pack.len() + 8;
        let mut timed = PackedMap { pack: Pack::with_room_behind(room), shape: Shape { timed: true, ..self.shape } };
        self.as_ref().items().for_each(|item| timed.push(item));
        *self = timed;
    }
}
