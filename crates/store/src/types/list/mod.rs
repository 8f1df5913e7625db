//! A list: strings in an order of their own, reached from both ends.
//!
//! One pack while it fits under the limit, a chain of packs beyond; and one pack again when the chain has shrunk to a
//! single pack of half the limit, as in Redis 7.2. The limit is an argument of every change that can grow the list. Here
//! are no keys and no commands; indexes count from the front, and negative ones are the caller's to translate.

pub mod before_images;
pub mod chain;
pub mod items;
pub mod limit;
pub mod lzf;
pub mod node;
mod nodes;

use crate::packed::listpack::Packed;
use crate::packed::pack::Pack;
use crate::value::capture::open_value::{OpenValue, Outline};
use crate::value::capture::source::Budget;
use crate::value::collection::Collection;
use crate::value::form::Form;
use crate::value::key_hash::HashKey;
use crate::value::{Encoding, Kind, ValueRef};
use chain::{Chain, ElementIndex, End};
use items::{Items, ItemsBack};
use limit::ListLimit;
use std::sync::Arc;

/// The room of a new list before it asks for memory again, in bytes.
const FIRST_BYTES: usize = 126;

/// The value of a key of type list.
#[derive(Clone)]
pub enum List {
    /// A list with all elements in one pack.
    Packed(Pack),
    /// A list that is too large for one pack.
    Chain(Box<Chain>),
}

