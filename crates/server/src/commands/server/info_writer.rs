//! The text of an INFO reply, line by line: `name:value`. A size also gets a line in a form for people.

use std::fmt::{Display, Write as _};

/// The text of an INFO reply.
#[derive(Debug, Default)]
pub struct Lines(String);

impl Lines {
    /// Writes a line `name:value`.
    pub fn add(&mut self, name: &str, value: impl Display) {
        // Writing to a String cannot fail.
        _ = write!(self.0, "{name}:{value}\r\n");
    }

    /// Writes lines `name:0`, for events that do not happen here.
    pub fn zeros(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.add(name, 0));
    }

    /// Writes a size in bytes, and a line for people: `name_human:1.50K`.
    pub fn size(&mut self, name: &str, bytes: u64) {
        self.add(name, bytes);
        self.human(name, bytes);
    }

    /// Writes a size only in the form for people.
    pub fn human(&mut self, name: &str, bytes: u64) {
        self.add(&format!("{name}_human"), human(bytes));
    }

    /// Writes a section's headline.
    pub fn title(&mut self, title: &str) {
        let gap = if self.0.is_empty() { "" } else { "\r\n" };
        _ = write!(self.0, "{gap}# {title}\r\n");
    }

    /// Returns the whole text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Returns a size in the largest unit that leaves a whole part, with two decimals.
fn human(bytes: u64) -> String {
    let units = [(1_u64 << 50, 'P'), (1 << 40, 'T'), (1 << 30, 'G'), (1 << 20, 'M'), (1 << 10, 'K')];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, letter)) => format!("{:.2}{letter}", bytes as f64 / unit as f64),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_for_people() {
        let cases = [(0, "0B"), (1_023, "1023B"), (1_536, "1.50K"), (5 << 20, "5.00M"), (25_276_514_304, "23.54G")];
        for (bytes, expected) in cases {
            assert_eq!(human(bytes), expected);
        }
    }
}
