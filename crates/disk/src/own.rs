//! The part of a file system that this program may change: regular files, and sockets, that it has made or was given by name.
//!
//! A path that a person writes somewhere may lead to a device, a FIFO, a folder, or through a symbolic link to something
//! else. Every call that truncates, replaces or removes goes through this file. It refuses a target that is no regular file,
//! and its error names the kind of target. Links stay: where a path that was given ends in links, the file behind them is
//! written or replaced ([`follow`]). A file with a name that this program makes up, a temporary one, is never reached through
//! a link, because another process must have put the link there. No call waits for the other end of a FIFO, or opens a device
//! to see its kind.
//!
//! Linux says by which file a name is taken ([`Claim`]), so that at its end a process removes only files that are still its
//! own. Any thread.

use std::fs::{self, File, FileType, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::release;

/// Most links in a row, as in Linux.
const LINKS_MAX: usize = 40;

/// Most temporary files of one process and path that dead processes of the same number may have left.
const LEFT_OVER_MAX: usize = 1_000;

/// Returns the path at which there is no further link when the links at the end of `path` are followed. There need be no file
/// at it.
///
/// # Errors
/// If the links lead in a circle, and other errors of the system.
pub fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(error) if [io::ErrorKind::InvalidInput, io::ErrorKind::NotFound].contains(&error.kind()) => {
                return Ok(path);
            }
            Err(error) => return Err(error),
        }
    }
    Err(Errno::LOOP.into())
}

/// Returns the error that names the kind of file that was found in a place for `wanted`, such as `a regular file`.
pub fn refusal(found: FileType, wanted: &str) -> io::Error {
    let found = match found {
        // The system has its own words for this, which people know.
        found if found.is_dir() => return Errno::ISDIR.into(),
        found if found.is_file() => "a regular file",
        found if found.is_symlink() => "a symbolic link",
        found if found.is_fifo() => "a FIFO",
        found if found.is_socket() => "a socket",
        _ => "a device",
    };
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {found}, not {wanted}"))
}

/// Returns a [`refusal`] with the path that it is about, for a caller that does several things at once; other errors are as
/// they were.
pub fn named(path: &Path, error: io::Error) -> io::Error {
    match error.kind() {
        kind @ (io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory) => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default();
            io::Error::new(kind, format!("{}: {text}", path.display()))
        }
        _ => error,
    }
}

fn regular(found: &Metadata) -> io::Result<()> {
    if found.is_file() { Ok(()) } else { Err(refusal(found.file_type(), "a regular file")) }
}

/// Returns the metadata of the regular file at this path itself; `None` if the path is free.
///
/// # Errors
/// If there is another kind of file.
fn regular_or_none(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(found) => regular(&found).map(|()| Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens an existing regular file with these options, through links too.
///
/// # Errors
/// If it is another kind of file, and when a call to the system fails.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    regular(&fs::metadata(path)?)?;
    opened(options.custom_flags(flags(OFlags::NONBLOCK)).open(path)?)
}

/// Opens a file of this program's own with these options, which create it, not through a link. It is not truncated.
///
/// # Errors
/// If it is another kind of file, and when a call to the system fails.
pub fn open_or_create(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    regular_or_none(path)?;
    opened(options.custom_flags(flags(OFlags::NONBLOCK | OFlags::NOFOLLOW)).open(path)?)
}

/// Returns the file, if it is a regular one: between the look and the opening another may have come.
fn opened(file: File) -> io::Result<File> {
    regular(&file.metadata()?)?;
    Ok(file)
}

fn flags(flags: OFlags) -> i32 {
    flags.bits() as i32
}

/// Reads a regular file.
///
/// # Errors
/// If it is another kind of file, and when a call to the system fails.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, OpenOptions::new().read(true))?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens an input of any kind, without waiting for a FIFO's other end.
///
/// # Errors
/// When a call to the system fails.
pub fn open_input(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(flags(OFlags::NONBLOCK | OFlags::NOCTTY)).open(path)?;
    // Reading waits for a process that writes, and ends at once where there is none.
    rustix::io::ioctl_fionbio(&file, false)?;
    Ok(file)
}

/// Reads an input of any kind to its end.
///
/// # Errors
/// If there are more than `bytes_max` bytes, if it is a FIFO that no process writes to, and when a call to the system fails.
pub fn read_input(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = open_input(path)?;
    let is_fifo = file.metadata()?.file_type().is_fifo();
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {bytes_max} bytes")));
    }
    if is_fifo && bytes.is_empty() {
        return Err(io::Error::other("it is a FIFO that no process writes to"));
    }
    Ok(bytes)
}

