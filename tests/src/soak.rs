//! The length of a test that also exists in a long form: short by default, and as long as `cargo xtask soak` says.

use std::time::Duration;

/// The variable with the number of minutes that a test works, for each of the configurations that it goes through.
pub const MINUTES: &str = "SLEEVE_SOAK_MINUTES";

/// The variable with the number of units that a test does: commands, histories, dumps.
pub const COUNT: &str = "SLEEVE_SOAK_COUNT";

/// Returns the time to work on each configuration: `short`, unless a soak asks for minutes.
pub fn duration(short: Duration) -> Duration {
    number(MINUTES).map_or(short, |minutes| Duration::from_secs(minutes * 60))
}

/// Returns the number of units of work: `short`, unless a soak asks for another count.
pub fn count(short: usize) -> usize {
    number(COUNT).and_then(|count| usize::try_from(count).ok()).unwrap_or(short)
}

/// Returns the number that a variable holds, if it is set.
///
/// # Panics
/// When it holds something else: a soak that is shorter than it was meant to be shows nothing.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is '{text}', which is no number")))
}
