//! The figures of INFO that are no sums: rates a second, and the peak of memory.
//!
//! Sums are sampled ten times a second, by the thread that ticks first; a rate is the mean over the last sixteen samples, as
//! in Redis. Any thread.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::key_samples::HALF_LIFE_MS;

/// The time between two samples.
const PERIOD_MS: u64 = 100;
const SAMPLES: usize = 16;

/// The sums for which rates are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The number of executed commands.
    pub commands: u64,
    /// The number of received bytes.
    pub input_bytes: u64,
    /// The number of sent bytes.
    pub output_bytes: u64,
    /// The number of wake-ups of workers.
    pub cycles: u64,
    /// The number of clock ticks that these wake-ups took.
    pub cycle_ticks: u64,
}

/// The rates a second, and the peak of memory.
#[derive(Debug, Default)]
pub struct Rates {
    next_ms: AtomicU64,
    /// The time at which the samples of keys were halved last.
    halved_ms: AtomicU64,
    peak_bytes: AtomicU64,
    /// The share of expired keys among those with a deadline, in millionths; a moving mean, as in Redis.
    stale_ppm: AtomicU64,
    samples: Mutex<Samples>,
}

#[derive(Debug, Default)]
struct Samples {
    last_ms: u64,
    last: Traffic,
    rates: [Traffic; SAMPLES],
    next: usize,
}

impl Rates {
    /// Returns whether a sample is due; only one caller gets true. `now_ms` is monotonic.
    pub fn is_due(&self, now_ms: u64) -> bool {
        let next_ms = self.next_ms.load(Ordering::Relaxed);
        let later = now_ms + PERIOD_MS;
        now_ms >= next_ms && self.next_ms.compare_exchange(next_ms, later, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Returns whether the samples of keys are to be halved; called by the thread that samples the sums.
    pub fn are_samples_old(&self, now_ms: u64) -> bool {
        let halved_ms = self.halved_ms.load(Ordering::Relaxed);
        let is_first = halved_ms == 0;
        let is_old = now_ms.saturating_sub(halved_ms) >= HALF_LIFE_MS;
        if is_old {
            self.halved_ms.store(now_ms, Ordering::Relaxed);
        }
        is_old && !is_first
    }

    /// Takes a sample of the sums so far and of the memory in use.
    pub fn sample(&self, now_ms: u64, sums: Traffic, used_bytes: u64) {
        self.peak_bytes.fetch_max(used_bytes, Ordering::Relaxed);
        let mut samples = self.samples.lock();
        let elapsed_ms = now_ms.saturating_sub(samples.last_ms);
        let (last, next) = (samples.last, samples.next);
        if samples.last_ms != 0 && elapsed_ms != 0 {
            let rate = |now: u64, last: u64| now.saturating_sub(last) * 1_000 / elapsed_ms;
            samples.rates[next] = Traffic {
                commands: rate(sums.commands, last.commands),
                input_bytes: rate(sums.input_bytes, last.input_bytes),
                output_bytes: rate(sums.output_bytes, last.output_bytes),
                cycles: rate(sums.cycles, last.cycles),
                cycle_ticks: rate(sums.cycle_ticks, last.cycle_ticks),
            };
            samples.next = (next + 1) % SAMPLES;
        }
        samples.last_ms = now_ms;
        samples.last = sums;
    }

    /// Returns the rates a second.
    pub fn rates(&self) -> Traffic {
        let rates = self.samples.lock().rates;
        let mean = |of: fn(&Traffic) -> u64| rates.iter().map(of).sum::<u64>() / SAMPLES as u64;
        Traffic {
            commands: mean(|rate| rate.commands),
            input_bytes: mean(|rate| rate.input_bytes),
            output_bytes: mean(|rate| rate.output_bytes),
            cycles: mean(|rate| rate.cycles),
            cycle_ticks: mean(|rate| rate.cycle_ticks),
        }
    }

    /// Returns the greatest use of memory that was seen; `used_bytes` is the present use.
    pub fn peak_bytes(&self, used_bytes: u64) -> u64 {
        self.peak_bytes.fetch_max(used_bytes, Ordering::Relaxed).max(used_bytes)
    }

    /// Notes that of `looked_at` keys with a deadline `expired` ones were past it.
    pub fn note_stale(&self, expired: usize, looked_at: usize) {
        let now_ppm = (expired * 1_000_000).checked_div(looked_at).unwrap_or(0) as u64;
        let old_ppm = self.stale_ppm.load(Ordering::Relaxed);
        self.stale_ppm.store((now_ppm * 5 + old_ppm * 95) / 100, Ordering::Relaxed);
    }

    /// Returns the estimated share of expired keys among those with a deadline, in percent.
    pub fn stale_percent(&self) -> f64 {
        self.stale_ppm.load(Ordering::Relaxed) as f64 / 10_000.0
    }

    /// Forgets the rates and the peak (CONFIG RESETSTAT).
    pub fn reset(&self) {
        self.peak_bytes.store(0, Ordering::Relaxed);
        *self.samples.lock() = Samples::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_shown_once_all_samples_are_in() {
        let rates = Rates::default();
        for round in 1..=17_u64 {
            let sums = Traffic { commands: round * 50, input_bytes: round * 1_000, ..Traffic::default() };
            rates.sample(round * PERIOD_MS, sums, 10 * round);
        }
        assert_eq!(rates.rates(), Traffic { commands: 500, input_bytes: 10_000, ..Traffic::default() });
        assert_eq!(rates.peak_bytes(3), 170);
        rates.reset();
        assert_eq!((rates.rates(), rates.peak_bytes(3)), (Traffic::default(), 3));
    }

    #[test]
    fn a_sample_is_due_for_one_caller_a_period() {
        let rates = Rates::default();
        let due = [1_000, 1_000, 1_099, 1_100].map(|now_ms| rates.is_due(now_ms));
        assert_eq!(due, [true, false, false, true]);
    }
}
