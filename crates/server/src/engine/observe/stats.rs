//! Counters for INFO: commands, keys, bytes, expired and evicted keys.
//!
//! Each thread that executes counts in a block of its own ([`Counters`]). A block has one writer, so counting is a load and a
//! store without a locked instruction, and no cache line is shared between workers. Readers add the blocks up. CONFIG
//! RESETSTAT remembers the sums of that moment and subtracts them from then on, so it needs no other thread's help either.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use sleeve_wire::commands::{self, Row};

use super::histogram;
use super::histogram::Histograms;
use super::key_samples::KeySamples;
use super::key_tally::Tally;
use super::rates::Traffic;

/// A number with one writer.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `n`; only for the thread that owns the block.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    /// Is `n` from now on; only for the thread that owns the block.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The sum so far; for any thread.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of a command.
#[derive(Debug, Default)]
pub struct CommandCounters {
    /// Executions.
    pub calls: Count,
    /// Time spent in executions, in ticks of [`crate::host::clock::ticks`].
    pub elapsed_ticks: Count,
    /// Refused before they ran: arity, NOAUTH, OOM, ...
    pub rejected: Count,
    /// Ran and answered an error.
    pub failed: Count,
}

macro_rules! totals {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The counters of a thread.
        #[derive(Debug)]
        #[repr(align(64))]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: Count,)+
            /// The time at which commands last ended, in ticks: no sum.
            pub settled_ticks: Count,
            /// One row for each command, in the order of the command table.
            pub commands: Box<[CommandCounters]>,
            /// The execution times of commands, while `latency-tracking` is on.
            pub latencies: Histograms,
            /// The tally of HOTKEYS. No thread contends for it except one that begins or reads a collection.
            pub hot_keys: Mutex<Tally>,
            /// The keys that have been used most of late. No thread contends for it except one that reads or halves it.
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
            /// One row for each command, in the order of the command table.
            pub commands: Vec<CommandTotals>,
            /// Error replies by code word.
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
    /// Requests executed.
    executed,
    /// Clients accepted.
    connections,
    /// Clients turned away because of `maxclients`.
    connections_rejected,
    /// Bytes received.
    input_bytes,
    /// Bytes sent.
    output_bytes,
    /// Reads from sockets.
    reads,
    /// Writes to sockets.
    writes,
    /// Look-ups for reading that found the key.
    hits,
    /// Look-ups for reading that did not.
    misses,
    /// Keys removed because their time had come.
    expired,
    /// Slices of active expiry that ended because their time was over.
    expiry_capped,
    /// Time spent in active expiry, in microseconds.
    expiry_us,
    /// Keys removed to make room.
    evicted,
    /// Changes that writes have made, an element each, as `rdb_changes_since_last_save` counts them.
    changes,
    /// Payloads of RESTORE that were checked in every part.
    payloads_checked,
    /// Error replies.
    errors_replied,
    /// Commands of a primary that could not be applied and were passed over.
    passed_over,
    /// Clients closed because all together had more than `maxmemory-clients`.
    clients_evicted,
    /// Clients closed because their query buffer outgrew `client-query-buffer-limit`.
    query_buffer_closed,
    /// Clients closed because their output outgrew `client-output-buffer-limit`.
    output_buffer_closed,
    /// Wake-ups of workers.
    cycles,
    /// Ticks of workers from a wake-up until they wait again.
    cycle_ticks,
    /// The part of the ticks that went into background work.
    background_ticks,
    /// The part of the ticks in which workers wrote the journal to the AOF.
    log_ticks,
    /// Ticks of workers that received and parsed the requests that then ran.
    reading_ticks,
    /// Ticks of commands that clients sent.
    executing_ticks,
    /// Ticks of workers that answered.
    writing_ticks,
    /// Microseconds that requests waited for others that had arrived with them, added up.
    waiting_us,
    /// Microseconds that replies were held back until the changes that they show were written or fsynced, added up.
    syncing_us,
    /// Replies that were held back so.
    replies_held,
}

/// The sums of a command.
#[derive(Debug, Clone, Copy, Default)]
pub struct CommandTotals {
    /// Executions.
    pub calls: u64,
    /// Time spent in executions, in ticks of [`crate::host::clock::ticks`].
    pub elapsed_ticks: u64,
    /// Refused before they ran.
    pub rejected: u64,
    /// Ran and answered an error.
    pub failed: u64,
}

/// All blocks of one engine.
#[derive(Debug, Default)]
pub struct Stats {
    blocks: Mutex<Vec<Arc<Counters>>>,
    errors: Mutex<BTreeMap<String, u64>>,
    /// The counts of the blocks of threads that have ended.
    retired: Mutex<Totals>,
    /// Likewise how long their commands took.
    retired_latencies: Histograms,
    /// The tallies of threads that have ended.
    retired_tally: Mutex<Tally>,
    /// The samples of threads that have ended.
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

    /// A block for a thread that begins to execute.
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

    /// Removes the block of a session that is left out of all figures: its changes to the data count, its requests do not.
    pub fn close_unobserved(&self, block: &Counters) {
        let mut retired = self.retired.lock();
        retired.expired += block.expired.get();
        retired.expiry_capped += block.expiry_capped.get();
        retired.expiry_us += block.expiry_us.get();
        retired.evicted += block.evicted.get();
        retired.changes += block.changes.get();
        retired.clients_evicted += block.clients_evicted.get();
    }

    /// Returns how long the executions of all commands took since the last reset, in nanoseconds.
    pub fn latencies(&self) -> Histogram<u64> {
        let mut sum = histogram::empty();
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

    /// The sums since the last reset.
    pub fn totals(&self) -> Totals {
        let mut totals = self.sums();
        totals.subtract(&self.base.lock());
        totals.errors = self.errors.lock().clone();
        totals
    }

    /// Returns the sums since the start for which INFO shows rates. This is cheap: no command's row is read.
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

    /// Returns how long the executions of a command took since the last reset, in nanoseconds; None if there were none.
    pub fn latency(&self, row: &Row) -> Option<Histogram<u64>> {
        let mut sum = histogram::empty();
        self.retired_latencies.add_to(row.id as usize, &mut sum);
        self.blocks.lock().iter().for_each(|block| block.latencies.add_to(row.id as usize, &mut sum));
        (!sum.is_empty()).then_some(sum)
    }

    /// Shows the tally of every thread, and that of those that have gone.
    pub fn each_tally(&self, mut show: impl FnMut(&mut Tally)) {
        // While this lock is held no thread is added or removed.
        let blocks = self.blocks.lock();
        show(&mut self.retired_tally.lock());
        blocks.iter().for_each(|block| show(&mut block.hot_keys.lock()));
    }

    /// Returns the keys that have been used most of late, by all threads.
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

/// Code words that are counted apart, as in Redis; scripts can make up any number of them.
const ERROR_CODES_MAX: usize = 128;

/// A code word that is longer is none, as in Redis.
const CODE_BYTES_MAX: usize = 30;

/// Returns the code word under which an error text of a script is counted: its first word, or `ERR` if it has none.
///
/// INFO errorstats and the metrics that are made of it write the code as the name of a field. Characters that could end the
/// name there or begin a field are written as `_`.
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
