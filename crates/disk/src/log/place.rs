//! The place of an AOF and the names of its files, and how a manifest gets there.
//!
//! A manifest is written beside its place, synced, renamed, and its folder synced, so that there is always one that is whole.
//! It keeps no state; the caller holds the job for it. Any thread.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use crate::disk::{Disk, Open};
use crate::format::annotation::Salt;
use crate::format::manifest::Manifest;

/// The suffix of an unfinished base's name.
const UNFINISHED_BASE_END: &str = ".aof";

/// Where a log lies, and how it is written.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its folder (`appenddirname` in `dir`).
    pub folder: PathBuf,
    /// The prefix of its files' names (`appendfilename`).
    pub name: String,
    /// Whether each block has a line with its sum (`aof-checksums`).
    pub checksums: bool,
    /// Whether a `#TS:` line stands where the second changes (`aof-timestamp-enabled`).
    pub timestamps: bool,
    /// Random bits, which are unknown to clients that only send commands.
    pub salt: u64,
}

impl Options {
    pub(super) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.join(name)
    }

    /// The name of the only file that servers before Redis 7 had.
    pub(super) fn old_file(&self) -> PathBuf {
        self.folder.parent().unwrap_or(Path::new("")).join(&self.name)
    }

    /// Returns the file with the lock that a process which uses the AOF holds.
    pub(super) fn lock_file(&self) -> PathBuf {
        self.path(format!("{}.lock", self.name))
    }

    /// The increment of a log that is being switched on, until its base is there.
    pub(super) fn waiting_increment(&self) -> PathBuf {
        self.path(format!("temp-{}.incr", self.name))
    }

    /// Returns the path of a base that is being written under this mark: the number of the process, and perhaps one behind
    /// it, with a hyphen between. No other AOF in the same folder has such a name.
    pub fn unfinished_base(&self, mark: &str) -> PathBuf {
        self.path(format!("{}{mark}{UNFINISHED_BASE_END}", self.unfinished_base_begin()))
    }

    /// Returns the prefix of unfinished bases' names.
    fn unfinished_base_begin(&self) -> String {
        format!("temp-rewriteaof-bg-{}.", self.name)
    }

    /// Returns whether this is the name of a base or a manifest that the holder of the lock is writing. The increment of an
    /// AOF that is being switched on is none of them: it holds writes that were answered.
    pub(super) fn is_unfinished(&self, name: &str) -> bool {
        let is_mark = |mark: &str| {
            let mut numbers = mark.splitn(2, '-');
            numbers.all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let base = name.strip_prefix(&self.unfinished_base_begin());
        base.and_then(|rest| rest.strip_suffix(UNFINISHED_BASE_END)).is_some_and(is_mark)
            || self.unfinished_manifest() == self.path(name)
    }

    fn unfinished_manifest(&self) -> PathBuf {
        self.path(format!("temp-{}.manifest", self.name))
    }

    /// A salt that no other stretch of the log has.
    pub(super) fn next_salt(&mut self) -> Salt {
        // The step and the mix of SplitMix64.
        self.salt = self.salt.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.salt ^ (self.salt >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Salt((mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb))
    }
}

/// The path of the manifest of a log with this name in this folder.
pub fn manifest_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.manifest"))
}

/// Returns whether a file, or a folder on the way to it, was removed.
pub(super) fn is_gone(disk: &dyn Disk, path: &Path) -> bool {
    let gone = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
    disk.size(path).is_err_and(|error| gone.contains(&error.kind()))
}

/// A manifest that was not put in its place.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub(super) error: io::Error,
    /// True if it may be on the disk all the same: then the files that it names have to stay.
    pub(super) is_unsure: bool,
}

impl From<Unwritten> for io::Error {
    fn from(unwritten: Unwritten) -> io::Error {
        unwritten.error
    }
}

/// The path of a manifest that is not in its place yet.
pub(super) fn unfinished_manifest(options: &Options) -> PathBuf {
    options.unfinished_manifest()
}

/// Writes a manifest beside its place. Its name is durable with the next sync of the folder.
///
/// # Errors
/// Those of the system.
pub(super) fn stage_manifest(disk: &dyn Disk, options: &Options, manifest: &Manifest) -> io::Result<()> {
    let file = disk.open(&options.unfinished_manifest(), Open::Create)?;
    file.append(&[IoSlice::new(&manifest.to_bytes())])?;
    file.sync()
}

/// Puts a manifest in its place, durably.
///
/// # Errors
/// Those of the system, and whether the manifest on the disk may be this one.
pub(super) fn write_manifest(disk: &dyn Disk, options: &Options, manifest: &Manifest) -> Result<(), Unwritten> {
    stage_manifest(disk, options, manifest).map_err(|error| Unwritten { error, is_unsure: false })?;
    put_manifest(disk, options)
}

/// Puts the manifest in its place that was written beside it, durably.
///
/// # Errors
/// As [`write_manifest`].
pub(super) fn put_manifest(disk: &dyn Disk, options: &Options) -> Result<(), Unwritten> {
    let renamed = disk.rename(&options.unfinished_manifest(), &manifest_path(&options.folder, &options.name));
    renamed.map_err(|error| Unwritten { error, is_unsure: false })?;
    disk.sync_folder(&options.folder).map_err(|error| Unwritten { error, is_unsure: true })
}
