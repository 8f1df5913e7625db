//! Counters for INFO: commands, keys, bytes, expired and evicted keys.
//!
//! Each thread that executes counts in a block of its own ([`Counters`]). A block has one writer, so counting is a load and a
//! store without a locked instruction, and no cache line is shared between workers. Readers add the blocks up. CONFIG
//! RESETSTAT remembers the sums of that moment and subtracts them from then on, so it needs no other thread's help either.
//!
//! A block also has the distribution of each command's execution times, for LATENCY HISTOGRAM and INFO latencystats: a
//! histogram for each command that has run, behind a lock for which only a reader ever contends. Times are in nanoseconds,
//! with two significant digits, up to a second, as in Redis.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use sleeve_wire::commands::{self, Row};

use super::key_samples::KeySamples;
use super::key_tally::Tally;
use super::rates::Traffic;

/// A number that only one thread writes.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `n`; called only by the thread that owns the block.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    /// Sets the number to `n`; called only by the thread that owns the block.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// Returns the number; for any thread.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of a command.
#[derive(Debug, Default)]
pub struct CommandCounters {
    /// The number of executions.
    pub calls: Count,
    /// Time spent in executions, in ticks of [`crate::host::clock::ticks`].
    pub elapsed_ticks: Count,
    /// The number of times that the command was refused before it ran: arity, NOAUTH, OOM, ...
    pub rejected: Count,
    /// The number of times that the command ran and answered an error.
    pub failed: Count,
}

macro_rules! totals {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The counters of a thread.
        #[derive(Debug)]
        #[repr(align(64))]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: Count,)+
            /// The ticks at which commands last ended. This is no sum.
            pub settled_ticks: Count,
            /// The counters of each command, in the order of the command table.
            pub commands: Box<[CommandCounters]>,
            /// The execution times of commands, while `latency-tracking` is on.
            pub latencies: Histograms,
            /// The tally of HOTKEYS. No thread contends for it except one that begins or reads a collection.
            pub hot_keys: Mutex<Tally>,
            /// The samples of the keys that were used most recently. No thread contends for it except one that reads or
            /// halves it.
            pub key_samples: Mutex<KeySamples>,
        }

        impl Default for Counters {
            fn default() -> Self {
                let commands = commands::all().iter().map(|_| CommandCounters::default()).collect();
                Self { $($name: Count::default(),)+ settled_ticks: Count::default(), commands, latencies: Histograms::default(), hot_keys: Mutex::default(), key_samples: Mutex::default() }
            }
        }

        /// The sums over all blocks since the last reset.
        #[derive(Debug, Clone, Default)]
        pub struct Totals {
            $($(#[doc = $doc])+ pub $name: u64,)+
            /// The sums of each command, in the order of the command table.
            pub commands: Vec<CommandTotals>,
            /// The number of error replies by code word.
            pub errors: BTreeMap<String, u64>,
        }

        impl Totals {
            fn add(&mut self, block: &Counters) {
                $(self.$name += block.$name.get();)+
                self.commands.resize(block.commands.len(), CommandTotals::default());
                for (total, count) in self.commands.iter_mut().zip(&block.commands) {
                    total.calls += count.calls.get();
                    total.elapsed_ticks += count.elapsed_ticks.get();
                    total.rejected += count.rejected.get();
                    total.failed += count.failed.get();
                }
            }

            fn subtract(&mut self, base: &Totals) {
                $(self.$name -= base.$name;)+
                for (total, base) in self.commands.iter_mut().zip(&base.commands) {
                    total.calls -= base.calls;
                    total.elapsed_ticks -= base.elapsed_ticks;
                    total.rejected -= base.rejected;
                    total.failed -= base.failed;
                }
            }
        }
    };
}

totals! {
    /// Executed requests.
    executed,
    /// Accepted clients.
    connections,
    /// Clients that were refused because of `maxclients`.
    connections_rejected,
    /// Received bytes.
    input_bytes,
    /// Sent bytes.
    output_bytes,
    /// Reads from sockets.
    reads,
    /// Writes to sockets.
    writes,
    /// Look-ups for reading that found the key.
    hits,
    /// Look-ups for reading that did not.
    misses,
    /// Keys that were removed because they had expired.
    expired,
    /// Slices of active expiry that ended because their time limit was reached.
    expiry_capped,
    /// Time spent in active expiry, in microseconds.
    expiry_us,
    /// Keys that were evicted.
    evicted,
    /// Changes that writes have made, one for each element, as `rdb_changes_since_last_save` counts them.
    changes,
    /// Payloads of RESTORE that were checked in every part.
    payloads_checked,
    /// Error replies.
    errors_replied,
    /// Commands of a primary that could not be applied and were skipped.
    passed_over,
    /// Clients that were closed because all together took more than `maxmemory-clients`.
    clients_evicted,
    /// Clients that were closed because of `client-query-buffer-limit`.
    query_buffer_closed,
    /// Clients that were closed because of `client-output-buffer-limit`.
    output_buffer_closed,
    /// Wake-ups of workers.
    cycles,
    /// Ticks of workers from each wake-up until they wait again.
    cycle_ticks,
    /// The part of these ticks that background work took.
    background_ticks,
    /// The part of these ticks in which workers wrote the journal to the AOF.
    log_ticks,
    /// Ticks in which workers received and parsed the requests that then ran.
    reading_ticks,
    /// Ticks in which commands of clients were executed.
    executing_ticks,
    /// Ticks in which workers sent replies.
    writing_ticks,
    /// Microseconds that requests waited for others that had arrived with them, in total.
    waiting_us,
    /// Microseconds that replies were held back until the changes that they show were written or fsynced, in total.
    syncing_us,
    /// Replies that were held back in this way.
    replies_held,
}

