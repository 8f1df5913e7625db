//! Disks that do less than they say: each is a fault that a programmer could write into an AOF, done from below.

use std::collections::HashSet;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use sleeve_disk::disk::passing::{Between, PassingDisk};
use sleeve_disk::disk::{Disk, File, Open, read_small};

/// The step that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lapse {
    /// Names are never synced.
    NoFolderSync,
    /// The manifest of a log that was healed comes only behind the cut of the old files.
    CutFirst,
    /// The manifest that names a base comes before the base is synced.
    ManifestFirst,
    /// The manifest of an AOF that was healed does not state how many bytes of the old files count.
    NoLength,
}

/// The word of a manifest in front of the number of bytes that count.
const LENGTH: &str = " length ";

/// A rename that is put off: the new name, and the old one.
type LateName = (PathBuf, PathBuf);

/// The fault of a faulty disk.
#[derive(Debug)]
pub struct Fault {
    disk: Arc<dyn Disk>,
    lapse: Lapse,
    late: Mutex<Late>,
}

/// The steps that are put off.
#[derive(Debug, Default)]
struct Late {
    /// The place of a manifest.
    name: Option<LateName>,
    /// The files that were cut and not synced since.
    cut: HashSet<PathBuf>,
    /// A base that is to be synced, and whether a manifest names it.
    base: Option<(PathBuf, bool)>,
}

/// Returns this disk with a fault.
pub fn faulty(disk: Arc<dyn Disk>, lapse: Lapse) -> PassingDisk<Fault> {
    PassingDisk::new(Arc::clone(&disk), Fault { disk, lapse, late: Mutex::default() })
}

impl Fault {
    fn late(&self) -> MutexGuard<'_, Late> {
        self.late.lock().expect("nobody fails with it")
    }
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "manifest")
}

/// Returns the lines of a manifest without the word for how much counts.
fn without_lengths(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.split(LENGTH).next().unwrap_or_default())).collect()
}

impl Between for Fault {
    fn rename(&self, disk: &dyn Disk, from: &Path, to: &Path) -> io::Result<()> {
        let bytes = read_small(disk, from, 1 << 20).unwrap_or_default();
        if self.lapse == Lapse::CutFirst && String::from_utf8_lossy(&bytes).contains(LENGTH) {
            self.late().name = Some((from.to_owned(), to.to_owned()));
            return Ok(());
        }
        disk.rename(from, to)?;
        match &mut self.late().base {
            Some((base, _)) if base == from => *base = to.to_owned(),
            Some((_, is_named)) if is_manifest(to) => *is_named = true,
            _ => {}
        }
        Ok(())
    }

    fn sync_folder(&self, disk: &dyn Disk, folder: &Path) -> io::Result<()> {
        if self.lapse == Lapse::NoFolderSync {
            return Ok(());
        }
        disk.sync_folder(folder)?;
        match self.late().base.take_if(|(_, is_named)| *is_named) {
            Some((base, _)) => disk.open(&base, Open::Append)?.sync(),
            None => Ok(()),
        }
    }

    fn append(&self, file: &dyn File, path: &Path, slices: &[IoSlice<'_>]) -> io::Result<()> {
        if self.lapse == Lapse::NoLength && is_manifest(path) {
            let text: String = slices.iter().map(|slice| String::from_utf8_lossy(slice)).collect();
            return file.append(&[IoSlice::new(without_lengths(&text).as_bytes())]);
        }
        file.append(slices)
    }

    fn sync(&self, file: &dyn File, path: &Path) -> io::Result<()> {
        if self.lapse == Lapse::ManifestFirst && path.ends_with("temp-base") {
            self.late().base = Some((path.to_owned(), false));
            return Ok(());
        }
        file.sync()?;
        let name = {
            let mut late = self.late();
            if late.cut.remove(path) { late.name.take() } else { None }
        };
        name.map_or(Ok(()), |(from, to)| self.disk.rename(&from, &to))
    }

    fn truncate(&self, file: &dyn File, path: &Path, length: u64) -> io::Result<()> {
        self.late().cut.insert(path.to_owned());
        file.truncate(length)
    }
}
