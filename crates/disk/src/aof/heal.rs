//! Healing after a sync that failed.
//!
//! Bytes that were written since the last sync that succeeded may or may not be on the disk, even if a later sync succeeds.
//! They are written once more, into a new increment: from the journal, or else from the old files, which can still be read.
//! Then one manifest names the new increment and says how much of the old ones counts; only then are these cut. So the AOF is
//! whole whenever the process or the power goes: before that manifest the old files are all there, behind it their ends are
//! not read. The cut is for other servers, which do not know that word of the manifest and would find the same effects twice.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use crate::format::annotation::{self, Block, Stretch};
use crate::format::manifest::{Entry, Manifest};
use crate::replay::part::{Got, Part, Place};

use super::directory::Directory;
use super::increment::{Increment, Tail};
use super::writer::{AofWriter, DirectoryLock, Health, LeftOver, Reach, Remains, Selected};

/// A healing that is to be run. Nothing is appended to the AOF until it has ended.
#[derive(Debug)]
pub struct Healing {
    directory: Directory,
    manifest: Manifest,
    /// The files that may not be durable, in order.
    old: Tail,
    new: Option<Increment>,
    number: i64,
    /// The remains of earlier attempts, and the manifest to be written once they are removed.
    remains: Remains,
    before: Manifest,
    /// True if the manifest that names the new increment may be on the disk although the call that wrote it has failed.
    is_unsure: bool,
    stretch: Option<Stretch>,
    /// The journal's offset behind the last block that is durable.
    durable: u64,
    /// The journal's offset at which the old files end.
    old_end: u64,
    /// The journal's offsets that the new increment has reached.
    written: Reach,
    /// The right to write the manifest, held until the healing has ended.
    job: Option<DirectoryLock>,
}

/// A log that is whole again.
#[derive(Debug)]
pub struct Healed {
    manifest: Manifest,
    increment: Increment,
    stretch: Option<Stretch>,
    end: u64,
    bytes_before: u64,
    /// The right to write the manifest, held until the AOF has taken this result.
    _job: Option<DirectoryLock>,
}

impl AofWriter {
    /// Returns the healing that is due after a sync that failed. Returns none otherwise, while another job is out, and where
    /// the AOF is only being switched on, which is begun again instead.
    pub fn healing(&mut self) -> Option<Healing> {
        if !matches!(self.health, Health::SyncFailed(_)) || self.is_waiting {
            return None;
        }
        let job = Some(self.catalog.take_job()?);
        let stretch = self.directory.options.next_stretch();
        let (before, mut manifest) = (self.catalog.manifest.clone(), self.catalog.manifest.clone());
        let (first, length) = (self.tail.first().number, self.tail.first().synced_length);
        manifest.increments.retain(|entry| entry.number <= first);
        manifest
            .increments
            .iter_mut()
            .filter(|entry| entry.number == first)
            .for_each(|entry| entry.length = Some(length));
        let number = manifest.add_increment(&self.directory.options.name).number;
        self.catalog.manifest.increment_number = number;
        Some(Healing {
            directory: self.directory.clone(),
            manifest,
            old: self.tail.clone(),
            new: None,
            number,
            remains: std::mem::take(&mut self.remains),
            before,
            is_unsure: false,
            stretch,
            durable: self.synced.blocks_end,
            old_end: self.written.end,
            written: self.synced,
            job,
        })
    }

    /// Takes the result of a healing: the AOF has its earlier contents, and is durable up to its end.
    pub fn healed(&mut self, healed: Healed) {
        let Healed { manifest, increment, stretch, end, bytes_before, .. } = healed;
        self.catalog.replace(manifest);
        self.lines.stretch = stretch.filter(|_| self.directory.options.checksums);
        (self.written, self.synced) = (Reach::at(end), Reach::at(end));
        self.bytes_before = bytes_before;
        self.tail = Tail::new(increment);
        self.health = Health::Good;
        self.is_torn = false;
    }

