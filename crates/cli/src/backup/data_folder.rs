//! The data folder of a server that is not to be running: the processes that use it, and the older data in it.
//!
//! A Sleeve with an AOF holds a lock in the AOF's folder. Redis and Valkey hold none, but work in their data folder, as `/proc`
//! shows. A Sleeve without an AOF does neither, unless it was started there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sleeve_disk::disk::real::RealDisk;
use sleeve_disk::disk::{Disk, Lock};
use sleeve_disk::own;

use super::draft::is_there;
use crate::endpoint::without_number;

/// The end of the names under which older data stays.
const KEPT_END: &str = ".before-restore";

/// The default name of the folder of an AOF (`appenddirname`).
const AOF_FOLDER: &str = "appendonlydir";

/// The names of programs that are servers, as the kernel has them.
const SERVERS: [&str; 2] = ["redis-server", "valkey-server"];

/// The locks of all AOFs in a folder, which keep a Sleeve with an AOF from starting there.
#[derive(Debug)]
pub struct Locks {
    /// Held until the restore is over.
    _held: Vec<Box<dyn Lock>>,
}

/// Returns the AOFs in a data folder: folders with a manifest or with the default name, and files of servers before Redis 7.
///
/// # Errors
/// When a call to the system fails.
pub fn logs(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let name = name.to_string_lossy();
        let is_log = match fs::metadata(&path) {
            // The data that an earlier restore has put aside.
            _ if name.contains(KEPT_END) => false,
            Ok(kind) if kind.is_dir() => name == AOF_FOLDER || !files(&path, ".manifest").is_empty(),
            Ok(kind) => kind.is_file() && name.ends_with(".aof"),
            Err(_) => false,
        };
        found.extend(is_log.then_some(path));
    }
    found.sort();
    Ok(found)
}

/// Returns the files of a folder with this end of their names. A folder that cannot be listed has none.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(end)).map(|entry| entry.path()).collect()
}

/// Takes the locks of these AOFs.
///
/// # Errors
/// The process that has one of them, or another reason, in a sentence for the user.
pub fn lock(logs: &[PathBuf]) -> Result<Locks, String> {
    let all = logs.iter().flat_map(|folder| files(folder, ".lock"));
    let taken = all.map(|path| {
        RealDisk.lock(&path, std::process::id()).map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => format!("a server uses the folder: {error}. Stop it first"),
            _ => format!("cannot lock {}: {}", path.display(), without_number(&error)),
        })
    });
    taken.collect::<Result<_, _>>().map(|held| Locks { _held: held })
}

/// Refuses a folder in which a server works that this user can see.
///
/// # Errors
/// The process, in a sentence for the user.
pub fn refuse_running(folder: &Path) -> Result<(), String> {
    let Ok(wanted) = fs::canonicalize(folder) else { return Ok(()) };
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let process = entry.path();
        if fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == wanted) && is_server(&process) {
            let number = entry.file_name();
            return Err(format!(
                "process {} is a server that works in {}. Stop it first",
                number.display(),
                folder.display()
            ));
        }
    }
    Ok(())
}

/// Returns whether a process is a server, by the words of its command line. `sleeve` is one if it was told to serve.
fn is_server(process: &Path) -> bool {
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    let command = fs::read(process.join("cmdline")).unwrap_or_default();
    let mut words = command.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    // Servers write their address into the first word, behind the path of the program.
    let program = words.next().unwrap_or_default().into_owned();
    let program = program.split(' ').next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    SERVERS.contains(&name.trim_end())
        || SERVERS.contains(&program)
        || program == "sleeve" && words.next().as_deref() == Some("serve")
}

/// Returns the first free name for older data: `.before-restore`, and a number behind that if need be.
///
/// # Errors
/// When a call to the system fails.
pub fn name_to_keep(path: &Path) -> io::Result<PathBuf> {
    let mut number = 1_u32;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(KEPT_END);
        if number > 1 {
            name.push(format!("-{number}"));
        }
        let name = PathBuf::from(name);
        if !is_there(&name)? {
            return Ok(name);
        }
        number += 1;
    }
}

/// Gives the file at `path` a second name, so that the first one can be given to another file. Where the file system has no
/// second names, the file loses the first one.
///
/// # Errors
/// If it is no regular file, and when a call to the system fails.
pub fn keep_file(path: &Path) -> io::Result<PathBuf> {
    let name = name_to_keep(path)?;
    let found = fs::symlink_metadata(path)?;
    if !found.is_file() {
        return Err(own::refusal(found.file_type(), "a regular file"));
    }
    fs::hard_link(path, &name).or_else(|_| own::rename(path, &name))?;
    Ok(name)
}
