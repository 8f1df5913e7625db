//! Many records on their way from the reader of a file to the store.
//!
//! A batch is a stretch of the file as it stands there, and where in it each record begins and ends. So cutting a file up
//! costs next to nothing, and the thread that takes the batch reads the records: several threads can have a batch each. A
//! record that is too large for that is read as it comes, and goes by itself.

use super::fault::{Error, Fault};
use super::oddity::{Odd, Oddity};
use super::{Access, opcode};
use crate::rdb::bad::Bad;
use crate::rdb::limits::Limits;
use crate::rdb::rdb_type::Origin;
use crate::rdb::scan::{Correction, Input, Source, Stored};
use crate::rdb::types::{Loaded, STRING, read_value};
use crate::table::entry::body::INLINE_MAX;

/// A key with its value, ready to be kept.
#[derive(Clone)]
pub struct KeyRecord {
    /// The database of the key.
    pub database: usize,
    /// The key.
    pub key: Vec<u8>,
    /// The key's deadline, in milliseconds since the epoch.
    pub deadline: Option<i64>,
    /// The record of the key's use.
    pub access: Access,
    /// The value; a hash has no fields if all of them are expired.
    pub value: Loaded,
    /// The correction of the value.
    pub correction: Option<Correction>,
    /// The byte at which the record begins.
    pub offset: u64,
}

/// The part of a record in front of the type: deadline and access.
#[derive(Clone, Copy, Default)]
pub(crate) struct Prefix {
    pub deadline: Option<i64>,
    pub access: Access,
}

