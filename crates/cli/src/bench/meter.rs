//! The CPU time of the server and of the generator itself, and how often the server's threads were switched.
//!
//! A server on this machine names its process in INFO; the kernel accounts for each of its threads in nanoseconds
//! (`/proc/PID/task/*/schedstat`, Linux's `Documentation/scheduler/sched-stats.rst`), or in clock ticks (`stat`) where
//! that file is missing. A server elsewhere, or one in another process-id namespace, has no figure.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};

use crate::endpoint::{Endpoint, Login, encode, exchange};

/// The largest difference between the age that a server reports and the age of its process; both are rounded, and loading
/// takes time.
const AGE_DIFFERENCE_SECONDS_MAX: u64 = 5;

/// The resources that a server has used so far, or in a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// CPU time of all threads in nanoseconds.
    pub nanoseconds: u64,
    /// The number of context switches of the threads, voluntary or not.
    pub switches: u64,
    /// The number of system calls, where a tool counts them.
    pub system_calls: Option<u64>,
}

impl Reading {
    /// Returns the resources that were used between an earlier reading and this.
    pub fn since(self, before: Self) -> Self {
        Self {
            nanoseconds: self.nanoseconds.saturating_sub(before.nanoseconds),
            switches: self.switches.saturating_sub(before.switches),
            system_calls: self.system_calls.zip(before.system_calls).map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

/// Reads the CPU time of one process.
#[derive(Clone, Debug)]
pub struct Meter {
    tasks: PathBuf,
}

impl Meter {
    /// Returns the meter of the server at `endpoint`; `None` if the server does not run on this machine.
    pub fn find(endpoint: &Endpoint, login: &Login) -> io::Result<Option<Self>> {
        let stream = login.connect(endpoint)?;
        if !stream.is_local() {
            return Ok(None);
        }
        let mut request = Vec::new();
        encode(&["INFO", "server"], &mut request);
        // A server that refuses INFO can still be measured from outside, without its CPU time.
        let Ok(info) = exchange(&stream, &request, 1) else { return Ok(None) };
        let info = String::from_utf8_lossy(&info);
        let Some(process) = field(&info, "process_id:").and_then(|id| id.parse::<u32>().ok()) else {
            return Ok(None);
        };
        let root = PathBuf::from(format!("/proc/{process}"));
        let uptime = field(&info, "uptime_in_seconds:").and_then(|seconds| seconds.parse().ok());
        if !is_that_old(&root, uptime) {
            return Ok(None);
        }
        let meter = Self { tasks: root.join("task") };
        Ok(meter.read().is_some().then_some(meter))
    }

    /// Returns the resources that all threads have used so far; `None` once the process has ended. System calls are not
    /// counted here.
    pub fn read(&self) -> Option<Reading> {
        let mut sum = Reading::default();
        for task in fs::read_dir(&self.tasks).ok()? {
            let path = task.ok()?.path();
            // A thread that ends while the directory is read is left out.
            sum.nanoseconds += scheduled(&path.join("schedstat")).or_else(|| ticks(&path.join("stat"))).unwrap_or(0);
            sum.switches += switches(&path.join("status")).unwrap_or(0);
        }
        Some(sum)
    }

    /// Returns the kernel's folder about the server's process.
    pub fn process(&self) -> PathBuf {
        self.tasks.with_file_name("")
    }

    /// Returns the ids of the server's threads.
    pub fn threads(&self) -> Vec<i32> {
        let Ok(tasks) = fs::read_dir(&self.tasks) else { return Vec::new() };
        tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok()).collect()
    }

    /// Returns the server's resident memory in bytes.
    pub fn resident_bytes(&self) -> Option<u64> {
        let statm = fs::read_to_string(self.tasks.with_file_name("statm")).ok()?;
        let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
        Some(pages * rustix::param::page_size() as u64)
    }
}

/// Returns the CPU time of this process so far, in nanoseconds.
pub fn own_nanoseconds() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Returns whether the process with that id is as old as the server says that it is.
///
/// A server in a container reports a process id of its own; outside of the container that number belongs to another process.
fn is_that_old(root: &Path, uptime_seconds: Option<u64>) -> bool {
    let Some(claimed) = uptime_seconds else { return root.exists() };
    age_seconds(root).is_some_and(|age| age.abs_diff(claimed) <= AGE_DIFFERENCE_SECONDS_MAX)
}

fn age_seconds(root: &Path) -> Option<u64> {
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let started = stat_field(&root.join("stat"), 22)? / rustix::param::clock_ticks_per_second();
    Some((uptime as u64).saturating_sub(started))
}

fn scheduled(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
}

/// Returns the number of context switches of a thread, voluntary or not.
fn switches(path: &Path) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let counts = text.lines().filter_map(|line| line.split_once("voluntary_ctxt_switches:"));
    counts.map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

/// Returns user and system time, in nanoseconds.
fn ticks(path: &Path) -> Option<u64> {
    let ticks = stat_field(path, 14)? + stat_field(path, 15)?;
    Some(ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second()))
}

/// Returns a numeric field of a `stat` file, counted from 1 as in proc(5); the second may hold spaces and parentheses.
pub fn stat_field(path: &Path, number: usize) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let (_, after_name) = text.rsplit_once(')')?;
    after_name.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_an_age_and_uses_time() {
        let root = Path::new("/proc/self");
        assert!(is_that_old(root, age_seconds(root)));
        assert!(!is_that_old(root, Some(u64::MAX)));
        let meter = Meter { tasks: root.join("task") };
        let before = meter.read().unwrap();
        std::thread::yield_now();
        std::thread::sleep(std::time::Duration::from_micros(1));
        let used = meter.read().unwrap().since(before);
        assert!(before.nanoseconds > 0 && own_nanoseconds() > 0 && used.switches > 0 && used.system_calls.is_none());
        assert!(!meter.threads().is_empty() && meter.resident_bytes().unwrap() > 100_000);
        assert!(ticks(&root.join("stat")).is_some());
    }

    #[test]
    fn fields_are_found_by_name() {
        assert_eq!(field("$9\r\na:1\r\nbc:2 \r\n", "bc:"), Some("2"));
        assert_eq!(field("a:1", "b:"), None);
    }
}