/// A [`List`] to be read.
#[derive(Clone, Copy)]
pub enum ListRef<'a> {
    /// A list with all elements in one pack.
    Packed(Packed<'a>),
    /// A chain of packs.
    Chain(&'a Chain),
}

impl List {
    /// Makes a list of these packs, as a file has them: packed if the limit allows it.
    pub(crate) fn from_packs(packs: impl IntoIterator<Item = Pack>, limit: ListLimit) -> Self {
        let mut chain = Chain::default();
        packs.into_iter().filter(|pack| !pack.is_empty()).for_each(|pack| chain.push_pack(pack));
        chain.compress_all(limit);
        let mut list = Self::Chain(Box::new(chain));
        list.pack_if(|packed| limit.allows(packed.redis_bytes(), packed.len()));
        list
    }

    /// Makes a list of these elements.
    pub fn collect<'v, V: Into<ValueRef<'v>>>(elements: impl Iterator<Item = V>, limit: ListLimit) -> Self {
        let mut list = Self::Packed(Pack::with_room_behind(FIRST_BYTES));
        for element in elements {
            let element = element.into();
            list.prepare(element.len(), 1, limit);
            list.push(End::Back, element, limit);
        }
        list
    }

    /// Makes the list a chain if it is one pack and `bytes` of text in `count` more elements would be too much for that.
    /// Redis decides this before it pushes, inserts or replaces, and by these sums.
    pub fn prepare(&mut self, bytes: usize, count: usize, limit: ListLimit) {
        let Self::Packed(pack) = self else { return };
        if !limit.allows(pack.as_packed().redis_bytes() + bytes, pack.len() + count) {
            let pack = std::mem::take(pack);
            *self = Self::Chain(Box::new(Chain::from_pack(pack)));
        }
    }

    /// Pushes a value at one end. A push of many values is announced with [`List::prepare`] first.
    #[inline]
    pub fn push<'v>(&mut self, end: End, value: impl Into<ValueRef<'v>>, limit: ListLimit) {
        let value = value.into();
        match (self, end) {
            (Self::Packed(pack), End::Front) => pack.push_front(value),
            (Self::Packed(pack), End::Back) => pack.push_back(value),
            (Self::Chain(chain), End::Front) => chain.push_front(value, limit),
            (Self::Chain(chain), End::Back) => chain.push_back(value, limit),
        }
    }

    /// Removes the element at one end, if there is one.
    #[inline]
    pub fn pop(&mut self, end: End) {
        match (self, end) {
            (Self::Packed(pack), End::Front) => _ = pack.pop_front(),
            (Self::Packed(pack), End::Back) => _ = pack.pop_back(),
            (Self::Chain(chain), End::Front) => chain.pop_front(),
            (Self::Chain(chain), End::Back) => chain.pop_back(),
        }
    }

    /// Removes `count` elements at one end, or all if there are not so many.
    pub fn pop_many(&mut self, end: End, count: usize) {
        let keep = self.as_ref().len().saturating_sub(count);
        match end {
            End::Front => self.drop_front(count),
            End::Back => self.truncate(keep),
        }
    }

    /// Keeps `count` elements from the one at `start` on.
    pub fn trim(&mut self, start: usize, count: usize) {
        self.truncate(start.saturating_add(count));
        self.drop_front(start);
    }

    fn drop_front(&mut self, count: usize) {
        match self {
            Self::Packed(pack) => _ = pack.remove_range(pack.as_packed().iter().offset(), count),
            Self::Chain(chain) => chain.drop_front(count),
        }
    }

    fn truncate(&mut self, keep: usize) {
        match self {
            Self::Packed(pack) => pack.truncate(keep),
            Self::Chain(chain) => chain.truncate(keep),
        }
    }

    /// Replaces the element at `index`; false if there is none.
    pub fn set<'v>(&mut self, index: usize, value: impl Into<ValueRef<'v>>, limit: ListLimit) -> bool {
        let value = value.into();
        match self {
            Self::Packed(pack) => {
                let Some(offset) = pack.as_packed().offset_of(index) else { return false };
                pack.replace_at(offset, value);
            }
            Self::Chain(chain) => {
                let Some(place) = chain.place(index) else { return false };
                chain.replace(place, value, limit);
            }
        }
        true
    }

    /// Inserts `value` beside the first element equal to `pivot`: in front of it, or behind it. Returns false if there is no
    /// such element.
    pub fn insert(&mut self, pivot: ValueRef<'_>, side: End, value: ValueRef<'_>, limit: ListLimit) -> bool {
        match self {
            Self::Packed(pack) => {
                let packed = pack.as_packed();
                let Some(found) = packed.find(pivot, 0) else { return false };
                let offset = if side == End::Front { found } else { packed.after(found) };
                pack.insert_at(offset, value);
            }
            Self::Chain(chain) => {
                let Some(found) = chain.find(pivot) else { return false };
                let place: ElementIndex = if side == End::Front { found } else { chain.behind(found) };
                chain.insert(place, side, value, limit);
            }
        }
        true
    }

    /// Removes up to `count` elements equal to `value`, beginning at one end; returns the number removed.
    pub fn remove<'v>(&mut self, end: End, value: impl Into<ValueRef<'v>>, count: usize) -> usize {
        let value = value.into();
        match (self, end) {
            (Self::Packed(pack), End::Front) => pack.remove_equal(value, count),
            (Self::Packed(pack), End::Back) => pack.remove_equal_back(value, count),
            (Self::Chain(chain), End::Front) => chain.remove(value, count),
            (Self::Chain(chain), End::Back) => chain.remove_back(value, count),
        }
    }

    /// Makes the list one pack again if it has become small enough. Commands that remove or replace call it last.
    #[inline]
    pub fn shrink(&mut self, limit: ListLimit) {
        if matches!(self, Self::Chain(_)) {
            self.pack_if(|packed| limit.allows_return(packed));
        }
    }

    fn chain(&self) -> Option<&Chain> {
        match self {
            Self::Packed(_) => None,
            Self::Chain(chain) => Some(chain),
        }
    }

    fn pack_if(&mut self, is_small: impl FnOnce(Packed<'_>) -> bool) {
        let Self::Chain(chain) = self else { return };
        if chain.only_pack().is_some_and(is_small)
            && let Some(mut pack) = chain.take_pack()
        {
            pack.shrink_to_fit();
            *self = Self::Packed(pack);
        }
    }
}

impl<'a> ListRef<'a> {
    /// Returns the number of elements.
    #[inline]
    pub fn len(self) -> usize {
        match self {
            Self::Packed(packed) => packed.len(),
            Self::Chain(chain) => chain.len(),
        }
    }

