//! `sleeve restore`: a verified snapshot in the place of a server's data.
//!
//! The new snapshot is complete, synced and read back before anything else changes. Then it takes the name of the old one,
//! which keeps a second name, and at last the AOF gets another name. If the process dies in between, a server with an AOF loads
//! the old data, and one without an AOF the new data.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::checksum::{self, Checksum};
use super::data_folder;
use super::draft::{self, Draft, Verified};
use super::options::RestoreOptions;
use super::{fail, survive_size_limit};
use crate::check::rdb;
use crate::endpoint::without_number;
use crate::output;

/// Runs the restore with these options.
pub fn run(options: &RestoreOptions) -> ExitCode {
    match try_run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => fail(&text),
    }
}

fn try_run(options: &RestoreOptions) -> Result<(), String> {
    survive_size_limit();
    let RestoreOptions { file, folder, .. } = options;
    let stated = stated(options)?;
    if !folder.is_dir() {
        return Err(format!("the folder {} is not there: make it first, for the server's user", folder.display()));
    }
    let target = folder.join(&options.dbfilename);
    let logs = data_folder::logs(folder).map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    refuse_older(options, &target, &logs)?;
    data_folder::refuse_running(folder)?;
    let locks = data_folder::lock(&logs)?;
    let mut draft = Draft::begin(&target)?;
    let older = draft::is_there(&target).unwrap_or(false).then_some(target.as_path());
    let owner = copy(file, &mut draft, older.unwrap_or(folder))?;
    let verified = draft.verify().map_err(|text| format!("{} {text}. Nothing was changed", file.display()))?;
    if stated.is_some_and(|stated| stated != verified.sum) {
        return Err(format!(
            "{} is not the file of which {} has the SHA-256: take another copy. Nothing was changed",
            file.display(),
            checksum::path_of(file).display()
        ));
    }
    let kept = place(&mut draft, &target, &logs)?;
    drop(locks);
    report(&verified, &target, &kept, &owner);
    Ok(())
}

/// Returns the checksum that belongs to the file; `None` if the user does without.
fn stated(options: &RestoreOptions) -> Result<Option<Checksum>, String> {
    let beside = checksum::path_of(&options.file);
    match (Checksum::stated_for(&options.file)?, options.no_checksum) {
        (Some(_), true) => Err(format!("{} is there: leave --no-checksum out", beside.display())),
        (None, false) => Err(format!(
            "{} is not there, so whether the file is the one that was saved cannot be told: bring it, or add --no-checksum",
            beside.display()
        )),
        (stated, _) => Ok(stated),
    }
}

/// Refuses a folder with older data, unless it is to be put aside.
fn refuse_older(options: &RestoreOptions, target: &Path, logs: &[PathBuf]) -> Result<(), String> {
    let has_snapshot =
        draft::is_there(target).map_err(|error| format!("cannot look at {}: {error}", target.display()))?;
    let older: Vec<_> = has_snapshot.then_some(target).into_iter().chain(logs.iter().map(PathBuf::as_path)).collect();
    if older.is_empty() || options.force {
        return Ok(());
    }
    let shown: Vec<_> = older.iter().map(|path| path.display().to_string()).collect();
    let why =
        if logs.is_empty() { "" } else { " A server with `appendonly yes` would load the AOF and not the snapshot." };
    Err(format!(
        "there is older data: {}.{why} Add --force to put it aside under names that end in .before-restore. Nothing was changed",
        shown.join(", ")
    ))
}

/// Copies the file into the draft and gives the draft the owner of the older snapshot, or of the folder. Returns a warning if
/// the system does not allow that.
fn copy(file: &Path, draft: &mut Draft, older: &Path) -> Result<Option<String>, String> {
    let failed =
        |error: io::Error| format!("cannot copy {}: {}. Nothing was changed", file.display(), without_number(&error));
    let mut source = rdb::open(file).map_err(|text| format!("{text}. Nothing was changed"))?;
    if !source.metadata().is_ok_and(|found| found.is_file()) {
        return Err(format!("{} is no regular file: name the snapshot", file.display()));
    }
    io::copy(&mut source, draft.file()).map_err(failed)?;
    let owner = fs::metadata(older).map_err(failed)?;
    let (mine, wanted) = (draft.file().metadata().map_err(failed)?.uid(), owner.uid());
    let given = fchown(&*draft.file(), Some(wanted), Some(owner.gid()));
    Ok((mine != wanted && given.is_err()).then(|| {
        format!("warning: only user {mine} can read it, and the data belong to user {wanted}: run chown before the server starts")
    }))
}

/// Puts the draft into its place and older data aside; returns the names of the latter.
fn place(draft: &mut Draft, target: &Path, logs: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let failed = |path: &Path, state: &str| {
        let path = path.display().to_string();
        let state = state.to_owned();
        move |error: io::Error| format!("cannot put {path} aside: {}. {state}", without_number(&error))
    };
    let mut kept = Vec::new();
    if draft::is_there(target).map_err(failed(target, "Nothing was changed"))? {
        kept.push(data_folder::keep_file(target).map_err(failed(target, "Nothing was changed"))?);
    }
    draft.rename(target).and_then(|()| draft::sync_folder(target)).map_err(|error| {
        let kept: Vec<_> = kept.iter().map(|path| path.display().to_string()).collect();
        let old = if kept.is_empty() { String::new() } else { format!(" The old file is {}", kept.join("")) };
        format!("cannot rename the snapshot to {}: {}.{old}", target.display(), without_number(&error))
    })?;
    for log in logs {
        let failed =
            failed(log, "The snapshot is in its place; move that away before a server with `appendonly yes` starts");
        let moved = data_folder::name_to_keep(log).and_then(|name| {
            // A folder is renamed with its lock, which is held.
            fs::rename(log, &name)?;
            draft::sync_folder(log).map(|()| name)
        });
        kept.push(moved.map_err(failed)?);
    }
    Ok(kept)
}

/// Prints the result and the limits of the checks.
fn report(verified: &Verified, target: &Path, kept: &[PathBuf], warning: &Option<String>) {
    let Verified { keys, bytes, .. } = verified;
    output::line(format_args!("{}: {keys} keys, {bytes} bytes, checked", target.display()));
    kept.iter().for_each(|path| output::line(format_args!("older data: {}", path.display())));
    output::line(format_args!(
        "No server was seen in this folder. A Sleeve without an AOF, and a server of another machine or user, cannot be seen."
    ));
    output::line(format_args!(
        "Redis and Valkey with `appendonly yes` would start empty: start them with `appendonly no`, then switch it on by CONFIG SET."
    ));
    output::flush();
    warning.iter().for_each(|warning| eprintln!("{warning}"));
}
