//! `sleeve tour`: the newcomer's first minute.
//!
//! Starts an engine inside this process and does the documents' workloads three times through the same client interface:
//! with no socket at all, over TCP on this machine, and over TCP with a LAN's round trip added. Each line is printed as
//! soon as it is measured. It needs no server, leaves nothing behind, and takes less than a minute.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Client, Error};

use super::proxy::{Line, Proxy};
use super::raw::Raw;
use super::table::Table;
use super::{Far, WORKLOADS, Workload, run_all};
use crate::endpoint::{Endpoint, Login, client_config};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::output;

/// The round trip of the documents' LAN.
const LAN: Duration = Duration::from_micros(300);
/// The workloads that are worth their time over a line with such a round trip.
const OVER_LAN: [&str; 3] = ["booksleeve", "pipelining", "update-token"];

const EXAMPLES: &str = "\
Examples:
  sleeve tour
  sleeve tour --json
";

/// Runs the documents' workloads on an embedded engine and prints the figures, in under a minute
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TourOptions {
    /// Print one JSON array at the end instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Runs the tour; the exit code is 1 if a step failed.
pub fn run(options: &TourOptions) -> ExitCode {
    let start = Instant::now();
    match walk(options) {
        Ok(false) => {
            eprintln!("Ended before it was done; what was written is gone.");
            ExitCode::from(INTERRUPTED)
        }
        Ok(true) if options.json => ExitCode::SUCCESS,
        Ok(true) => {
            output::line(format_args!(
                "\nDone in {:.0} s. Next: sleeve serve, sleeve cli, sleeve bench --help",
                start.elapsed().as_secs_f64()
            ));
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the whole tour; returns false if Ctrl-C came before the end.
fn walk(options: &TourOptions) -> Result<bool, String> {
    let mut table = Table::new(options.json);
    let interrupt = Interrupt::watch().map_err(|error| error.to_string())?;
    let client = embedded(&mut table).map_err(|error| error.to_string())?;
    run_all(&WORKLOADS, &client, Far::default(), &mut table, &interrupt)?;

    let address = client.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).map_err(|error| error.to_string())?;
    let endpoint = Endpoint::Tcp { host: address.ip().to_string(), port: address.port() };
    table.place("tcp", "\n== The same engine over TCP; \"raw\" is a bare socket with prebuilt requests ==");
    run_over(&endpoint, &WORKLOADS, &mut table, &interrupt)?;

    let line = Line { round_trip: LAN, bits_per_second: None };
    let proxy = Proxy::start(&endpoint, &Login::default(), line).map_err(|error| error.to_string())?;
    let added_ms = proxy.added().as_secs_f64() * 1e3;
    table.place("lan", &format!("\n== The same over a LAN: {added_ms:.2} ms added to the round trip =="));
    table.hide_cpu();
    let chosen: Vec<&Workload> = WORKLOADS.into_iter().filter(|w| OVER_LAN.contains(&w.name)).collect();
    run_over(proxy.endpoint(), &chosen, &mut table, &interrupt)?;
    table.finish();
    Ok(!interrupt.is_heard())
}

/// Starts the engine and answers the first command.
fn embedded(table: &mut Table) -> Result<Client, Error> {
    let start = Instant::now();
    let client = Client::embedded();
    client.ping().wait()?;
    let start_us = start.elapsed().as_secs_f64() * 1e6;
    table.place(
        "embedded",
        &format!("== Embedded: an engine in this process, answering {start_us:.0} us after its start =="),
    );
    Ok(client)
}

fn run_over(endpoint: &Endpoint, chosen: &[&Workload], table: &mut Table, interrupt: &Interrupt) -> Result<(), String> {
    let login = Login::default();
    let client = Client::connect_with(client_config(endpoint, &login)).map_err(|error| error.to_string())?;
    let mut raw = Raw::connect(endpoint, &login).map_err(|error| error.to_string())?;
    run_all(chosen, &client, Far { raw: Some(&mut raw), ..Far::default() }, table, interrupt)
}
