//! What is too long today, and may only shrink.
//!
//! `ratchet.txt` has lines of `rule name size`, and `#` comments. A thing beyond its limit passes only if a line
//! lists it with exactly its size; a line whose thing is shorter, within the limit or gone must follow.

use std::collections::BTreeMap;

const RATCHET: &str = include_str!("ratchet.txt");

/// The lines of one rule, and what was found against them.
pub struct Ratchet {
    rule: &'static str,
    allowed: BTreeMap<String, usize>,
    breaches: Vec<String>,
}

impl Ratchet {
    /// The lines of this rule.
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

    /// Everything found, and the lines that match nothing any more.
    pub fn breaches(self) -> Vec<String> {
        let rule = self.rule;
        let gone = self.allowed.iter().map(|(name, size)| format!("gone; remove `{rule} {name} {size}`"));
        let gone: Vec<String> = gone.collect();
        self.breaches.into_iter().chain(gone).collect()
    }
}