/// Opens a server log to append to: a regular file, which is made where there is none, or else a device or a FIFO that is
/// only written to. A FIFO must have a reader.
///
/// # Errors
/// When a call to the system fails.
pub fn open_log(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.append(true).create(true).custom_flags(flags(OFlags::NONBLOCK | OFlags::NOCTTY)).open(path);
    let file = file.map_err(|error| match fs::metadata(path) {
        Ok(found) if found.file_type().is_fifo() && error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            io::Error::new(error.kind(), "it is a FIFO that no process reads: start its reader first")
        }
        _ => error,
    })?;
    // A line waits for its reader, as it would wait for a disk.
    rustix::io::ioctl_fionbio(&file, false)?;
    Ok(file)
}

/// Removes a regular file. Its name is gone at once; the room of a large file is given back in steps by another thread.
///
/// # Errors
/// If it is another kind of file, and when a call to the system fails.
pub fn remove(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    regular(&found)?;
    let held = release::hold(path, &found);
    fs::remove_file(path)?;
    held.into_iter().for_each(release::free);
    Ok(())
}

/// Gives a regular file another name, in place of a regular file that may have it. The room of a large file that is replaced
/// is given back in steps by another thread.
///
/// # Errors
/// If one of the two is another kind of file, and when a call to the system fails.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    regular(&fs::symlink_metadata(from)?).map_err(|error| named(from, error))?;
    let old = regular_or_none(to).map_err(|error| named(to, error))?;
    let held = old.and_then(|old| release::hold(to, &old));
    fs::rename(from, to)?;
    held.into_iter().for_each(release::free);
    Ok(())
}

/// Writes a whole file in place of the old one, so that a crash leaves one of the two: as [`Replacement`] does.
///
/// # Errors
/// If another kind of file is there, and when a call to the system fails; the old file is untouched.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut replacement = Replacement::begin(path, mode)?;
    replacement.file().write_all(bytes)?;
    replacement.finish()
}

/// A new file that is written beside an old one and takes its place when it is whole, so that a crash leaves one of the
/// two. The new file has the permissions of the old one, and its owner where the system lets this process give it. If there
/// was no old file, it has the given mode less the process's mask. Links that lead to it stay. A replacement that is dropped
/// unfinished is removed, and the old file is untouched.
#[derive(Debug)]
pub struct Replacement {
    path: PathBuf,
    /// The path of the new file; `None` once it has taken the old one's place.
    beside: Option<PathBuf>,
    file: File,
}

impl Replacement {
    /// Makes an empty file beside `path`.
    ///
    /// # Errors
    /// If something other than a regular file is at `path`, and when a call to the system fails.
    pub fn begin(path: &Path, mode: u32) -> io::Result<Self> {
        let path = follow(path)?;
        let old = regular_or_none(&path)?;
        let (beside, file) = make_beside(&path, mode)?;
        let replacement = Self { path, beside: Some(beside), file };
        if let Some(old) = &old {
            take_after(&replacement.file, old)?;
        }
        Ok(replacement)
    }

    /// Returns the new file, to be written.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Syncs the new file and renames it over the old one.
    ///
    /// # Errors
    /// When a call to the system fails; the old file is untouched unless the last sync, that of the folder, failed.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if let Some(beside) = &self.beside {
            rename(beside, &self.path)?;
        }
        self.beside = None;
        File::open(folder_of(&self.path))?.sync_all()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // The error that ended the writing is the one to report.
            _ = fs::remove_file(beside);
        }
    }
}