impl Prefix {
    /// Reads the bytes behind this opcode if it may stand in front of a type; returns whether it may.
    #[inline]
    pub(super) fn read(&mut self, opcode: u8, source: &mut impl Source) -> Result<bool, Bad> {
        match opcode {
            opcode::DEADLINE_MS => self.deadline = Some(source.number()?),
            opcode::DEADLINE_S => self.deadline = Some(i64::from(i32::from_le_bytes(source.array()?)) * 1000),
            opcode::IDLE => self.access = Access::Idle(source.length()?),
            opcode::FREQUENCY => self.access = Access::Frequency(source.byte()?),
            // SLOT_INFO has the number of keys in a cluster's slot; it is not used.
            opcode::SLOT_INFO => _ = (source.length()?, source.length()?, source.length()?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Records of one database, in the order of the file.
#[derive(Default)]
pub struct Batch {
    /// A stretch of the file; the bytes behind the last record have no meaning.
    pub(super) bytes: Vec<u8>,
    /// The byte of the file at which `bytes` begins.
    pub(super) begins_at: u64,
    pub(super) items: Vec<Item>,
    /// The prefixes of the few records that have bytes in front of their type.
    pub(super) prefixes: Vec<Prefix>,
    pub(super) database: usize,
    pub(super) origin: Origin,
    /// A large record, which the reader has already read; the batch has no other record then.
    pub(super) large: Option<KeyRecord>,
}

/// A record in the bytes of a batch. A batch has less than 4 GiB of bytes.
#[derive(Clone, Copy)]
pub(super) struct Item {
    pub begin: u32,
    /// The offset of the record's key.
    pub key: u32,
    pub end: u32,
    /// The index of the record's prefix; an index beyond the prefixes means none.
    pub prefix: u32,
    /// The number of the value's type.
    pub number: u8,
}

/// A string of a batch: a range of the batch's bytes, or, for offsets beyond them, of the texts that decoding has made.
#[derive(Clone, Copy)]
pub(crate) struct Text {
    begin: u32,
    end: u32,
}

/// The value of a record that was read.
#[derive(Clone, Copy)]
pub(crate) enum Content {
    /// A string that may lie in its entry.
    Short(Text),
    /// A string that is an integer.
    Integer(i64),
    /// Any other value: its place among the loaded values.
    Loaded(u32),
}

/// A record that was read.
#[derive(Clone, Copy)]
pub(crate) struct Decoded {
    pub key: Text,
    pub content: Content,
    /// The place of the record in the batch.
    pub at: u32,
}

/// The texts and values that decoding the records of a batch made, where the batch does not have them in the form needed.
#[derive(Default)]
pub(crate) struct Made {
    texts: Vec<u8>,
    /// The values; none if a value was taken out. A hash has no fields if all of them are expired.
    pub loaded: Vec<Option<Loaded>>,
    /// Records that were left out or put right.
    pub odd: Vec<Oddity>,
}

/// The room for texts, in bytes, that is kept between batches.
const ROOM_KEPT: usize = 1 << 20;

impl Made {
    /// Forgets all texts and values, and keeps some room.
    pub fn clear(&mut self) {
        self.texts.clear();
        self.texts.shrink_to(ROOM_KEPT);
        self.loaded.clear();
        self.odd.clear();
    }
}

impl Batch {
    /// Returns how many records are in it.
    pub fn len(&self) -> usize {
        self.items.len() + usize::from(self.large.is_some())
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the database of the keys.
    pub fn database(&self) -> usize {
        self.database
    }

    /// Removes all records.
    pub fn clear(&mut self) {
        self.items.clear();
        self.prefixes.clear();
        self.large = None;
    }

    /// Takes out the large record, if there is one.
    pub(crate) fn take_large(&mut self) -> Option<KeyRecord> {
        self.large.take()
    }

    /// Returns the byte of the file at which the record at this place begins.
    pub(crate) fn offset(&self, at: u32) -> u64 {
        self.items.get(at as usize).map_or(self.begins_at, |item| self.begins_at + u64::from(item.begin))
    }

    /// Returns the bytes in front of the type of the record at this place.
    #[inline]
    pub(crate) fn prefix(&self, at: u32) -> Prefix {
        if self.prefixes.is_empty() {
            return Prefix::default();
        }
        let prefix = self.items.get(at as usize).and_then(|item| self.prefixes.get(item.prefix as usize));
        prefix.copied().unwrap_or_default()
    }

    /// Returns the bytes of a text of this batch.
    #[inline]
    pub(crate) fn text<'a>(&'a self, made: &'a Made, text: Text) -> &'a [u8] {
        let (begin, end, length) = (text.begin as usize, text.end as usize, self.bytes.len());
        if begin < length { &self.bytes[begin..end] } else { &made.texts[begin - length..end - length] }
    }

    /// Reads the records, and shows each with its key. An empty collection is not shown, but noted among the odd records.
    ///
    /// # Errors
    /// [`Error`] at the first damaged record; the records in front of it were shown.
    pub(crate) fn decode(
        &self,
        limits: &Limits,
        made: &mut Made,
        mut show: impl FnMut(&[u8], Decoded),
    ) -> Result<(), Error> {
        for (at, item) in self.items.iter().enumerate() {
            let mut input = Input::new(&self.bytes[item.key as usize..item.end as usize]);
            let key = input.stored().and_then(|stored| self.text_of(item, &input, stored, made));
            let key = key.map_err(|bad| self.error(item, &input, None, bad))?;
            let content = match item.number {
                STRING => input.stored().and_then(|stored| self.content_of(item, &input, stored, made)),
                number => read_value(&mut input, number, self.origin, limits).map(|value| put(made, value)),
            };
            if let (Err(Bad::Empty), _) | (_, Some(_)) = (&content, input.corrected()) {
                let what = input.corrected().filter(|_| content.is_ok()).map_or(Odd::Empty, Odd::Corrected);
                let (offset, key) = (self.begins_at + u64::from(item.begin), self.text(made, key).to_vec());
                made.odd.push(Oddity { offset, database: self.database, key, what });
                if what == Odd::Empty {
                    continue;
                }
            }
            let content = content.map_err(|bad| self.error(item, &input, Some(self.text(made, key)), bad))?;
            debug_assert!(input.is_empty(), "what was measured is what was read");
            show(self.text(made, key), Decoded { key, content, at: at as u32 });
        }
        Ok(())
    }

    /// Returns the text of a string; `input` has been read up to the end of the string.
    #[inline]
    fn text_of(&self, item: &Item, input: &Input<'_>, stored: Stored<'_>, made: &mut Made) -> Result<Text, Bad> {
        if let Stored::Plain(bytes) = stored {
            let end = item.end - input.left() as u32;
            return Ok(Text { begin: end - bytes.len() as u32, end });
        }
        let place = |texts: &[u8]| u32::try_from(self.bytes.len() + texts.len()).map_err(|_| Bad::Length);
        let begin = place(&made.texts)?;
        stored.append_to(&mut made.texts)?;
        Ok(Text { begin, end: place(&made.texts)? })
    }

    /// Returns a string as a value.
    #[inline]
    fn content_of(&self, item: &Item, input: &Input<'_>, stored: Stored<'_>, made: &mut Made) -> Result<Content, Bad> {
        let length = match stored {
            Stored::Integer(number) => return Ok(Content::Integer(number)),
            Stored::Plain(bytes) => bytes.len() as u64,
            Stored::Compressed(_, length) => length,
        };
        if length <= INLINE_MAX as u64 {
            return self.text_of(item, input, stored, made).map(Content::Short);
        }
        let mut long = Vec::new();
        stored.append_to(&mut long)?;
        Ok(put(made, Loaded::String(long)))
    }

    fn error(&self, item: &Item, input: &Input<'_>, key: Option<&[u8]>, bad: Bad) -> Error {
        Error {
            begins_at: self.begins_at + u64::from(item.begin),
            offset: self.begins_at + u64::from(item.end) - input.left() as u64,
            database: self.database,
            key: key.map(<[u8]>::to_vec),
            fault: Fault::Bad(bad),
        }
    }
}

fn put(made: &mut Made, value: Loaded) -> Content {
    made.loaded.push(Some(value));
    Content::Loaded(made.loaded.len() as u32 - 1)
}
