//! Reading one file of an AOF from front to back: its whole pieces, and the place and the reason of their end.
//!
//! A piece is a request, or all requests from MULTI to EXEC. The bytes of a block are given only when the block's checksum is
//! right, and the journal's offsets have to continue from block to block. Bytes outside of blocks (Redis wrote them, or
//! checksums were off) are taken as they are and counted. Memory is a window on the file and the piece that is being read.

use std::io;
use std::sync::Arc;

use crate::disk::File;
use crate::format::annotation::{self, Block, LINE_BYTES_MAX, Line, Salt, Stretch};

use super::damage::What;
use super::request::{RequestKind, Requests};
use super::window::Window;

/// The number of bytes after which the pieces read are handed over.
const CHUNK_BYTES: usize = 256 * 1024;

/// The place in the journal that the reader has reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The journal's offset.
    pub offset: u64,
    /// True if the offset is known: bytes outside of blocks are only counted, and the journal may have been ahead of that
    /// count.
    pub is_exact: bool,
    /// True if this is the offset that a base stands for: the first block behind it may begin earlier, with bytes that are
    /// not logged.
    pub is_base: bool,
}

/// The result of a look at the file.
#[derive(Debug, PartialEq, Eq)]
pub enum Got {
    /// Whole pieces were appended.
    Pieces,
    /// The file has ended, or the reader has reached the time at which it is to stop.
    End,
}

/// The statements of a base about itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct BaseFacts {
    /// True if the file is a base, with blocks that count from its own beginning.
    is_base: bool,
    /// The journal's offset that the base says that it stands for.
    pub stands_for: Option<u64>,
    /// True if a line of the base has marked its end.
    pub has_end: bool,
}

/// The times in a file, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// The latest time that was read.
    pub latest: Option<i64>,
    /// The time behind which the reader stops.
    until: Option<i64>,
    /// The byte of the file at which the part behind that time begins.
    pub stopped_at: Option<u64>,
}

impl Times {
    /// Returns whether the reading stops in front of this time.
    fn is_too_late(&self, seconds: i64) -> bool {
        self.until.is_some_and(|until| seconds > until)
    }
}

/// A file that is being read.
#[derive(Debug)]
pub struct Part {
    window: Window,
    requests: Requests,
    /// The place in the journal that the reader has reached.
    pub place: Place,
    /// The stretch of blocks.
    pub stretch: Option<Stretch>,
    /// True if bytes outside of blocks were read since the last block.
    pub has_strange: bool,
    /// True if the file has any piece.
    pub has_pieces: bool,
    /// The statements of a base about itself.
    pub base: BaseFacts,
    /// The database that was selected last.
    pub database: u32,
    /// The times in the file.
    pub times: Times,
    /// Lines that no Sleeve server has written: how many, and where the first is.
    pub unknown_lines: Option<(u64, u64)>,
    /// The block that is being read and where it ends in the file.
    block: Option<(Block, u64)>,
    begins_at: u64,
    /// The byte of the file at which the block's line begins, or, outside of blocks, the piece.
    piece_start: u64,
    is_in_transaction: bool,
    fault: Option<What>,
}

/// The result of a step of the parser: an error is a fault of the disk ([`What::Unreadable`]) or of the file.
type Parsed<T> = Result<T, What>;

impl From<io::Error> for What {
    fn from(error: io::Error) -> What {
        What::Unreadable(error)
    }
}

impl Part {
    /// Opens the file from byte `at` on. `is_base` says that the blocks count from the base's own beginning.
    ///
    /// # Errors
    /// When a call to the system fails.
    pub fn new(file: Arc<dyn File>, at: u64, place: Place, is_base: bool) -> io::Result<Part> {
        Ok(Part {
            window: Window::new(file, at)?,
            requests: Requests::default(),
            place: if is_base { Place { offset: 0, is_exact: true, is_base: false } } else { place },
            stretch: None,
            has_strange: false,
            has_pieces: false,
            base: BaseFacts { is_base, ..BaseFacts::default() },
            database: 0,
            times: Times::default(),
            unknown_lines: None,
            block: None,
            begins_at: at,
            piece_start: at,
            is_in_transaction: false,
            fault: None,
        })
    }

    /// Stops in front of requests that are later than this, in seconds since 1970.
    pub fn read_until(&mut self, seconds: i64) {
        self.times.until = Some(seconds);
    }

