//! The process's score in the kernel's order of killing when memory runs out, as the options set it.
//!
//! The score belongs to the process. So its value from before the options set it is kept here, once for all engines of the
//! process, and is restored when they no longer do. Linux only; any thread.

use std::fs;
use std::io;

use parking_lot::Mutex;

use super::log;
use crate::config::{Config, Opt, oom_values, value};

const FILE: &str = "/proc/self/oom_score_adj";
/// The greatest score of the kernel's scale; its negative is the least.
const MOST: i64 = 1_000;

/// The score from before the options set it, as long as they do.
static BEFORE: Mutex<Option<i64>> = Mutex::new(None);

/// Gives the process the score that the options set.
///
/// # Errors
/// The reason in Redis's words; the server log has the system's error.
pub fn apply(config: &Config) -> Result<(), String> {
    let mut before = BEFORE.lock();
    let score = score(config, &mut before);
    score.map_err(|error| {
        log::warning(&error);
        "Failed to set current oom_score_adj. Check server logs.".to_owned()
    })
}

fn score(config: &Config, before: &mut Option<i64>) -> Result<(), String> {
    let [alone, replica, child] = oom_values::numbers(&config.text(Opt::OomScoreAdjValues));
    if replica < alone || child < replica {
        log::warning(
            "The numbers of oom-score-adj-values fall, which the kernel may refuse to a process without privileges.",
        );
    }
    let base = match *before {
        Some(base) => base,
        None if config.number(Opt::OomScoreAdj) == 0 => return Ok(()),
        None => read().map_err(|error| format!("Unable to read oom_score_adj: {}", value::reason(&error)))?,
    };
    let (wanted, kept) = match config.number(Opt::OomScoreAdj) {
        0 => (base, None),
        1 => (base + alone, Some(base)),
        _ => (alone, Some(base)),
    };
    fs::write(FILE, format!("{}\n", wanted.clamp(-MOST, MOST)))
        .map_err(|error| format!("Unable to write oom_score_adj: {}", value::reason(&error)))?;
    *before = kept;
    Ok(())
}

fn read() -> io::Result<i64> {
    fs::read_to_string(FILE)?.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}