/// Returns the folder of a path; that of a bare file name is the one that the process is in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a new file beside another. A file that has the name already is left alone.
fn make_beside(path: &Path, mode: u32) -> io::Result<(PathBuf, File)> {
    let process = std::process::id();
    for number in 0..LEFT_OVER_MAX {
        let mut name = path.as_os_str().to_owned();
        name.push(if number == 0 { format!(".{process}.tmp") } else { format!(".{process}-{number}.tmp") });
        match OpenOptions::new().write(true).create_new(true).mode(mode).open(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return Ok((name.into(), made?)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Gives a new file the owner and the permissions of the old one, as far as the system lets this process do so.
fn take_after(file: &File, old: &Metadata) -> io::Result<()> {
    // Only root gives files away; its group may be one of this process's.
    if fchown(file, Some(old.uid()), Some(old.gid())).is_err() {
        _ = fchown(file, None, Some(old.gid()));
    }
    file.set_permissions(Permissions::from_mode(old.mode() & 0o777))
}

/// A name that this process has given to a file or a socket, to be taken away at its end.
#[derive(Clone, Debug)]
pub struct Claim {
    path: PathBuf,
    device: u64,
    number: u64,
}

impl Claim {
    /// Remembers the file at a path, which this process has just made there.
    ///
    /// # Errors
    /// When a call to the system fails.
    pub fn of(path: PathBuf) -> io::Result<Self> {
        let found = fs::symlink_metadata(&path)?;
        Ok(Self { path, device: found.dev(), number: found.ino() })
    }

    /// Removes it, unless something else is there by now.
    pub fn release(&self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.number)) {
            // It stays where the folder does not let it go.
            _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType as Made, Mode, mknodat};

    use super::*;

    /// Returns a folder with one of each: a directory, a FIFO, a socket, links, and, where the system lets us, a device.
    fn folder(name: &str) -> (PathBuf, Vec<PathBuf>) {
        let folder = std::env::temp_dir().join(format!("sleeve-own-{}-{name}", std::process::id()));
        fs::create_dir_all(folder.join("directory")).expect("a folder");
        let at = |name: &str| folder.join(name);
        mknodat(CWD, at("fifo"), Made::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        drop(std::os::unix::net::UnixListener::bind(at("socket")).expect("a socket"));
        symlink("fifo", at("link-to-fifo")).expect("a link");
        let mut all: Vec<_> = ["directory", "fifo", "socket", "link-to-fifo"].map(at).into();
        let device = at("device");
        // The numbers of the null device.
        let made = mknodat(CWD, &device, Made::CharacterDevice, Mode::RUSR | Mode::WUSR, rustix::fs::makedev(1, 3));
        all.extend(made.is_ok().then_some(device));
        (folder, all)
    }

    fn facts(path: &Path) -> (u32, u64, u64, i64) {
        let found = fs::symlink_metadata(path).expect("it is there");
        (found.mode(), found.ino(), found.rdev(), found.mtime())
    }

    #[test]
    fn nothing_but_a_regular_file_is_opened_replaced_or_removed() {
        let (folder, all) = folder("refused");
        let good = folder.join("good");
        fs::write(&good, "good").expect("a file");
        for path in &all {
            let before = facts(path);
            let tried = [
                replace(path, b"text", 0o600),
                remove(path),
                rename(&good, path),
                rename(path, &folder.join("moved")),
                open(path, OpenOptions::new().append(true)).map(drop),
                open_or_create(path, OpenOptions::new().append(true).create(true)).map(drop),
                read(path).map(drop),
            ];
            for (number, tried) in tried.into_iter().enumerate() {
                let error = tried.expect_err(&format!("{} {number}", path.display())).to_string();
                assert!(error.contains("it is a ") || error.contains("Is a directory"), "{error}");
            }
            assert_eq!(facts(path), before, "{}", path.display());
        }
        assert_eq!(fs::read(&good).expect("it is there"), b"good");
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), all.len() + 1, "something was left");
        fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn a_file_behind_links_is_replaced_and_keeps_its_permissions() {
        let (folder, _) = folder("links");
        let (target, near, far) = (folder.join("directory/target"), folder.join("near"), folder.join("far"));
        fs::write(&target, "old").expect("a file");
        fs::set_permissions(&target, Permissions::from_mode(0o640)).expect("it is ours");
        symlink("directory/target", &near).expect("a link");
        symlink("near", &far).expect("a link");
        // A process with our number has left this.
        fs::write(format!("{}.{}.tmp", target.display(), std::process::id()), "left").expect("a file");
        replace(&far, b"new", 0o600).expect("replaced");
        assert_eq!(fs::read(&target).expect("it is there"), b"new");
        assert_eq!(facts(&target).0 & 0o777, 0o640);
        assert!([near, far].iter().all(|link| link.is_symlink()));
        let circle = folder.join("circle");
        symlink("circle", &circle).expect("a link");
        assert!(replace(&circle, b"new", 0o600).is_err());
        let dangling = folder.join("dangling");
        symlink("directory/made", &dangling).expect("a link");
        replace(&dangling, b"made", 0o600).expect("made");
        assert_eq!(fs::read(folder.join("directory/made")).expect("it is there"), b"made");
        fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn a_claim_takes_away_only_what_was_claimed() {
        let (folder, _) = folder("claim");
        let path = folder.join("mine");
        fs::write(&path, "mine").expect("a file");
        let claim = Claim::of(path.clone()).expect("it is there");
        fs::write(folder.join("other"), "other").expect("a file");
        fs::rename(folder.join("other"), &path).expect("renamed");
        claim.release();
        assert_eq!(fs::read(&path).expect("it is there"), b"other");
        Claim::of(path.clone()).expect("it is there").release();
        assert!(!path.exists());
        claim.release();
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
