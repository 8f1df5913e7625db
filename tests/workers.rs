//! Several workers on the same data: what must hold however their work falls together.
//!
//! Each part starts its own servers and looks at them from outside; where Redis has the same promise, it is asked too.

mod failing;
mod judging;
mod pausing;
mod rows;
mod waiting;
mod walking;

use std::time::{Duration, Instant};

use sleeve_tests::Connection;

/// After this time a test gives up waiting for what must come; only a broken server gets near it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The reply to some words, as text.
fn ask(connection: &mut Connection, words: &[&str]) -> String {
    let reply = connection.command(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    String::from_utf8_lossy(&reply).into_owned()
}

/// A number that INFO tells.
fn told(connection: &mut Connection, name: &str) -> u64 {
    let info = ask(connection, &["INFO"]);
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("INFO does not tell {name}"))
}

/// Looks until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
