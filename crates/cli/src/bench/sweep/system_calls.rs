//! The number of a server's system calls: the tracepoint of Linux at the entry of system calls, which `perf stat -e
//! raw_syscalls:sys_enter` counts too (perf_event_open(2)).
//!
//! Counting makes a call slower, so nothing is timed at the same time. It needs privileges; without them there are no
//! figures.

use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};

/// The files with the number of the tracepoint, one for each place where the file system may be mounted.
const NAMES: [&str; 2] = [
    "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id",
    "/sys/kernel/debug/tracing/events/raw_syscalls/sys_enter/id",
];

/// Counts for the threads that there were at the beginning.
pub struct SystemCalls {
    counters: Vec<Counter>,
}

impl SystemCalls {
    /// Counts the calls of these threads from now on; `None` if the kernel does not allow it.
    pub fn watch(threads: &[i32]) -> Option<Self> {
        let text = NAMES.iter().find_map(|name| std::fs::read_to_string(name).ok())?;
        let tracepoint = Tracepoint::with_id(text.trim().parse().ok()?);
        let watch = |thread: &i32| {
            let mut counter = Builder::new(tracepoint).observe_pid(*thread).any_cpu().include_kernel().build().ok()?;
            counter.enable().ok()?;
            Some(counter)
        };
        let counters: Option<Vec<Counter>> = threads.iter().map(watch).collect();
        counters.filter(|counters| !counters.is_empty()).map(|counters| Self { counters })
    }

    /// Returns the calls so far.
    pub fn count(&mut self) -> Option<u64> {
        self.counters.iter_mut().map(|counter| counter.read().ok()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_where_that_is_allowed() {
        let this = rustix::thread::gettid().as_raw_nonzero().get();
        let Some(mut calls) = SystemCalls::watch(&[this]) else { return };
        let before = calls.count().unwrap();
        for _ in 0..100 {
            let _ = std::fs::metadata("/");
        }
        assert!(calls.count().unwrap() - before >= 100);
    }
}
