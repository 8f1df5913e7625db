//! The server log, line by line as Redis writes it: `pid:role date time mark text`, in local time.
//!
//! Test harnesses and operators' scripts read these lines, so their form is an interface. Any thread may log; a line is
//! written with one call. Before each line the file's name is looked up, because a tool that rotates logs moves the file away
//! and expects the next line in a new one; lines are few. The report of a crash writes to the descriptor alone; its number
//! stays the same. Embedded engines do not log.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use sleeve_disk::own;

use super::time_zone;
use crate::config::LogLevel;

/// The destination of lines.
#[derive(Debug)]
struct Log {
    /// The file; None stands for standard output.
    file: Option<Named>,
    level: Mutex<LogLevel>,
}

/// A log file, with its path.
#[derive(Debug)]
struct Named {
    path: PathBuf,
    /// The open file. Its number never changes: a new file replaces it under the same number.
    open: Mutex<OwnedFd>,
    descriptor: RawFd,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// Opens the server log of this process, once: an empty `path` is standard output.
///
/// # Errors
/// The errors of the file system for the path.
pub fn open(path: &Path, level: LogLevel) -> io::Result<()> {
    let file = match path.as_os_str().is_empty() {
        true => None,
        false => {
            let open = OwnedFd::from(own::open_log(path)?);
            Some(Named { path: path.to_owned(), descriptor: open.as_raw_fd(), open: Mutex::new(open) })
        }
    };
    _ = LOG.set(Log { file, level: Mutex::new(level) });
    Ok(())
}

/// Returns the descriptor of the server log, for code that may take no lock; None if there is no server log.
pub fn descriptor() -> Option<RawFd> {
    LOG.get().map(|log| log.file.as_ref().map_or(libc::STDOUT_FILENO, |file| file.descriptor))
}

impl Named {
    fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut open = self.open.lock();
        if !self.is_there(&open) {
            // If no new file can be made, the old file is better than none.
            _ = own::open_log(&self.path).map(|file| rustix::io::dup3(&file, &mut open, rustix::io::DupFlags::CLOEXEC));
        }
        let mut left = line;
        while !left.is_empty() {
            left = &left[rustix::io::write(&*open, left)?..];
        }
        Ok(())
    }

    /// Returns whether the path still leads to the open file.
    fn is_there(&self, open: &OwnedFd) -> bool {
        let (Ok(named), Ok(open)) = (std::fs::metadata(&self.path), rustix::fs::fstat(open)) else { return false };
        (named.dev(), named.ino()) == (open.st_dev, open.st_ino)
    }
}

/// Sets the lowest level that is logged.
pub fn set_level(level: LogLevel) {
    if let Some(log) = LOG.get() {
        *log.level.lock() = level;
    }
}

/// The option to leave user data out of lines (`hide-user-data-from-log`).
static HIDES_USER_DATA: AtomicBool = AtomicBool::new(false);

/// Switches the hiding of user data in lines on or off.
pub fn hide_user_data(hides: bool) {
    HIDES_USER_DATA.store(hides, Ordering::Relaxed);
}

/// Returns whether lines leave out user data.
pub fn hides_user_data() -> bool {
    HIDES_USER_DATA.load(Ordering::Relaxed)
}

/// Returns text with names of keys, values or words of clients as a line may show it: redacted if the option hides user data.
pub fn user_data(text: &str) -> &str {
    if hides_user_data() { REDACTED } else { text }
}

/// The replacement for text that a line leaves out, as in Redis.
const REDACTED: &str = "*redacted*";

/// Logs a line that only helps to find an error.
pub fn debug(text: &str) {
    line(LogLevel::Debug, '.', text);
}

/// Logs a line that is seldom useful.
pub fn verbose(text: &str) {
    line(LogLevel::Verbose, '-', text);
}

/// Logs a line about a normal event that an operator wants to know.
pub fn notice(text: &str) {
    line(LogLevel::Notice, '*', text);
}

/// Logs a line about a problem.
pub fn warning(text: &str) {
    line(LogLevel::Warning, '#', text);
}

fn line(level: LogLevel, mark: char, text: &str) {
    let Some(log) = LOG.get() else { return };
    if level < *log.level.lock() {
        return;
    }
    let time_ms = now_ms();
    let stamp = Stamp { time_ms, offset_s: time_zone::offset_s(time_ms / 1_000) };
    let line = format!("{}:M {stamp} {mark} {text}\n", std::process::id());
    // If the server log cannot be written, there is no other place to report it.
    _ = match &log.file {
        Some(file) => file.write(line.as_bytes()),
        None => io::stdout().write_all(line.as_bytes()),
    };
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// A moment as log lines show it: `21 Nov 2026 10:45:52.123`.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    /// Milliseconds since 1970, universal time.
    time_ms: i64,
    /// The seconds by which the local clock is ahead of UTC.
    offset_s: i64,
}

impl Stamp {
    /// Returns the present moment, for code that may not ask the system for the time zone.
    pub fn in_crash() -> Self {
        Self { time_ms: now_ms(), offset_s: time_zone::latest_offset_s() }
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local_s = self.time_ms.div_euclid(1_000) + self.offset_s;
        let (days, second) = (local_s.div_euclid(86_400), local_s.rem_euclid(86_400));
        let (year, month, day) = date_of(days);
        let (hours, minutes, seconds) = (second / 3_600, second / 60 % 60, second % 60);
        let (month, millis) = (MONTHS[month - 1], self.time_ms.rem_euclid(1_000));
        write!(out, "{day:02} {month} {year} {hours:02}:{minutes:02}:{seconds:02}.{millis:03}")
    }
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns the year, the month from 1 and the day from 1 of so many days after 1970-01-01. It counts in 400-year eras of the
/// proleptic Gregorian calendar that begin on a first of March.
fn date_of(days: i64) -> (i64, usize, i64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let calendar_month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(calendar_month <= 2), calendar_month as usize, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_calendar_dates() {
        let at = |time_s: i64, millis, offset_s| Stamp { time_ms: time_s * 1_000 + millis, offset_s }.to_string();
        assert_eq!(at(0, 0, 0), "01 Jan 1970 00:00:00.000");
        assert_eq!(at(951_782_399, 7, 0), "28 Feb 2000 23:59:59.007");
        assert_eq!(at(951_782_400, 0, 0), "29 Feb 2000 00:00:00.000");
        assert_eq!(at(1_795_258_752, 120, 0), "21 Nov 2026 10:59:12.120");
        assert_eq!(at(4_107_542_400, 0, 0), "01 Mar 2100 00:00:00.000");
        assert_eq!(at(1_795_258_752, 120, 19_800), "21 Nov 2026 16:29:12.120");
        assert_eq!(at(951_782_400, 0, -1), "28 Feb 2000 23:59:59.000");
        assert_eq!(at(0, 1, -3_600), "31 Dec 1969 23:00:00.001");
    }
}
