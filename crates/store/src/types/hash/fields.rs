//! The fields of a large hash: a table of their own, each an entry that may have a deadline.
//!
//! There is no order of deadlines. `due_ms` is a time before which no field expires. Once it is reached, a sweep walks over
//! the table, some entries at a time, removes the expired fields and finds the next such time. A sweep of many fields is not
//! begun again at once, so that it never takes more than a small part of the time. Until the sweep removes an expired field,
//! the field is not found, but still counted. Used by `hash` alone, under the shard's lock.

use super::packed::Item;
use crate::memory::prefetch::PrefetchStep;
use crate::table::Table;
use crate::table::before_images::Recipient;
use crate::table::entry::body::Body;
use crate::table::entry::handle::EntryRef;
use crate::value::capture::open_value::{OpenValue, Outline};
use crate::value::capture::source::Budget;
use crate::value::key_hash::HashKey;
use crate::value::key_hash::Placement;
use crate::value::{Deadline, Value, ValueRef, is_expired};
use std::iter;
use std::sync::Arc;

/// The number of fields for each millisecond between two sweeps of a hash, so that sweeps take some two percent of the time.
const FIELDS_PER_MS_OF_REST: usize = 400;

/// The length from which on integers are stored as numbers; shorter ones are kept as their digits, which take less than eight
/// bytes.
const DIGITS_MAX: usize = 8;

/// A cursor is the upper 48 bits of a hash: the boundaries between buckets never need more.
const CURSOR_SHIFT: u32 = 16;

/// The largest number of buckets that a scan visits for each field that it was asked for.
const SCAN_BUCKETS_PER_FIELD: usize = 10;

/// The part of a hash that a snapshot captures in addition to the entries: whether any field has a deadline.
pub struct AreTimed(pub bool);

/// The fields of a large hash.
#[derive(Clone)]
pub(crate) struct Fields {
    table: Table,
    /// The time before which no deadline is reached; none while no field has a deadline.
    due_ms: Option<i64>,
    /// The position at which the sweep goes on, and the earliest of the deadlines that it has left.
    sweep_position: u64,
    sweep_earliest_ms: Option<i64>,
}

fn earlier(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    one.into_iter().chain(other).min()
}

impl Fields {
    pub fn new(hash_key: HashKey) -> Self {
        let table = Table::new(Placement::of_members(hash_key));
        Self { table, due_ms: None, sweep_position: 0, sweep_earliest_ms: None }
    }

    /// Returns the number of fields, expired ones included.
    #[inline]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns where a field should be in the table.
    pub fn position(&self, field: &[u8]) -> u64 {
        self.table.position(field)
    }

