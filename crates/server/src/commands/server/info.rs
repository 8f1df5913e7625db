//! INFO: the sections that a request asks for, and their order.
//!
//! The lines themselves are in `info_sections`. The sections have a fixed order, regardless of their order in the request, and
//! unknown names are ignored, as in Redis.

use super::info_sections;
use super::info_writer::Lines;
use crate::context::Cx;
use crate::request::Request;
use crate::request::error::Outcome;

/// A section of INFO.
struct Section {
    /// The name in requests, in lower case.
    name: &'static str,
    /// The headline of the section.
    title: &'static str,
    /// INFO without arguments shows the section.
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

/// The sections, in their order.
static SECTIONS: [Section; 15] = [
    section("server", "Server", true, info_sections::server),
    section("clients", "Clients", true, info_sections::clients),
    section("memory", "Memory", true, info_sections::memory),
    section("persistence", "Persistence", true, info_sections::persistence),
    section("stats", "Stats", true, info_sections::stats),
    section("phases", "Phases", false, info_sections::phases),
    section("replication", "Replication", true, info_sections::replication),
    section("cpu", "CPU", true, info_sections::cpu),
    section("modules", "Modules", true, info_sections::nothing),
    section("commandstats", "Commandstats", false, info_sections::commands),
    section("errorstats", "Errorstats", true, info_sections::errors),
    section("latencystats", "Latencystats", false, info_sections::latencies),
    section("cluster", "Cluster", true, info_sections::cluster),
    section("keyspace", "Keyspace", true, info_sections::keyspace),
    section("debug", "Debug", false, info_sections::debug),
];

/// INFO \[section \[section ...\]\]
pub fn info(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let names = request.args.from(1);
    let names_it = |wanted: &str| names.iter().any(|name| name.eq_ignore_ascii_case(wanted.as_bytes()));
    let everything = names_it("all") || names_it("everything");
    let defaults = names.is_empty() || names_it("default");
    let mut lines = Lines::default();
    for section in &SECTIONS {
        // The section for debugging the server is shown only if a request names it.
        let everything = everything && section.name != "debug";
        if everything || (defaults && section.default) || names_it(section.name) {
            lines.title(section.title);
            (section.lines)(cx, &mut lines);
        }
    }
    cx.reply().verbatim(b"txt", lines.text().as_bytes());
    Ok(())
}
