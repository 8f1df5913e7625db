//! What a process that died has left in the folder of its log, and nobody needs.
//!
//! Bases and manifests that were being written have names of their own. An increment that the manifest does not name
//! is none of the log; it goes where nothing is in it but the line with its salt. Everything else stays, whatever its name: what
//! is in it may be somebody's data.

use std::io;

use crate::disk::read_small;
use crate::format::annotation::{self, Line};
use crate::format::manifest::Entry;

use super::folder::Folder;

/// Bytes of an increment that can be empty: its first line has fewer.
const EMPTY_BYTES_MAX: u64 = 64;

impl Folder {
    /// Removes what is left of bases and manifests that were never finished, and of increments that nothing came to, and says
    /// which files these were. For a process that starts: while it runs, an unfinished base may be its own.
    ///
    /// # Errors
    /// What the system says; what is left is tried again at the next start.
    pub fn remove_left_over(&self) -> io::Result<Vec<String>> {
        let mut removed = Vec::new();
        for name in self.disk.list(&self.options.folder)? {
            if self.options.is_unfinished(&name) || self.is_empty_increment(&name) {
                self.disk.remove(&self.options.path(&name))?;
                removed.push(name);
            }
        }
        removed.sort_unstable();
        Ok(removed)
    }

    /// Whether it is an increment of this log that is not named, and has nothing in it.
    fn is_empty_increment(&self, name: &str) -> bool {
        let rest = name.strip_prefix(&self.options.name).and_then(|rest| rest.strip_prefix('.'));
        let number = rest.and_then(|rest| rest.strip_suffix(".incr.aof"));
        let is_own =
            number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
        let is_it = |entry: &Entry| entry.name == name.as_bytes();
        let mut named = self.manifest.base.iter().chain(&self.manifest.increments).chain(&self.manifest.history);
        if !is_own || Folder::is_empty(self) || named.any(is_it) {
            return false;
        }
        let bytes = read_small(self.disk.as_ref(), &self.options.path(name), EMPTY_BYTES_MAX);
        bytes.is_ok_and(|bytes| {
            let is_line = memchr::memchr(b'\n', &bytes).is_some_and(|end| end + 1 == bytes.len());
            bytes.is_empty() || is_line && matches!(annotation::parse(&bytes, None), Line::Salt(_))
        })
    }
}
