//! Disks that do less than they say: each is a fault that somebody could write into a log, done from below.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use sleeve_disk::disk::{Disk, File, Lock, Open, read_small};

/// What is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lapse {
    /// Names are never synced.
    NoFolderSync,
    /// The manifest of a log that was healed comes only behind the cut of the old files.
    CutFirst,
    /// That manifest does not say how much of the old files counts.
    NoLength,
}

/// The word of a manifest that says how much of a file counts.
const LENGTH: &str = " length ";

/// A name that is to be given, and the name before.
type LateName = (PathBuf, PathBuf);

#[derive(Clone, Debug)]
pub struct FaultyDisk {
    disk: Arc<dyn Disk>,
    lapse: Lapse,
    /// The place of a manifest, which is put off.
    late: Arc<Mutex<Option<LateName>>>,
}

impl FaultyDisk {
    pub fn new(disk: Arc<dyn Disk>, lapse: Lapse) -> FaultyDisk {
        FaultyDisk { disk, lapse, late: Arc::default() }
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, how)?;
        let is_manifest = path.extension().is_some_and(|extension| extension == "manifest");
        Ok(Arc::new(FaultyFile { file, disk: self.clone(), is_manifest, is_cut: AtomicBool::new(false) }))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        self.disk.size(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let bytes = read_small(self.disk.as_ref(), from, 1 << 20).unwrap_or_default();
        if self.lapse == Lapse::CutFirst && String::from_utf8_lossy(&bytes).contains(LENGTH) {
            *self.late.lock().expect("nobody fails with it") = Some((from.to_owned(), to.to_owned()));
            return Ok(());
        }
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.disk.list(folder)
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        self.disk.make_folder(folder)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        if self.lapse == Lapse::NoFolderSync { Ok(()) } else { self.disk.sync_folder(folder) }
    }

    fn lock(&self, path: &Path, holder: u32) -> io::Result<Box<dyn Lock>> {
        self.disk.lock(path, holder)
    }
}

#[derive(Debug)]
struct FaultyFile {
    file: Arc<dyn File>,
    disk: FaultyDisk,
    is_manifest: bool,
    /// Whether it was cut and not synced since.
    is_cut: AtomicBool,
}

/// The lines of a manifest without the word for how much counts.
fn without_lengths(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.split(LENGTH).next().unwrap_or_default())).collect()
}

impl File for FaultyFile {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(at, into)
    }

    fn append(&self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        if self.disk.lapse == Lapse::NoLength && self.is_manifest {
            let text: String = slices.iter().map(|slice| String::from_utf8_lossy(slice)).collect();
            return self.file.append(&[IoSlice::new(without_lengths(&text).as_bytes())]);
        }
        self.file.append(slices)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()?;
        if !self.is_cut.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let late = self.disk.late.lock().expect("nobody fails with it").take();
        late.map_or(Ok(()), |(from, to)| self.disk.disk.rename(&from, &to))
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.is_cut.store(true, Ordering::Relaxed);
        self.file.truncate(length)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}
