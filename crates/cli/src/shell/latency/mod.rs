//! `sleeve cli --latency` and `--latency-history`: how long a PING takes.
//!
//! A hundred PINGs a second, one after the other, each timed from its write to its reply in whole milliseconds, because
//! scripts read those. On a terminal one line is kept up to date; elsewhere a line is printed when it is whole.

pub mod intrinsic;
pub mod spectrum;

use std::io;
use std::time::{Duration, Instant};

use super::format::Format;
use super::session::Session;
use crate::interrupt::Interrupt;
use crate::output;

/// The time between two PINGs.
pub const PAUSE: Duration = Duration::from_millis(10);
/// The duration of a measurement, unless `-i` sets it.
const TIME: Duration = Duration::from_secs(1);
/// The time of a line of the history.
const TIME_OF_HISTORY: Duration = Duration::from_secs(15);

/// The measurements since the last line.
#[derive(Clone, Copy, Debug)]
struct Tally {
    started: Instant,
    min_ms: u64,
    max_ms: u64,
    sum_ms: u64,
    count: u64,
}

/// Measures until Ctrl-C; without a terminal and without a history it prints one line.
pub fn run(session: &mut Session, history: bool, interval: Option<Duration>, interrupt: &Interrupt) -> io::Result<()> {
    let format = session.manner().format.clone();
    let is_live = format == Format::Standard;
    let time = interval.unwrap_or(if history { TIME_OF_HISTORY } else { TIME });
    let mut tally = Tally::new();
    while let Some(taken) = sample(session, interrupt)? {
        tally.take(taken.as_millis() as u64);
        if is_live {
            // Moves to the line's beginning, and clears the line.
            output::bytes(format!("\x1b[0G\x1b[2K{}", tally.live()).as_bytes());
        }
        let passed = tally.started.elapsed();
        if passed >= time && history && is_live {
            output::line(format_args!(" -- {:.2} seconds range", passed.as_secs_f64()));
            tally = Tally::new();
        } else if passed >= time && !is_live {
            output::line(format_args!("{}", tally.line(&format)));
            if !history {
                return Ok(());
            }
            tally = Tally::new();
        }
        output::flush();
        if !interrupt.sleep(PAUSE) {
            break;
        }
    }
    // Ctrl-C came: the measurements so far are printed.
    if is_live {
        output::line(format_args!(""));
    } else if tally.count > 0 {
        output::line(format_args!("{}", tally.line(&format)));
    }
    Ok(())
}

/// Returns the duration of one PING; `None` if Ctrl-C came first.
pub fn sample(session: &mut Session, interrupt: &Interrupt) -> io::Result<Option<Duration>> {
    let start = Instant::now();
    let reply = session.ask_until_answered(&["PING"], interrupt)?;
    Ok(reply.map(|_| start.elapsed()))
}

impl Tally {
    fn new() -> Self {
        Self { started: Instant::now(), min_ms: u64::MAX, max_ms: 0, sum_ms: 0, count: 0 }
    }

    fn take(&mut self, ms: u64) {
        self.min_ms = self.min_ms.min(ms);
        self.max_ms = self.max_ms.max(ms);
        self.sum_ms += ms;
        self.count += 1;
    }

    fn average_ms(&self) -> f64 {
        self.sum_ms as f64 / self.count.max(1) as f64
    }

    fn live(&self) -> String {
        let Self { min_ms, max_ms, count, .. } = self;
        format!("min: {min_ms}, max: {max_ms}, avg: {:.2} ({count} samples)", self.average_ms())
    }

    fn line(&self, format: &Format) -> String {
        let (Self { min_ms, max_ms, count, .. }, average_ms) = (self, self.average_ms());
        match format {
            Format::Csv => format!("{min_ms},{max_ms},{average_ms:.2},{count}"),
            Format::Json | Format::QuotedJson => {
                format!("{{\"min\": {min_ms}, \"max\": {max_ms}, \"avg\": {average_ms:.2}, \"count\": {count}}}")
            }
            Format::Standard | Format::Raw { .. } => format!("{min_ms} {max_ms} {average_ms:.2} {count}"),
        }
    }
}
