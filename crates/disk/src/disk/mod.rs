//! The few calls that this program makes to a file system.
//!
//! [`Disk`] and [`File`] have four implementations: [`real`] passes the calls on, [`memory`] keeps everything in a map,
//! [`crashing`] forgets, on demand, everything that a power cut may take, and [`passing`] lets a test stand between.
//! [`gated`] is one of the last kind: it makes a sync wait until the test lets it go on. Code that writes to a disk is handed
//! one of them, so the same code runs in a server and in a simulation. The promises of a call are stated here, once:
//!
//! - bytes are durable when [`File::sync`] has succeeded after they were appended;
//! - a name (of a new file, of a renamed one, the absence of a removed one) is durable when [`Disk::sync_folder`] of its
//!   folder has succeeded;
//! - after a [`File::sync`] that failed it is unknown which bytes are durable, and a later success does not tell.
//!
//! Every call may come from any thread.

pub mod crashing;
pub mod gated;
pub mod memory;
pub mod passing;
pub mod real;

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The purpose for which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// For reading; the file must exist.
    Read,
    /// For reading and appending; the file must exist.
    Append,
    /// For reading and appending; the file begins empty, even if it existed and had bytes.
    Create,
}

/// A file system.
pub trait Disk: Debug + Send + Sync {
    /// Opens a file. With [`Open::Create`], a link at the path is not followed.
    ///
    /// # Errors
    /// If it is no regular file, and when a call to the system fails; `NotFound` if the file has to exist and does not.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>>;

    /// Returns the size of a file in bytes.
    ///
    /// # Errors
    /// `NotFound`, and other errors of the system.
    fn size(&self, path: &Path) -> io::Result<u64>;

    /// Gives a file another name, in place of the file that had that name.
    ///
    /// # Errors
    /// If one of them is no regular file, and when a call to the system fails.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// If it is no regular file, and when a call to the system fails.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns the path to which the links at the end of this path lead, so that the links stay when the file is replaced.
    /// The file need not exist.
    fn resolve(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    /// Returns the names in a folder, in no order.
    ///
    /// # Errors
    /// `NotFound` where there is no such folder, and other errors of the system.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Makes a folder, unless it is there.
    ///
    /// # Errors
    /// When a call to the system fails.
    fn make_folder(&self, folder: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// When a call to the system fails.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Takes the lock that this file stands for and writes `holder`, a process id, into it. Dropping the value releases the
    /// lock.
    ///
    /// # Errors
    /// `ResourceBusy` if another process holds it, with a text that names the process; and when a call to the system fails.
    fn lock(&self, path: &Path, holder: u32) -> io::Result<Box<dyn Lock>>;
}

/// An open file.
pub trait File: Debug + Send + Sync {
    /// Reads from byte `at` on; returns the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// When a call to the system fails.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Appends all slices, with one call to the system where it takes them at once.
    ///
    /// # Errors
    /// When a call to the system fails. Any part of the slices may be in the file then; [`File::truncate`] takes it back.
    fn append(&self, slices: &[IoSlice<'_>]) -> io::Result<()>;

    /// Makes the appended bytes durable.
    ///
    /// # Errors
    /// When a call to the system fails.
    fn sync(&self) -> io::Result<()>;

    /// Cuts the file to `length` bytes.
    ///
    /// # Errors
    /// When a call to the system fails.
    fn truncate(&self, length: u64) -> io::Result<()>;

    /// Returns the file's size in bytes.
    ///
    /// # Errors
    /// When a call to the system fails.
    fn size(&self) -> io::Result<u64>;
}

/// A lock, which is held until this value is dropped.
pub trait Lock: Debug + Send + Sync {
    /// Returns whether other processes still find the lock: its file exists, and is the one that is locked.
    fn is_in_place(&self) -> bool;
}

/// Reads into `into` until it is full or the file ends; returns the number of bytes.
///
/// # Errors
/// When a call to the system fails.
pub fn read_full(file: &dyn File, at: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(at + filled as u64, rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads a whole file that is known to be small.
///
/// # Errors
/// When a call to the system fails, and `FileTooLarge` above `bytes_max`.
pub fn read_small(disk: &dyn Disk, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Open::Read)?;
    let size = file.size()?;
    if size > bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("{size} bytes where {bytes_max} are the most"),
        ));
    }
    let mut bytes = vec![0; size as usize];
    let read = read_full(file.as_ref(), 0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}
