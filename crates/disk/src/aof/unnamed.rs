//! Files of an AOF that its manifest does not name: files that a process that died has left, or that an edited manifest has
//! lost.
//!
//! A base, or an increment with something in it, has its name only when a manifest that names it is on the disk, in its place
//! or beside it, where manifests lie until they are put there (`directory`). So a file that neither manifest names was named
//! once, or was put there by a user. Numbers that are on the disk are not used again: nothing is written over such a file.
//! Whether such a file holds data that no file of the AOF has is checked when the AOF has been read (`replay`). For
//! the owner of the directory.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, read_small};
use crate::format::annotation::{self, Line};
use crate::format::manifest::{self, Entry, Manifest};

use super::directory::{Directory, Options};

/// The bytes below which an increment may be without requests: its first line has fewer.
const EMPTY_BYTES_MAX: u64 = 64;

/// Bytes of the line with the salt.
const SALT_LINE_BYTES: usize = 34;

/// The largest number from which the numbering of files goes on: no AOF gets as far.
const NUMBER_MAX: i64 = i64::MAX / 2;

/// The kind of an AOF's file, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Base,
    Increment,
}

/// The files that the manifest does not name.
#[derive(Clone, Debug, Default)]
pub struct Unnamed {
    /// Bases.
    pub bases: Vec<Entry>,
    /// Increments that are not empty.
    pub increments: Vec<Entry>,
}

impl Unnamed {
    /// Returns whether the manifest names every base and every increment in the folder.
    pub fn is_empty(&self) -> bool {
        self.bases.is_empty() && self.increments.is_empty()
    }

    /// Returns the lines of a manifest that would name the newest of the bases, and all increments.
    pub fn lines(&self) -> String {
        let increments = self.increments.clone();
        let named = Manifest { base: self.bases.last().cloned(), increments, ..Manifest::default() };
        String::from_utf8_lossy(&named.to_bytes()).into_owned()
    }
}

/// Returns the kind and the number of a file of the AOF named `log`, read from the file's own name; none for another file.
pub(super) fn kind_of(log: &str, name: &str) -> Option<(Kind, i64)> {
    let rest = name.strip_prefix(log)?.strip_prefix('.')?;
    let base = rest.strip_suffix(".base.rdb").or_else(|| rest.strip_suffix(".base.aof"));
    let (kind, number) = match base {
        Some(number) => (Kind::Base, number),
        None => (Kind::Increment, rest.strip_suffix(".incr.aof")?),
    };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse().ok().filter(|&number| is_number && number <= NUMBER_MAX);
    number.map(|number| (kind, number))
}

pub(super) fn names(manifest: &Manifest, name: &str) -> bool {
    let mut entries = manifest.base.iter().chain(&manifest.increments).chain(&manifest.history);
    entries.any(|entry| entry.name == name.as_bytes())
}

impl Directory {
    /// Returns whether an increment is empty but for the line with its salt.
    pub(super) fn is_empty_increment(&self, path: &Path) -> bool {
        let bytes = read_small(self.disk.as_ref(), path, EMPTY_BYTES_MAX);
        bytes.is_ok_and(|bytes| {
            let is_line = memchr::memchr(b'\n', &bytes).is_some_and(|end| end + 1 == bytes.len());
            bytes.is_empty() || is_line && matches!(annotation::parse(&bytes, None), Line::Salt(_))
        })
    }

    /// Returns whether an increment has no request: it is empty, or a crash has left a part of the line with its salt.
    fn is_without_requests(&self, path: &Path) -> bool {
        let bytes = read_small(self.disk.as_ref(), path, EMPTY_BYTES_MAX);
        bytes.is_ok_and(|bytes| bytes.len() <= SALT_LINE_BYTES && bytes.first() != Some(&b'*'))
    }

    /// Returns the names of the directory's files. A directory without a name is the current one.
    fn names(&self) -> io::Result<Vec<String>> {
        let folder = self.options.folder.as_path();
        self.disk.list(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
    }

    /// Returns the manifest that was being put in its place, if it is there and whole.
    pub(super) fn staged_manifest(&self) -> Option<Manifest> {
        let path = self.options.unfinished_manifest();
        let is_there = self.names().is_ok_and(|names| names.iter().any(|name| self.options.path(name) == path));
        let bytes = is_there.then(|| read_small(self.disk.as_ref(), &path, manifest::BYTES_MAX).ok()).flatten()?;
        Manifest::parse(&bytes).ok().map(|(manifest, _)| manifest)
    }

    /// Returns the files with contents that are named neither by this manifest nor by the one that was being put in its
    /// place. A file that cannot be read, such as a link to nothing, counts as a file with contents.
    pub(super) fn unnamed(&self, manifest: &Manifest) -> io::Result<Unnamed> {
        let mut unnamed = Unnamed::default();
        let staged = self.staged_manifest();
        for name in self.names()? {
            let Some((kind, number)) = kind_of(&self.options.name, &name) else { continue };
            if names(manifest, &name) || staged.as_ref().is_some_and(|staged| names(staged, &name)) {
                continue;
            }
            let path = self.options.path(&name);
            let entry = Entry { name: name.into_bytes(), number, length: None };
            match kind {
                Kind::Base if self.disk.size(&path).ok() != Some(0) => unnamed.bases.push(entry),
                Kind::Increment if !self.is_without_requests(&path) => unnamed.increments.push(entry),
                _ => {}
            }
        }
        unnamed.bases.sort_by_key(|entry| entry.number);
        unnamed.increments.sort_by_key(|entry| entry.number);
        Ok(unnamed)
    }

    /// Makes the manifest pass over the numbers of all present files, so that none of them is written over.
    pub(super) fn pass_over_numbers(&self, manifest: &mut Manifest) -> io::Result<()> {
        for name in self.names()? {
            match kind_of(&self.options.name, &name) {
                Some((Kind::Base, number)) => manifest.base_number = manifest.base_number.max(number),
                // An empty increment is removed, or made again.
                Some((Kind::Increment, number)) if !self.is_without_requests(&self.options.path(&name)) => {
                    manifest.increment_number = manifest.increment_number.max(number);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the files with contents that this manifest does not name.
///
/// # Errors
/// When the directory cannot be read.
pub fn unnamed(disk: Arc<dyn Disk>, options: &Options, manifest: &Manifest) -> io::Result<Unnamed> {
    Directory { disk, options: options.clone() }.unnamed(manifest)
}
