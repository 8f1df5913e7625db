//! `sleeve bench`: the load generator.
//!
//! It speaks to a socket itself, with requests that were built beforehand, so that it costs less than the server it
//! measures. It refuses to be a client library: `--workload` is where the client is measured. From top to bottom:
//! `options` → here (which tests, in which order) → `generator` (threads, clock, meters) → `lane` (one thread) →
//! `template`; `cases` is the table of tests, `report` prints.

pub mod affinity;
pub mod cases;
pub mod generator;
pub mod lane;
pub mod meter;
pub mod options;
pub mod report;
pub mod template;

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};

use cases::{Case, DATA, Fill};
use generator::Outcome;
use lane::Share;
use meter::Meter;
use options::Options;
use report::{Format, Report, Setting};
use template::Numbers;

use crate::endpoint::{Endpoint, Login, cannot_connect, encode};
use crate::{output, workload};

/// Requests in flight per connection while keys are filled in.
const FILL_PIPELINE: usize = 64;
/// Connections that fill keys in.
const FILL_CLIENTS: usize = 4;

/// Runs the tests that the options name; the exit code is 1 when a test could not be completed.
pub fn run(options: &Options) -> ExitCode {
    if options.list {
        for case in cases::CASES {
            output::line(format_args!("{:<12} {}", case.name, case.words().join(" ")));
        }
        return ExitCode::SUCCESS;
    }
    let result = match &options.workload {
        Some(name) => workload::run(name, options),
        None => Session::new(options).and_then(|mut session| session.run()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// One run of the program: the server, what it holds, and where figures go.
struct Session<'a> {
    options: &'a Options,
    endpoint: Endpoint,
    login: Login,
    meter: Option<Meter>,
    report: Report<io::Stdout>,
    filled: Vec<&'static Fill>,
}

impl<'a> Session<'a> {
    fn new(options: &'a Options) -> Result<Self, String> {
        if let Some(list) = &options.cpu {
            affinity::confine(list)?;
        }
        raise_file_limit();
        let (endpoint, login) = options.address.resolve(options.dbnum)?;
        let meter = Meter::find(&endpoint, &login).map_err(|error| cannot_connect(&endpoint, &error))?;
        let format = match options {
            Options { json: true, .. } => Format::Json,
            Options { csv: true, .. } => Format::Csv,
            Options { quiet: true, .. } => Format::Quiet,
            _ => Format::Full,
        };
        let report = Report::new(io::stdout(), format);
        Ok(Self { options, endpoint, login, meter, report, filled: Vec::new() })
    }

    fn run(&mut self) -> Result<(), String> {
        if self.options.command.is_empty() {
            let unknown = |name| format!("Unknown test '{name}' (sleeve bench --list names them)");
            for case in cases::select(self.options.tests.as_deref()).map_err(unknown)? {
                self.named(case)?;
            }
        } else {
            let words: Vec<&[u8]> = self.options.command.iter().map(|word| word.as_bytes()).collect();
            let mut request = Vec::new();
            encode(&words, &mut request);
            let title = words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ");
            self.test(&title, request)?;
        }
        self.report.finish().map_err(|error| error.to_string())
    }

    fn named(&mut self, case: &'static Case) -> Result<(), String> {
        if let (true, Some(fill)) = (self.options.fill, case.fill) {
            self.fill(fill)?;
        }
        let request =
            if case.inline { [case.head.join(" ").as_bytes(), b"\r\n"].concat() } else { self.request(&case.words()) };
        self.test(case.title, request)
    }

    /// Encodes a request of the table, its value in place.
    fn request(&self, words: &[&'static str]) -> Vec<u8> {
        let value = vec![b'x'; self.options.data_size as usize];
        let words: Vec<&[u8]> =
            words.iter().map(|word| if *word == DATA { value.as_slice() } else { word.as_bytes() }).collect();
        let mut request = Vec::new();
        encode(&words, &mut request);
        request
    }

    /// Writes every key or element of a set once, or the one thing that there is to write.
    fn fill(&mut self, fill: &'static Fill) -> Result<(), String> {
        if self.filled.contains(&fill) {
            return Ok(());
        }
        let numbers = self.options.keyspace.map_or(Numbers::Literal, |_| Numbers::Sequence { next: 0 });
        let share = Share {
            clients: FILL_CLIENTS,
            requests: if fill.once { 1 } else { self.options.keyspace.unwrap_or(1) },
            pipeline: FILL_PIPELINE,
            keep_alive: true,
            numbers,
            ..self.share(self.request(fill.request))
        };
        self.measure(fill.title, &share, 1)?;
        self.filled.push(fill);
        Ok(())
    }

    fn test(&mut self, title: &str, request: Vec<u8>) -> Result<(), String> {
        let share = self.share(request);
        let threads = self.options.threads as usize;
        let outcome = self.measure(title, &share, threads)?;
        let setting = Setting {
            title: title.to_owned(),
            requests: share.requests,
            clients: share.clients,
            pipeline: share.pipeline,
            data_size: self.options.data_size as usize,
            keyspace: self.options.keyspace,
            threads,
            keep_alive: share.keep_alive,
        };
        self.report.test(&setting, &outcome).map_err(|error| error.to_string())
    }

    fn share(&self, request: Vec<u8>) -> Share {
        let options = self.options;
        let random = |bound| Numbers::Random { state: options.seed, bound };
        Share {
            endpoint: self.endpoint.clone(),
            login: self.login.clone(),
            clients: options.clients as usize,
            requests: options.requests,
            pipeline: options.pipeline as usize,
            keep_alive: options.keep_alive == 1,
            request,
            numbers: options.keyspace.map_or(Numbers::Literal, random),
        }
    }

    /// Runs one share under a progress line, which is seen only where the error output is a terminal.
    fn measure(&self, title: &str, share: &Share, threads: usize) -> Result<Outcome, String> {
        let style = ProgressStyle::with_template("{prefix}: {bar:30} {percent}% {msg} requests per second, {eta} left");
        let bar = ProgressBar::new(share.requests).with_prefix(title.to_owned());
        let bar = style.map_or(bar.clone(), |style| bar.with_style(style));
        let tick = |done| {
            bar.set_position(done);
            bar.set_message(format!("{:.0}", bar.per_sec()));
        };
        let result = generator::run(share, threads, self.meter.as_ref(), tick);
        bar.finish_and_clear();
        result.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => cannot_connect(&self.endpoint, &error),
            _ => format!("{title}: {error}"),
        })
    }
}

/// Many connections need many descriptors: takes as many as the system allows without asking for privileges.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).is_err() {
        let _ = writeln!(io::stderr(), "WARNING: the limit of open files stays at {:?}", limit.current);
    }
}