    /// Returns whether the list has no elements.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the element at one end.
    #[inline]
    pub fn end(self, end: End) -> Option<ValueRef<'a>> {
        match (self, end) {
            (Self::Packed(packed), End::Front) => packed.first(),
            (Self::Packed(packed), End::Back) => packed.last(),
            (Self::Chain(chain), End::Front) => chain.first(),
            (Self::Chain(chain), End::Back) => chain.last(),
        }
    }

    /// Returns the element at `index`.
    pub fn get(self, index: usize) -> Option<ValueRef<'a>> {
        self.iter_from(index).next()
    }

    /// Returns an iterator over all elements, in order.
    pub fn iter(self) -> Items<'a> {
        self.iter_from(0)
    }

    /// Returns the elements from the one at `index` to the last.
    pub fn iter_from(self, index: usize) -> Items<'a> {
        match self {
            Self::Chain(chain) => chain.iter_from(index),
            Self::Packed(packed) => match packed.offset_of(index) {
                Some(offset) => Items::of(packed.iter_from(offset)),
                None => Items::of(Packed::EMPTY.iter()),
            },
        }
    }

    /// Returns the elements from the one at `index` back to the first.
    pub fn iter_back_from(self, index: usize) -> ItemsBack<'a> {
        match self {
            Self::Chain(chain) => chain.iter_back_from(index),
            Self::Packed(packed) => match packed.offset_of(index) {
                Some(offset) => ItemsBack::of(packed.iter_to(packed.after(offset))),
                None => ItemsBack::of(Packed::EMPTY.iter()),
            },
        }
    }

    /// Returns the packs in order, for files and for peers; their number first.
    pub fn packs(self) -> (usize, impl Iterator<Item = Packed<'a>>) {
        let (packed, chain) = match self {
            Self::Packed(packed) => (Some(packed), None),
            Self::Chain(chain) => (None, Some(chain.packs())),
        };
        let count = usize::from(packed.is_some()) + chain.as_ref().map_or(0, ExactSizeIterator::len);
        (count, packed.into_iter().chain(chain.into_iter().flatten()))
    }
}

impl Collection for List {
    const KIND: Kind = Kind::List;

    type Ref<'a> = ListRef<'a>;

    fn new(_hash_key: HashKey) -> Self {
        Self::Packed(Pack::with_room_behind(FIRST_BYTES))
    }

    fn is_empty(&self) -> bool {
        self.as_ref().is_empty()
    }

    fn packed(&self) -> Option<(Form, &[u8])> {
        match self {
            Self::Packed(pack) => Some((Form::PackedList, pack.as_bytes())),
            Self::Chain(_) => None,
        }
    }

    fn from_packed(_hash_key: HashKey, _form: Form, bytes: Vec<u8>) -> Self {
        Self::Packed(Pack::from_bytes(bytes))
    }

    fn into_buffer(self) -> Option<Vec<u8>> {
        match self {
            Self::Packed(pack) => Some(pack.into_buffer()),
            Self::Chain(_) => None,
        }
    }

    fn view(form: Form, bytes: &[u8]) -> Option<ListRef<'_>> {
        (form == Form::PackedList).then(|| ListRef::Packed(Packed::new(bytes)))
    }

    fn as_ref(&self) -> ListRef<'_> {
        match self {
            Self::Packed(pack) => ListRef::Packed(pack.as_packed()),
            Self::Chain(chain) => ListRef::Chain(chain),
        }
    }

    fn encoding(&self) -> Encoding {
        match self {
            Self::Packed(_) => Encoding::Listpack,
            Self::Chain(_) => Encoding::Quicklist,
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Packed(pack) => pack.memory_bytes(),
            Self::Chain(chain) => size_of::<Chain>() + chain.memory(),
        }
    }

    fn outline(&self) -> Outline {
        Outline { parts: self.chain().map_or(0, |chain| chain.packs().len()), walks: 1, extra: None }
    }

    fn open(&mut self, open_value: &Arc<OpenValue>) {
        if let Self::Chain(chain) = self {
            chain.begin_capture(open_value);
        }
    }

    fn open_value(&self) -> Option<&Arc<OpenValue>> {
        self.chain()?.open_value()
    }

    fn capture_more(&mut self, budget: &mut Budget) {
        if let Self::Chain(chain) = self {
            chain.capture_more(budget);
        }
    }
}
