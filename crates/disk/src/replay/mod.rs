//! Reading an AOF back: its files in order, from each the whole pieces, and the fault of the first file that has one.
//!
//! [`Replay::next`] is called until it gives [`Step::End`] or [`Damage`]. Requests come in batches that end where a piece
//! ends; a file, or the front of one, that is a snapshot is handed over as bytes ([`RdbSource`]), because the decoder is not
//! here. Nothing that is damaged, missing, repeated or out of order is ever given out.
//!
//! **The end of an AOF** may be in any state after the power went: data that was not synced is there, torn, or not, in any
//! order. So damage is an *unfinished end* when nothing behind it says that the journal was synced up to there: each block
//! says how far that was when it was written. Then, under `aof-load-truncated yes`, the reading ends in front of it, and
//! [`Outcome::cut`] names the bytes that the AOF has to lose before anything is appended. A block that was
//! written whole and has changed is no such end, no matter which bytes stand behind it (`changed`). Without blocks the rule is
//! Redis's: only the last file may end in the middle of a piece.
//!
//! Memory is bounded by the largest piece. One thread reads; its results may go to others.

mod changed;
pub mod damage;
pub mod part;
pub mod request;
mod window;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::damage::{Damage, What};
use self::part::claims;
use self::part::{Claims, Got, Part, Place};
use crate::disk::{Disk, File, Open, read_full};
use crate::format::annotation::{self, Line, Stretch};
use crate::format::manifest::{Entry, Manifest};

/// The settings with which an AOF is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// True if a torn end may be cut off (`aof-load-truncated`).
    pub load_truncated: bool,
    /// The time, in seconds since 1970, behind which the reader stops; only AOFs with `#TS:` lines have times.
    pub read_until: Option<i64>,
}

/// The next step of the reading.
#[derive(Debug)]
pub enum Step {
    /// Whole pieces are in the buffer.
    Requests,
    /// The file goes on with a snapshot. The caller reads it, and then calls [`Replay::after_rdb`].
    Rdb(RdbSource),
    /// The AOF was read to its end.
    End(Outcome),
}

/// A snapshot in an AOF, as bytes.
#[derive(Debug)]
pub struct RdbSource {
    file: Arc<dyn File>,
    position: u64,
    /// The file's name.
    pub name: String,
    /// The bytes of the file; behind the snapshot there may be requests.
    pub size: u64,
}

impl RdbSource {
    /// Returns how many bytes have been read. If the caller reads ahead, it knows better where the snapshot ends.
    pub fn position(&self) -> u64 {
        self.position
    }
}

impl Read for RdbSource {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(self.position, into)?;
        self.position += read as u64;
        Ok(read)
    }
}

/// The part that is to be cut off an AOF before it is appended to.
#[derive(Debug)]
pub struct Cut {
    /// The file in which it begins, and the byte.
    pub file: Entry,
    /// The length that the file keeps.
    pub at: u64,
    /// Bytes of the file that go.
    pub bytes: u64,
    /// Files that go whole: their content came later.
    pub later: Vec<Entry>,
    /// The damage; none if the caller asked the reader to stop there.
    pub damage: Option<Damage>,
}

/// The result of reading a whole AOF.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The journal's offset behind the AOF.
    pub end: u64,
    /// True if the offset is known; otherwise it is only counted, and the journal may have been ahead.
    pub is_exact: bool,
    /// The part to cut off.
    pub cut: Option<Cut>,
    /// Oddities that were accepted, a sentence each.
    pub told: Vec<String>,
    /// The latest time in the AOF, in seconds since 1970.
    pub time: Option<i64>,
    /// The stretch of the last file, where blocks may go on.
    pub(crate) tail: Option<Stretch>,
    /// True if the file that is to be cut holds no line of Sleeve's own, so that blocks may begin behind the cut.
    pub(crate) is_strangers_cut: bool,
    /// The database that is selected at the end of the last file.
    pub(crate) database: u32,
}

