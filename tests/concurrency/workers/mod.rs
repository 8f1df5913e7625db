//! Several workers on the same data: the promises that hold however their work interleaves.
//!
//! Each part starts its own servers and looks at them from outside; promises that Redis makes too are checked against it.

mod failing;
mod judging;
mod pausing;
mod rows;
mod waiting;
mod walking;

use std::time::{Duration, Instant};

use sleeve_tests::Connection;

/// The time limit of every wait. Only a defect gets near it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the reply to some words, as text.
fn ask(connection: &mut Connection, words: &[&str]) -> String {
    let reply = connection.command(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    String::from_utf8_lossy(&reply).into_owned()
}

/// Returns a number of INFO.
fn told(connection: &mut Connection, name: &str) -> u64 {
    let info = ask(connection, &["INFO"]);
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("INFO does not tell {name}"))
}

/// Waits until a condition holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
