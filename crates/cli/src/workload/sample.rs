//! A step's time on the clock and on the processors, measured together.
//!
//! The caller adds the processors' time of the server, if it can read it.

use std::time::{Duration, Instant};

use crate::bench::meter::own_nanoseconds;

/// The time after which a step that waits for each reply ends; its total time is then computed from the operations done.
pub const SAMPLE_TIME_MAX: Duration = Duration::from_secs(3);

/// A clock and a CPU meter that were started together.
#[derive(Debug)]
pub struct Stopwatch {
    started: Instant,
    cpu_ns: u64,
}

impl Stopwatch {
    /// Starts both.
    pub fn start() -> Self {
        Self { cpu_ns: own_nanoseconds(), started: Instant::now() }
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Stops the clock and the meter after so many operations.
    pub fn stop(&self, operations: u64) -> StepTimes {
        let elapsed = self.started.elapsed();
        StepTimes { operations, elapsed, cpu_ns: own_nanoseconds() - self.cpu_ns, server_cpu_ns: None }
    }
}

/// A number of operations, and their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTimes {
    /// The number of operations done.
    pub operations: u64,
    /// Time from first to last.
    pub elapsed: Duration,
    /// CPU time of this process, all threads.
    pub cpu_ns: u64,
    /// CPU time of the server's process, where it can be read.
    pub server_cpu_ns: Option<u64>,
}

impl StepTimes {
    /// Nanoseconds per operation.
    pub fn each_ns(&self) -> f64 {
        self.elapsed.as_nanos() as f64 / self.operations.max(1) as f64
    }

    /// CPU nanoseconds per operation.
    pub fn cpu_each_ns(&self) -> f64 {
        self.cpu_ns as f64 / self.operations.max(1) as f64
    }

    /// CPU nanoseconds of the server per operation, where that is known.
    pub fn server_cpu_each_ns(&self) -> Option<f64> {
        self.server_cpu_ns.map(|cpu_ns| cpu_ns as f64 / self.operations.max(1) as f64)
    }

    /// Returns the sample in the middle, by time per operation.
    pub fn median(mut samples: Vec<Self>) -> Option<Self> {
        samples.sort_by(|one, other| one.each_ns().total_cmp(&other.each_ns()));
        samples.get(samples.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        let sample =
            |ms| StepTimes { operations: 10, elapsed: Duration::from_millis(ms), cpu_ns: 5, server_cpu_ns: Some(20) };
        assert_eq!(StepTimes::median(vec![sample(9), sample(1), sample(3)]), Some(sample(3)));
        assert_eq!(StepTimes::median(Vec::new()), None);
        assert_eq!((sample(1).each_ns(), sample(1).cpu_each_ns()), (100_000.0, 0.5));
        assert_eq!(sample(1).server_cpu_each_ns(), Some(2.0));
    }
}