/// An AOF that is being read.
#[derive(Debug)]
pub struct Replay {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    manifest: Manifest,
    options: Options,
    /// The index of the next file; the base and the increments are counted together.
    next_file: usize,
    part: Option<Part>,
    /// A snapshot that was handed out, and not yet read.
    rdb: Option<Arc<dyn File>>,
    place: Place,
    base_offset: Option<u64>,
    /// Files that the manifest does not name, beside those that are read.
    unnamed: Vec<Entry>,
    bytes_passed: u64,
    outcome: Outcome,
    is_over: bool,
}

impl Replay {
    /// Reads the files that this manifest names in this folder.
    pub fn new(disk: Arc<dyn Disk>, folder: &Path, manifest: Manifest, options: Options) -> Replay {
        Replay {
            disk,
            folder: folder.to_owned(),
            manifest,
            options,
            next_file: 0,
            part: None,
            rdb: None,
            place: Place::default(),
            base_offset: None,
            unnamed: Vec::new(),
            bytes_passed: 0,
            outcome: Outcome::default(),
            is_over: false,
        }
    }

    /// Adds files that the manifest does not name. If they hold data that no file of the AOF has, the reading ends with
    /// damage.
    #[must_use]
    pub fn beside(mut self, bases: Vec<Entry>, increments: Vec<Entry>) -> Replay {
        self.unnamed = increments;
        if self.manifest.base.is_none() {
            self.unnamed.extend(bases);
        }
        self
    }

    /// Returns the file that is being read, or was read last.
    pub fn file(&self) -> Option<&Entry> {
        self.entry(self.next_file.checked_sub(1)?)
    }

