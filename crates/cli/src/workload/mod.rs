//! The documents' workloads: the work that the client's documents describe, done through the public client interface.
//!
//! `tour` runs them on an embedded engine, `bench --workload` against any URL, with a round trip added on demand. Over
//! a socket each step is also done by a bare socket program ([`raw`]) in turns with the client, so that a ratio comes
//! from one run. From top to bottom: `tour` → here → `booksleeve`, `pipelining`, `mass_set`, `update_token`, `lookup`,
//! `set_union`, `many_callers` (tables of steps) → `raw`, `proxy`, `sample`.

mod booksleeve;
mod lookup;
mod many_callers;
mod mass_set;
mod pipelining;
pub mod proxy;
pub mod raw;
mod sample;
mod set_union;
mod step;
pub mod table;
pub mod tour;
mod update_token;

use std::process::ExitCode;

use sleeve::Client;

use crate::bench::affinity;
use crate::bench::meter::Meter;
use crate::bench::options::BenchOptions;
use crate::endpoint::{Endpoint, Login, cannot_connect, client_config};
use crate::interrupt::{INTERRUPTED, Interrupt};
use proxy::{Line, Proxy};
use raw::Raw;
use sample::StepTimes;
use step::Step;
pub use step::Workload;
use table::Table;

/// The number of operations of a step that are done over a narrow line.
const NARROW_OPERATIONS_MAX: u64 = 20_000;

/// The workloads: those of the documents, and one that reads, which the documents do not have.
pub static WORKLOADS: [&Workload; 8] = [
    &booksleeve::BOOKSLEEVE,
    &pipelining::PIPELINING,
    &mass_set::MASS_SET,
    &update_token::UPDATE_TOKEN,
    &lookup::LOOKUP,
    &set_union::SET_UNION,
    &many_callers::MANY_CALLERS,
    &many_callers::FAN_OUT,
];

