//! The increments that are not synced whole: the one that is appended to, and those in front of it.

use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::File;

/// An increment with bytes that may not be synced.
#[derive(Clone, Debug)]
pub(super) struct Increment {
    pub(super) number: i64,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn File>,
    /// Bytes that count; there may be more after an append that failed.
    pub(super) length: u64,
    /// The number of bytes that are durable.
    pub(super) synced_length: u64,
}

impl Increment {
    /// Returns an increment that is durable as long as it is now.
    pub(super) fn new(number: i64, path: PathBuf, file: Arc<dyn File>, length: u64) -> Increment {
        Increment { number, path, file, length, synced_length: length }
    }

    pub(super) fn is_synced(&self) -> bool {
        self.synced_length >= self.length
    }
}

/// Increments that are not synced whole, in order; the last is appended to.
#[derive(Clone, Debug)]
pub(super) struct Tail(Vec<Increment>);

impl Tail {
    pub(super) fn new(increment: Increment) -> Tail {
        Tail(vec![increment])
    }

    /// Returns the increment that is appended to.
    pub(super) fn current(&self) -> &Increment {
        self.0.last().expect("an AOF has an increment that is appended to")
    }

    pub(super) fn current_mut(&mut self) -> &mut Increment {
        self.0.last_mut().expect("an AOF has an increment that is appended to")
    }

    /// Appends to this increment from now on.
    pub(super) fn push(&mut self, increment: Increment) {
        self.0.push(increment);
        self.drop_synced();
    }

    /// Lets go of the increments before this number, which a base stands for.
    pub(super) fn retire_before(&mut self, number: i64) {
        self.0.retain(|part| part.number >= number);
    }

    /// Notes that the increment with this number is durable up to this length.
    pub(super) fn synced(&mut self, number: i64, length: u64) {
        if let Some(part) = self.0.iter_mut().find(|part| part.number == number) {
            part.synced_length = part.synced_length.max(length);
        }
    }

    /// Lets go of increments that are durable and no longer appended to.
    pub(super) fn drop_synced(&mut self) {
        let last = self.current().number;
        self.0.retain(|part| part.number == last || !part.is_synced());
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Increment> {
        self.0.iter()
    }

    /// Returns the increment at which the durable part of the AOF ends.
    pub(super) fn first(&self) -> &Increment {
        self.0.first().expect("an AOF has an increment that is appended to")
    }
}
