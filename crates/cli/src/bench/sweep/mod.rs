//! `sleeve bench sweep`: servers over numbers of clients and lengths of pipelines.
//!
//! From top to bottom: `options` → here (which points in which order) → `contender` (the servers), `memory`, `calls`,
//! `reads`, `system_calls`. The measurements go into `samples` and `record`, and from there into CSV, JSON and `page`, which
//! draws with `plot`. The load itself is the generator's. At each point the servers take turns, round by round and in `turns`
//! of changing order. So the other work of the machine, and the work that a server does after its turn, meets all of them.
//! System calls are counted in a turn of their own, because counting makes them dearer.

mod calls;
mod contender;
mod memory;
pub mod options;
mod page;
mod plot;
mod reads;
mod record;
mod samples;
mod setting;
mod system_calls;
mod turns;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use sleeve_disk::own;

use contender::Contender;
use options::SweepOptions;
use page::Page;
use record::{Record, Server};
use samples::{Axis, Figures, Point, PointRounds, SYSTEM_CALLS, csv, figures};
use system_calls::SystemCalls;
use turns::turns;

use super::cases::{Case, select};
use super::lane::Share;
use super::meter::Reading;
use super::template::Numbers;
use super::{affinity, descriptors, generator};
use crate::interrupt::{INTERRUPTED, Interrupt};
use crate::output;

/// The number of connections at points with a varying pipeline.
const PIPELINED_CLIENTS: u32 = 50;

/// Permissions of the files that are written, less the process's mask.
const FILE_MODE: u32 = 0o666;

/// The longest time for which system calls are counted at a point.
const COUNTING_MAX: Duration = Duration::from_millis(200);

/// The drivers of this program that take part if no server is named.
const DRIVERS: [&str; 3] = ["epoll", "uring", "tokio"];

