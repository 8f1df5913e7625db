//! A request as a command sees it: its row, its arguments and its keys, already hashed.
//!
//! It borrows all of them, from a worker's buffer, a queue or a script, and copies nothing. The types of a command's answer
//! are here too: `output`, and `error`. Any thread.

pub mod error;
pub mod output;
pub mod queue;
pub mod renamed_commands;

use std::ops::Deref;

pub use sleeve_store::Key;
use sleeve_store::{Hash, Store};
use sleeve_wire::commands::Row;
use sleeve_wire::request::Args;

/// The text that MONITOR and the slow log show instead of a secret argument.
pub const REDACTED: &[u8] = b"(redacted)";

/// The place of one of a request's keys, and its hash.
#[derive(Debug, Clone, Copy)]
pub struct KeyAt {
    /// Index among the arguments.
    pub index: u32,
    /// The store's hash of the key.
    pub hash: Hash,
}

/// The parts of a request.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// The row of the command or subcommand.
    pub row: &'static Row,
    /// The arguments, beginning with the command's name.
    pub args: Args<'a>,
    /// The places of all keys, with their hashes.
    pub key_places: &'a [KeyAt],
}

impl<'a> Parts<'a> {
    /// Returns these as a request, which is handed on in one register.
    #[inline]
    pub fn request(&'a self) -> Request<'a> {
        Request(self)
    }
}

/// A command with its arguments and its keys, already hashed.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a>(&'a Parts<'a>);

impl<'a> Deref for Request<'a> {
    type Target = Parts<'a>;

    #[inline]
    fn deref(&self) -> &Parts<'a> {
        self.0
    }
}

impl<'a> Request<'a> {
    /// Returns key number `n`, in the order of the arguments.
    #[inline]
    pub fn key(&self, n: usize) -> Key<'a> {
        let KeyAt { index, hash } = self.key_places[n];
        Key { name: self.args.arg(index as usize), hash }
    }

    /// Returns all keys in the order of the arguments.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = Key<'a>> + use<'a> {
        let Parts { args, key_places, .. } = *self.0;
        key_places.iter().map(move |key| Key { name: args.arg(key.index as usize), hash: key.hash })
    }

    /// Returns argument `index`; the arity has been checked.
    #[inline]
    pub fn arg(&self, index: usize) -> &'a [u8] {
        self.args.arg(index)
    }

    /// Returns the number of arguments, the command's name included; it is never 0.
    #[inline]
    pub fn len(&self) -> usize {
        self.args.len()
    }
}

/// Appends the positions and hashes of a request's keys to `keys`.
#[inline]
pub fn hash_keys(store: &Store, row: &'static Row, args: Args<'_>, keys: &mut Vec<KeyAt>) {
    place_keys(row, args, keys, |name| store.hash(name));
}

/// Appends the positions of a request's keys to `keys`, with the hashes that `hash` returns.
#[inline]
pub fn place_keys<'a>(row: &Row, args: Args<'a>, keys: &mut Vec<KeyAt>, mut hash: impl FnMut(&'a [u8]) -> Hash) {
    if let Some(index) = row.keys.lone {
        if let Some(name) = args.get(usize::from(index)) {
            keys.push(KeyAt { index: u32::from(index), hash: hash(name) });
        }
    } else if !row.keys.is_empty() {
        for index in row.key_positions(args) {
            if let Some(name) = args.get(index) {
                keys.push(KeyAt { index: index as u32, hash: hash(name) });
            }
        }
    }
}
