//! Reading a file: one [`Event`] after the other, each checked before it is given out.
//!
//! The reader draws bytes as it needs them and holds one record at a time. Values come as they will be kept, ready to be put
//! under their keys by another thread. Nothing is left out because its time is over: whoever loads a snapshot does that, and
//! whoever loads the base of a log must not.

use std::fmt;
use std::io::{self, Read};

use super::super::bad::Bad;
use super::super::read::{Limits, Loaded, Origin, read_kind};
use super::super::scan::Source;
use super::super::{VERSION_MAX, kind};
use super::batch::{Batch, Item};
use super::feed::Feed;
use super::{Access, opcode};
use crate::table::entry::body::INLINE_MAX;

/// The version of the format from which on a sum stands at the end.
const SUMMED_FROM: u16 = 5;

/// Valkey's own version of the format.
const VALKEY_VERSION: u16 = 80;

/// The characters of a module's name, six bits each.
const MODULE_LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What a file says next.
pub enum Event {
    /// Something about the file.
    Aux {
        /// What.
        name: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// The code of a library of functions.
    Function(Vec<u8>),
    /// The keys that follow are in this database.
    Select(usize),
    /// How many keys the database has, as the file claims, and how many of them with a deadline.
    Sizes {
        /// Keys.
        keys: u64,
        /// Those with a deadline.
        volatile: u64,
    },
    /// A key with its value.
    Key(KeyRecord),
    /// The file is whole; nothing follows.
    End,
}

/// A key with its value, ready to be kept.
#[derive(Clone)]
pub struct KeyRecord {
    /// Its database.
    pub database: usize,
    /// The key.
    pub key: Vec<u8>,
    /// When it expires, milliseconds since the epoch.
    pub deadline: Option<i64>,
    /// How it was used.
    pub access: Access,
    /// The value; a hash may have no fields, if the time of all of them was over.
    pub value: Loaded,
    /// The byte at which the record begins.
    pub offset: u64,
}

/// Why a file is not read further.
#[derive(Debug)]
pub struct Error {
    /// The byte at which the record or the like begins that is wrong.
    pub begins_at: u64,
    /// The byte up to which it was read.
    pub offset: u64,
    /// The database that was selected.
    pub database: usize,
    /// The key whose record it is, if it has one.
    pub key: Option<Vec<u8>>,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a file.
#[derive(Debug)]
pub enum Fault {
    /// It does not begin as such files do.
    Magic,
    /// Its version is not known; its magic word.
    Version(String),
    /// A part of it is not what it should be.
    Bad(Bad),
    /// The source cannot be read.
    Read(io::Error),
    /// It has data of a module, whose name this is.
    Module(String),
    /// It has functions in the form of a release candidate of Redis 7.0.
    EarlyFunction,
    /// It was written while slots of a cluster were moved here.
    SlotImport,
    /// The sum at its end is not that of its bytes.
    Sum {
        /// The sum that stands there.
        stated: u64,
        /// That of the bytes.
        actual: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => {
                write!(f, "the file does not begin with REDIS or VALKEY and a version, so it is no RDB file")
            }
            Self::Version(magic) => write!(
                f,
                "the file is of a version that is not known ({magic}); known are REDIS0001 to REDIS{VERSION_MAX:04} and \
                 VALKEY{VALKEY_VERSION:03}"
            ),
            Self::Bad(bad) => write!(f, "{bad}"),
            Self::Read(error) => write!(f, "{error}"),
            Self::Module(name) => write!(f, "the file has data of the module {name}, and there are no modules here"),
            Self::EarlyFunction => write!(
                f,
                "the file has functions in the form of a release candidate of Redis 7.0; load it into Redis 7.0 and save it again"
            ),
            Self::SlotImport => write!(
                f,
                "the file was written while slots of a cluster were being imported; save it again when that is over"
            ),
            Self::Sum { stated, actual } => write!(
                f,
                "the sum at the end of the file ({stated:016x}) is not that of its bytes ({actual:016x}): some of them have changed"
            ),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}", self.offset)?;
        if let Some(key) = &self.key {
            let (key, database) = (key.escape_ascii(), self.database);
            write!(
                f,
                ", in the record of the key \"{key}\" of database {database} that begins at byte {}",
                self.begins_at
            )?;
        }
        write!(f, ": {}", self.fault)
    }
}

impl std::error::Error for Error {}

/// What is known of a key before its record begins.
#[derive(Clone, Copy, Default)]
struct Prefix {
    deadline: Option<i64>,
    access: Access,
}

/// What comes next.
enum Step {
    Event(Event),
    /// A record, up to its key.
    Record(RecordHead),
}

/// What stands in front of the key of a record.
struct RecordHead {
    kind: u8,
    origin: Origin,
    prefix: Prefix,
}

/// A file that is being read.
pub struct Reader<R> {
    feed: Feed<R>,
    limits: Limits,
    database: usize,
    /// None before the header.
    header: Option<(Origin, u16)>,
    is_over: bool,
    is_summing: bool,
    /// For the error, if there is one: where what is being read begins, and its key.
    begins_at: u64,
    key: Option<Vec<u8>>,
}

impl<R: Read> Reader<R> {
    /// A reader of the file whose first byte is next in `source`. Values are kept as `limits` say; `limits.now_ms` is the
    /// time at which fields must not be over, and the least number keeps them all.
    pub fn new(source: R, limits: Limits) -> Self {
        let feed = Feed::new(source);
        let (database, begins_at) = (0, 0);
        Self { feed, limits, database, header: None, is_over: false, is_summing: true, begins_at, key: None }
    }