    /// Notes that a healing has failed. Its new increment is removed at once, because it may be long, and the next attempt
    /// makes another. If a manifest that may be on the disk names it, or if it cannot be removed, the next attempt begins
    /// with removing it. So there is never more than one.
    pub fn not_healed(&mut self, mut healing: Healing) {
        self.remains = std::mem::take(&mut healing.remains);
        if self.remains.increment.is_none() {
            let left = LeftOver { path: healing.path(), is_named: healing.is_unsure };
            let is_there = left.is_named || healing.remove(&left.path).is_err();
            self.remains.increment = is_there.then_some(left);
        }
        if let Some(left) = &self.remains.increment {
            // Until the file is removed, each manifest has a line for it, which says that none of its bytes count.
            let name = left.path.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
            let history = &mut self.catalog.manifest.history;
            let is_listed = history.iter().any(|entry| entry.name == name);
            let entry = Entry { name, number: healing.number, length: Some(0) };
            history.extend((!is_listed).then_some(entry));
        }
    }
}

impl Healing {
    /// Returns the journal's offset from which the caller has to append it.
    pub fn next(&self) -> u64 {
        self.written.end
    }

    /// Appends the journal from [`Healing::next`] to `end`, as [`AofWriter::append`] does.
    ///
    /// # Errors
    /// When a call to the system fails; then [`AofWriter::not_healed`] is due, and another healing.
    pub fn append(&mut self, end: u64, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let select = if self.new.is_none() { self.select()? } else { Vec::new() };
        let length = select.len() + slices.iter().map(|slice| slice.len()).sum::<usize>();
        let mut head = Vec::new();
        if let Some(Stretch { salt, next_number: number }) = self.stretch {
            let from = self.written.blocks_end;
            let unsynced = from.saturating_sub(self.durable);
            let block = Block { number, from, covered: end - from, length: length as u64, unsynced };
            let content = std::iter::once(select.as_slice()).chain(slices.iter().map(|slice| &**slice));
            annotation::write_block(&mut head, salt, &block, content);
        }
        let all = [&[IoSlice::new(&head), IoSlice::new(&select)], slices].concat();
        let new = self.increment()?;
        new.file.append(&all)?;
        new.length += (head.len() + length) as u64;
        self.stretch.iter_mut().for_each(|stretch| stretch.next_number += 1);
        self.written = Reach::at(end);
        Ok(())
    }

    /// Returns the new increment, which is made at the first call.
    fn increment(&mut self) -> io::Result<&mut Increment> {
        if self.new.is_none() {
            self.clear_away()?;
            self.directory.stage_manifest(&self.manifest)?;
            self.new = Some(self.directory.make_increment(self.path(), self.number, self.stretch)?);
        }
        self.new.as_mut().ok_or_else(|| io::Error::other("there is no increment"))
    }

    /// Removes the remains of an earlier attempt.
    fn clear_away(&mut self) -> io::Result<()> {
        let Some(left) = &self.remains.increment else { return Ok(()) };
        if left.is_named {
            self.directory.write_manifest(&self.before)?;
        }
        self.remove(&left.path)?;
        self.remains.increment = None;
        Ok(())
    }

