//! The room of large files that have lost their names: it is given back in steps, on a thread of its own.
//!
//! Removing the last name of a file of several gigabytes makes the kernel free all its blocks and cached pages in one call,
//! which takes about 0.2 s for each gigabyte. So a caller that takes a name away holds the file open first ([`hold`]), and
//! hands it over afterwards ([`free`]). The thread cuts the file by [`STEP_BYTES`] at a time and pauses in between, so that
//! the file system's journal and the worker's processor are free for others. If the process ends earlier, the kernel frees
//! the rest: the name is gone already, so nothing is left over.
//!
//! A file without a name may still be read, by a transfer to a replica or by another process that copies it for a backup. It
//! must not become shorter for them. So the thread asks the kernel for a lease, which exists only for a file that no other
//! descriptor refers to, and waits until it gets one. On a file system without leases the thread only closes the file.
//!
//! The thread starts with the first file and ends with the last. If the system refuses a thread, the caller closes the file,
//! which frees it at once. Any thread may call this room.

use std::collections::VecDeque;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder};
use std::time::Duration;

use rustix::fs::OFlags;

/// The number of bytes up to which a file is freed at once.
pub const SMALL_MAX: u64 = 32 << 20;

/// The number of bytes that one step frees. With 32 MiB and pauses of 2 ms fsyncs of other files took twice as long.
pub const STEP_BYTES: u64 = 8 << 20;

/// The pause between two steps.
const PAUSE: Duration = Duration::from_millis(4);

/// The pause after which files that others have open are tried again.
const TRY_AGAIN: Duration = Duration::from_millis(250);

/// Most files that are held because others have them open. Beyond these the oldest is closed, and is freed by its last reader.
const HELD_MAX: usize = 32;

/// The command of fcntl that sets the signal of a lease; it has this number on every machine for which Sleeve is built.
const F_SETSIG: libc::c_int = 10;

/// The name of the thread.
const THREAD: &str = "disk-release";

/// The device and the number of a file.
type Id = (u64, u64);

/// The files on their way to the thread.
#[derive(Debug)]
struct Queue {
    arrived: Vec<(Id, File)>,
    /// The files that the thread has, or will have: two descriptors of one file would wait for each other.
    ids: Vec<Id>,
    has_thread: bool,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { arrived: Vec::new(), ids: Vec::new(), has_thread: false });

/// The bytes that the thread has freed in steps.
static FREED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of bytes that were freed in steps since the start of the process.
pub fn freed_bytes() -> u64 {
    FREED.load(Ordering::Relaxed)
}

/// Opens the file at a path of which the caller is about to take away the only name; `found` is what the caller has found
/// there. Returns none for a file that is small, has another name, or cannot be opened.
pub fn hold(path: &Path, found: &Metadata) -> Option<File> {
    if !is_large(found) || found.nlink() != 1 {
        return None;
    }
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = OpenOptions::new().write(true).custom_flags(flags.bits() as i32).open(path).ok()?;
    let opened = file.metadata().ok()?;
    ((opened.dev(), opened.ino()) == (found.dev(), found.ino())).then_some(file)
}

/// Gives the room of a large file back in steps, on another thread, if the file has no name any more and is open for writing.
/// Any other file is only closed.
pub fn free(file: File) {
    let is_writable = rustix::fs::fcntl_getfl(&file).is_ok_and(|flags| flags.intersects(OFlags::WRONLY | OFlags::RDWR));
    let Ok(found) = file.metadata() else { return };
    if !is_writable || !is_large(&found) || found.nlink() != 0 {
        return;
    }
    let id = (found.dev(), found.ino());
    let mut queue = lock();
    if queue.ids.contains(&id) || !queue.has_thread && Builder::new().name(THREAD.to_owned()).spawn(work).is_err() {
        // The lock is released before the file is closed, because the caller may be closing it for the last time.
        drop(queue);
        return drop(file);
    }
    queue.has_thread = true;
    queue.ids.push(id);
    queue.arrived.push((id, file));
}