    /// Reads as if the file ended at byte `length`.
    pub fn end_at(&mut self, length: u64) {
        self.window.end_at(length);
    }

    /// Returns whether it is within a block that had the right sum.
    pub fn is_in_block(&self) -> bool {
        self.block.is_some()
    }

    /// Returns whether the next bytes should be a block: since the last line with a salt the file has had blocks only.
    pub fn is_sealed(&self) -> bool {
        self.stretch.is_some() && !self.has_strange
    }

    /// Returns the salt of the stretch.
    pub fn salt(&self) -> Option<Salt> {
        self.stretch.map(|stretch| stretch.salt)
    }

    /// Returns the number of the next block of the stretch.
    pub fn next_number(&self) -> u64 {
        self.stretch.map_or(0, |stretch| stretch.next_number)
    }

    /// Returns the byte of the file that is read next.
    pub fn position(&self) -> u64 {
        self.window.position()
    }

    /// Returns the byte of the file at which its pieces begin: behind the snapshot, if the file begins with one.
    pub fn begins_at(&self) -> u64 {
        self.begins_at
    }

    /// Returns the byte of the file at which the last whole piece, block or line ends. Damage begins there.
    pub fn good_until(&self) -> u64 {
        self.piece_start
    }

    /// Returns the file's size.
    pub fn size(&self) -> u64 {
        self.window.size()
    }

