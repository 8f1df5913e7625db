//! The files that a process that died has left in the folder of its AOF, and that are not needed.
//!
//! Bases and manifests that were being written have names of their own. An increment that the manifest does not name is no
//! part of the AOF; it is removed if it holds nothing but the line with its salt. Every other file stays, under any name: it
//! may hold a user's data.

use std::io;

use super::directory::Directory;
use super::folder::Folder;
use super::unnamed;
use super::unnamed::Kind;

impl Folder {
    /// Removes bases and manifests that were never finished, and increments to which nothing was appended, and returns their
    /// names. For a process that starts: while it runs, an unfinished base may be its own.
    ///
    /// # Errors
    /// When a call to the system fails; the remaining files are tried again at the next start.
    pub fn remove_left_over(&self) -> io::Result<Vec<String>> {
        let mut removed = self.remove_unfinished()?;
        let Directory { disk, options } = &self.directory;
        for name in disk.list(&options.folder)? {
            if options.is_unfinished(&name) || self.is_empty_increment(&name) {
                disk.remove(&options.path(&name))?;
                removed.push(name);
            }
        }
        removed.sort_unstable();
        Ok(removed)
    }

    /// Removes the base and the increment that are named only by the manifest that was being put in its place. If an AOF was
    /// being switched on, its increment gets its former name back, because it holds requests that were answered. Called before
    /// another manifest is written.
    pub(super) fn remove_unfinished(&self) -> io::Result<Vec<String>> {
        let (disk, mut removed) = (self.directory.disk.as_ref(), Vec::new());
        let options = &self.directory.options;
        let Some(staged) = self.directory.staged_manifest() else { return Ok(removed) };
        for name in disk.list(&options.folder)? {
            let kind = unnamed::kind_of(&options.name, &name).map(|(kind, _)| kind);
            if unnamed::names(&self.manifest, &name) || !unnamed::names(&staged, &name) {
                continue;
            }
            let path = options.path(&name);
            match kind {
                Some(Kind::Increment) if Folder::is_empty(self) => {
                    disk.rename(&path, &options.waiting_increment())?;
                }
                Some(_) => {
                    disk.remove(&path)?;
                    removed.push(name);
                }
                None => {}
            }
        }
        self.directory.sync()?;
        Ok(removed)
    }

    /// Returns whether a file is an increment of this AOF that the manifest does not name and that is empty.
    fn is_empty_increment(&self, name: &str) -> bool {
        let is_own =
            unnamed::kind_of(&self.directory.options.name, name).is_some_and(|(kind, _)| kind == Kind::Increment);
        is_own
            && !Folder::is_empty(self)
            && !unnamed::names(&self.manifest, name)
            && self.directory.is_empty_increment(&self.directory.options.path(name))
    }
}
