//! INFO: which sections are wanted, and in which order.
//!
//! The lines themselves are in `report`. Sections keep one order whatever the request's is, and names that do not exist
//! are passed over, as in Redis.

use super::lines::Lines;
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
    section("latencystats", "Latencystats", false, report::latencies),
    section("cluster", "Cluster", true, report::cluster),
    section("keyspace", "Keyspace", true, report::keyspace),
];

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
    cx.reply().verbatim(b"txt", lines.text().as_bytes());
    Ok(())
}
