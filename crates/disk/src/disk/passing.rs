//! A disk that passes every call on to another one, by way of an implementation of [`Between`]: for tests that need a disk
//! that waits, is slow, or does less than it says.

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Disk, File, Lock, Open};

/// An interceptor of calls. A call that it does not implement is passed on as it is; `path` is the name under which a file
/// was opened.
pub trait Between: Debug + Send + Sync + 'static {
    /// Gives a file another name; see [`Disk::rename`].
    ///
    /// # Errors
    /// As for [`Disk::rename`].
    fn rename(&self, disk: &dyn Disk, from: &Path, to: &Path) -> io::Result<()> {
        disk.rename(from, to)
    }

    /// Makes the names in a folder durable; see [`Disk::sync_folder`].
    ///
    /// # Errors
    /// As for [`Disk::sync_folder`].
    fn sync_folder(&self, disk: &dyn Disk, folder: &Path) -> io::Result<()> {
        disk.sync_folder(folder)
    }

    /// Appends to a file; see [`File::append`].
    ///
    /// # Errors
    /// As for [`File::append`].
    fn append(&self, file: &dyn File, _path: &Path, slices: &[IoSlice<'_>]) -> io::Result<()> {
        file.append(slices)
    }

    /// Makes the appended bytes durable; see [`File::sync`].
    ///
    /// # Errors
    /// As for [`File::sync`].
    fn sync(&self, file: &dyn File, _path: &Path) -> io::Result<()> {
        file.sync()
    }

    /// Cuts a file; see [`File::truncate`].
    ///
    /// # Errors
    /// As for [`File::truncate`].
    fn truncate(&self, file: &dyn File, _path: &Path, length: u64) -> io::Result<()> {
        file.truncate(length)
    }
}

/// A disk behind an interceptor; clones are behind the same.
#[derive(Debug)]
pub struct PassingDisk<B> {
    disk: Arc<dyn Disk>,
    between: Arc<B>,
}

#[derive(Debug)]
struct PassingFile<B> {
    file: Arc<dyn File>,
    path: PathBuf,
    between: Arc<B>,
}

impl<B> Clone for PassingDisk<B> {
    fn clone(&self) -> Self {
        Self { disk: Arc::clone(&self.disk), between: Arc::clone(&self.between) }
    }
}

impl<B: Between> PassingDisk<B> {
    /// Puts this disk behind `between`.
    pub fn new(disk: Arc<dyn Disk>, between: B) -> Self {
        Self { disk, between: Arc::new(between) }
    }

    /// Returns the interceptor.
    pub fn between(&self) -> &B {
        &self.between
    }
}

impl<B: Between> Disk for PassingDisk<B> {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, how)?;
        Ok(Arc::new(PassingFile { file, path: path.to_owned(), between: Arc::clone(&self.between) }))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        self.disk.size(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.between.rename(&*self.disk, from, to)
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        self.disk.resolve(path)
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
        self.between.sync_folder(&*self.disk, folder)
    }

    fn lock(&self, path: &Path, holder: u32) -> io::Result<Box<dyn Lock>> {
        self.disk.lock(path, holder)
    }
}

impl<B: Between> File for PassingFile<B> {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(at, into)
    }

    fn append(&self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        self.between.append(&*self.file, &self.path, slices)
    }

    fn sync(&self) -> io::Result<()> {
        self.between.sync(&*self.file, &self.path)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.between.truncate(&*self.file, &self.path, length)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}
