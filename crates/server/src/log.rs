//! The server's log, line by line as Redis writes it: `pid:role date time mark text`.
//!
//! Harnesses and operators' scripts read these lines, so their form is an interface. Any thread may log; a line is
//! written in one call. Embedded engines do not log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::config::LogLevel;

/// Where lines go.
#[derive(Debug)]
struct Log {
    /// Standard output when there is none.
    file: Option<Mutex<File>>,
    level: Mutex<LogLevel>,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// Opens the log of this process, once: `path` empty is standard output.
///
/// # Errors
/// What the file system says of the path.
pub fn open(path: &Path, level: LogLevel) -> io::Result<()> {
    let file = match path.as_os_str().is_empty() {
        true => None,
        false => Some(Mutex::new(OpenOptions::new().append(true).create(true).open(path)?)),
    };
    _ = LOG.set(Log { file, level: Mutex::new(level) });
    Ok(())
}

/// Logs from this level on.
pub fn set_level(level: LogLevel) {
    if let Some(log) = LOG.get() {
        *log.level.lock() = level;
    }
}

/// Something that only helps to find an error.
pub fn debug(text: &str) {
    line(LogLevel::Debug, '.', text);
}

/// Something that is seldom of use.
pub fn verbose(text: &str) {
    line(LogLevel::Verbose, '-', text);
}

/// Something an operator wants to see once.
pub fn notice(text: &str) {
    line(LogLevel::Notice, '*', text);
}

/// Something is wrong.
pub fn warning(text: &str) {
    line(LogLevel::Warning, '#', text);
}

fn line(level: LogLevel, mark: char, text: &str) {
    let Some(log) = LOG.get() else { return };
    if level < *log.level.lock() {
        return;
    }
    let line = format!("{}:M {} {mark} {text}\n", std::process::id(), stamp(SystemTime::now()));
    // A log that cannot be written has nobody left to tell.
    _ = match &log.file {
        Some(file) => file.lock().write_all(line.as_bytes()),
        None => io::stdout().write_all(line.as_bytes()),
    };
}

/// `21 Nov 2026 10:45:52.123`, in universal time.
fn stamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date_of(days as i64);
    let (hours, minutes, seconds) = (second / 3_600, second / 60 % 60, second % 60);
    let month = MONTHS[month - 1];
    format!("{day:02} {month} {year} {hours:02}:{minutes:02}:{seconds:02}.{:03}", since.subsec_millis())
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Year, month from 1 and day from 1 of so many days after 1970-01-01, by counting in 400-year eras of the proleptic
/// Gregorian calendar that begin on a first of March.
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn stamps_are_calendar_dates() {
        let at = |seconds, millis: u32| stamp(UNIX_EPOCH + Duration::new(seconds, millis * 1_000_000));
        assert_eq!(at(0, 0), "01 Jan 1970 00:00:00.000");
        assert_eq!(at(951_782_399, 7), "28 Feb 2000 23:59:59.007");
        assert_eq!(at(951_782_400, 0), "29 Feb 2000 00:00:00.000");
        assert_eq!(at(1_795_258_752, 120), "21 Nov 2026 10:59:12.120");
        assert_eq!(at(4_107_542_400, 0), "01 Mar 2100 00:00:00.000");
    }
}
