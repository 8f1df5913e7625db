//! `sleeve bench`: the load generator.
//!
//! It speaks to a socket itself, with requests that were built beforehand, so that it costs less than the server it
//! measures. It refuses to be a client library: `--workload`, for which `workload` is asked instead, is where the client is
//! measured. From top to bottom: `options` → here (which tests, in which order) → `generator` (threads, clock, meters) →
//! `lane` (one thread) → `template`, `pace`; `cases` is the table of tests, `report` prints, `halt` tells the threads of an
//! early end. `sweep` asks `generator` for many points of several servers.

pub mod affinity;
pub mod cases;
mod descriptors;
pub mod generator;
pub mod halt;
mod idle;
pub mod lane;
pub mod meter;
pub mod options;
pub mod pace;
pub mod report;
pub mod sweep;
pub mod template;
pub mod time;

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use cases::{Case, DATA, Fill};
use generator::Outcome;
use lane::Share;
use meter::Meter;
use options::{BenchOptions, Mode, Output};
use report::{Format, Report, Setting};
use template::Numbers;

use crate::endpoint::{Endpoint, Login, cannot_connect, encode};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::output;

/// The requests in flight on each connection while `--fill` writes.
const FILL_PIPELINE: usize = 64;
/// The number of connections with which `--fill` writes.
const FILL_CLIENTS: usize = 4;

