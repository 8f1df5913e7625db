//! Reading a file: one [`Event`] after the other, each checked before it is given out.
//!
//! The reader draws bytes as it needs them and holds one record at a time. Values come as they will be kept, ready to be put
//! under their keys by another thread. The reader does not leave out expired keys: a caller that loads a snapshot does that,
//! and a caller that loads the base of an AOF must not.

use std::io::Read;

use super::super::VERSION_MAX;
use super::super::bad::Bad;
use super::super::limits::Limits;
use super::super::rdb_type::Origin;
use super::super::scan::{Input, Source};
use super::super::types::{pass_value, read_value};
use super::batch::{Batch, Item, KeyRecord, Prefix};
use super::fault::{Error, Fault, VALKEY_VERSION};
use super::feed::Feed;
use super::oddity::{Odd, Oddity};
use super::opcode;

/// The version of the format from which on a file ends with a checksum.
pub(super) const SUMMED_FROM: u16 = 5;

/// The characters of a module's name, six bits each.
const MODULE_LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The next part of a file.
pub enum Event {
    /// A property of the file.
    Aux {
        /// The name of the property.
        name: Vec<u8>,
        /// The value of the property.
        value: Vec<u8>,
    },
    /// The code of a library of functions.
    Function(Vec<u8>),
    /// The keys that follow are in this database.
    Select(usize),
    /// The number of keys in the database, as the file claims, and the number of keys with a deadline.
    Sizes {
        /// The number of keys.
        keys: u64,
        /// The number of keys with a deadline.
        volatile: u64,
    },
    /// A key with its value.
    Key(KeyRecord),
    /// A key with an empty collection, which is left out.
    Empty(Oddity),
    /// The file has ended, and is whole.
    End,
}

/// The next step of the reader.
enum Step {
    Event(Event),
    /// A record, up to its key.
    Record(RecordHead),
}

/// The part of a record in front of its key, and the number of its type.
struct RecordHead {
    number: u8,
    origin: Origin,
    prefix: Prefix,
}

/// A file that is being read.
pub struct Reader<R> {
    feed: Feed<R>,
    limits: Limits,
    database: usize,
    /// The project and the version that the header names; none before it was read.
    header: Option<(Origin, u16)>,
    is_over: bool,
    /// The place and the key of the part that is being read, for the error, if there is one.
    begins_at: u64,
    key: Option<Vec<u8>>,
}

impl<R: Read> Reader<R> {
    /// Returns a reader of the file that begins with the next byte of `source`. Values are kept as `limits` say;
    /// `limits.now_ms` is the time at which fields must not be expired, and the least number keeps them all.
    pub fn new(source: R, limits: Limits) -> Self {
        let feed = Feed::new(source);
        let (database, begins_at) = (0, 0);
        Self { feed, limits, database, header: None, is_over: false, begins_at, key: None }
    }

    /// Skips the comparison of the checksum at the end (`rdbchecksum no`). Called before anything is read.
    pub fn trust_sum(&mut self) {
        self.feed.stop_summing();
    }

    /// Sets the size of the file in bytes: a string that claims to be longer than the rest of the file is damaged, and none
    /// of it is read. Called before anything is read.
    pub fn expect_size(&mut self, bytes: u64) {
        self.feed.expect_size(bytes);
    }

    /// Keeps expired fields, too, from here on.
    pub fn keep_expired(&mut self) {
        self.limits.now_ms = i64::MIN;
    }

    /// Returns how many bytes have been read.
    pub fn offset(&self) -> u64 {
        self.feed.offset()
    }

    /// Returns the version that the header names, and its project, once the header was read.
    pub fn version(&self) -> Option<(Origin, u16)> {
        self.header
    }

    /// Returns the bytes that were read beyond the end of the file, and the source, once the end was read.
    pub fn into_rest(self) -> (Vec<u8>, R) {
        self.feed.into_rest()
    }

