//! Files of an AOF that another process removes, cuts or exchanges while it is written.
//!
//! Bytes that are written to such a file are not there at the next start, and no call to the system fails for it. So the
//! writer of an AOF checks now and then whether its files are there, and whether the one that is appended to is as long as it
//! was written: a call to the system for each file. It reports the fault and mends nothing; the server, which has the data,
//! begins another AOF ([`super::Folder::wait_anew`]).

use std::fmt;
use std::path::PathBuf;

use super::place::{is_gone, manifest_path};
use super::writer::Log;

/// A change that another process has made to a file.
#[derive(Debug)]
pub struct Tampering {
    path: PathBuf,
    kind: TamperKind,
}

#[derive(Debug)]
enum TamperKind {
    Removed,
    Exchanged,
    /// It has so many bytes of so many.
    Cut(u64, u64),
    /// It has so many bytes more.
    Extended(u64),
}

impl fmt::Display for Tampering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Somebody else has ")?;
        match self.kind {
            TamperKind::Removed => write!(f, "removed {}", self.path.display()),
            TamperKind::Exchanged => write!(f, "put another file in the place of {}", self.path.display()),
            TamperKind::Cut(is, was) => write!(f, "cut {} from {was} bytes to {is}", self.path.display()),
            TamperKind::Extended(bytes) => write!(f, "appended {bytes} bytes to {}", self.path.display()),
        }
    }
}

impl Log {
    /// Returns the change that another process has made to a file of this AOF, if any. It does not look while a job is out,
    /// which changes the files itself.
    pub fn tampering(&self) -> Option<Tampering> {
        self.take_job()?;
        let current = self.current();
        let manifest = manifest_path(&self.options.folder, &self.options.name);
        let named = self.manifest.base.iter().chain(&self.manifest.increments);
        let others = named.map(|entry| self.options.path(entry.path())).filter(|path| *path != current.path);
        // An AOF that is being switched on has no other file yet: the existing files are those of an older one.
        let others = std::iter::once(manifest).chain(others).filter(|_| !self.is_waiting);
        for path in others.chain(std::iter::once(current.path.clone())) {
            if is_gone(self.disk.as_ref(), &path) {
                return Some(Tampering { path, kind: TamperKind::Removed });
            }
        }
        // If the system cannot tell the sizes now, a later check asks again.
        let (own, named) = (current.file.size().ok()?, self.disk.size(&current.path).ok()?);
        let kind = match own {
            _ if named != own => TamperKind::Exchanged,
            _ if own < current.length => TamperKind::Cut(own, current.length),
            _ if own > current.length && !self.is_torn => TamperKind::Extended(own - current.length),
            _ => return None,
        };
        Some(Tampering { path: current.path.clone(), kind })
    }
}
