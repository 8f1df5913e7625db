//! A snapshot under a temporary name, and its way to its own: synced, read back, and with its checksum beside it.
//!
//! The temporary file is locked while its process lives, so that another backup can tell the remains of a dead one. A draft
//! that is dropped unpublished is removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sleeve_disk::own;

use super::checksum::{self, Checksum};
use crate::check::rdb;
use crate::endpoint::without_number;

/// The permissions of a snapshot: it holds all data of the server.
const SNAPSHOT_MODE: u32 = 0o600;

/// The permissions of a checksum.
const SUM_MODE: u32 = 0o644;

/// A snapshot that is being written.
#[derive(Debug)]
pub struct Draft {
    /// The temporary path; `None` once the file has another name.
    path: Option<PathBuf>,
    file: File,
}

/// The error of a call to the system while a snapshot got its name.
#[derive(Debug)]
pub struct Unpublished {
    /// The error.
    pub error: io::Error,
    /// True if the snapshot has its name, which may not be durable.
    pub is_named: bool,
}

/// The facts about a draft that was read back.
#[derive(Clone, Copy)]
pub struct Verified {
    /// The SHA-256.
    pub sum: Checksum,
    /// The number of keys.
    pub keys: u64,
    /// The length in bytes.
    pub bytes: u64,
}

impl Draft {
    /// Makes an empty file beside `target`.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn begin(target: &Path) -> Result<Self, String> {
        let mut name = target.as_os_str().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let path = PathBuf::from(name);
        // The number of this process may have been that of a dead one, as it always is in a container.
        let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        if is_file && File::open(&path).is_ok_and(|left| left.try_lock().is_ok()) {
            _ = own::remove(&path);
        }
        let made = OpenOptions::new().write(true).create_new(true).mode(SNAPSHOT_MODE).open(&path);
        let file = made.map_err(|error| {
            let next = match error.kind() {
                io::ErrorKind::AlreadyExists => "another process writes it: wait for that, or remove the file",
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "choose a folder that this user may write to"
                }
                _ => "mend that, and try again",
            };
            format!("cannot make {}: {}; {next}", path.display(), without_number(&error))
        })?;
        // Where the file system has no locks, the remains of dead processes stay.
        _ = file.try_lock();
        Ok(Self { path: Some(path), file })
    }

    /// Returns the file, to be written.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new(""))
    }

    /// Syncs the file and reads it back: it has to be a whole snapshot, with the right sum.
    ///
    /// # Errors
    /// The fault, in words that go on behind the name of the snapshot.
    pub fn verify(&self) -> Result<Verified, String> {
        self.file.sync_all().map_err(|error| format!("cannot be synced: {}", without_number(&error)))?;
        let (keys, bytes) = rdb::verify(self.path())?;
        let sum = Checksum::of(self.path()).map_err(|error| format!("cannot be read back: {error}"))?;
        Ok(Verified { sum, keys, bytes })
    }

    /// Gives the snapshot its name, and before that its checksum the name beside it. `Ok(false)` if one of the names is taken;
    /// with `force` they are replaced.
    ///
    /// # Errors
    /// When a call to the system fails, with whether the snapshot has its name by then.
    pub fn publish(&mut self, target: &Path, verified: &Verified, force: bool) -> Result<bool, Unpublished> {
        let published = self.try_publish(target, verified, force);
        published.map_err(|error| Unpublished { error, is_named: self.is_named() })
    }

    /// Returns whether the file has its own name.
    pub fn is_named(&self) -> bool {
        self.path.is_none()
    }

    fn try_publish(&mut self, target: &Path, verified: &Verified, force: bool) -> io::Result<bool> {
        let beside = checksum::path_of(target);
        let line = verified.sum.line(target);
        if force {
            own::replace(&beside, &line, SUM_MODE)?;
        } else if is_there(target)? || !make_new(&beside, &line)? {
            return Ok(false);
        }
        // The checksum's name has to be durable before the snapshot's is.
        let named = sync_folder(target).and_then(|()| self.rename(target));
        if named.is_err() && !force {
            // The error of the rename is the one to report.
            _ = own::remove(&beside);
        }
        named.and_then(|()| sync_folder(target)).map(|()| true)
    }

    /// Renames the file, in place of a regular file that may have the name.
    ///
    /// # Errors
    /// When a call to the system fails; the file has its temporary name then.
    pub fn rename(&mut self, target: &Path) -> io::Result<()> {
        own::rename(self.path(), target)?;
        self.path = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // The error that ended the writing is the one to report.
            _ = own::remove(path);
        }
    }
}

/// Returns whether a path is taken, by anything.
///
/// # Errors
/// When a call to the system fails.
pub fn is_there(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a file with these bytes, durable but for its name; `Ok(false)` if the name is taken.
fn make_new(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(SUM_MODE).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(error),
    };
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        _ = own::remove(path);
    }
    written.map(|()| true)
}

/// Makes the names in the folder of a file durable.
///
/// # Errors
/// When a call to the system fails.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

/// Returns the folder of a path; that of a bare file name is the one that the process is in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
