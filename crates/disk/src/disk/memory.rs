//! A file system in memory: everything is there until the value goes, and nothing ever fails.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, File, Lock, Open};

/// A file system in memory; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<PathBuf, Arc<MemoryFile>>,
    folders: BTreeSet<PathBuf>,
    locks: BTreeMap<PathBuf, u32>,
}

impl MemoryDisk {
    /// Returns an empty file system.
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the error for a file that does not exist.
pub(super) fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{} is not there", path.display()))
}

/// Returns the error for a lock that another process holds.
pub(super) fn held_by(path: &Path, holder: &str) -> io::Error {
    let text = format!("{} is held by process {holder}, which uses the files beside it", path.display());
    io::Error::new(io::ErrorKind::ResourceBusy, text)
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        if how == Open::Create {
            let file = state.files.entry(path.to_owned()).or_default();
            file.bytes().clear();
            return Ok(file.clone());
        }
        let file = state.files.get(path).ok_or_else(|| not_found(path))?;
        Ok(file.clone())
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        self.state().files.get(path).ok_or_else(|| not_found(path))?.size()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let file = state.files.remove(from).ok_or_else(|| not_found(from))?;
        state.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.state().files.remove(path).map(|_| ()).ok_or_else(|| not_found(path))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        let inside = |path: &&PathBuf| path.parent() == Some(folder);
        let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let names: Vec<String> = state.files.keys().filter(inside).filter_map(name).collect();
        if names.is_empty() && !state.folders.contains(folder) {
            return Err(not_found(folder));
        }
        Ok(names)
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        self.state().folders.insert(folder.to_owned());
        Ok(())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path, holder: u32) -> io::Result<Box<dyn Lock>> {
        let mut state = self.state();
        if let Some(other) = state.locks.get(path) {
            return Err(held_by(path, &other.to_string()));
        }
        state.locks.insert(path.to_owned(), holder);
        Ok(Box::new(MemoryLock { disk: self.clone(), path: path.to_owned() }))
    }
}

#[derive(Debug, Default)]
struct MemoryFile(Mutex<Vec<u8>>);

impl MemoryFile {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies the bytes from `at` on.
pub(super) fn copy_from(bytes: &[u8], at: u64, into: &mut [u8]) -> usize {
    let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
    let count = rest.len().min(into.len());
    into[..count].copy_from_slice(&rest[..count]);
    count
}

impl File for MemoryFile {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        Ok(copy_from(&self.bytes(), at, into))
    }

    fn append(&self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let mut bytes = self.bytes();
        slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.bytes().resize(length as usize, 0);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }
}

#[derive(Debug)]
struct MemoryLock {
    disk: MemoryDisk,
    path: PathBuf,
}

impl Lock for MemoryLock {
    fn is_in_place(&self) -> bool {
        true
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.disk.state().locks.remove(&self.path);
    }
}
