//! Rows about callers: tasks and threads of one program that wait for replies, through several client libraries.
//!
//! The programs are those of `bench/clients/rust`. The CPU time is that of the client's process, user and system time of all of
//! its threads. The server's CPU time is not in it.

use crate::bench::builds::{bound_to, start_on};
use crate::bench::clients::{Program, figures, rust_program};
use crate::bench::report::{Bar, Line, Ratio, Samples, median};
use crate::peers;
use serde_json::Value;
use sleeve_tests::server::workspace_root;
use sleeve_tests::{Kind, Server};

const LIBRARIES: [&str; 3] = ["sleeve", "redis-rs", "rustis"];
const BEST_LIBRARY: Ratio = ("sleeve", &["redis-rs", "rustis"]);

/// The packages that the page names with their versions.
const PACKAGES: [&str; 6] = ["redis", "rustis", "r2d2", "tokio", "smol", "pollster"];

/// tokio's runtimes: the program's argument and the name.
const RUNTIMES: [(&str, &str); 2] = [("1", "current-thread"), ("2", "multi-thread")];

const SERVER_CPU: usize = 0;
const CLIENT_CPU: usize = 1;

/// A library on a runtime.
struct Entrant {
    column: &'static str,
    library: &'static str,
    runtime: &'static str,
}

/// The libraries' programs and the server that all of them talk to.
pub struct Callers {
    programs: Vec<Program>,
    server: Server,
    rounds: u32,
}

impl Callers {
    /// Builds the programs and starts a server of this kind.
    ///
    /// # Errors
    /// When a program does not compile or the server does not start.
    pub fn start(kind: Kind, rounds: u32) -> Result<Callers, String> {
        peers::set_up_servers()?;
        let program = |name| Ok(Program { name, command: rust_program(name)? });
        let programs = LIBRARIES.into_iter().map(program).collect::<Result<_, String>>()?;
        let server = start_on(&[SERVER_CPU], kind, &kind.binary()?, Vec::new())?;
        Ok(Callers { programs, server, rounds })
    }

    /// Returns the versions of the server and of the libraries.
    ///
    /// # Errors
    /// When the server's binary or the programs' lock file cannot be read.
    pub fn versions(&self) -> Result<Vec<(&'static str, String)>, String> {
        let server = format!("{} {}", self.server.kind().name(), peers::version_at(&self.server.kind().binary()?)?);
        let path = workspace_root().join("bench/clients/rust/Cargo.lock");
        let lock = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let mut versions = vec![("the server of callers:", server)];
        for package in PACKAGES {
            let (_, after) = lock.split_once(&format!("name = \"{package}\"\nversion = \"")).unwrap_or_default();
            versions.push((package, after.split('"').next().unwrap_or_default().to_owned()));
        }
        Ok(versions)
    }

    /// Measures one task on tokio that awaits one PING after the other.
    ///
    /// # Errors
    /// When a program fails.
    pub fn one_task(&self, runtime: &'static str) -> Result<Vec<Line>, String> {
        let (_, name) = RUNTIMES.into_iter().find(|(argument, _)| *argument == runtime).ok_or("no such runtime")?;
        let entrants = LIBRARIES.map(|library| Entrant { column: library, library, runtime });
        let [elapsed, cpu] = self.awaited(&entrants)?;
        let line = |figure, samples| Line {
            label: format!("one task, {name}: {figure}"),
            samples,
            ratio: Some(BEST_LIBRARY),
            bar: Some(Bar::Ratio(1.0)),
        };
        Ok(vec![line("1,000 PINGs awaited one after the other (ms)", elapsed), line("client CPU of a call (us)", cpu)])
    }

    /// Measures the same on executors that are not tokio's, with Sleeve alone.
    ///
    /// # Errors
    /// When the program fails.
    pub fn other_executors(&self) -> Result<Vec<Line>, String> {
        let entrants = [("smol's block_on", "smol"), ("pollster's block_on", "block-on")];
        let entrants = entrants.map(|(column, runtime)| Entrant { column, library: "sleeve", runtime });
        let [elapsed, cpu] = self.awaited(&entrants)?;
        let line =
            |figure, samples| Line { label: format!("one task, sleeve: {figure}"), samples, ratio: None, bar: None };
        Ok(vec![line("1,000 PINGs awaited one after the other (ms)", elapsed), line("client CPU of a call (us)", cpu)])
    }