    /// Reads the next event of the file.
    ///
    /// # Errors
    /// [`Error`] when the file is damaged, cannot be read, or has data that this reader does not support. The reader cannot
    /// read on behind it.
    pub fn next_event(&mut self) -> Result<Event, Error> {
        let event = match self.step() {
            Ok(Step::Event(event)) => Ok(event),
            Ok(Step::Record(head)) => match self.read_record(head) {
                Err(Fault::Bad(Bad::Empty)) => Ok(Event::Empty(self.left_out())),
                read => read.map(Event::Key),
            },
            Err(fault) => Err(fault),
        };
        event.map_err(|fault| self.error(fault))
    }

    /// Replaces the contents of a batch by the records that follow: some `bytes_max` bytes of them, or as many as are at
    /// hand, or a single larger record. If no record follows, the batch is empty, and the next event is returned.
    ///
    /// # Errors
    /// The errors of [`Reader::next_event`]; the batch is empty then.
    pub fn next_batch(&mut self, batch: &mut Batch, bytes_max: usize) -> Result<Option<Event>, Error> {
        batch.clear();
        batch.database = self.database;
        while let Some((origin, _)) = self.header.filter(|_| !self.is_over) {
            batch.origin = origin;
            let (bytes, stop) = cut(self.feed.ahead(), origin, bytes_max, batch);
            if bytes > 0 {
                batch.begins_at = self.feed.offset();
                self.feed.take_into(bytes, &mut batch.bytes);
                return Ok(None);
            }
            if stop != Stop::Short || !self.feed.read_more() {
                break;
            }
        }
        match self.next_event()? {
            Event::Key(record) => {
                batch.begins_at = record.offset;
                batch.large = Some(record);
            }
            event => return Ok(Some(event)),
        }
        Ok(None)
    }

    /// Returns the oddity for the record that was read last, which has an empty collection.
    fn left_out(&mut self) -> Oddity {
        let key = self.key.take().unwrap_or_default();
        Oddity { offset: self.begins_at, database: self.database, key, what: Odd::Empty }
    }

    fn error(&mut self, fault: Fault) -> Error {
        let fault = match fault {
            Fault::Bad(Bad::Unreadable) => self.feed.take_failure().map_or(fault, Fault::Read),
            fault => fault,
        };
        let (begins_at, offset, database) = (self.begins_at, self.feed.offset(), self.database);
        Error { begins_at, offset, database, key: self.key.take(), fault }
    }

    /// Reads on to an event that is not a record, or to the key of a record.
    fn step(&mut self) -> Result<Step, Fault> {
        let (origin, version) = match self.header {
            Some(header) => header,
            None => self.read_header()?,
        };
        let mut prefix = Prefix::default();
        self.begins_at = self.feed.offset();
        loop {
            if self.is_over {
                return Ok(Step::Event(Event::End));
            }
            let feed = &mut self.feed;
            let opcode = feed.byte()?;
            if prefix.read(opcode, feed)? {
                continue;
            }
            match opcode {
                opcode::AUX => return Ok(Step::Event(Event::Aux { name: feed.owned()?, value: feed.owned()? })),
                opcode::RESIZE => {
                    return Ok(Step::Event(Event::Sizes { keys: feed.length()?, volatile: feed.length()? }));
                }
                opcode::FUNCTION => return Ok(Step::Event(Event::Function(feed.owned()?))),
                opcode::SELECT => {
                    self.database = usize::try_from(feed.length()?).map_err(|_| Bad::Length)?;
                    return Ok(Step::Event(Event::Select(self.database)));
                }
                opcode::SLOT_IMPORT if origin == Origin::Valkey => return Err(Fault::SlotImport),
                opcode::MODULE_AUX => self.skip_module()?,
                opcode::FUNCTION_EARLY => return Err(Fault::EarlyFunction),
                opcode::END => {
                    self.check_sum(version)?;
                    self.is_over = true;
                }
                number => return Ok(Step::Record(RecordHead { number, origin, prefix })),
            }
        }
    }

