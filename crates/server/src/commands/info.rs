//! INFO: which sections are wanted, in which order, and how a section's lines look.
//!
//! The lines themselves are in `report`. Sections keep one order whatever the request's is, and names that do not exist
//! are passed over, as in Redis.

use std::fmt::{Display, Write as _};

use super::report;
use crate::cx::Cx;
use crate::error::Outcome;
use crate::request::Request;

/// One section.
struct Section {
    /// What a request calls it, in lower case.
    name: &'static str,
    /// Its headline.
    title: &'static str,
    /// Whether INFO without arguments shows it.
    default: bool,
    lines: fn(&mut Cx<'_>, &mut Lines),
}

const fn section(
    name: &'static str,
    title: &'static str,
    default: bool,
    lines: fn(&mut Cx<'_>, &mut Lines),
) -> Section {
    Section { name, title, default, lines }
}

/// All sections, in their order.
static SECTIONS: [Section; 13] = [
    section("server", "Server", true, report::server),
    section("clients", "Clients", true, report::clients),
    section("memory", "Memory", true, report::memory),
    section("persistence", "Persistence", true, report::persistence),
    section("stats", "Stats", true, report::stats),
    section("replication", "Replication", true, report::replication),
    section("cpu", "CPU", true, report::cpu),
    section("modules", "Modules", true, report::nothing),
    section("commandstats", "Commandstats", false, report::commands),
    section("errorstats", "Errorstats", true, report::errors),
    section("latencystats", "Latencystats", false, report::nothing),
    section("cluster", "Cluster", true, report::cluster),
    section("keyspace", "Keyspace", true, report::keyspace),
];

/// The text of an INFO reply.
#[derive(Debug, Default)]
pub struct Lines(String);

impl Lines {
    /// A line `name:value`.
    pub fn add(&mut self, name: &str, value: impl Display) {
        // Writing to a String cannot fail.
        _ = write!(self.0, "{name}:{value}\r\n");
    }

    /// Lines `name:0`, for what does not happen here.
    pub fn zeros(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.add(name, 0));
    }

    /// A size in bytes, and a line for people: `name_human:1.50K`.
    pub fn size(&mut self, name: &str, bytes: u64) {
        self.add(name, bytes);
        self.human(name, bytes);
    }

    /// A size for people only.
    pub fn human(&mut self, name: &str, bytes: u64) {
        self.add(&format!("{name}_human"), human(bytes));
    }

    fn title(&mut self, title: &str) {
        let gap = if self.0.is_empty() { "" } else { "\r\n" };
        _ = write!(self.0, "{gap}# {title}\r\n");
    }
}

/// INFO \[section \[section ...\]\]
pub fn info(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let names = request.args.from(1);
    let names_it = |wanted: &str| names.iter().any(|name| name.eq_ignore_ascii_case(wanted.as_bytes()));
    let everything = names_it("all") || names_it("everything");
    let defaults = names.is_empty() || names_it("default");
    let mut lines = Lines::default();
    for section in &SECTIONS {
        if everything || (defaults && section.default) || names_it(section.name) {
            lines.title(section.title);
            (section.lines)(cx, &mut lines);
        }
    }
    cx.reply().verbatim(b"txt", lines.0.as_bytes());
    Ok(())
}

/// A size in the largest unit that leaves a whole part, with two decimals.
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