    /// Appends whole pieces to `into`, some of them at a time.
    ///
    /// # Errors
    /// The fault of the file at [`Part::good_until`]; all pieces before have been given.
    pub fn next(&mut self, into: &mut Vec<u8>) -> Result<Got, What> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let before = into.len();
        loop {
            let whole = into.len();
            if whole - before >= CHUNK_BYTES {
                return Ok(Got::Pieces);
            }
            match self.step(into) {
                Ok(true) => {}
                Ok(false) if into.len() > before => return Ok(Got::Pieces),
                Ok(false) => return Ok(Got::End),
                Err(fault) => {
                    into.truncate(whole);
                    if self.times.stopped_at.is_some() {
                        continue;
                    }
                    if whole == before {
                        return Err(fault);
                    }
                    self.fault = Some(fault);
                    return Ok(Got::Pieces);
                }
            }
        }
    }

    /// Reads a piece or a line; false at the end.
    fn step(&mut self, into: &mut Vec<u8>) -> Parsed<bool> {
        if self.times.stopped_at.is_some() {
            return Ok(false);
        }
        if let Some((block, end)) = self.block {
            if self.window.position() < end {
                self.has_pieces = true;
                self.piece(end, into)?;
                return Ok(true);
            }
            self.block = None;
            self.place = Place { offset: block.to(), is_exact: true, is_base: false };
            self.piece_start = end;
            return Ok(true);
        }
        self.piece_start = self.window.position();
        self.window.fill(1)?;
        match self.window.rest().first() {
            None => self.end().map(|()| false),
            Some(b'#') => self.line().map(|()| true),
            Some(b'*') => {
                let (start, end) = (self.window.position(), self.window.size());
                self.piece(end, into)?;
                (self.has_pieces, self.has_strange) = (true, true);
                let length = self.window.position() - start;
                self.place =
                    Place { offset: self.place.offset.saturating_add(length), is_exact: false, is_base: false };
                Ok(true)
            }
            Some(other) => Err(What::NoRequest(format!("it begins with the byte {other:#04x}"))),
        }
    }

    fn end(&self) -> Parsed<()> {
        // A base that begins with Sleeve's own lines has to end with one.
        let is_ours = self.stretch.is_some() || self.base.stands_for.is_some();
        let is_cut_off = self.base.is_base && is_ours && !self.base.has_end;
        if is_cut_off { Err(What::CutOff) } else { Ok(()) }
    }

    /// Appends one piece, which ends before byte `end` of the file.
    fn piece(&mut self, end: u64, into: &mut Vec<u8>) -> Parsed<()> {
        let database = self.database;
        self.is_in_transaction = false;
        loop {
            let limit = end - self.window.position();
            self.window.fill(1)?;
            let first = self.window.rest().first().copied().filter(|_| limit > 0);
            let read = match first {
                None => Err(What::OpenTransaction),
                Some(b'#') => self.time_line(limit).map(|_| !self.is_in_transaction),
                Some(b'*') => self.request(limit, into),
                Some(other) => Err(What::NoRequest(format!("it begins with the byte {other:#04x}"))),
            };
            match read {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(what) => {
                    self.database = database;
                    return Err(what);
                }
            }
        }
    }

    /// Appends a request; true where the piece ends with it.
    fn request(&mut self, limit: u64, into: &mut Vec<u8>) -> Parsed<bool> {
        let (length, kind) = self.requests.next(&mut self.window, limit)??;
        match kind {
            RequestKind::Multi if self.is_in_transaction => {
                return Err(What::NoRequest("a MULTI between MULTI and EXEC".to_owned()));
            }
            RequestKind::Exec if !self.is_in_transaction => {
                return Err(What::NoRequest("an EXEC without MULTI".to_owned()));
            }
            RequestKind::Multi => self.is_in_transaction = true,
            RequestKind::Exec => self.is_in_transaction = false,
            RequestKind::Select(database) => self.database = database,
            RequestKind::Other => {}
        }
        into.extend_from_slice(self.window.rest().get(..length).unwrap_or_default());
        self.window.pass(length);
        Ok(!self.is_in_transaction)
    }

    /// Returns the length of the line that begins here, with its end.
    fn whole_line(&mut self, limit: u64) -> Parsed<usize> {
        self.window.fill(LINE_BYTES_MAX)?;
        let rest = self.window.rest();
        let seen = rest.get(..LINE_BYTES_MAX.min(usize::try_from(limit).unwrap_or(usize::MAX))).unwrap_or(rest);
        match memchr::memchr(b'\n', seen) {
            Some(at) => Ok(at + 1),
            None if seen.len() < LINE_BYTES_MAX => Err(What::CutOff),
            None => Err(What::NoRequest("a line between requests is too long".to_owned())),
        }
    }

    /// Reads a line between the requests of a piece, or within a block.
    fn time_line(&mut self, limit: u64) -> Parsed<()> {
        let length = self.whole_line(limit)?;
        let line = annotation::parse(self.window.rest().get(..length).unwrap_or_default(), self.salt());
        match line {
            Line::Time(seconds) if self.times.is_too_late(seconds) => {
                // Within a transaction the whole transaction is left out.
                self.times.stopped_at = Some(self.piece_start);
                return Err(What::OpenTransaction);
            }
            Line::Time(seconds) => self.times.latest = Some(seconds),
            Line::Unknown => self.tell_unknown(),
            _ => return Err(What::DamagedLine),
        }
        self.window.pass(length);
        Ok(())
    }

    fn tell_unknown(&mut self) {
        let (count, first) = self.unknown_lines.unwrap_or((0, self.window.position()));
        self.unknown_lines = Some((count + 1, first));
    }

    /// Reads a line between pieces and blocks.
    fn line(&mut self) -> Parsed<()> {
        let length = self.whole_line(u64::MAX)?;
        let line = annotation::parse(self.window.rest().get(..length).unwrap_or_default(), self.salt());
        match line {
            Line::Time(seconds) if self.times.is_too_late(seconds) => {
                self.times.stopped_at = Some(self.piece_start);
                return Ok(());
            }
            Line::Time(seconds) => self.times.latest = Some(seconds),
            // No server writes such a line among blocks: it is the remainder of a line of Sleeve's own, and the bytes behind
            // it are not another server's.
            Line::Unknown if self.is_sealed() => return Err(What::DamagedLine),
            Line::Unknown => self.tell_unknown(),
            Line::Damaged => return Err(What::DamagedLine),
            Line::Salt(salt) => {
                self.stretch = Some(Stretch::new(salt));
                self.has_strange = false;
            }
            Line::StandsFor(offset) if self.base.is_base && !self.has_pieces => self.base.stands_for = Some(offset),
            Line::End(end) if self.base.is_base && end == self.place.offset => self.base.has_end = true,
            Line::StandsFor(_) | Line::End(_) => return Err(What::DamagedLine),
            Line::Block(block, sums) => {
                self.check_order(&block)?;
                self.window.fill(length + usize::try_from(block.length).unwrap_or(usize::MAX).min(CHUNK_BYTES * 4))?;
                if self.window.remaining() < length as u64 + block.length {
                    return Err(What::CutOff);
                }
                self.window.pass(length);
                let is_whole = self.window.sum_of_next(block.length, sums.line)? == sums.whole;
                if !is_whole {
                    return Err(What::WrongSum);
                }
                self.open_block(block);
                return Ok(());
            }
        }
        self.window.pass(length);
        self.piece_start = self.window.position();
        Ok(())
    }

    /// Checks that a block begins at the offset at which the block before it ended.
    fn check_order(&self, block: &Block) -> Parsed<()> {
        let Place { offset: expected, is_exact, is_base } = self.place;
        let found = block.from;
        if is_base {
            // Parts of the journal that are not logged may lie around the place of the base.
            return match () {
                () if found > expected => Err(What::Missing { expected, found }),
                () if found < expected && block.to() <= expected && block.length > 0 => {
                    Err(What::Repeated { expected, found })
                }
                () => Ok(()),
            };
        }
        let next_number = self.next_number();
        let is_first = next_number == 0 && !is_exact;
        match () {
            () if found < expected => Err(What::Repeated { expected, found }),
            () if found > expected && !is_first => Err(What::Missing { expected, found }),
            // The line of a block was damaged, so that its block was taken for another server's requests.
            () if block.number != next_number => Err(What::DamagedLine),
            () => Ok(()),
        }
    }

    fn open_block(&mut self, block: Block) {
        let start = self.piece_start;
        self.stretch.iter_mut().for_each(|stretch| stretch.next_number = block.number + 1);
        self.has_strange = false;
        self.block = Some((block, self.window.position() + block.length));
        if self.times.until.is_none() {
            return;
        }
        // A time stands at the beginning of its block, if anywhere.
        let rest = self.window.rest();
        let line = memchr::memchr(b'\n', rest).and_then(|end| rest.get(..=end)).unwrap_or_default();
        if let Line::Time(seconds) = annotation::parse(line, None)
            && self.times.is_too_late(seconds)
        {
            self.times.stopped_at = Some(start);
        }
    }
}