    /// Measures tasks that each await one GET after the other, on both of tokio's runtimes. The bar is about the better runtime
    /// of each library.
    ///
    /// # Errors
    /// When a program fails.
    pub fn many_tasks(&self, tasks: u32, ratio_min: f64) -> Result<Vec<Line>, String> {
        let entrants: Vec<Entrant> = RUNTIMES
            .iter()
            .flat_map(|(runtime, _)| LIBRARIES.map(|library| Entrant { column: library, library, runtime }))
            .collect();
        let runs = self.rounds(&format!("callers-{tasks}"), &entrants)?;
        let rates: Vec<Vec<f64>> =
            runs.iter().map(|runs| figures(runs, "seconds").iter().map(|us| 1e3 / us).collect()).collect();
        let (current, multi) = rates.split_at(LIBRARIES.len());
        let better =
            current.iter().zip(multi).map(|(one, other)| if median(one) > median(other) { one } else { other });
        let line = |name, samples: Vec<Vec<f64>>, judged: bool| Line {
            label: format!("{tasks} tasks, {name}: thousand calls a second"),
            samples: LIBRARIES.into_iter().zip(samples).collect(),
            ratio: judged.then_some(BEST_LIBRARY),
            bar: judged.then_some(Bar::RatioMin(ratio_min)),
        };
        Ok(vec![
            line(RUNTIMES[0].1, current.to_vec(), false),
            line(RUNTIMES[1].1, multi.to_vec(), false),
            line("the better runtime", better.cloned().collect(), true),
        ])
    }

    /// Measures threads that each wait for one GET after the other, beside a pool of blocking connections.
    ///
    /// # Errors
    /// When a program fails.
    pub fn threads(&self, threads: u32) -> Result<Vec<Line>, String> {
        const BESIDE_POOL: Ratio = ("sleeve", &["redis-rs and r2d2"]);
        let entrants = [("sleeve", "sleeve"), ("redis-rs and r2d2", "redis-rs")];
        let entrants = entrants.map(|(column, library)| Entrant { column, library, runtime: "threads" });
        let runs = self.rounds(&format!("callers-{threads}"), &entrants)?;
        let samples = |field| entrants.iter().zip(&runs).map(|(of, runs)| (of.column, figures(runs, field))).collect();
        let line = |figure, field, bar| Line {
            label: format!("{threads} threads, each waiting: {figure} of a call (us)"),
            samples: samples(field),
            ratio: Some(BESIDE_POOL),
            bar,
        };
        Ok(vec![line("client CPU", "cpu_seconds", Some(Bar::Ratio(1.2))), line("time", "seconds", None)])
    }

    /// Returns the time and the CPU time of a PING that is awaited, in microseconds: the time of 1,000 in milliseconds.
    fn awaited(&self, entrants: &[Entrant]) -> Result<[Samples; 2], String> {
        let runs = self.rounds("pings-awaited", entrants)?;
        Ok(["seconds", "cpu_seconds"]
            .map(|field| entrants.iter().zip(&runs).map(|(of, runs)| (of.column, figures(runs, field))).collect()))
    }

    /// Returns the output of each entrant, round by round.
    fn rounds(&self, workload: &str, entrants: &[Entrant]) -> Result<Vec<Vec<Value>>, String> {
        let mut all: Vec<Vec<Value>> = entrants.iter().map(|_| Vec::new()).collect();
        for round in 1..=self.rounds {
            for (entrant, runs) in entrants.iter().zip(&mut all) {
                let program = self.programs.iter().find(|program| program.name == entrant.library);
                let program = program.ok_or("a library without a program")?;
                let run = bound_to(&[CLIENT_CPU], || program.run(&self.server, workload, Some(entrant.runtime)))??;
                let [us, cpu_us] = ["seconds", "cpu_seconds"].map(|field| figures(std::slice::from_ref(&run), field));
                let Entrant { column, runtime, .. } = entrant;
                println!("    {workload}, {runtime}, round {round}: {column} {us:.2?} us, CPU {cpu_us:.2?}");
                runs.push(run);
            }
        }
        Ok(all)
    }
}