/// Measures, and writes the three files and the main plot. If Ctrl-C or SIGTERM ends it, it returns 130: then the files hold
/// the results so far, and the servers that it has started are stopped.
///
/// # Errors
/// A sentence for the user.
pub fn run(options: &SweepOptions) -> Result<ExitCode, String> {
    if let Some(path) = &options.redraw {
        let record = Record::read(path)?;
        return write(&options.out, &record).map(|()| ExitCode::SUCCESS);
    }
    let cases = select(Some(&options.tests));
    let cases = cases.map_err(|name| format!("Unknown test '{name}' (sleeve bench --list names them)"))?;
    descriptors::raise_limit();
    let interrupt = Interrupt::watch_end().map_err(|error| error.to_string())?;
    create(&options.out)?;
    // The processors are counted before this thread is confined to the generator's.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if let Some(list) = &options.cpu {
        affinity::confine(list)?;
    }
    let (words, cpus) = (servers(options)?, options.server_cpu.as_deref());
    let mut record = Record { memory_keys: options.memory_keys, ..Record::default() };
    for words in words.iter().filter(|_| options.memory_keys > 0) {
        output::line(format_args!("memory of {}", words.split('=').next().unwrap_or_default()));
        record.memory.extend(memory::measure(words, (cpus, options.memory_keys), &interrupt)?);
    }
    let contenders: Result<Vec<Contender>, String> = words.iter().map(|words| Contender::start(words, cpus)).collect();
    let contenders = contenders?;
    record.servers = contenders.iter().map(of_contender).collect();
    let mut sweep = Sweep { options, contenders, interrupt, samples: Vec::new() };
    sweep.measure(&cases)?;
    let is_cut = sweep.interrupt.is_heard();
    record.setting = sweep.setting(processors, is_cut);
    record.samples = sweep.samples;
    record.calls = calls::measure();
    record.reads = reads::measure().map_err(|error| format!("cannot measure reads: {error}"))?;
    write(&options.out, &record)?;
    Ok(if is_cut { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// Returns the servers that were named, or this program with each of its drivers.
fn servers(options: &SweepOptions) -> Result<Vec<String>, String> {
    if !options.servers.is_empty() {
        return Ok(options.servers.clone());
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(DRIVERS.map(|driver| format!("{driver}='{}' serve --io {driver}", program.display())).to_vec())
}

/// Returns the points of these tests, in the order in which they are measured.
fn points(options: &SweepOptions, cases: &[&'static Case]) -> Vec<(&'static Case, Point)> {
    let of = |case: &'static Case| {
        let clients = options.clients.iter().map(|clients| (Axis::Clients, *clients, 1));
        let depths = options.depths.iter().map(|depth| (Axis::Depth, PIPELINED_CLIENTS, *depth));
        clients
            .chain(depths)
            .map(move |(axis, clients, depth)| (case, Point { test: case.title, axis, clients, depth }))
    };
    cases.iter().flat_map(|case| of(case)).collect()
}

/// A run of the sweep.
struct Sweep<'a> {
    options: &'a SweepOptions,
    contenders: Vec<Contender>,
    interrupt: Interrupt,
    samples: Vec<PointRounds>,
}

impl Sweep<'_> {
    /// Measures point after point, until a signal comes.
    fn measure(&mut self, cases: &[&'static Case]) -> Result<(), String> {
        let points = points(self.options, cases);
        let style = ProgressStyle::with_template("{msg}: {bar:30} {pos}/{len} points, {eta} left");
        let bar = ProgressBar::new(points.len() as u64);
        let bar = style.map_or(bar.clone(), |style| bar.with_style(style));
        let mut filled: Option<&'static Case> = None;
        for (case, point) in points {
            bar.set_message(case.title);
            if filled.is_none_or(|before| before.name != case.name) {
                self.fill(case)?;
                filled = Some(case);
            }
            let measured = self.point(case, point)?;
            if self.interrupt.is_heard() {
                break;
            }
            self.say(&measured);
            self.samples.extend(measured);
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Prints requests a second and the server's CPU time for each, even if the output is no terminal.
    fn say(&self, measured: &[PointRounds]) {
        let Some(Point { test, clients, depth, .. }) = measured.first().map(|sample| sample.point) else { return };
        let one = |sample: &PointRounds| {
            let cpu = sample.median("server_cpu_us").map_or_else(String::new, |us| format!(" ({us:.2} us)"));
            format!("{} {}{cpu}", sample.server, plot::short(sample.median("rps").unwrap_or_default()))
        };
        let all: Vec<String> = measured.iter().map(one).collect();
        output::line(format_args!("{test}, {clients} clients, depth {depth}: {}", all.join(", ")));
    }

    /// Writes each key that the test asks for.
    fn fill(&self, case: &Case) -> Result<(), String> {
        let Some(fill) = case.fill else { return Ok(()) };
        for contender in &self.contenders {
            let share = Share {
                requests: if fill.once { 1 } else { self.options.keyspace },
                duration: None,
                numbers: Numbers::Sequence { next: 0 },
                request: fill.request(&self.value()),
                ..self.share(case, contender, 1, 16)
            };
            let outcome = generator::run(&share, 1, || None, &self.interrupt, |_| {});
            outcome.map_err(|error| format!("{}: {}: {error}", contender.name, fill.title))?;
        }
        Ok(())
    }

    fn value(&self) -> Vec<u8> {
        vec![b'x'; self.options.data_size as usize]
    }

    fn share(&self, case: &Case, contender: &Contender, clients: u32, depth: u32) -> Share {
        Share {
            endpoint: contender.endpoint.clone(),
            login: contender.login.clone(),
            clients: clients as usize,
            requests: u64::MAX,
            duration: Some(self.options.time),
            rate: None,
            pipeline: depth as usize,
            keep_alive: true,
            request: case.request(&self.value()),
            numbers: Numbers::Random { state: 1, bound: self.options.keyspace },
        }
    }

    /// Measures all servers at one point, in turns.
    fn point(&self, case: &'static Case, point: Point) -> Result<Vec<PointRounds>, String> {
        let new = |contender: &Contender| PointRounds { server: contender.name.clone(), point, rounds: Vec::new() };
        let mut measured: Vec<PointRounds> = self.contenders.iter().map(new).collect();
        for round in 0..self.options.rounds {
            for turn in turns(round as usize, self.contenders.len()) {
                let (contender, sample) = (&self.contenders[turn], &mut measured[turn]);
                let mut row = self.timed(case, contender, point)?;
                if round == 0 {
                    row[SYSTEM_CALLS] = self.counted(case, contender, point)?;
                }
                sample.rounds.push(row);
                if self.interrupt.is_heard() {
                    return Ok(measured);
                }
            }
        }
        Ok(measured)
    }

    fn timed(&self, case: &Case, contender: &Contender, point: Point) -> Result<Figures, String> {
        let share = self.share(case, contender, point.clients, point.depth);
        let read = || contender.meter.as_ref()?.read();
        let outcome = generator::run(&share, 1, read, &self.interrupt, |_| {});
        outcome.map(|outcome| figures(&outcome)).map_err(|error| format!("{}: {}: {error}", contender.name, case.title))
    }

    /// Returns the system calls for each request; `None` if they cannot be counted.
    fn counted(&self, case: &Case, contender: &Contender, point: Point) -> Result<Option<f64>, String> {
        let threads = contender.meter.as_ref().map(|meter| meter.threads()).unwrap_or_default();
        let Some(calls) = SystemCalls::watch(&threads) else { return Ok(None) };
        let mut share = self.share(case, contender, point.clients, point.depth);
        share.duration = Some(self.options.time.min(COUNTING_MAX));
        let calls = std::cell::RefCell::new(calls);
        let read = || Some(Reading { system_calls: calls.borrow_mut().count(), ..Reading::default() });
        let outcome = generator::run(&share, 1, read, &self.interrupt, |_| {});
        let outcome = outcome.map_err(|error| format!("{}: {}: {error}", contender.name, case.title))?;
        Ok(figures(&outcome)[SYSTEM_CALLS])
    }

    /// Returns the facts that a reader of the figures needs.
    fn setting(&self, processors: usize, is_cut: bool) -> Vec<String> {
        let options = self.options;
        let counted = self.samples.iter().any(|sample| sample.median("system_calls").is_some());
        let mut sentences = vec![
            format!(
                "Values of {} bytes, {} keys; medians of {} rounds of {:?} a point, in which the servers take turns. CPU time is \
                 the server's, over all of its threads; system calls {}.",
                options.data_size,
                options.keyspace,
                options.rounds,
                options.time,
                if counted { "were counted apart" } else { "could not be counted here" }
            ),
            setting::machine(processors, options.server_cpu.as_deref(), options.cpu.as_deref()),
            setting::run(),
        ];
        if is_cut {
            sentences.push("The run was ended before its last point.".to_owned());
        }
        sentences
    }
}

fn of_contender(contender: &Contender) -> Server {
    Server { name: contender.name.clone(), version: contender.version(), words: contender.words.clone() }
}

fn create(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Writes the files and says where they are.
fn write(folder: &Path, record: &Record) -> Result<(), String> {
    create(folder)?;
    let page = Page(record);
    // The main plot is that of GET if the sweep has measured it, as in the document.
    let tests = || record.samples.iter().map(|sample| sample.point.test);
    let main = tests().find(|test| *test == "GET").or_else(|| tests().next());
    let main = main.map_or(Ok(String::new()), |test| page.main_plot(test))?;
    let files = [
        ("sweep.csv", csv(&record.samples)),
        ("sweep.json", record.json()),
        ("sweep.html", page.html()?),
        ("sweep.svg", main),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        own::replace(&path, text.as_bytes(), FILE_MODE).map_err(|error| format!("{}: {error}", path.display()))?;
        output::line(format_args!("written: {}", path.display()));
    }
    Ok(())
}