/// The longest time that a histogram tells apart, in nanoseconds.
const NANOSECONDS_MAX: u64 = 1_000_000_000;
/// The significant digits of a time in a histogram.
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
fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, NANOSECONDS_MAX, DIGITS).expect("the bounds are constants that the library takes")
}

impl Histograms {
    /// Records that the command of this row has run `count` times and taken about `nanoseconds` each time.
    pub fn record(&self, row: usize, nanoseconds: u64, count: u64) {
        let mut histogram = self.0[row].lock();
        let histogram = histogram.get_or_insert_with(|| Box::new(empty_histogram()));
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
                own.get_or_insert_with(|| Box::new(empty_histogram()))
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

/// The sums of a command.
#[derive(Debug, Clone, Copy, Default)]
pub struct CommandTotals {
    /// The number of executions.
    pub calls: u64,
    /// Time spent in executions, in ticks of [`crate::host::clock::ticks`].
    pub elapsed_ticks: u64,
    /// The number of times that the command was refused before it ran.
    pub rejected: u64,
    /// The number of times that the command ran and answered an error.
    pub failed: u64,
}

/// The counters of one engine: the blocks of its threads.
#[derive(Debug, Default)]
pub struct Stats {
    blocks: Mutex<Vec<Arc<Counters>>>,
    errors: Mutex<BTreeMap<String, u64>>,
    /// The counts of the blocks of threads that have ended.
    retired: Mutex<Totals>,
    /// The execution times of commands in threads that have ended.
    retired_latencies: Histograms,
    /// The tallies of threads that have ended.
    retired_tally: Mutex<Tally>,
    /// The samples of keys of threads that have ended.
    retired_samples: Mutex<KeySamples>,
    /// The sums at the last CONFIG RESETSTAT.
    base: Mutex<Totals>,
    /// The most ticks of one wake-up.
    pub longest_cycle_ticks: AtomicU64,
    /// The most commands of one wake-up.
    pub fullest_cycle: AtomicU64,
}

impl Stats {
    /// Keeps the figures of one wake-up, if they are the greatest so far: its ticks, and the commands that ran.
    #[inline]
    pub fn note_cycle(&self, ticks: u64, commands: u64) {
        for (most, now) in [(&self.longest_cycle_ticks, ticks), (&self.fullest_cycle, commands)] {
            if now > most.load(Ordering::Relaxed) {
                most.fetch_max(now, Ordering::Relaxed);
            }
        }
    }

    /// Makes a block for a thread that begins to execute.
    pub fn open(&self) -> Arc<Counters> {
        let block = Arc::new(Counters::default());
        self.blocks.lock().push(Arc::clone(&block));
        block
    }

    /// Removes the block of a thread that has ended; its counts stay.
    pub fn close(&self, block: &Arc<Counters>) {
        let mut blocks = self.blocks.lock();
        blocks.retain(|open| !Arc::ptr_eq(open, block));
        self.retired.lock().add(block);
        self.retired_latencies.absorb(&block.latencies);
        self.retired_tally.lock().absorb(&block.hot_keys.lock());
        self.retired_samples.lock().merge(&block.key_samples.lock());
    }

    /// Removes the block of a session that no statistic shows: only its changes to the data are counted, not its requests.
    pub fn close_unobserved(&self, block: &Counters) {
        let mut retired = self.retired.lock();
        retired.expired += block.expired.get();
        retired.expiry_capped += block.expiry_capped.get();
        retired.expiry_us += block.expiry_us.get();
        retired.evicted += block.evicted.get();
        retired.changes += block.changes.get();
        retired.clients_evicted += block.clients_evicted.get();
    }

    /// Returns the distribution of the execution times of all commands since the last reset, in nanoseconds.
    pub fn latencies(&self) -> Histogram<u64> {
        let mut sum = empty_histogram();
        let blocks = self.blocks.lock();
        for row in 0..commands::all().len() {
            self.retired_latencies.add_to(row, &mut sum);
            blocks.iter().for_each(|block| block.latencies.add_to(row, &mut sum));
        }
        sum
    }

    /// Counts an error reply by its code word.
    pub fn count_error(&self, code: &str) {
        let mut errors = self.errors.lock();
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else if errors.len() < ERROR_CODES_MAX {
            errors.insert(code.to_owned(), 1);
        }
    }

    /// Returns the sums since the last reset.
    pub fn totals(&self) -> Totals {
        let mut totals = self.sums();
        totals.subtract(&self.base.lock());
        totals.errors = self.errors.lock().clone();
        totals
    }

    /// Returns the sums for which INFO shows rates, since the start. This is cheap: the counters of single commands are not
    /// read.
    pub fn traffic(&self) -> Traffic {
        let blocks = self.blocks.lock();
        let retired = self.retired.lock();
        let sum = |retired: u64, of: fn(&Counters) -> &Count| {
            retired + blocks.iter().map(|block| of(block).get()).sum::<u64>()
        };
        Traffic {
            commands: sum(retired.executed, |block| &block.executed),
            input_bytes: sum(retired.input_bytes, |block| &block.input_bytes),
            output_bytes: sum(retired.output_bytes, |block| &block.output_bytes),
            cycles: sum(retired.cycles, |block| &block.cycles),
            cycle_ticks: sum(retired.cycle_ticks, |block| &block.cycle_ticks),
        }
    }

    /// Returns the distribution of a command's execution times since the last reset, in nanoseconds; None if it was not
    /// executed.
    pub fn latency(&self, row: &Row) -> Option<Histogram<u64>> {
        let mut sum = empty_histogram();
        self.retired_latencies.add_to(row.id as usize, &mut sum);
        self.blocks.lock().iter().for_each(|block| block.latencies.add_to(row.id as usize, &mut sum));
        (!sum.is_empty()).then_some(sum)
    }

    /// Calls `show` with the tally of every thread, and with that of the threads that have ended.
    pub fn each_tally(&self, mut show: impl FnMut(&mut Tally)) {
        // While this lock is held no thread is added or removed.
        let blocks = self.blocks.lock();
        show(&mut self.retired_tally.lock());
        blocks.iter().for_each(|block| show(&mut block.hot_keys.lock()));
    }

    /// Returns the samples of the keys that were used most recently, by all threads.
    pub fn key_samples(&self) -> KeySamples {
        let blocks = self.blocks.lock();
        let mut sum = self.retired_samples.lock().clone();
        blocks.iter().for_each(|block| sum.merge(&block.key_samples.lock()));
        sum
    }

    /// Halves the weight of the samples so far.
    pub fn halve_key_samples(&self) {
        let blocks = self.blocks.lock();
        self.retired_samples.lock().halve();
        blocks.iter().for_each(|block| block.key_samples.lock().halve());
    }

    /// Returns the number of effects of writes since the start, without regard to resets.
    pub fn changes(&self) -> u64 {
        self.sums().changes
    }

    /// Begins all sums anew.
    pub fn reset(&self) {
        *self.base.lock() = self.sums();
        self.longest_cycle_ticks.store(0, Ordering::Relaxed);
        self.fullest_cycle.store(0, Ordering::Relaxed);
        self.errors.lock().clear();
        self.retired_latencies.clear();
        self.blocks.lock().iter().for_each(|block| block.latencies.clear());
    }

    fn sums(&self) -> Totals {
        let blocks = self.blocks.lock();
        let mut totals = self.retired.lock().clone();
        for block in blocks.iter() {
            totals.add(block);
        }
        totals
    }
}

/// The most code words that are counted separately, as in Redis; scripts can make up any number of them.
const ERROR_CODES_MAX: usize = 128;

/// The greatest length of a code word, as in Redis; a longer word is none.
const CODE_BYTES_MAX: usize = 30;

/// Returns the code word under which an error text of a script is counted: its first word, or `ERR` if it has none.
///
/// INFO errorstats, and metrics that are made from it, use the code word as the name of a field. Characters that could end
/// such a name or begin a field are replaced by `_`.
pub fn code_of(text: &[u8]) -> String {
    let is_end = |byte: &u8| matches!(byte, b' ' | b'\r' | b'\n');
    let Some(end) = text.iter().take(CODE_BYTES_MAX + 1).position(is_end) else { return "ERR".into() };
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'#' | b':' | b',' | b'=' | b'"' | b'\\');
    text[..end].iter().map(|&byte| if is_plain(byte) { char::from(byte) } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::code_of;

    #[test]
    fn the_code_of_a_script_s_error_cannot_forge_a_field() {
        let cases: [(&[u8], &str); 7] = [
            (b"MINE of my own", "MINE"),
            (b"A:B,C=9 d", "A_B_C_9"),
            (b"two\nlines x", "two"),
            (b"#h\"q\\ x", "_h_q_"),
            (b"a\xa0b x", "a_b"),
            (b"noword", "ERR"),
            (b"LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL x", "ERR"),
        ];
        for (text, code) in cases {
            assert_eq!(code_of(text), code, "{}", String::from_utf8_lossy(text));
        }
    }
}