/// Cuts a file to nothing, in steps with pauses on this thread if it is large.
///
/// # Errors
/// When a call to the system fails.
pub fn empty(file: &File) -> io::Result<()> {
    shorten(file, |_| thread::sleep(PAUSE))
}

fn is_large(found: &Metadata) -> bool {
    found.is_file() && found.len() > SMALL_MAX
}

fn lock() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frees files until there are none.
fn work() {
    let mut held = VecDeque::new();
    loop {
        let mut queue = lock();
        held.extend(queue.arrived.drain(..));
        if held.is_empty() {
            queue.has_thread = false;
            return;
        }
        drop(queue);
        let before = held.len();
        held.retain(|(id, file)| {
            let found = use_of(file);
            if found == Use::Sole {
                free_in_steps(file);
            }
            if found != Use::Shared {
                lock().ids.retain(|other| other != id);
            }
            found == Use::Shared
        });
        while held.len() > HELD_MAX {
            let Some((id, _file)) = held.pop_front() else { break };
            lock().ids.retain(|&other| other != id);
        }
        // Files that arrive meanwhile are only freed a moment later.
        if held.len() == before {
            thread::sleep(TRY_AGAIN);
        }
    }
}

/// Frees a file that has no name and no other descriptor. A file that cannot be cut is freed when it is closed.
fn free_in_steps(file: &File) {
    _ = shorten(file, |bytes| {
        FREED.fetch_add(bytes, Ordering::Relaxed);
        thread::sleep(PAUSE);
    });
}

/// The descriptors of a file without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// This descriptor is the only one: no other can come, because there is no name.
    Sole,
    /// Another descriptor, here or in another process, reads or writes the file.
    Shared,
    /// The file system does not say.
    Unknown,
}

