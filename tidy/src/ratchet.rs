//! The list of things that are too long today, and may only shrink.
//!
//! `ratchet.txt` has lines of `rule name size`, and `#` comments. A thing beyond its limit passes only if a line lists it
//! with exactly its size; if the thing gets shorter, gets within the limit or goes, its line must follow.

use std::collections::BTreeMap;
use std::fs;
use std::sync::LazyLock;

use crate::source::workspace_root;

/// The list's place in the workspace.
const PLACE: &str = "tidy/src/ratchet.txt";

static RATCHET: LazyLock<String> = LazyLock::new(|| {
    fs::read_to_string(workspace_root().join(PLACE)).unwrap_or_else(|error| panic!("{PLACE}: {error}"))
});

/// The lines of one rule, and the breaches that were found against them.
pub struct Ratchet {
    rule: &'static str,
    allowed: BTreeMap<String, usize>,
    breaches: Vec<String>,
}

impl Ratchet {
    /// Returns the lines of this rule.
    pub fn read(rule: &'static str) -> Ratchet {
        let mut allowed = BTreeMap::new();
        for line in RATCHET.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name_of_rule, name, size] = words[..] else { panic!("ratchet.txt: {line}") };
            if name_of_rule == rule {
                allowed.insert(name.to_owned(), size.parse().expect("a ratchet line ends in a number"));
            }
        }
        Ratchet { rule, allowed, breaches: Vec::new() }
    }

    /// Compares one thing with its limit or its line.
    pub fn check(&mut self, name: &str, size: usize, limit: usize, unit: &str) {
        let rule = self.rule;
        match self.allowed.remove(name) {
            None if size > limit => self.breaches.push(format!("{name}: {size} {unit}, at most {limit}")),
            Some(allowed) if size > allowed => {
                self.breaches.push(format!("{name}: {size} {unit}, grown beyond the ratchet's {allowed}"));
            }
            Some(allowed) if size <= limit => {
                self.breaches.push(format!("{name}: within the limit now; remove `{rule} {name} {allowed}`"));
            }
            Some(allowed) if size < allowed => {
                self.breaches.push(format!("{name}: shrunk; write `{rule} {name} {size}`"));
            }
            _ => {}
        }
    }

    /// Returns everything found, and the lines that match nothing any more.
    pub fn breaches(self) -> Vec<String> {
        let rule = self.rule;
        let gone = self.allowed.iter().map(|(name, size)| format!("gone; remove `{rule} {name} {size}`"));
        let gone: Vec<String> = gone.collect();
        self.breaches.into_iter().chain(gone).collect()
    }
}

/// Rewrites the list with the sizes that breaches ask for, and returns the number of changed lines. A line is lowered or
/// removed, never raised or added: a growth has to be mended.
///
/// # Panics
/// When the list cannot be written.
pub fn shrink(breaches: &str) -> usize {
    let mut lines: Vec<String> = RATCHET.lines().map(str::to_owned).collect();
    let mut changed = 0;
    for breach in breaches.lines() {
        let quoted =
            |verb: &str| breach.split_once(verb).and_then(|(_, rest)| rest.split_once('`')).map(|(line, _)| line);
        if let Some(gone) = quoted("remove `") {
            let before = lines.len();
            lines.retain(|line| line != gone);
            changed += before - lines.len();
        } else if let Some(lower) = quoted("shrunk; write `")
            && let Some((name, _)) = lower.rsplit_once(' ')
            && let Some(line) = lines.iter_mut().find(|line| line.rsplit_once(' ').is_some_and(|(old, _)| old == name))
        {
            lower.clone_into(line);
            changed += 1;
        }
    }
    let text = lines.join("\n") + "\n";
    fs::write(workspace_root().join(PLACE), text).unwrap_or_else(|error| panic!("{PLACE}: {error}"));
    changed
}