    /// Takes a step towards a field, ahead of looking for it.
    pub fn prefetch(&self, position: u64, step: PrefetchStep) {
        self.table.prefetch(iter::once(position), step);
    }

    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.table.memory()
    }

    /// Returns the time when the next sweep is due, if any field has a deadline.
    #[inline]
    pub fn due_ms(&self) -> Option<i64> {
        if self.table.volatile_len() == 0 { None } else { self.due_ms }
    }

    /// Returns value and deadline of a field, expired or not.
    #[inline]
    pub fn find(&self, field: &[u8]) -> Option<(ValueRef<'_>, Option<i64>)> {
        let entry = self.table.find(self.table.position(field), field)?;
        Some((entry.value(), entry.deadline()))
    }

    /// Sets a field; returns whether it is new. An expired field counts as new and loses its deadline.
    #[inline]
    pub fn set(&mut self, field: &[u8], value: ValueRef<'_>, deadline: Deadline, now_ms: i64) -> bool {
        let value = match value {
            ValueRef::Integer(number) => Value::Integer(number),
            ValueRef::Bytes(bytes) if bytes.len() <= DIGITS_MAX => Value::Bytes(bytes),
            ValueRef::Bytes(bytes) => Value::Plain(bytes),
        };
        let fresh = if let Deadline::At(at_ms) = deadline { Some(at_ms) } else { None };
        self.note(fresh);
        let position = self.table.position(field);
        let Some(mut entry) = self.table.find_mut(position, field) else {
            self.table.insert(position, field, Body::new(&value), fresh, 0);
            return true;
        };
        let old = entry.deadline();
        let was_over = is_expired(old, now_ms);
        let new = if deadline == Deadline::Keep && !was_over { old } else { fresh };
        drop(entry.assign(Body::new(&value), new, 0));
        was_over
    }

    /// Sets or removes the deadline of a field, which is there.
    pub fn set_deadline(&mut self, field: &[u8], deadline: Option<i64>) {
        self.note(deadline);
        let position = self.table.position(field);
        if let Some(mut entry) = self.table.find_mut(position, field) {
            entry.set_deadline(deadline);
        }
    }

    /// Notes that a field has been given this deadline.
    fn note(&mut self, deadline: Option<i64>) {
        if deadline.is_some() {
            self.due_ms = earlier(self.due_ms, deadline);
            self.sweep_earliest_ms = earlier(self.sweep_earliest_ms, deadline);
        }
    }

    /// Removes a field; returns whether it was there, expired or not.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let position = self.table.position(field);
        self.table.discard(position, field)
    }

    /// Looks at some `budget` fields if a sweep is due, removes the expired ones, and shows each.
    pub fn expire(&mut self, now_ms: i64, budget: usize, on_expired: &mut dyn FnMut(ValueRef<'_>)) {
        let mut left = budget;
        while left > 0 && is_expired(self.due_ms(), now_ms) {
            let begun = self.sweep_position != 0;
            let (mut over, mut earliest_ms) = (Vec::new(), self.sweep_earliest_ms.filter(|_| begun));
            let step = self.table.walk(self.sweep_position, left, |entry: EntryRef<'_>| {
                if is_expired(entry.deadline(), now_ms) {
                    over.push(entry.key().to_vec());
                } else {
                    earliest_ms = earlier(earliest_ms, entry.deadline());
                }
            });
            for field in &over {
                self.remove(field);
                on_expired(ValueRef::Bytes(field));
            }
            left = left.saturating_sub(step.shown.max(1));
            (self.sweep_position, self.sweep_earliest_ms) = (step.next.unwrap_or(0), earliest_ms);
            if step.next.is_none() {
                let rested_ms = now_ms.saturating_add((self.len() / FIELDS_PER_MS_OF_REST) as i64);
                self.due_ms = earliest_ms.map(|earliest_ms| earliest_ms.max(rested_ms));
                self.sweep_earliest_ms = None;
            }
        }
    }

    pub fn outline(&self) -> Outline {
        Outline { parts: self.len(), walks: 1, extra: Some(Box::new(AreTimed(self.table.volatile_len() > 0))) }
    }

    pub fn open(&mut self, open_value: &Arc<OpenValue>) {
        self.table.begin_capture(Recipient::Members(Arc::clone(open_value)));
    }

    pub fn open_value(&self) -> Option<&Arc<OpenValue>> {
        self.table.open_value()
    }

    pub fn capture_more(&mut self, budget: &mut Budget) {
        self.table.capture_more(budget);
    }

    /// Shows all fields, expired ones included.
    pub fn for_each<'a>(&'a self, mut show: impl FnMut(Item<'a>)) {
        self.table.for_each(|entry| show(item(entry)));
    }

    /// Takes a step of a walk; see [`MapRef::scan`](crate::MapRef::scan).
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, mut show: impl FnMut(Item<'a>)) -> u64 {
        let (mut position, mut wanted) = (cursor << CURSOR_SHIFT, count.max(1));
        let mut buckets_left = wanted.saturating_mul(SCAN_BUCKETS_PER_FIELD);
        loop {
            let step = self.table.walk(position, wanted, |entry| show(item(entry)));
            wanted = wanted.saturating_sub(step.shown);
            buckets_left = buckets_left.saturating_sub(step.buckets.max(1));
            match step.next {
                None => return 0,
                Some(next) if wanted == 0 || buckets_left == 0 => return next >> CURSOR_SHIFT,
                Some(next) => position = next,
            }
        }
    }

    /// Returns a field that `random` chooses, expired or not.
    pub fn random(&self, random: u64) -> Option<Item<'_>> {
        self.table.random(random).map(item)
    }
}

#[inline]
fn item(entry: EntryRef<'_>) -> Item<'_> {
    Item { field: ValueRef::Bytes(entry.key()), value: entry.value(), deadline: entry.deadline() }
}
