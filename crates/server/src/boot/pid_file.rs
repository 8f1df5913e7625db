//! The file with the number of the server's process (`pidfile`).
//!
//! It is written once when the server starts. It is removed when the server ends, unless another process has written its own
//! number into it by then. A file without the number of a process is left as it is, because the option may name any file.
//! Links that lead to the file stay.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sleeve_disk::own::{self, Claim};

use super::daemon;
use crate::config::{Config, Opt, value};
use crate::host::log;

/// The file of a server in the background for which the option names none, as in Redis.
const OF_BACKGROUND: &str = "/var/run/redis.pid";

/// The greatest length of a process's number in the file, in bytes.
const BYTES_MAX: u64 = 32;

/// Writes the number of this process to the file that the configuration names. If the write fails, the server continues
/// without the file, and the server log has the reason.
pub(super) fn write(config: &Config) -> Option<Claim> {
    let path = path_of(config)?;
    let written = write_to(&path);
    let warn = |error: &io::Error| {
        log::warning(&format!("Failed to write the pid file '{}': {}", path.display(), value::reason(error)));
    };
    written.inspect_err(warn).ok()
}

/// Returns the reason for which the server could not write its file; none if it could.
pub(super) fn obstacle(config: &Config) -> Option<String> {
    let path = path_of(config)?;
    let found = own::follow(&path).and_then(|file| has_number_or_none(&file).and_then(|()| writable(&file)));
    let refused = |error| format!("the pid file '{}' could not be written: {}", path.display(), value::reason(&error));
    found.err().map(refused)
}

/// Returns the path of the file; `None` if the option names none and no one has to find the process in the background by it.
fn path_of(config: &Config) -> Option<PathBuf> {
    let name = config.text(Opt::Pidfile);
    match name.is_empty() {
        true => daemon::is_wanted(config).then(|| PathBuf::from(OF_BACKGROUND)),
        false => Some(config.resolve(&name)),
    }
}

fn write_to(path: &Path) -> io::Result<Claim> {
    let path = own::follow(path)?;
    has_number_or_none(&path)?;
    let mut options = OpenOptions::new();
    let mut file = own::open_or_create(&path, options.write(true).create(true).truncate(false))?;
    file.set_len(0)?;
    file.write_all(format!("{}\n", std::process::id()).as_bytes())?;
    Claim::of(path)
}

/// Checks that a file may be the file of an earlier server: it is short, and has a number or nothing in it.
fn has_number_or_none(path: &Path) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let foreign = || io::Error::other("it is a file with something else than a process's number in it");
    if found.is_file() && found.len() > BYTES_MAX {
        return Err(foreign());
    }
    let text = own::read(path)?;
    let is_number = text.trim_ascii().iter().all(u8::is_ascii_digit);
    if is_number { Ok(()) } else { Err(foreign()) }
}

/// Checks that a file could be written, as far as that is possible without creating or opening a file.
///
/// # Errors
/// Errors of the operating system.
pub(super) fn writable(path: &Path) -> io::Result<()> {
    let access = |path: &Path| Ok(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?);
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(own::refusal(found.file_type(), "a regular file")),
        Ok(_) => access(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            access(path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))
        }
        Err(error) => Err(error),
    }
}