    /// Returns the bytes of the AOF that have been read.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_passed + self.part.as_ref().map_or(0, Part::position)
    }

    /// Returns the byte of the current file at which its first piece begins.
    pub fn begins_at(&self) -> u64 {
        self.part.as_ref().map_or(0, Part::begins_at)
    }

    /// Returns the byte of the current file at which the last whole piece ends.
    pub fn good_until(&self) -> u64 {
        self.part.as_ref().map_or(0, Part::good_until)
    }

    fn entry(&self, index: usize) -> Option<&Entry> {
        self.manifest.base.iter().chain(&self.manifest.increments).nth(index)
    }

    fn is_base(&self, index: usize) -> bool {
        index == 0 && self.manifest.base.is_some()
    }

    /// Reads on. Pieces are appended to `into`.
    ///
    /// # Errors
    /// The fault, and its place; nothing more is to be read then.
    pub fn next(&mut self, into: &mut Vec<u8>) -> Result<Step, Damage> {
        loop {
            if self.is_over {
                return Ok(Step::End(std::mem::take(&mut self.outcome)));
            }
            if let Some(file) = self.rdb.take() {
                // A caller that did not say where the snapshot ended has read the file to its end.
                let size = file.size().map_err(|error| self.damage(0, What::Unreadable(error)))?;
                self.begin_part(file, size)?;
            }
            let Some(part) = &mut self.part else {
                match self.open_next()? {
                    Some(source) => return Ok(Step::Rdb(source)),
                    None if self.part.is_none() => self.finish()?,
                    None => {}
                }
                continue;
            };
            match part.next(into) {
                Ok(Got::Pieces) => return Ok(Step::Requests),
                Ok(Got::End) => self.close_part(),
                Err(what) => self.judge(what)?,
            }
        }
    }

    /// Notes that the snapshot which was handed out ended at byte `end` of its file, and which offset of the journal it
    /// stands for, if it says so; an offset that no journal reaches is none.
    ///
    /// # Errors
    /// The fault.
    pub fn after_rdb(&mut self, end: u64, stands_for: Option<u64>) -> Result<(), Damage> {
        let Some(file) = self.rdb.take() else { return Ok(()) };
        self.begin_part(file, end)?;
        if let Some(part) = &mut self.part {
            part.base.stands_for = stands_for.filter(|&offset| offset <= annotation::NUMBER_MAX);
            part.base.has_end = true;
        }
        Ok(())
    }

    fn damage(&self, at: u64, what: What) -> Damage {
        Damage::new(self.file().map_or_else(String::new, Entry::to_string), at, what)
    }

    /// Opens the next file; gives it out where it begins as a snapshot.
    fn open_next(&mut self) -> Result<Option<RdbSource>, Damage> {
        let Some(entry) = self.entry(self.next_file) else { return Ok(None) };
        let (path, name) = (self.folder.join(entry.path()), entry.to_string());
        self.next_file += 1;
        let opened = self.disk.open(&path, Open::Read);
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.damage(0, What::NotThere),
            _ => self.damage(0, What::Unreadable(error)),
        })?;
        let mut magic = [0; 6];
        let read = read_full(file.as_ref(), 0, &mut magic).and_then(|_| file.size());
        let size = read.map_err(|error| self.damage(0, What::Unreadable(error)))?;
        if magic.starts_with(b"REDIS") || magic.starts_with(b"VALKEY") {
            self.rdb = Some(file.clone());
            return Ok(Some(RdbSource { file, position: 0, name, size }));
        }
        if self.is_base(self.next_file - 1) && size == 0 {
            self.check_empty_base()?;
        }
        self.begin_part(file, 0)?;
        Ok(None)
    }

    /// Checks an empty base. Redis's may be empty; Sleeve's own never is, and only behind one of Sleeve's does the first
    /// increment begin with a line of Sleeve's.
    fn check_empty_base(&mut self) -> Result<(), Damage> {
        if let Some(entry) = self.manifest.increments.first() {
            let (is_ours, claims) =
                self.look_into(entry).map_err(|error| Damage::new(entry, 0, What::Unreadable(error)))?;
            if is_ours && claims.blocks > 0 {
                return Err(self.damage(0, What::CutOff));
            }
        }
        let base = self.file().map_or_else(String::new, Entry::to_string);
        self.outcome.told.push(format!("the base {base} is empty"));
        Ok(())
    }

    fn begin_part(&mut self, file: Arc<dyn File>, at: u64) -> Result<(), Damage> {
        let is_base = self.is_base(self.next_file - 1);
        let part = Part::new(file, at, self.place, is_base);
        let mut part = part.map_err(|error| self.damage(at, What::Unreadable(error)))?;
        if let Some(length) = self.file().and_then(|entry| entry.length) {
            part.end_at(length);
            if part.size() < length {
                return Err(self.damage(part.size(), What::CutOff));
            }
        }
        if let Some(seconds) = self.options.read_until {
            part.read_until(seconds);
        }
        self.part = Some(part);
        Ok(())
    }

    fn close_part(&mut self) {
        let Some(part) = self.part.take() else { return };
        self.bytes_passed += part.size();
        self.remember(&part);
        let Some(at) = part.times.stopped_at else { return };
        self.outcome.cut = self.cut_at(at, part.size(), None);
        self.next_file = usize::MAX;
    }

    /// Takes over the facts that a file has shown, whole or as far as it was read.
    fn remember(&mut self, part: &Part) {
        let is_base = self.is_base(self.next_file.wrapping_sub(1));
        if is_base {
            self.base_offset = part.base.stands_for;
            let known = |offset| Place { offset, is_exact: true, is_base: true };
            self.place = part.base.stands_for.map_or_else(Place::default, known);
        } else {
            self.place = part.place;
        }
        self.outcome.time = part.times.latest.or(self.outcome.time);
        self.outcome.database = part.database;
        self.outcome.tail = part.stretch.filter(|_| part.is_sealed() && !is_base);
        if let (Some((count, at)), Some(file)) = (part.unknown_lines, self.file()) {
            self.outcome
                .told
                .push(format!("{file} has {count} comments that no server writes, the first at byte {at}"));
        }
    }

    /// Returns the part to cut off to be rid of damage that [`Replay::next`] has reported, regardless of the cost. Returns
    /// none where nothing of the AOF would be left that can be read: in a base that has increments behind it, a snapshot, a
    /// file that cannot be read.
    pub fn cut_before(&self, damage: Damage) -> Option<Cut> {
        let index = self.next_file.checked_sub(1)?;
        let entry = self.entry(index)?;
        let is_elsewhere = entry.to_string() != damage.file;
        let is_no_matter_of_bytes =
            matches!(damage.what, What::Unreadable(_) | What::NotThere | What::NotHistory | What::NotNamed);
        let is_base = self.is_base(index) && (self.entry(index + 1).is_some() || self.base_offset.is_some());
        if is_elsewhere || is_no_matter_of_bytes || is_base || damage.at == 0 && self.is_base(index) {
            return None;
        }
        let size = self.disk.size(&self.folder.join(entry.path())).ok()?;
        self.cut_at(damage.at, size, Some(damage))
    }

    fn cut_at(&self, at: u64, size: u64, damage: Option<Damage>) -> Option<Cut> {
        let file = self.file()?.clone();
        let later = (self.next_file..).map_while(|index| self.entry(index).cloned()).collect();
        Some(Cut { file, at, bytes: size.saturating_sub(at), later, damage })
    }

    /// Decides about damage: ends the reading in front of it, or passes it on.
    fn judge(&mut self, what: What) -> Result<(), Damage> {
        let Some(part) = self.part.take() else { return Ok(()) };
        let (at, size) = (part.good_until(), part.size());
        let judged = match self.reason_to_refuse(&part, &what) {
            Ok(refusal) => refusal,
            Err(error) => return Err(self.damage(at, What::Unreadable(error))),
        };
        let mut damage = self.damage(at, what);
        match judged {
            Some(Refusal::Plain) => return Err(damage),
            Some(Refusal::NotTheLast) => {
                damage.what = What::NotTheLast(Box::new(damage.what));
                return Err(damage);
            }
            Some(Refusal::AfterSync) => {
                damage.what = What::AfterSync(Box::new(damage.what));
                return Err(damage);
            }
            Some(Refusal::Changed) => {
                damage.what = What::Changed(Box::new(damage.what));
                return Err(damage);
            }
            None => damage.is_unfinished_end = true,
        }
        if !self.options.load_truncated {
            return Err(damage);
        }
        self.remember(&part);
        self.outcome.tail = None;
        self.outcome.cut = self.cut_at(at, size, Some(damage));
        self.outcome.is_strangers_cut =
            part.stretch.is_none() && self.outcome.cut.as_ref().is_some_and(|cut| cut.later.is_empty());
        self.next_file = usize::MAX;
        Ok(())
    }

    /// Returns the reason why the damage is no torn end, if there is one.
    fn reason_to_refuse(&self, part: &Part, what: &What) -> io::Result<Option<Refusal>> {
        if matches!(what, What::Unreadable(_)) || part.is_in_block() {
            return Ok(Some(Refusal::Plain));
        }
        let is_base = self.is_base(self.next_file - 1);
        let is_sealed = part.is_sealed();
        let is_torn = matches!(what, What::CutOff | What::OpenTransaction);
        // A power cut leaves a hole, or takes the end of a file away; it moves no bytes elsewhere.
        let is_out_of_order = match what {
            What::Repeated { .. } => true,
            What::Missing { .. } => part.next_number() > 0,
            _ => false,
        };
        // A base is whole before the manifest names it.
        if is_out_of_order || is_base && (is_sealed || part.base.stands_for.is_some()) || !is_sealed && !is_torn {
            return Ok(Some(Refusal::Plain));
        }
        if is_sealed {
            let entry = self.file().map_or_else(PathBuf::new, |entry| self.folder.join(entry.path()));
            let behind = claims(self.disk.open(&entry, Open::Read)?, part.good_until() + 1, part.salt())?;
            if behind.synced > part.place.offset {
                return Ok(Some(Refusal::AfterSync));
            }
        }
        for entry in (self.next_file..).map_while(|index| self.entry(index)) {
            let (is_ours, claims) = self.look_into(entry)?;
            if !is_ours || (!is_sealed && claims.blocks > 0) {
                return Ok(Some(Refusal::NotTheLast));
            }
            if claims.synced > part.place.offset {
                return Ok(Some(Refusal::AfterSync));
            }
        }
        if let (Some(entry), Some(stretch), true) = (self.file(), part.stretch, is_sealed) {
            let file = self.disk.open(&self.folder.join(entry.path()), Open::Read)?;
            if changed::is_changed_block(&file, part.good_until(), stretch)? {
                return Ok(Some(Refusal::Changed));
            }
        }
        Ok(None)
    }

    /// Returns whether a later file is empty or has blocks from its beginning on, and the claims of its blocks.
    fn look_into(&self, entry: &Entry) -> io::Result<(bool, Claims)> {
        let file = match self.disk.open(&self.folder.join(entry.path()), Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((false, Claims::default())),
            Err(error) => return Err(error),
        };
        let mut front = [0; 64];
        let read = read_full(file.as_ref(), 0, &mut front)?;
        let line = front[..read].split_inclusive(|&byte| byte == b'\n').next().unwrap_or_default();
        let is_ours = read == 0 || matches!(annotation::parse(line, None), Line::Salt(_));
        Ok((is_ours, claims(file, 0, None)?))
    }

    /// Checks whether the files called history are history, and completes the outcome.
    fn finish(&mut self) -> Result<(), Damage> {
        // Files that an attempt to heal the AOF has left do not count.
        for entry in self.manifest.history.iter().filter(|entry| entry.length != Some(0)) {
            let Ok(file) = self.disk.open(&self.folder.join(entry.path()), Open::Read) else { continue };
            let held = claims(file, 0, None).map_err(|error| Damage::new(entry, 0, What::Unreadable(error)))?;
            let is_known = self.manifest.base.is_none() || self.base_offset.is_some();
            if held.blocks > 0 && !held.is_base && is_known && held.to > self.base_offset.unwrap_or(0) {
                return Err(Damage::new(entry, 0, What::NotHistory));
            }
        }
        self.check_unnamed()?;
        (self.outcome.end, self.outcome.is_exact) = (self.place.offset, self.place.is_exact);
        self.is_over = true;
        Ok(())
    }

    /// Checks whether a file that the manifest does not name holds data that no file of the AOF has. An older increment may
    /// be left over: the data of its blocks is then in the AOF as well. An increment without blocks is taken for a left-over
    /// if the AOF has later ones. A base has no such data if the AOF has another base.
    fn check_unnamed(&mut self) -> Result<(), Damage> {
        let [first, last] = [self.manifest.increments.first(), self.manifest.increments.last()]
            .map(|entry| entry.map_or(0, |entry| entry.number));
        for entry in &self.unnamed {
            let path = self.folder.join(entry.path());
            let held = self.disk.open(&path, Open::Read).and_then(|file| claims(file, 0, None));
            let held = held.map_err(|error| Damage::new(entry, 0, What::Unreadable(error)))?;
            let is_increment = entry.name.ends_with(b".incr.aof");
            let is_lost = match held.blocks > 0 && is_increment {
                true => held.to > self.place.offset,
                false if is_increment => entry.number > last,
                // The first base, if there is one, has the data before the first increment.
                false => entry.number == 1 || first != 1,
            };
            if is_lost {
                return Err(Damage::new(entry, 0, What::NotNamed));
            }
            self.outcome.told.push(format!("{entry} is not named in the manifest, and nobody reads it"));
        }
        Ok(())
    }
}

/// The reason why damage is no torn end.
enum Refusal {
    /// The damage is in a file that was whole when the manifest named it, or is of a kind that no torn end can have.
    Plain,
    NotTheLast,
    AfterSync,
    /// The damaged part was once whole on the disk, and has changed since.
    Changed,
}
