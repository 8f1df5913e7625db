//! The names that `sleeve backup` gives to snapshots: `dump-YYYYMMDD-HHMMSS.rdb` in UTC, with `-2`, `-3` ... behind the time for
//! further ones of the same second. Pure functions.
//!
//! Only files with such a name are ever removed, so a name is read as strictly as it is written.

use std::ffi::OsStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// The end of the name of a snapshot's checksum.
pub const SUM_END: &str = ".sha256";

/// The name of a snapshot in a folder of backups. Names have the order of time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotName {
    /// The date as a number (YYYYMMDD), the time (HHMMSS), and the number within the second, from 1 on.
    date: u32,
    time: u32,
    number: u32,
}

impl SnapshotName {
    /// Returns the first name of this moment.
    pub fn at(moment: SystemTime) -> Self {
        let seconds = moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let (days, of_day) = (seconds / 86_400, (seconds % 86_400) as u32);
        let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
        Self { date: date(days), time: hour * 10_000 + minute * 100 + second, number: 1 }
    }

    /// Returns the next name of the same second.
    pub fn next(&self) -> Self {
        Self { number: self.number + 1, ..*self }
    }

    /// Reads a name; `None` if this program would not have given it.
    pub fn read(name: &OsStr) -> Option<Self> {
        let middle = name.to_str()?.strip_prefix("dump-")?.strip_suffix(".rdb")?;
        let mut parts = middle.splitn(3, '-');
        let digits = |part: &str, length: usize| {
            let is_number = part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
            if is_number { part.parse::<u32>().ok() } else { None }
        };
        let (date, time) = (digits(parts.next()?, 8)?, digits(parts.next()?, 6)?);
        let number = match parts.next() {
            Some(number) => digits(number, number.len()).filter(|&read| read > 1 && !number.starts_with('0'))?,
            None => 1,
        };
        Some(Self { date, time, number })
    }

    /// Reads the name of a snapshot's checksum, or of the temporary file of a backup, as the snapshot's name.
    pub fn read_companion(name: &OsStr) -> Option<(Self, Companion)> {
        let text = name.to_str()?;
        if let Some(snapshot) = text.strip_suffix(SUM_END) {
            return Some((Self::read(OsStr::new(snapshot))?, Companion::Sum));
        }
        let (snapshot, process) = text.strip_suffix(".tmp")?.rsplit_once('.')?;
        let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { Some((Self::read(OsStr::new(snapshot))?, Companion::Draft)) } else { None }
    }
}

/// A file beside a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Companion {
    /// Its checksum.
    Sum,
    /// The unfinished snapshot.
    Draft,
}

impl std::fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "dump-{:08}-{:06}", self.date, self.time)?;
        if self.number > 1 {
            write!(f, "-{}", self.number)?;
        }
        f.write_str(".rdb")
    }
}

/// Returns the date, as the number YYYYMMDD, of the day so many days after 1 January 1970 (Hinnant, "chrono-Compatible Low-Level
/// Date Algorithms").
fn date(days: u64) -> u32 {
    // Years begin in March here, so that the leap day is the last one, and an era has 400 of them.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year * 10_000 + month * 100 + day) as u32
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_name_states_the_time_in_utc() {
        for (seconds, expected) in [
            (0, "dump-19700101-000000.rdb"),
            (951_782_400, "dump-20000229-000000.rdb"),
            (1_709_251_199, "dump-20240229-235959.rdb"),
            (1_709_251_200, "dump-20240301-000000.rdb"),
            (4_107_542_400, "dump-21000301-000000.rdb"),
        ] {
            let name = SnapshotName::at(UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(name.to_string(), expected);
            assert_eq!(SnapshotName::read(OsStr::new(expected)), Some(name));
        }
    }

    #[test]
    fn names_have_the_order_of_time() {
        let read = |name: &str| SnapshotName::read(OsStr::new(name));
        let names = ["dump-20260101-000000.rdb", "dump-20260101-000000-2.rdb", "dump-20260101-000000-10.rdb"];
        let names = names.map(|name| read(name).unwrap());
        assert!(names.is_sorted());
        assert_eq!(names[0].next(), names[1]);
        assert_eq!(names[2].to_string(), "dump-20260101-000000-10.rdb");
    }

    #[test]
    fn names_of_other_programs_are_not_read() {
        for other in [
            "dump.rdb",
            "dump-2026101-000000.rdb",
            "dump-20260101-00000.rdb",
            "dump-20260101-000000-1.rdb",
            "dump-20260101-000000-02.rdb",
            "dump-20260101-000000-.rdb",
            "dump-20260101-000000-2-3.rdb",
            "dump-20260101-000000.rdb.gz",
            "dump-20260101-+00000.rdb",
            "mydump-20260101-000000.rdb",
        ] {
            assert_eq!(SnapshotName::read(OsStr::new(other)), None, "{other}");
        }
        let companion = |name: &str| SnapshotName::read_companion(OsStr::new(name)).map(|(_, kind)| kind);
        assert_eq!(companion("dump-20260101-000000.rdb.sha256"), Some(Companion::Sum));
        assert_eq!(companion("dump-20260101-000000.rdb.71.tmp"), Some(Companion::Draft));
        for other in ["dump.rdb.sha256", "dump-20260101-000000.rdb.tmp", "dump-20260101-000000.rdb.x.tmp", "a.7.tmp"] {
            assert_eq!(companion(other), None, "{other}");
        }
    }
}