/// Runs `bench --workload NAME`: one workload, or all; the exit code is 1 if one could not be completed, and 130 if Ctrl-C
/// ended it.
pub fn run(options: &BenchOptions) -> ExitCode {
    match try_run(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(INTERRUPTED),
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(options: &BenchOptions) -> Result<bool, String> {
    options.address.login(None).check()?;
    let name = options.document.workload.as_deref().unwrap_or("all");
    let chosen: Vec<&Workload> = WORKLOADS.into_iter().filter(|w| name == "all" || w.name == name).collect();
    if chosen.is_empty() {
        let names = WORKLOADS.map(|workload| workload.name).join(", ");
        return Err(format!("Unknown workload '{name}': there are {names} and all"));
    }
    if let Some(list) = &options.cpu {
        affinity::confine(list)?;
    }
    let mut table = Table::new(options.output.json);
    let interrupt = Interrupt::watch().map_err(|error| error.to_string())?;
    let url = options.address.url.as_deref().unwrap_or_default();
    if url.starts_with("embedded://") {
        if options.document.rtt.is_some() {
            return Err("--rtt needs a server: nothing travels to an embedded engine".to_owned());
        }
        options.address.check_embedded()?;
        table.place("embedded", "");
        let client = Client::connect(url).map_err(|error| error.to_string())?;
        run_all(&chosen, &client, Far::default(), &mut table, &interrupt)?;
    } else {
        let (endpoint, login) = options.address.resolve(options.dbnum)?;
        run_remote(&chosen, (&endpoint, &login), options, &mut table, &interrupt)?;
    }
    table.finish();
    Ok(!interrupt.is_heard())
}

fn run_remote(
    chosen: &[&Workload],
    (endpoint, login): (&Endpoint, &Login),
    options: &BenchOptions,
    table: &mut Table,
    interrupt: &Interrupt,
) -> Result<(), String> {
    table.place("socket", "");
    let failed = |error: std::io::Error| cannot_connect(endpoint, &error);
    let line = |round_trip| Line { round_trip, bits_per_second: options.document.bandwidth };
    let proxy =
        options.document.rtt.map(|time| Proxy::start(endpoint, login, line(time))).transpose().map_err(failed)?;
    if let Some(proxy) = &proxy {
        let width = options.document.bandwidth.map(|bits| format!(", {:.3} Mbit/s either way", bits as f64 / 1e6));
        let added = proxy.added().as_secs_f64() * 1e3;
        table.note(&format!("round trip added: {added:.3} ms{}", width.unwrap_or_default()));
        // The proxy works in this process, so its time cannot be told from the client's.
        table.hide_cpu();
    }
    let place = proxy.as_ref().map_or(endpoint, Proxy::endpoint);
    let client = Client::connect_with(client_config(place, login)).map_err(|error| error.to_string())?;
    let mut raw = Raw::connect(place, login).map_err(failed)?;
    let meter = Meter::find(endpoint, login).map_err(failed)?;
    if meter.is_some() {
        table.show_server();
    }
    let far = Far { raw: Some(&mut raw), meter: meter.as_ref(), is_narrow: options.document.bandwidth.is_some() };
    run_all(chosen, &client, far, table, interrupt)
}

/// Runs workloads one after the other and prints every line as it is known; Ctrl-C ends it after the step that runs.
pub fn run_all(
    chosen: &[&Workload],
    client: &Client,
    mut far: Far<'_>,
    table: &mut Table,
    interrupt: &Interrupt,
) -> Result<(), String> {
    for workload in chosen.iter().take_while(|_| !interrupt.is_heard()) {
        table.begin(workload);
        if let Some(raw) = far.raw.as_deref_mut() {
            raw.reselect().map_err(|error| error.to_string())?;
        }
        let mut steps = workload.steps.iter().take_while(|_| !interrupt.is_heard());
        let prepared = (workload.prepare)(client).map_err(|error| error.to_string());
        let outcome = prepared.and_then(|()| steps.try_for_each(|step| run_step(step, client, &mut far, table)));
        // The written keys are removed even when a step failed.
        let most = workload.steps.iter().map(|step| far.count(step)).max().unwrap_or_default();
        let cleaned = (workload.clean)(client, most).map_err(|error| error.to_string());
        outcome.and(cleaned).map_err(|text| format!("{}: {text}", workload.name))?;
    }
    Ok(())
}

/// The measuring tools that exist only if the server is another process.
#[derive(Debug, Default)]
pub struct Far<'a> {
    /// A bare socket to the server.
    pub raw: Option<&'a mut Raw>,
    /// The CPU time of the server's process, which is not this one.
    pub meter: Option<&'a Meter>,
    /// True if the line has a limited bandwidth: then a part of a step stands for the whole.
    pub is_narrow: bool,
}

impl Far<'_> {
    /// Returns the number of a step's operations that are done.
    fn count(&self, step: &Step) -> u64 {
        if self.is_narrow { step.operations.min(NARROW_OPERATIONS_MAX) } else { step.operations }
    }
}

/// Runs a step by the client and over the bare socket, in turns.
fn run_step(step: &Step, client: &Client, far: &mut Far<'_>, table: &mut Table) -> Result<(), String> {
    let (mut by_client, mut by_raw) = (Vec::new(), Vec::new());
    let (meter, count) = (far.meter, far.count(step));
    for _ in 0..step.rounds {
        if let (Some(raw), Some(run)) = (far.raw.as_deref_mut(), step.by_raw) {
            by_raw.push(metered(meter, || run(raw, count).map_err(|error| error.to_string()))?);
        }
        by_client.push(metered(meter, || (step.by_client)(client, count).map_err(|error| error.to_string()))?);
    }
    if let Some(sample) = StepTimes::median(by_client) {
        table.line(step, &sample, StepTimes::median(by_raw).as_ref());
    }
    Ok(())
}

/// Runs a step and returns its times, the server's CPU time included.
fn metered(meter: Option<&Meter>, run: impl FnOnce() -> Result<StepTimes, String>) -> Result<StepTimes, String> {
    let now = || meter.and_then(|meter| Some(meter.read()?.nanoseconds));
    let before = now();
    let sample = run()?;
    let server_cpu_ns = before.and_then(|before| now()?.checked_sub(before));
    Ok(StepTimes { server_cpu_ns, ..sample })
}
