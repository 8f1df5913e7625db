//! The removal of old snapshots from a folder of backups: only of files that `sleeve backup` has named.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use sleeve_disk::own;

use super::checksum;
use super::name::{Companion, SnapshotName};
use crate::endpoint::without_number;

/// Removes the oldest snapshots with their checksums, so that `keep` stay; `newest` always stays, even if the clock was set
/// back, and so does each with a later name, which another backup has made meanwhile. Removes the remains of killed backups
/// as well: checksums without a snapshot, older than all that stay, and temporary files of dead processes. Returns the
/// paths of the removed snapshots.
///
/// # Errors
/// The file that could not be removed, in a sentence for the user.
pub fn remove_oldest(folder: &Path, newest: &SnapshotName, keep: u32) -> Result<Vec<PathBuf>, String> {
    let failed =
        |path: &Path, error: &std::io::Error| format!("cannot remove {}: {}", path.display(), without_number(error));
    let entries = fs::read_dir(folder).map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let regular = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let names: Vec<_> = regular.map(|entry| entry.file_name()).collect();
    let mut snapshots: Vec<_> = names.iter().filter_map(|name| SnapshotName::read(name)).collect();
    snapshots.retain(|name| name != newest);
    snapshots.sort_unstable();
    let later = snapshots.split_off(snapshots.partition_point(|name| name < newest));
    let kept = usize::try_from(keep).unwrap_or(usize::MAX).saturating_sub(1 + later.len());
    let stays = snapshots.split_off(snapshots.len().saturating_sub(kept));
    let mut removed = Vec::new();
    for name in &snapshots {
        let path = folder.join(name.to_string());
        // The snapshot goes first: one without its checksum is never seen.
        if remove(&path).map_err(|error| failed(&path, &error))? {
            let sum = checksum::path_of(&path);
            remove(&sum).map_err(|error| failed(&sum, &error))?;
            removed.push(path);
        }
    }
    let oldest = stays.first().unwrap_or(newest).min(newest);
    for (file, (name, companion)) in names.iter().filter_map(|file| Some((file, SnapshotName::read_companion(file)?))) {
        let path = folder.join(file);
        let is_left_over = match companion {
            // A backup that runs makes the checksum before the snapshot has its name.
            Companion::Sum => {
                name < *oldest && !folder.join(name.to_string()).exists() && !is_being_made(folder, &names, &name)
            }
            Companion::Draft => name < *newest && is_of_the_dead(&path),
        };
        if is_left_over {
            remove(&path).map_err(|error| failed(&path, &error))?;
        }
    }
    Ok(removed)
}

/// Removes a file. `Ok(false)` if it is gone: another backup removes old ones as well.
fn remove(path: &Path) -> std::io::Result<bool> {
    match own::remove(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Returns whether a process writes a snapshot of this name.
fn is_being_made(folder: &Path, names: &[OsString], name: &SnapshotName) -> bool {
    let drafts = names
        .iter()
        .filter(|file| matches!(SnapshotName::read_companion(file), Some((of, Companion::Draft)) if of == *name));
    drafts.into_iter().any(|file| !is_of_the_dead(&folder.join(file)))
}

/// Returns whether no process writes a temporary file: its writer holds a lock on it.
fn is_of_the_dead(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}