    /// Removes a file that may be there, durably. The staged manifest may still name it; the next attempt replaces that
    /// manifest.
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.directory.remove(path)?;
        self.directory.sync()
    }

    /// Returns the path of the new increment.
    fn path(&self) -> PathBuf {
        let options = &self.directory.options;
        options.path(format!("{}.{}.incr.aof", options.name, self.number))
    }

    /// Returns the SELECT with which the new increment has to begin, for the database that is selected where the old one is
    /// cut.
    fn select(&mut self) -> io::Result<Vec<u8>> {
        let old = self.old.first();
        let (number, length) = (old.number, old.synced_length);
        // The old file may be long, and an earlier attempt may have read it.
        let known = self.remains.selected.filter(|known| (known.number, known.length) == (number, length));
        let database = match known {
            Some(known) => known.database,
            None => read_part(old, durable_part(old)?, |_, _| Ok(()))?.database,
        };
        self.remains.selected = Some(Selected { number, length, database });
        let text = database.to_string();
        Ok(format!("*2\r\n$6\r\nSELECT\r\n${}\r\n{text}\r\n", text.len()).into_bytes())
    }

    /// Appends the bytes of the old files behind their durable part: for a caller that has let go of that part of the
    /// journal. The journal follows from [`Healing::next`] on.
    ///
    /// # Errors
    /// When a call to the system fails, and old files that cannot be read any more; then their content is only in the data
    /// themselves.
    pub fn append_old(&mut self) -> io::Result<()> {
        let (old, end) = (self.old.clone(), self.old_end);
        let first = old.first();
        let durable = read_part(first, durable_part(first)?, |_, _| Ok(()))?;
        let mut part = Part::new(first.file.clone(), first.synced_length, durable.place, false)?;
        part.stretch = durable.stretch;
        part.has_strange = durable.has_strange;
        for (index, increment) in old.iter().enumerate() {
            if index > 0 {
                part = Part::new(increment.file.clone(), 0, part.place, false)?;
            }
            part.end_at(increment.length);
            part = read_part(increment, part, |part, pieces| {
                // Without checksums offsets are only counted, and the place within a block is the block's beginning.
                let reached = part.place.offset.clamp(self.written.end, end);
                self.append(reached, &[IoSlice::new(pieces)])
            })?;
        }
        if self.written.end == end { Ok(()) } else { self.append(end, &[]) }
    }

    /// Makes the new increment durable, names it, and cuts the old increments.
    ///
    /// # Errors
    /// When a call to the system fails; then [`AofWriter::not_healed`] is due, and another healing. The AOF is untouched.
    pub fn run(&mut self) -> io::Result<Healed> {
        if self.new.is_none() {
            self.append(self.written.end, &[])?;
        }
        let mut increment = self.increment()?.clone();
        increment.file.sync()?;
        increment.synced_length = increment.length;
        self.directory.put_manifest().map_err(|unwritten| {
            self.is_unsure = unwritten.is_unsure;
            unwritten.error
        })?;
        let Healing { directory, old, stretch, written, .. } = self;
        let (mut manifest, job) = (std::mem::take(&mut self.manifest), self.job.take());
        // The AOF is healed. A file that cannot be cut now is cut at the next start: the manifest keeps its length.
        let first = old.first();
        if first.file.truncate(first.synced_length).and_then(|()| first.file.sync()).is_ok() {
            // The length of another file, of which the cut failed in an earlier healing, stays.
            let cut = manifest.increments.iter_mut().filter(|entry| entry.number == first.number);
            cut.for_each(|entry| entry.length = None);
        }
        for part in old.iter().skip(1) {
            // No manifest names the file; if it cannot be removed it stays.
            let _ = directory.disk.remove(&part.path);
        }
        let named = manifest.base.iter().chain(&manifest.increments);
        let before = named.filter(|entry| directory.path(entry) != increment.path);
        let sizes = before.map(|entry| directory.size(entry).unwrap_or(0));
        let bytes_before = sizes.sum();
        Ok(Healed { manifest, increment, stretch: *stretch, end: written.end, bytes_before, _job: job })
    }
}

/// Returns the durable part of an increment, for reads.
fn durable_part(increment: &Increment) -> io::Result<Part> {
    let mut part = Part::new(increment.file.clone(), 0, Place::default(), false)?;
    part.end_at(increment.synced_length);
    Ok(part)
}

/// Reads an increment to its end and gives its pieces out.
fn read_part(
    increment: &Increment,
    mut part: Part,
    mut give: impl FnMut(&Part, &[u8]) -> io::Result<()>,
) -> io::Result<Part> {
    let mut pieces = Vec::new();
    loop {
        pieces.clear();
        match part.next(&mut pieces) {
            Ok(Got::Pieces) => give(&part, &pieces)?,
            Ok(Got::End) => return Ok(part),
            Err(what) => return Err(io::Error::other(format!("{}: {what}", increment.path.display()))),
        }
    }
}