/// The claims of the whole blocks in a file, wherever they stand: for a reader that has found damage in front of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claims {
    /// The highest offset up to which any of the blocks says that the journal was synced.
    pub synced: u64,
    /// The journal's offset behind the last of the blocks.
    pub to: u64,
    /// The number of whole blocks.
    pub blocks: u64,
    /// True if the file is a base, with blocks that count from its beginning.
    pub is_base: bool,
}

/// Looks for whole blocks from byte `at` on, past anything else.
///
/// # Errors
/// When a call to the system fails.
pub fn claims(file: Arc<dyn File>, at: u64, mut salt: Option<Salt>) -> io::Result<Claims> {
    let mut window = Window::new(file, at)?;
    let mut claims = Claims::default();
    while window.remaining() > 0 {
        window.fill(LINE_BYTES_MAX)?;
        let rest = window.rest();
        let Some(found) = annotation::find_own(rest) else {
            // A prefix may stand across the end of the bytes in memory.
            let keep = if window.remaining() == rest.len() as u64 { 0 } else { LINE_BYTES_MAX.min(rest.len() / 2) };
            let pass = rest.len() - keep;
            window.pass(pass.max(1));
            continue;
        };
        window.pass(found);
        window.fill(LINE_BYTES_MAX)?;
        let rest = window.rest();
        let seen = rest.get(..LINE_BYTES_MAX).unwrap_or(rest);
        let Some(end) = memchr::memchr(b'\n', seen) else {
            window.pass(1);
            continue;
        };
        let line = annotation::parse(&seen[..=end], salt);
        match line {
            Line::Salt(given) => salt = Some(given),
            Line::StandsFor(_) => claims.is_base = true,
            Line::Block(block, sums) if window.remaining() >= end as u64 + 1 + block.length => {
                let start = window.position();
                window.pass(end + 1);
                if window.sum_of_next(block.length, sums.line)? == sums.whole {
                    claims.synced = claims.synced.max(block.synced());
                    claims.to = claims.to.max(block.to());
                    claims.blocks += 1;
                    window.seek(window.position() + block.length);
                } else {
                    window.seek(start + 1);
                }
                continue;
            }
            _ => {}
        }
        window.pass(1);
    }
    Ok(claims)
}