    fn read_header(&mut self) -> Result<(Origin, u16), Fault> {
        let magic: [u8; 9] = self.feed.array().map_err(|bad| match bad {
            Bad::End => Fault::Magic,
            bad => bad.into(),
        })?;
        let (origin, digits) = match magic.strip_prefix(b"REDIS") {
            Some(digits) => (Origin::Redis, digits),
            None => (Origin::Valkey, magic.strip_prefix(b"VALKEY").ok_or(Fault::Magic)?),
        };
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(Fault::Magic);
        }
        let version = digits.iter().fold(0, |version, digit| version * 10 + u16::from(digit - b'0'));
        let is_known = match origin {
            Origin::Redis => (1..=VERSION_MAX).contains(&version),
            Origin::Valkey => version == VALKEY_VERSION,
        };
        if !is_known {
            return Err(Fault::Version(magic.escape_ascii().to_string()));
        }
        self.header = Some((origin, version));
        Ok((origin, version))
    }

    fn read_record(&mut self, head: RecordHead) -> Result<KeyRecord, Fault> {
        let RecordHead { number, origin, prefix } = head;
        let key = self.feed.owned()?;
        self.key = Some(key);
        let value = read_value(&mut self.feed, number, origin, &self.limits)?;
        let correction = self.feed.take_corrected();
        let Prefix { deadline, access } = prefix;
        let (key, offset) = (self.key.take().unwrap_or_default(), self.begins_at);
        Ok(KeyRecord { database: self.database, key, deadline, access, value, correction, offset })
    }

    /// Skips the data of a module if it is empty: a name, the time of writing, and the end.
    fn skip_module(&mut self) -> Result<(), Fault> {
        let (name, _, _) = (self.feed.length()?, self.feed.length()?, self.feed.length()?);
        if self.feed.length()? == 0 {
            return Ok(());
        }
        // The lowest ten bits are a version of the module's own.
        let letters = (0..9).map(|at| MODULE_LETTERS[(name >> (58 - 6 * at) & 63) as usize]);
        Err(Fault::Module(letters.map(char::from).collect()))
    }

    fn check_sum(&mut self, version: u16) -> Result<(), Fault> {
        if version < SUMMED_FROM {
            return Ok(());
        }
        let actual = self.feed.sum();
        let stated = u64::from_le_bytes(self.feed.array()?);
        // A writer without a checksum writes zero.
        if stated != 0 && stated != actual && self.feed.is_summing() {
            return Err(Fault::Sum { stated, actual });
        }
        Ok(())
    }
}

/// The reason why no further record was cut off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// The batch has enough records.
    Enough,
    /// The bytes end before the next record does.
    Short,
    /// The next part is no record, or is damaged.
    Other,
}

/// Finds the records at the front of `bytes`, until they take `bytes_max` bytes. Returns the number of bytes that they take,
/// and the reason for the end.
fn cut(bytes: &[u8], origin: Origin, bytes_max: usize, batch: &mut Batch) -> (usize, Stop) {
    let Batch { items, prefixes, .. } = batch;
    let (mut input, mut begin) = (Input::new(bytes), 0);
    while begin < bytes_max {
        let (prefix, number, key) = match pass_record(&mut input, origin, bytes.len()) {
            Ok(passed) => passed,
            Err(Bad::End) => return (begin, Stop::Short),
            Err(_) => return (begin, Stop::Other),
        };
        let end = bytes.len() - input.left();
        let has_prefix = key > begin + 1;
        let which = if has_prefix { prefixes.len() as u32 } else { u32::MAX };
        items.push(Item { begin: begin as u32, key: key as u32, end: end as u32, prefix: which, number });
        prefixes.extend(has_prefix.then_some(prefix));
        begin = end;
    }
    (begin, Stop::Enough)
}

/// Passes over a record. Returns the part in front of its type, the type, and the place of its key, counted from the front of
/// `length` bytes that end with `input`.
#[inline]
pub(super) fn pass_record(input: &mut Input<'_>, origin: Origin, length: usize) -> Result<(Prefix, u8, usize), Bad> {
    let mut prefix = Prefix::default();
    loop {
        let number = input.byte()?;
        if number >= opcode::FIRST {
            if prefix.read(number, input)? {
                continue;
            }
            return Err(Bad::Kind(number));
        }
        let key = length - input.left();
        input.stored()?;
        pass_value(input, number, origin)?;
        return Ok((prefix, number, key));
    }
}