    /// Does not compare the sum at the end with that of the bytes; `rdbchecksum no`.
    pub fn trust_sum(&mut self) {
        self.is_summing = false;
    }

    /// How many bytes have been read.
    pub fn offset(&self) -> u64 {
        self.feed.offset()
    }

    /// The version that the header names, once it was read, and whose it is.
    pub fn version(&self) -> Option<(Origin, u16)> {
        self.header
    }

    /// What stands behind the file, once its end was read: bytes that were read too many, and the source.
    pub fn into_rest(self) -> (Vec<u8>, R) {
        self.feed.into_rest()
    }

    /// What the file says next.
    ///
    /// # Errors
    /// [`Error`] when the file is damaged, cannot be read, or has something that is not there. Nothing can be read behind it.
    pub fn next_event(&mut self) -> Result<Event, Error> {
        let event = match self.step() {
            Ok(Step::Event(event)) => Ok(event),
            Ok(Step::Record(head)) => self.read_record(head).map(Event::Key),
            Err(fault) => Err(fault),
        };
        event.map_err(|fault| self.error(fault))
    }

    /// Adds the keys that follow to a batch, until it has some `bytes_max` bytes (then nothing is returned) or something else
    /// than a key follows, which is returned.
    ///
    /// # Errors
    /// As [`Reader::next_event`]; the batch has the keys in front of that.
    pub fn next_batch(&mut self, batch: &mut Batch, bytes_max: usize) -> Result<Option<Event>, Error> {
        let begun_at = self.feed.offset();
        while self.feed.offset() - begun_at < bytes_max as u64 {
            match self.step() {
                Ok(Step::Event(event)) => return Ok(Some(event)),
                Ok(Step::Record(head)) => self.read_into(batch, head).map_err(|fault| self.error(fault))?,
                Err(fault) => return Err(self.error(fault)),
            }
        }
        Ok(None)
    }

    fn error(&mut self, fault: Fault) -> Error {
        let fault = match fault {
            Fault::Bad(Bad::Unreadable) => self.feed.take_failure().map_or(fault, Fault::Read),
            fault => fault,
        };
        let (begins_at, offset, database) = (self.begins_at, self.feed.offset(), self.database);
        Error { begins_at, offset, database, key: self.key.take(), fault }
    }

    /// Reads on to what is an event by itself, or to the key of a record.
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
            match feed.byte()? {
                opcode::DEADLINE_MS => prefix.deadline = Some(feed.number()?),
                opcode::DEADLINE_S => {
                    prefix.deadline = Some(i64::from(i32::from_le_bytes(feed.array()?)) * 1000);
                }
                opcode::IDLE => prefix.access = Access::Idle(feed.length()?),
                opcode::FREQUENCY => prefix.access = Access::Frequency(feed.byte()?),
                opcode::AUX => return Ok(Step::Event(Event::Aux { name: feed.owned()?, value: feed.owned()? })),
                opcode::RESIZE => {
                    return Ok(Step::Event(Event::Sizes { keys: feed.length()?, volatile: feed.length()? }));
                }
                opcode::FUNCTION => return Ok(Step::Event(Event::Function(feed.owned()?))),
                opcode::SELECT => {
                    self.database = usize::try_from(feed.length()?).map_err(|_| Bad::Length)?;
                    return Ok(Step::Event(Event::Select(self.database)));
                }
                // How the keys of a cluster's slot are spread: nobody needs it.
                opcode::SLOT_INFO => _ = (feed.length()?, feed.length()?, feed.length()?),
                opcode::SLOT_IMPORT if origin == Origin::Valkey => return Err(Fault::SlotImport),
                opcode::MODULE_AUX => self.skip_module()?,
                opcode::FUNCTION_EARLY => return Err(Fault::EarlyFunction),
                opcode::END => {
                    self.check_sum(version)?;
                    self.is_over = true;
                }
                kind => return Ok(Step::Record(RecordHead { kind, origin, prefix })),
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
        let RecordHead { kind, origin, prefix } = head;
        let key = self.feed.owned()?;
        self.key = Some(key);
        let value = read_kind(&mut self.feed, kind, origin, &self.limits)?;
        let Prefix { deadline, access } = prefix;
        let (key, offset) = (self.key.take().unwrap_or_default(), self.begins_at);
        Ok(KeyRecord { database: self.database, key, deadline, access, value, offset })
    }

    fn read_into(&mut self, batch: &mut Batch, head: RecordHead) -> Result<(), Fault> {
        let Batch { bytes, items, others } = batch;
        let begin = bytes.len();
        self.feed.append_string(bytes, u64::MAX)?;
        let key_end = bytes.len();
        let value = match head.kind {
            kind::STRING => self.feed.append_string(bytes, INLINE_MAX as u64).map(|long| long.map(Loaded::String)),
            kind => read_kind(&mut self.feed, kind, head.origin, &self.limits).map(Some),
        };
        let value = value.inspect_err(|_| {
            self.key = Some(bytes[begin..key_end].to_vec());
            bytes.truncate(begin);
        })?;
        let Prefix { deadline, access } = head.prefix;
        let (database, offset, end, is_short) = (self.database, self.begins_at, bytes.len(), value.is_none());
        items.push(Item { database, deadline, access, offset, key_end, end, is_short });
        others.extend(value);
        Ok(())
    }

    /// Skips the data of a module if there is none: a name, when it was written, and the end.
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
        // Zero is written by those who sum nothing.
        if stated != 0 && stated != actual && self.is_summing {
            return Err(Fault::Sum { stated, actual });
        }
        Ok(())
    }
}

impl From<Bad> for Fault {
    fn from(bad: Bad) -> Self {
        Self::Bad(bad)
    }
}
