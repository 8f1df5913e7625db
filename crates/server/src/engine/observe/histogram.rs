//! The distribution of each command's execution times, for LATENCY HISTOGRAM and INFO latencystats.
//!
//! Each thread records into its own histograms, each behind a lock for which only a reader ever contends. A histogram is made
//! when its command first runs. Times are in nanoseconds, with two significant digits, up to a second, as in Redis.

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use sleeve_wire::commands;

const NANOSECONDS_MAX: u64 = 1_000_000_000;
const DIGITS: u8 = 2;

/// One thread's histograms, one for each row of the command table.
pub struct Histograms(Box<[Slot]>);

/// One command's histogram, once it has run.
type Slot = Mutex<Option<Box<Histogram<u64>>>>;

impl std::fmt::Debug for Histograms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Histograms(..)")
    }
}

impl Default for Histograms {
    fn default() -> Self {
        Self(commands::all().iter().map(|_| Mutex::default()).collect())
    }
}

/// Makes an empty histogram.
pub fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, NANOSECONDS_MAX, DIGITS).expect("the bounds are constants that the library takes")
}

impl Histograms {
    /// Records that the command of this row has run `count` times and taken about `nanoseconds` each time.
    pub fn record(&self, row: usize, nanoseconds: u64, count: u64) {
        let mut histogram = self.0[row].lock();
        let histogram = histogram.get_or_insert_with(|| Box::new(empty()));
        histogram.saturating_record_n(nanoseconds.clamp(1, NANOSECONDS_MAX), count);
    }

    /// Adds the recorded times of one command.
    pub fn add_to(&self, row: usize, sum: &mut Histogram<u64>) {
        if let Some(histogram) = &*self.0[row].lock() {
            sum.add(&**histogram).expect("all histograms have the same bounds");
        }
    }

    /// Adds all times that another thread has recorded.
    pub fn absorb(&self, other: &Self) {
        for (own, other) in self.0.iter().zip(&other.0) {
            if let Some(other) = &*other.lock() {
                let mut own = own.lock();
                own.get_or_insert_with(|| Box::new(empty()))
                    .add(&**other)
                    .expect("all histograms have the same bounds");
            }
        }
    }

    /// Forgets all times.
    pub fn clear(&self) {
        self.0.iter().for_each(|histogram| *histogram.lock() = None);
    }
}
