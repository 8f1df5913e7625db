//! The part of a file that begins at a given byte, whatever stands before it: its kind and its end, or nothing.
//!
//! A part has to be right in every byte that can be judged: lengths are passed over first, which costs little and fails soon, and
//! then the value is read as a server would read it. The work is bounded: a part with few elements is always looked at, and
//! larger ones draw on a credit in proportion to the file's length.

use super::super::super::limits::Limits;
use super::super::super::rdb_type::Origin;
use super::super::super::scan::{Input, Source};
use super::super::super::types::{STRING, read_value};
use super::super::batch::Prefix;
use super::super::opcode;
use super::super::reader::pass_record;

/// The elements of a collection that are passed over without drawing on the credit.
const FREE_ELEMENTS: u64 = 4_096;

/// The bytes of a value that are read without drawing on the credit.
const FREE_BYTES: usize = 1 << 16;

/// The credit in steps, each about a byte or an element: for each byte of the file, and besides.
const CREDIT_PER_BYTE: u64 = 64;
const CREDIT_BESIDES: u64 = 1 << 30;

/// The highest number of a database that is believed: if the sizes of the database follow, and without them.
const DATABASE_MAX: [u64; 2] = [1_000_000, 16_384];

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A property of the file, or the empty data of a module.
    About,
    /// A library of functions.
    Function,
    /// The keys that follow are in this database.
    Select(usize),
    /// The database has this number of keys.
    Sizes(u64),
    /// A key with its value.
    Record {
        /// The hash of the key.
        key: u64,
        /// True if the key has a deadline.
        has_deadline: bool,
        /// True if the key is UTF-8 without control characters, as most keys are and few bytes that are read by chance.
        is_readable: bool,
    },
    /// The end of the file.
    End,
}

/// A file, to be looked at from any byte on.
pub(super) struct Parts<'a> {
    bytes: &'a [u8],
    origin: Origin,
    limits: Limits,
    credit: u64,
}

impl<'a> Parts<'a> {
    pub fn new(bytes: &'a [u8], origin: Origin, limits: Limits) -> Self {
        let credit = CREDIT_PER_BYTE * bytes.len() as u64 + CREDIT_BESIDES;
        Self { bytes, origin, limits, credit }
    }

    /// Returns whether some part was not looked at, because the credit was used up.
    pub fn is_exhausted(&self) -> bool {
        self.credit == 0
    }

    /// Returns the byte at which the part that ends the file has to begin, if there is such a part.
    pub fn end(&self) -> Option<usize> {
        // The newer versions have a sum behind it.
        [9, 1].iter().filter_map(|length| self.bytes.len().checked_sub(*length)).find(|&at| self.is_end(at))
    }

    fn is_end(&self, at: usize) -> bool {
        self.bytes.get(at) == Some(&opcode::END) && [9, 1].contains(&(self.bytes.len() - at))
    }

    /// Returns the part that begins at byte `at`, and the byte behind it.
    pub fn part(&mut self, at: usize) -> Option<(Part, usize)> {
        let rest = self.bytes.get(at..)?;
        let (&first, behind) = rest.split_first()?;
        let mut input = Input::new(behind);
        let part = match first {
            opcode::END => return self.is_end(at).then_some((Part::End, self.bytes.len())),
            opcode::AUX => {
                self.string(&mut input)?;
                self.string(&mut input)?;
                Part::About
            }
            opcode::FUNCTION => {
                self.string(&mut input)?;
                Part::Function
            }
            opcode::MODULE_AUX => {
                let numbers = [input.length().ok()?, input.length().ok()?, input.length().ok()?, input.length().ok()?];
                (numbers[3] == 0).then_some(Part::About)?
            }
            opcode::SELECT => {
                let (number, end) = (input.length().ok()?, self.bytes.len() - input.left());
                // A database is announced once, and may be selected again. A record has to follow then.
                let is_announced = self.is_size(end);
                let [max, again_max] = DATABASE_MAX;
                let is_right = if is_announced { number <= max } else { number <= again_max && self.record_at(end) };
                is_right.then_some(Part::Select(number as usize))?
            }
            opcode::RESIZE => {
                let (keys, volatile) = (input.length().ok()?, input.length().ok()?);
                (volatile <= keys).then_some(Part::Sizes(keys))?
            }
            _ => return self.record(at, rest),
        };
        Some((part, self.bytes.len() - input.left()))
    }

    /// Returns whether the sizes of a database may begin at byte `at`.
    pub fn is_size(&self, at: usize) -> bool {
        self.bytes.get(at) == Some(&opcode::RESIZE)
    }

    /// Returns whether a record begins at byte `at`.
    fn record_at(&mut self, at: usize) -> bool {
        let bytes = self.bytes;
        bytes.get(at..).is_some_and(|rest| self.record(at, rest).is_some())
    }

    /// Reads a string outside of a record.
    fn string(&mut self, input: &mut Input<'_>) -> Option<()> {
        let mut passed = *input;
        passed.stored().ok()?;
        self.charge(input.left() - passed.left())?;
        input.owned().ok().map(drop)
    }

    /// Draws on the credit for reading so many bytes; `None` if it does not suffice.
    fn charge(&mut self, bytes: usize) -> Option<()> {
        if bytes <= FREE_BYTES {
            return Some(());
        }
        let left = self.credit.checked_sub(bytes as u64);
        self.credit = left.unwrap_or(0);
        left.map(drop)
    }

    fn record(&mut self, at: usize, rest: &[u8]) -> Option<(Part, usize)> {
        let pass = |parts_max: u64| {
            let mut input = Input::new(rest);
            input.limit_parts(parts_max);
            (pass_record(&mut input, self.origin, rest.len()), input)
        };
        let (mut passed, mut input) = pass(FREE_ELEMENTS);
        if passed.is_err() && input.parts_left() == 0 {
            (passed, input) = pass(self.credit);
            self.credit = input.parts_left();
        }
        let (prefix, number, key): (Prefix, u8, usize) = passed.ok()?;
        let length = rest.len() - input.left();
        let mut whole = Input::new(rest.get(key..length)?);
        let name = whole.owned().ok()?;
        let is_plain = number == STRING && whole.stored().is_ok_and(|value| value.is_plain());
        if !is_plain {
            self.charge(length)?;
            let mut value = Input::new(rest.get(key..length)?);
            value.stored().ok()?;
            read_value(&mut value, number, self.origin, &self.limits).ok().filter(|_| value.is_empty())?;
        }
        let has_deadline = prefix.deadline.is_some();
        let is_text = |text: &str| !text.is_empty() && !text.chars().any(char::is_control);
        let is_readable = std::str::from_utf8(&name).is_ok_and(is_text);
        Some((Part::Record { key: self.limits.hash_key.hash(&name).0, has_deadline, is_readable }, at + length))
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether all of these bytes are zero: an empty string under an empty key looks so, and overwritten bytes do.
    pub fn are_zero(&self, begin: usize, end: usize) -> bool {
        self.bytes.get(begin..end).is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0))
    }
}
