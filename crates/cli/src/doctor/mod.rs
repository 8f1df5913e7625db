//! `sleeve doctor`: the share of the possible rate that a program reaches with a server, the causes that hold it up, and the
//! remedies.
//!
//! Measuring and judging are apart. From top to bottom: here (the order of work) → `report` → `cluster` (the nodes of a
//! cluster, asked one by one) → `causes` (numbers to findings, pure) → `watch` (observations while the program runs) →
//! `path` (the way to the server, measured before) → `evidence` (the numbers) → `session` (asking), `options`. It is a
//! client like any other, of Sleeve, Redis and Valkey alike. It names the data that it may not read.

mod causes;
mod cluster;
mod evidence;
pub mod options;
mod path;
mod report;
mod session;
mod watch;

use std::io::{IsTerminal, stderr};
use std::process::ExitCode;

use crate::endpoint::address::resolve_url;
use crate::interrupt::Interrupt;
use crate::output;
use crate::replies::info::Info;
use cluster::Look;
use options::DoctorOptions;
use session::{Fault, Session, Tally};
use watch::{Program, Watch};

/// The exit code where nothing could be found out.
pub const UNKNOWN: u8 = 2;

/// Measures, watches, judges and reports.
pub fn run(options: &DoctorOptions) -> ExitCode {
    match try_run(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(text) => {
            output::flush();
            eprintln!("{text}");
            ExitCode::from(UNKNOWN)
        }
    }
}

/// Runs the doctor; returns whether it has found no cause.
fn try_run(options: &DoctorOptions) -> Result<bool, String> {
    options.tls_options.check(options.url.starts_with("rediss://"))?;
    let (endpoint, mut login) = resolve_url(&options.url, &options.tls_options)?;
    if login.password.is_none() {
        login.password = std::env::var("REDISCLI_AUTH").ok();
    }
    login.check()?;
    let interrupt = Interrupt::watch().map_err(|error| error.to_string())?;
    let tally = Tally::default();
    let mut session = Session::open(&endpoint, &login, &tally).map_err(|fault| fault.to_string())?;
    let info = session.ask_text(&["INFO", "all"]).map_err(|fault| needs_info(&fault))?;
    let server = format!("{} at {endpoint}", name_of(&Info::parse(&info)));
    progress("measuring the way to the server");
    let path = path::measure(&mut session, &endpoint, &login, &tally).map_err(|fault| fault.to_string())?;
    let is_node = Info::parse(&info).number("cluster_enabled") != 0;
    let look = is_node.then(|| Look::begin(&endpoint, &login, &tally));
    let watch = Watch::new(&mut session, &tally, &endpoint, &login);
    let mut program = Program::start(&options.command)?;
    progress(if program.is_some() { "watching while the program runs" } else { "watching" });
    let mut evidence = watch.run(&path, options, &mut program, &interrupt).map_err(|fault| fault.to_string())?;
    let cluster = look.map(|look| look.end(&mut evidence.unread));
    progress("");
    if let Some(ending) = program.and_then(|program| program.ending) {
        eprintln!("{ending}");
    }
    let findings = causes::judge(&evidence, cluster.as_ref());
    if evidence.traffic.commands == 0 && findings.is_empty() {
        return Err(format!(
            "{server}: nobody asked for anything while it was watched.\nStart the program, and watch for longer (--for 30s), or \
             give its command behind --"
        ));
    }
    if options.json {
        report::print_json(&server, &evidence, &findings);
    } else {
        report::print(&server, &evidence, &findings);
    }
    output::flush();
    Ok(findings.is_empty())
}

/// Returns the message for a server that refuses INFO, without which the doctor sees nothing.
fn needs_info(fault: &Fault) -> String {
    match fault {
        Fault::Refused(text) => format!("{text}\nINFO is needed: ACL SETUSER name +info, or another user"),
        Fault::Lost(text) => text.clone(),
    }
}

/// Returns the server's own name and version.
fn name_of(info: &Info) -> String {
    let names = [("Sleeve", "sleeve_version"), ("Valkey", "valkey_version"), ("Redis", "redis_version")];
    let known = names.iter().find(|(_, field)| !info.text(field).is_empty());
    known.map_or("a server".to_owned(), |(name, field)| format!("{name} {}", info.text(field)))
}

/// Shows on a terminal the present step, and removes it with an empty text.
fn progress(text: &str) {
    if stderr().is_terminal() {
        eprint!("\x1b[0G\x1b[2K{text}{}", if text.is_empty() { "" } else { " ..." });
    }
}
