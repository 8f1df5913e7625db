//! The file system of the machine: each call is passed on.
//!
//! The AOF is written against [`Disk`]; tests give it a disk in memory, or one that crashes, in the place of this. Errors are
//! the system's own, and those of [`own`], which keeps the calls from files that are not regular.

use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, IoSlice, Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Disk, File, Lock, Open};
use crate::{own, release};

/// The largest number of bytes that are read of the process id in a lock file; no id is longer.
const HOLDER_BYTES_MAX: u64 = 20;

/// The machine's own file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true);
        let file = match how {
            Open::Read => own::open(path, &mut options)?,
            Open::Append => own::open(path, options.append(true))?,
            Open::Create => {
                let file = own::open_or_create(path, options.append(true).create(true));
                let file = file.map_err(|error| own::named(path, error))?;
                // The system does not allow appending and truncating in one call.
                release::empty(&file)?;
                file
            }
        };
        Ok(Arc::new(RealFile(file)))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        fs::metadata(path).map(|metadata| metadata.len())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        own::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        own::remove(path)
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        // Links in a circle are an error of the call that opens the path.
        own::follow(path).unwrap_or_else(|_| path.to_owned())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        match fs::create_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
            made => made,
        }
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        // A bare file name has no folder: the file is in the current directory of the process.
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        fs::File::open(folder)?.sync_all()
    }

    fn lock(&self, path: &Path, holder: u32) -> io::Result<Box<dyn Lock>> {
        let mut options = OpenOptions::new();
        let file = own::open_or_create(path, options.read(true).write(true).create(true).truncate(false));
        let mut file = file.map_err(|error| own::named(path, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // If it cannot be read, the process has not yet written its id.
                let _ = (&file).take(HOLDER_BYTES_MAX).read_to_string(&mut text);
                return Err(super::memory::held_by(path, text.trim()));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut text = Vec::new();
        (&file).take(HOLDER_BYTES_MAX).read_to_end(&mut text)?;
        if !text.trim_ascii().iter().all(u8::is_ascii_digit) {
            return Err(io::Error::other(format!("{} holds something else than a process's number", path.display())));
        }
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(format!("{holder}\n").as_bytes())?;
        Ok(Box::new(RealLock { file, path: path.to_owned() }))
    }
}

#[derive(Debug)]
struct RealFile(fs::File);

impl File for RealFile {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(into, at)
    }

    fn append(&self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        let mut written = write_vectored(&self.0, slices)?;
        // The loop goes on if there are more slices than the system takes at once, or if the disk fills up: then the next
        // call reports it.
        while written < total {
            let mut rest = slices.to_vec();
            let mut rest = rest.as_mut_slice();
            IoSlice::advance_slices(&mut rest, written);
            match write_vectored(&self.0, rest)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                more => written += more,
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.metadata().map(|metadata| metadata.len())
    }
}

impl Drop for RealFile {
    fn drop(&mut self) {
        // The last descriptor of a file without a name frees all its bytes.
        if self.0.metadata().is_ok_and(|found| found.nlink() == 0) {
            self.0.try_clone().into_iter().for_each(release::free);
        }
    }
}

fn write_vectored(mut file: &fs::File, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    loop {
        match file.write_vectored(slices) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            written => return written,
        }
    }
}

/// A lock of the system, which releases it when the file is closed.
#[derive(Debug)]
struct RealLock {
    file: fs::File,
    path: PathBuf,
}

impl Lock for RealLock {
    fn is_in_place(&self) -> bool {
        let (Ok(own), Ok(there)) = (self.file.metadata(), fs::metadata(&self.path)) else { return false };
        (own.dev(), own.ino()) == (there.dev(), there.ino())
    }
}