/// Returns whether a descriptor is the only one of its file. The kernel gives a lease for writing in that case alone.
fn use_of(file: &File) -> Use {
    let control = |command: libc::c_int, argument: libc::c_int| {
        // SAFETY: the descriptor is open, and none of the commands below takes a pointer.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // If a process opens the file by way of /proc at this moment, the kernel sends the holder of the lease a signal: SIGURG is
    // ignored where SIGIO, which the kernel would choose, ends the process.
    match control(F_SETSIG, libc::SIGURG).and_then(|()| control(libc::F_SETLEASE, libc::F_WRLCK)) {
        Ok(()) => {
            // Closing the file ends the lease too.
            _ = control(libc::F_SETLEASE, libc::F_UNLCK);
            Use::Sole
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Use::Shared,
        Err(_) => Use::Unknown,
    }
}

/// Cuts a file to nothing from its end; calls `between` after each step with the number of bytes that it has freed.
fn shorten(file: &File, mut between: impl FnMut(u64)) -> io::Result<()> {
    let mut length = file.metadata()?.len();
    while length > STEP_BYTES {
        length -= STEP_BYTES;
        file.set_len(length)?;
        between(STEP_BYTES);
    }
    file.set_len(0)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;
    use std::sync::Arc;

    use rustix::fs::{FallocateFlags, fallocate};
    use sleeve_tests::probe::wait_until;

    use crate::disk::real::RealDisk;
    use crate::disk::{Disk, Open};

    use super::*;

    const STEPS: u64 = 5;

    /// Returns the path of a file with `STEPS` steps of bytes and one byte, the first and the last of which are written.
    fn large(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("sleeve-release-{}-{name}", std::process::id()));
        let file = File::create(&path).expect("a file");
        fallocate(&file, FallocateFlags::empty(), 0, STEPS * STEP_BYTES + 1).expect("there is room");
        file.write_all_at(b"a", 0).and_then(|()| file.write_all_at(b"z", STEPS * STEP_BYTES)).expect("there is room");
        path
    }

    /// Returns whether the thread runs in this process.
    fn has_thread() -> bool {
        let tasks = fs::read_dir("/proc/self/task").expect("this process");
        let mut names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.any(|name| name.trim_end() == THREAD)
    }

    /// Returns whether the process has a descriptor of the file that had this path.
    fn is_open(path: &Path) -> bool {
        let links = fs::read_dir("/proc/self/fd").expect("this process").flatten();
        let mut open = links.filter_map(|link| fs::read_link(link.path()).ok());
        open.any(|file| file.to_string_lossy() == format!("{} (deleted)", path.display()))
    }

    #[test]
    fn a_large_file_is_cut_by_one_step_after_the_other() {
        let path = large("cut");
        let file = OpenOptions::new().write(true).open(&path).expect("it is there");
        let mut lengths = Vec::new();
        shorten(&file, |freed| {
            assert_eq!(freed, STEP_BYTES);
            lengths.push(file.metadata().expect("it is open").len());
        })
        .expect("it is cut");
        let expected: Vec<u64> = (0..STEPS).rev().map(|left| left * STEP_BYTES + 1).collect();
        assert_eq!(lengths, expected);
        assert_eq!(file.metadata().expect("it is open").len(), 0);
        fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn the_name_goes_at_once_and_the_bytes_when_no_reader_is_left() {
        for removes in [true, false] {
            let path = large(if removes { "removed" } else { "replaced" });
            let reader = File::open(&path).expect("it is there");
            let before = freed_bytes();
            if removes {
                RealDisk.remove(&path).expect("it is ours");
                assert!(!path.exists());
                assert!(RealDisk.remove(&path).is_err(), "the second removal has to report that there is no file");
            } else {
                let other = path.with_extension("new");
                fs::write(&other, "new").expect("there is room");
                RealDisk.rename(&other, &path).expect("both are ours");
                assert_eq!(fs::read(&path).expect("it is there"), b"new");
                fs::remove_file(&path).expect("it is ours");
            }
            // The thread holds the file while it has a reader, who finds all of it.
            assert!(has_thread());
            thread::sleep(TRY_AGAIN);
            let mut byte = [0];
            reader.read_exact_at(&mut byte, STEPS * STEP_BYTES).expect("the last byte is there");
            assert_eq!(&byte, b"z");
            drop(reader);
            wait_until("the release", || !is_open(&path));
            assert!(freed_bytes() >= before + STEPS * STEP_BYTES, "it was not freed in steps");
        }
    }

    #[test]
    fn a_file_that_grows_without_a_name_is_freed_when_its_writer_lets_it_go() {
        let path = std::env::temp_dir().join(format!("sleeve-release-{}-grown", std::process::id()));
        let file: Arc<dyn crate::disk::File> = RealDisk.open(&path, Open::Create).expect("a file");
        RealDisk.remove(&path).expect("it is ours");
        file.truncate(STEPS * STEP_BYTES + 1).expect("it grows");
        let before = freed_bytes();
        drop(file);
        wait_until("the release", || !is_open(&path));
        assert!(freed_bytes() >= before + STEPS * STEP_BYTES, "it was not freed in steps");
    }

    #[test]
    fn a_file_with_another_name_keeps_its_bytes() {
        let (path, other) =
            (large("linked"), std::env::temp_dir().join(format!("sleeve-release-{}-b", std::process::id())));
        fs::hard_link(&path, &other).expect("a second name");
        RealDisk.remove(&path).expect("it is ours");
        assert_eq!(fs::metadata(&other).expect("it is there").len(), STEPS * STEP_BYTES + 1);
        assert!(!is_open(&path));
        // A caller that believes it to be without a name changes nothing either.
        free(OpenOptions::new().write(true).open(&other).expect("it is there"));
        assert_eq!(fs::metadata(&other).expect("it is there").len(), STEPS * STEP_BYTES + 1);
        fs::remove_file(&other).expect("it is ours");
    }
}
