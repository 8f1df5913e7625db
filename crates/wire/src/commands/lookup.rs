//! The look-up of a row by a request's first words: a hash table that the compiler fills.
//!
//! A name is two words: its first and its last eight bytes (they overlap below sixteen), folded to lower case all bytes at
//! once. Names of up to sixteen bytes are equal when length and words are, so a lookup is two loads, a multiplication and,
//! nearly always, one comparison. A subcommand is looked up in the same table together with its parent. Constants and pure
//! functions only; any thread.

use super::{Command, ROWS, Row};

/// The size of the table: a power of two, at most half full.
const SLOTS: usize = 1024;
/// The length of the longest possible name, in bytes.
const LEN_MAX: usize = 64;
/// The largest length of a name, in bytes, at which its two words hold all of it.
const WHOLE_LEN_MAX: usize = 16;
/// The parent number that marks a command that is no subcommand.
const TOP: u16 = u16::MAX;

const _: () = assert!(ROWS.len() * 2 <= SLOTS, "the lookup table is too full: double SLOTS");

#[derive(Clone, Copy)]
struct Slot {
    words: Words,
    row: u16,
}

/// The name in the request's case: its first eight bytes and its last eight, or all of a shorter name in the first word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Written {
    first: u64,
    last: u64,
    len: usize,
}

/// A name in lower case, in the form that is compared.
#[derive(Clone, Copy)]
struct Words {
    first: u64,
    last: u64,
    /// The length of the name, and above that the parent; 0 belongs to no name.
    len_and_parent: u32,
}

static TABLE: [Slot; SLOTS] = fill();

const fn fill() -> [Slot; SLOTS] {
    let empty = Slot { words: Words { first: 0, last: 0, len_and_parent: 0 }, row: 0 };
    let mut table = [empty; SLOTS];
    let mut row = 0;
    while row < ROWS.len() {
        let parent = match ROWS[row].parent {
            Some(parent) => parent as u16,
            None => TOP,
        };
        let words = written(ROWS[row].name.as_bytes()).folded(parent);
        let mut at = home(words);
        while table[at].words.len_and_parent != 0 {
            at = (at + 1) % SLOTS;
        }
        table[at] = Slot { words, row: row as u16 };
        row += 1;
    }
    table
}

/// Returns the row of a command, by its name in any case. Containers are found, their subcommands are not.
#[inline]
pub const fn find(name: &[u8]) -> Option<&'static Row> {
    seek(name, written(name), TOP)
}

/// Returns the row of a subcommand, by its own name (`list`, not `client|list`) in any case.
#[inline]
pub const fn find_sub(parent: Command, name: &[u8]) -> Option<&'static Row> {
    seek(name, written(name), parent as u16)
}

/// The name that was looked up last: requests that arrive together mostly have the same name.
#[derive(Debug, Default)]
pub struct LastName {
    written: Written,
    row: Option<&'static Row>,
}

impl LastName {
    /// Finds a row as [`find`] does. It is quick if the name is that of the last call, in the same case.
    #[inline]
    pub fn find(&mut self, name: &[u8]) -> Option<&'static Row> {
        let written = written(name);
        if written != self.written || name.len() > WHOLE_LEN_MAX {
            *self = Self { written, row: seek(name, written, TOP) };
        }
        self.row
    }
}

/// Returns the row of `get` or of `client|list`, in any case: the names that ACL rules and COMMAND INFO take.
pub fn find_full(name: &[u8]) -> Option<&'static Row> {
    match memchr::memchr(b'|', name).and_then(|at| name.split_at_checked(at)) {
        None => find(name),
        Some((parent, sub)) => find_sub(find(parent)?.id, sub.get(1..)?),
    }
}

#[inline]
const fn seek(name: &[u8], written: Written, parent: u16) -> Option<&'static Row> {
    if name.is_empty() || name.len() > LEN_MAX {
        return None;
    }
    let words = written.folded(parent);
    let mut at = home(words);
    loop {
        let slot = &TABLE[at % SLOTS];
        let Words { first, last, len_and_parent } = slot.words;
        if first == words.first && last == words.last && len_and_parent == words.len_and_parent {
            let row = &ROWS[slot.row as usize];
            if name.len() <= WHOLE_LEN_MAX || is_same(row.name.as_bytes(), name) {
                return Some(row);
            }
        } else if len_and_parent == 0 {
            return None;
        }
        at += 1;
    }
}

/// Returns whether two names of the same length are equal in any case. (The slice's own method is constant from Rust 1.89
/// on.)
const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() {
        if !one[at].eq_ignore_ascii_case(&other[at]) {
            return false;
        }
        at += 1;
    }
    true
}

#[inline]
const fn written(name: &[u8]) -> Written {
    let (first, last) = if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(low), Some(high)) = (name.first_chunk(), name.last_chunk()) {
        (u32::from_le_bytes(*low) as u64 | (u32::from_le_bytes(*high) as u64) << 32, 0)
    } else if let [low, .., high] = *name {
        // If the name has two or three bytes, the second and the last overlap too.
        (low as u64 | (name[1] as u64) << 8 | (high as u64) << 16, 0)
    } else if let [only] = *name {
        (only as u64, 0)
    } else {
        (0, 0)
    };
    Written { first, last, len: name.len() }
}

impl Written {
    /// Returns the name in lower case; it has at most [`LEN_MAX`] bytes.
    #[inline]
    const fn folded(self, parent: u16) -> Words {
        let len_and_parent = self.len as u32 | (parent as u32) << 16;
        Words { first: fold(self.first), last: fold(self.last), len_and_parent }
    }
}

/// Returns the lower case of eight bytes at once; only `A` to `Z` change.
#[inline]
const fn fold(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let low = word & (0x7f * EACH);
    let from_a = low + (0x80 - b'A' as u64) * EACH;
    let past_z = low + (0x7f - b'Z' as u64) * EACH;
    let upper = (from_a ^ past_z) & !word & (0x80 * EACH);
    word | upper >> 2
}

#[inline]
const fn home(words: Words) -> usize {
    let mixed = words.first ^ words.last.rotate_left(29) ^ (words.len_and_parent as u64) << 20;
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % SLOTS
}
