//! Where the rooms below the session ask the machine for the time or for a random number.
//!
//! Both are handed down with what a thread has at hand, so that a whole engine runs again from one seed. Lengths of time
//! that are only measured, and what waits for another machine, stand in a list with their reasons.

use crate::source::{Source, is_test_only};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The rooms below the session.
const ROOMS: &[&str] = &[
    "crates/server/src/execute/",
    "crates/server/src/commands/",
    "crates/server/src/context/",
    "crates/server/src/engine/",
    "crates/server/src/lua/",
    "crates/store/src/",
    "crates/disk/src/",
];

/// Why a file that writes to the disk may ask.
const OF_THE_DISK: &str = "threads that wait for the disk have the machine's clock, as workers have";

/// What may be asked for where, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "crates/server/src/engine/origin.rs",
        "Instant::now",
        "the one place where an engine begins with the machine's time",
    ),
    (
        "crates/server/src/engine/migrate_target.rs",
        "Instant::now",
        "another server is waited for, and it has its own time",
    ),
    ("crates/server/src/engine/durability/log_file.rs", "Instant::now", OF_THE_DISK),
    ("crates/server/src/engine/persistence/log.rs", "Instant::now", OF_THE_DISK),
    ("crates/server/src/engine/persistence/save.rs", "Instant::now", OF_THE_DISK),
    ("crates/server/src/engine/persistence/save.rs", "monotonic_ms", OF_THE_DISK),
    ("crates/server/src/engine/persistence/save.rs", "ticks", "how long a snapshot holds a shard is only measured"),
    ("crates/server/src/engine/persistence/shutdown.rs", "Instant::now", OF_THE_DISK),
    ("crates/server/src/engine/persistence/switch.rs", "Instant::now", OF_THE_DISK),
    ("crates/server/src/engine/persistence/threads.rs", "Instant::now", OF_THE_DISK),
    ("crates/server/src/context/account.rs", "ticks", "a measurement; an engine of a seed has a ticker that stands"),
    ("crates/server/src/commands/script/function.rs", "monotonic_ms", "how long a script has really run"),
    ("crates/server/src/context/locking.rs", "monotonic_ms", "how long a script has really run"),
    ("crates/server/src/lua/evaluate.rs", "monotonic_ms", "how long a script really runs says when others are served"),
    ("crates/server/src/lua/native/hook.rs", "ticks", "how often a script that runs is looked after"),
    ("crates/server/src/lua/native/interrupt.rs", "monotonic_ms", "how long a script may really take to load"),
];

/// The places of a file that ask the machine, each with its line.
pub fn places(source: &Source) -> Vec<String> {
    let path = source.path.as_str();
    if !ROOMS.iter().any(|room| path.starts_with(room)) || source.is_test_module() {
        return Vec::new();
    }
    let mut finder = Finder { path, found: Vec::new() };
    finder.visit_file(&source.syntax);
    finder.found
}

struct Finder<'a> {
    path: &'a str,
    found: Vec<String>,
}

/// What this path asks the machine for.
fn asked(path: &syn::Path) -> Option<&'static str> {
    let name = |segment: &syn::PathSegment| segment.ident.to_string();
    let (first, last) = (name(path.segments.first()?), name(path.segments.last()?));
    let before = path.segments.iter().rev().nth(1).map(name).unwrap_or_default();
    match (before.as_str(), last.as_str()) {
        _ if first == "fastrand" => Some("fastrand"),
        ("Instant", "now") => Some("Instant::now"),
        ("SystemTime", "now") => Some("SystemTime::now"),
        ("clock", "ticks") => Some("ticks"),
        (_, "monotonic_ns") => Some("monotonic_ns"),
        (_, "monotonic_ms") => Some("monotonic_ms"),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_only(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let Some(what) = asked(path)
            && !EXCEPTIONS.iter().any(|(file, excepted, _)| *file == self.path && *excepted == what)
        {
            self.found.push(format!("{}:{}: {what}", self.path, path.span().start().line));
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_by(text: &str) -> Option<&'static str> {
        asked(&syn::parse_str(text).expect("it is a path"))
    }

    #[test]
    fn paths_that_ask_the_machine_are_known_and_others_are_left_alone() {
        assert_eq!(asked_by("fastrand::u64"), Some("fastrand"));
        assert_eq!(asked_by("std::time::Instant::now"), Some("Instant::now"));
        assert_eq!(asked_by("SystemTime::now"), Some("SystemTime::now"));
        assert_eq!(asked_by("monotonic_ns"), Some("monotonic_ns"));
        assert_eq!(asked_by("clock::ticks"), Some("ticks"));
        assert_eq!(asked_by("Instant"), None);
        assert_eq!(asked_by("ticks"), None);
    }
}
