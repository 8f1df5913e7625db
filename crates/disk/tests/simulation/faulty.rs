//! Disks that do less than they say: each is a fault that somebody could write into a log, done from below.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Arc, Mutex};

use sleeve_disk::disk::{Disk, File, Lock, Open};

/// What is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lapse {
    /// Names are never synced.
    NoFolderSync,
    /// Files are cut for good only after the manifest that should come behind that.
    ManifestFirst,
}

/// A file and what it is cut to.
type LateCut = (Arc<dyn File>, u64);

#[derive(Clone, Debug)]
pub struct FaultyDisk {
    disk: Arc<dyn Disk>,
    lapse: Lapse,
    /// Cuts that are put off.
    late: Arc<Mutex<Vec<LateCut>>>,
}

impl FaultyDisk {
    pub fn new(disk: Arc<dyn Disk>, lapse: Lapse) -> FaultyDisk {
        FaultyDisk { disk, lapse, late: Arc::default() }
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, how)?;
        Ok(Arc::new(FaultyFile { file, disk: self.clone(), length: Mutex::default() }))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        self.disk.size(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
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
        if self.lapse == Lapse::NoFolderSync {
            return Ok(());
        }
        self.disk.sync_folder(folder)?;
        let late = std::mem::take(&mut *self.late.lock().expect("nobody fails with it"));
        late.into_iter().try_for_each(|(file, length)| file.truncate(length).and_then(|()| file.sync()))
    }

    fn lock(&self, path: &Path, holder: u32) -> io::Result<Box<dyn Lock>> {
        self.disk.lock(path, holder)
    }
}

#[derive(Debug)]
struct FaultyFile {
    file: Arc<dyn File>,
    disk: FaultyDisk,
    /// What it is to be cut to, unless it is synced next: then that comes late.
    length: Mutex<Option<u64>>,
}

impl FaultyFile {
    fn take_length(&self) -> Option<u64> {
        self.length.lock().expect("nobody fails with it").take()
    }

    fn cut(&self) -> io::Result<()> {
        self.take_length().map_or(Ok(()), |length| self.file.truncate(length))
    }
}

impl File for FaultyFile {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.cut()?;
        self.file.read_at(at, into)
    }

    fn append(&self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        self.cut()?;
        self.file.append(slices)
    }

    fn sync(&self) -> io::Result<()> {
        let Some(length) = self.take_length() else { return self.file.sync() };
        self.disk.late.lock().expect("nobody fails with it").push((self.file.clone(), length));
        Ok(())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        if self.disk.lapse != Lapse::ManifestFirst {
            return self.file.truncate(length);
        }
        *self.length.lock().expect("nobody fails with it") = Some(length);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        self.cut()?;
        self.file.size()
    }
}