/// Runs the tests that the options name; the exit code is 1 when a test could not be completed, and 130 when Ctrl-C ended
/// one. Where nothing but Ctrl-C can end it (`-l`, `-I`), it is 0.
pub fn run(options: &BenchOptions) -> ExitCode {
    if options.list {
        for case in cases::CASES {
            output::line(format_args!("{:<12} {}", case.name, case.words().join(" ")));
        }
        return ExitCode::SUCCESS;
    }
    match try_run(options) {
        Ok(code) => code,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(options: &BenchOptions) -> Result<ExitCode, String> {
    if let Some(Mode::Sweep(options)) = &options.mode {
        return sweep::run(options);
    }
    options.address.login(None).check()?;
    if let Some(list) = &options.cpu {
        affinity::confine(list)?;
    }
    descriptors::raise_limit();
    if options.generator.idle {
        let (endpoint, login) = options.address.resolve(options.dbnum)?;
        let login = Login { tracking: options.generator.enable_tracking, ..login };
        return idle::run(&endpoint, &login, options.load.clients).map(|()| ExitCode::SUCCESS);
    }
    let mut session = Session::new(options)?;
    session.run()?;
    let is_cut = session.interrupt.is_heard() && !options.generator.endless;
    Ok(if is_cut { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// A run of the program: the server, its contents, and the destination of the figures.
struct Session<'a> {
    options: &'a BenchOptions,
    endpoint: Endpoint,
    login: Login,
    meter: Option<Meter>,
    interrupt: Interrupt,
    report: Report<io::Stdout>,
    filled: Vec<&'static Fill>,
}

impl<'a> Session<'a> {
    fn new(options: &'a BenchOptions) -> Result<Self, String> {
        let (endpoint, login) = options.address.resolve(options.dbnum)?;
        let meter = Meter::find(&endpoint, &login).map_err(|error| cannot_connect(&endpoint, &error))?;
        let format = match &options.output {
            Output { json: true, .. } => Format::Json,
            Output { csv: true, .. } => Format::Csv,
            Output { quiet: true, .. } => Format::Quiet,
            _ => Format::Full,
        };
        let report = Report::new(io::stdout(), format, options.output.precision.into());
        let interrupt = Interrupt::watch().map_err(|error| error.to_string())?;
        Ok(Self { options, endpoint, login, meter, interrupt, report, filled: Vec::new() })
    }

    fn run(&mut self) -> Result<(), String> {
        let unknown = |name| format!("Unknown test '{name}' (sleeve bench --list names them)");
        let cases = cases::select(self.options.tests.as_deref()).map_err(unknown)?;
        let own = self.own_request()?;
        loop {
            match &own {
                Some((title, request)) => self.test(title, request.clone())?,
                None => cases.iter().try_for_each(|case| self.named(case))?,
            }
            if !self.options.generator.endless || self.interrupt.is_heard() {
                return self.report.finish().map_err(|error| error.to_string());
            }
        }
    }

    /// Returns the title and the request of the command line's own command, if there is one.
    fn own_request(&self) -> Result<Option<(String, Vec<u8>)>, String> {
        if self.options.command.is_empty() {
            return Ok(None);
        }
        let words: Vec<&[u8]> = self.options.command.iter().map(|word| word.as_bytes()).collect();
        let title = words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ");
        let value = self.value();
        let mut words: Vec<Vec<u8>> = words.into_iter().map(|word| fill_in(word, &value)).collect();
        if self.options.generator.last_from_stdin {
            let mut last = Vec::new();
            io::stdin().read_to_end(&mut last).map_err(|error| error.to_string())?;
            words.push(last);
        }
        let mut request = Vec::new();
        encode(&words, &mut request);
        Ok(Some((title, request)))
    }

    fn named(&mut self, case: &'static Case) -> Result<(), String> {
        if self.interrupt.is_heard() {
            return Ok(());
        }
        if let (true, Some(fill)) = (self.options.generator.fill, case.fill) {
            self.fill(fill)?;
        }
        self.test(case.title, case.request(&self.value()))
    }

    fn value(&self) -> Vec<u8> {
        vec![b'x'; self.options.load.data_size as usize]
    }

    /// Writes each item of the data once.
    fn fill(&mut self, fill: &'static Fill) -> Result<(), String> {
        if self.filled.contains(&fill) {
            return Ok(());
        }
        let numbers = self.options.generator.keyspace.map_or(Numbers::Literal, |_| Numbers::Sequence { next: 0 });
        let share = Share {
            clients: FILL_CLIENTS,
            requests: if fill.once { 1 } else { self.options.generator.keyspace.unwrap_or(1) },
            pipeline: FILL_PIPELINE,
            keep_alive: true,
            duration: None,
            rate: None,
            login: self.login.clone(),
            numbers,
            ..self.share(fill.request(&self.value()))
        };
        self.measure(fill.title, &share, 1)?;
        self.filled.push(fill);
        Ok(())
    }

    fn test(&mut self, title: &str, request: Vec<u8>) -> Result<(), String> {
        let share = self.share(request);
        let threads = self.options.generator.threads.min(self.options.load.clients) as usize;
        if let Some(seconds) = self.options.load.warmup {
            let duration = Some(Duration::from_secs(seconds.into()));
            let numbers = share.numbers.clone().started_elsewhere();
            let share = Share { requests: u64::MAX, duration, numbers, ..share.clone() };
            self.measure(&format!("Warming up {title}"), &share, threads)?;
        }
        if self.interrupt.is_heard() {
            return Ok(());
        }
        let outcome = self.measure(title, &share, threads)?;
        let setting = Setting {
            title: title.to_owned(),
            clients: share.clients,
            pipeline: share.pipeline,
            data_size: self.options.load.data_size as usize,
            keyspace: self.options.generator.keyspace,
            threads,
            keep_alive: share.keep_alive,
            rate_max: self.options.load.rps,
        };
        self.report.test(&setting, &outcome).map_err(|error| error.to_string())
    }

    fn share(&self, request: Vec<u8>) -> Share {
        let options = self.options;
        let random = |bound| Numbers::Random { state: options.generator.seed, bound };
        let duration = options.load.duration.map(|seconds| Duration::from_secs(seconds.into()));
        Share {
            endpoint: self.endpoint.clone(),
            login: Login { tracking: options.generator.enable_tracking, ..self.login.clone() },
            clients: options.load.clients as usize,
            requests: if duration.is_some() { u64::MAX } else { options.load.requests },
            duration,
            rate: options.load.rps.map(f64::from),
            pipeline: options.generator.pipeline as usize,
            keep_alive: options.generator.keep_alive == 1,
            request,
            numbers: options.generator.keyspace.map_or(Numbers::Literal, random),
        }
    }

    /// Runs one share under a progress line, which is printed only if the error output is a terminal.
    fn measure(&self, title: &str, share: &Share, threads: usize) -> Result<Outcome, String> {
        let style = ProgressStyle::with_template("{prefix}: {bar:30} {percent}% {msg} requests per second, {eta} left");
        let whole = share.duration.map_or(share.requests, |time| time.as_millis() as u64);
        let bar = ProgressBar::new(whole).with_prefix(title.to_owned());
        let bar = style.map_or(bar.clone(), |style| bar.with_style(style));
        let start = Instant::now();
        let tick = |done| {
            let passed = start.elapsed();
            bar.set_position(if share.duration.is_some() { passed.as_millis() as u64 } else { done });
            bar.set_message(format!("{:.0}", report::rate(done, passed)));
        };
        let result = generator::run(share, threads, || self.meter.as_ref()?.read(), &self.interrupt, tick);
        bar.finish_and_clear();
        result.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => cannot_connect(&self.endpoint, &error),
            _ => format!("{title}: {error}"),
        })
    }
}

/// Returns a word of the user's own command, with the value in place of the placeholder.
fn fill_in(word: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = word;
    while let Some(place) = memchr::memmem::find(rest, DATA.as_bytes()) {
        let (before, after) = rest.split_at(place);
        out.extend_from_slice(before);
        out.extend_from_slice(value);
        rest = after.get(DATA.len()..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}
