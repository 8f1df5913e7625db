//! The end of the journal that has been written to a folder before, by any process.
//!
//! A process that begins an AOF over an older one, which it has not read, has a journal of its own. It goes on where the
//! older one ended, so that offsets never go back within a folder: nothing that is history by then claims to be behind the
//! new base.

use std::io;

use crate::disk::{Disk, Open};
use crate::format::manifest::Manifest;
use crate::replay::part::claims;

use super::folder::Folder;
use super::place::Options;
use super::writer::Log;

impl Folder {
    /// Returns the journal's offset behind all that was ever written here. Reads the files, unless this process's journal has
    /// written them.
    ///
    /// # Errors
    /// Those of the system about an existing file.
    pub fn past_end(&self) -> io::Result<u64> {
        self.known_end.map_or_else(|| read_end(self.disk.as_ref(), &self.options, &self.manifest), Ok)
    }
}

impl Log {
    /// As [`Folder::past_end`], of an AOF that is being switched on, about the files that were there before.
    ///
    /// # Errors
    /// Those of the system about an existing file.
    pub fn past_end(&self) -> io::Result<u64> {
        self.known_end.map_or_else(|| read_end(self.disk.as_ref(), &self.options, &self.manifest), Ok)
    }
}

/// The journal's offset behind all that increments have, those that are history included.
fn read_end(disk: &dyn Disk, options: &Options, manifest: &Manifest) -> io::Result<u64> {
    let mut end = 0;
    for entry in manifest.increments.iter().chain(&manifest.history) {
        match disk.open(&options.path(entry.path()), Open::Read) {
            Ok(file) => {
                let held = claims(file, 0, None)?;
                end = end.max(if held.is_base { 0 } else { held.to });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(end)
}
