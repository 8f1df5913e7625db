//! Cutting off the part of an AOF by hand that cannot be read, or is not wanted: that part is kept beside it under another
//! name.
//!
//! First everything that will change has a copy that is durable, then the manifest does without the files that go whole, then
//! the file is cut: whenever it is interrupted, the AOF is as it was or can be cut again.

use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, Open, read_full};
use crate::format::manifest::Manifest;
use crate::replay::Cut;

use super::directory::{Directory, Options};

/// Bytes that are copied at once.
const COPY_BYTES: usize = 256 * 1024;

/// Cuts off the part that `cut` names from the AOF that has this manifest; returns the copies that it has kept. A file that
/// is an AOF by itself has no `options`. The caller has made sure that no server uses the files.
///
/// # Errors
/// When a call to the system fails; nothing is lost then.
pub fn repair(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    options: Option<&Options>,
    manifest: &Manifest,
    cut: &Cut,
) -> io::Result<Vec<PathBuf>> {
    let path = folder.join(cut.file.path());
    let directory = options.map(|options| Directory { disk: disk.clone(), options: options.clone() });
    let disk = disk.as_ref();
    let mut kept = vec![copy(disk, &path)?];
    if let Some(directory) = directory.as_ref().filter(|_| !cut.later.is_empty()) {
        kept.push(copy(disk, &directory.manifest_path())?);
        let later: Vec<PathBuf> = cut.later.iter().map(|entry| folder.join(entry.path())).collect();
        let mut shorter = manifest.clone();
        shorter.increments.retain(|entry| !cut.later.contains(entry));
        shorter.increments.last_mut().iter_mut().for_each(|last| last.length = None);
        disk.sync_folder(folder)?;
        directory.write_manifest(&shorter)?;
        for path in later {
            let name = free_name(disk, &path)?;
            disk.rename(&path, &name)?;
            kept.push(name);
        }
    }
    if let Some(directory) = directory {
        // If an earlier run was interrupted here, the manifest does not name the later files any more.
        let later = directory.unnamed(manifest)?.increments;
        for entry in later.iter().filter(|entry| entry.number > cut.file.number) {
            let path = folder.join(entry.path());
            let name = free_name(disk, &path)?;
            disk.rename(&path, &name)?;
            kept.push(name);
        }
    }
    disk.sync_folder(folder)?;
    let file = disk.open(&path, Open::Append)?;
    file.truncate(cut.at)?;
    file.sync()?;
    Ok(kept)
}

/// Makes a durable copy of a file beside it.
fn copy(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    let name = free_name(disk, path)?;
    let (from, to) = (disk.open(path, Open::Read)?, disk.open(&name, Open::Create)?);
    let (mut at, mut bytes) = (0, vec![0; COPY_BYTES]);
    loop {
        let read = read_full(from.as_ref(), at, &mut bytes)?;
        if read == 0 {
            break;
        }
        to.append(&[IoSlice::new(&bytes[..read])])?;
        at += read as u64;
    }
    to.sync()?;
    Ok(name)
}

/// Returns a free name for the copy: `NAME.backup`, or the first `NAME.backup` with a number that is free.
fn free_name(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    for number in 1..10_000 {
        let mut name = OsString::from(path);
        name.push(if number == 1 { ".backup".to_owned() } else { format!(".backup{number}") });
        match disk.size(Path::new(&name)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(name.into()),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("{} has too many backups; remove some", path.display())))
}
