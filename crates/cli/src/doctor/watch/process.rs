//! Processes of this machine, as the kernel accounts for them: the server's, and those of the program.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::bench::meter::{Meter, stat_field};
use crate::doctor::evidence::Usage;

/// The beginning of the names of Sleeve's threads that execute commands. In Redis and Valkey it is the busiest thread.
const WORKERS: &str = "worker-";

/// The time that a thread has run and has waited for a processor so far, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    run_ns: u64,
    delayed_ns: u64,
}

/// The processor time of some processes' threads, from the first look on.
#[derive(Debug, Default)]
pub struct Account {
    /// The times of each thread when it was first seen, and now. A thread that starts later has begun with 0.
    threads: HashMap<PathBuf, (Times, Times)>,
    /// The prefix of the names of the threads that count.
    named: &'static str,
    has_begun: bool,
}

impl Account {
    /// Looks at the threads of these processes.
    pub fn look(&mut self, processes: &[u32]) {
        for process in processes {
            for task in entries(&PathBuf::from(format!("/proc/{process}/task"))) {
                let Some(now) = times(&task).filter(|_| is_named(&task, self.named)) else { continue };
                let first = if self.has_begun { Times::default() } else { now };
                self.threads.entry(task).or_insert((first, now)).1 = now;
            }
        }
        self.has_begun = true;
    }

    /// Returns the time used since the first look, as shares of so many seconds; the busiest share is the average of so many
    /// threads.
    pub fn usage(&self, seconds: f64, busiest: usize) -> Usage {
        let share = |now: u64, first: u64| now.saturating_sub(first) as f64 / (seconds * 1e9).max(1.0);
        let of_thread =
            |(first, now): &(Times, Times)| (share(now.run_ns, first.run_ns), share(now.delayed_ns, first.delayed_ns));
        let mut shares: Vec<(f64, f64)> = self.threads.values().map(of_thread).collect();
        shares.sort_unstable_by(|a, b| (b.0 + b.1).total_cmp(&(a.0 + a.1)));
        let mean =
            |part: fn(&(f64, f64)) -> f64| shares.iter().take(busiest).map(part).sum::<f64>() / busiest.max(1) as f64;
        Usage { busiest_share: mean(|(run, _)| *run), delayed_share: mean(|(_, delayed)| *delayed) }
    }
}

/// Returns a process with all processes that it has started, and those that they have started.
pub fn family(of: u32) -> Vec<u32> {
    let processes: Vec<(u32, u32)> = entries(Path::new("/proc"))
        .filter_map(|path| {
            let id = path.file_name()?.to_str()?.parse().ok()?;
            Some((id, stat_field(&path.join("stat"), 4)? as u32))
        })
        .collect();
    let mut family = vec![of];
    let mut at = 0;
    while let Some(parent) = family.get(at).copied() {
        family.extend(processes.iter().filter(|(id, of)| *of == parent && *id != parent).map(|(id, _)| *id));
        at += 1;
    }
    family
}

/// The server's process, if it runs on this machine.
#[derive(Debug)]
pub struct ServerProcess {
    folder: PathBuf,
    id: u32,
    account: Account,
    faults_before: u64,
    looks: u64,
    in_disk: u64,
}

impl ServerProcess {
    /// Returns the process that a meter reads.
    pub fn new(meter: &Meter) -> Option<Self> {
        let folder = meter.process();
        let id = folder.file_name()?.to_str()?.parse().ok()?;
        let faults_before = faults(&folder);
        let has_workers = entries(&folder.join("task")).any(|task| is_named(&task, WORKERS));
        let mut account = Account { named: if has_workers { WORKERS } else { "" }, ..Account::default() };
        account.look(&[id]);
        Some(Self { folder, id, account, faults_before, looks: 0, in_disk: 0 })
    }

    /// Checks whether a thread of the server waits for a disk just now.
    pub fn look(&mut self) {
        self.looks += 1;
        let waits = |task: PathBuf| state(&task).is_some_and(|state| state == 'D');
        self.in_disk += u64::from(entries(&self.folder.join("task")).any(waits));
    }

    /// Returns the time that its threads have used in so much time, and the time of the busiest of them.
    pub fn usage(&mut self, seconds: f64, busiest: usize) -> Usage {
        self.account.look(&[self.id]);
        self.account.usage(seconds, busiest)
    }

    /// Returns the share of looks in which a thread waited for a disk.
    pub fn disk_share(&self) -> f64 {
        self.in_disk as f64 / self.looks.max(1) as f64
    }

    /// Returns the number of pages that were read from a disk since the beginning.
    pub fn major_faults(&self) -> u64 {
        faults(&self.folder).saturating_sub(self.faults_before)
    }

    /// Returns the bytes that are swapped out; none if the kernel does not report them.
    pub fn swapped_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(self.folder.join("status")).ok()?;
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmSwap:"))?;
        kilobytes.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|count| count * 1024)
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

/// Returns whether a thread's name begins with `start`.
fn is_named(task: &Path, start: &str) -> bool {
    start.is_empty() || fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with(start))
}

fn times(task: &Path) -> Option<Times> {
    let text = fs::read_to_string(task.join("schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse);
    Some(Times { run_ns: numbers.next()?.ok()?, delayed_ns: numbers.next()?.ok()? })
}

fn faults(folder: &Path) -> u64 {
    stat_field(&folder.join("stat"), 12).unwrap_or_default()
}

/// Returns the letter of a thread's state, as in proc(5).
fn state(task: &Path) -> Option<char> {
    let text = fs::read_to_string(task.join("stat")).ok()?;
    text.rsplit_once(')')?.1.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_is_accounted_for() {
        let mut account = Account::default();
        let own = std::process::id();
        account.look(&[own]);
        let mut sum = 0_u64;
        while account.usage(1.0, 1).busiest_share == 0.0 {
            sum = (0..1_000_000).fold(sum, u64::wrapping_add);
            account.look(&[own]);
        }
        assert!(std::hint::black_box(sum) > 0);
        assert_eq!(Account::default().usage(1.0, 1).busiest_share, 0.0);
    }

    #[test]
    fn a_family_has_those_that_were_started() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let family = family(std::process::id());
        assert!(family.contains(&std::process::id()) && family.contains(&child.id()), "{family:?}");
        assert!(state(Path::new("/proc/self/task").join(std::process::id().to_string()).as_path()).is_some());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
