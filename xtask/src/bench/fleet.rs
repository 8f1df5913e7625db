//! The servers of one comparison, all running at once, each bound to its CPUs.

use super::builds::{Builds, start_on};
use super::filling::{Noise, string, write};
use super::report::{Bar, Line, Ratio};
use rustix::thread::sched_getaffinity;
use sleeve_tests::{Kind, Server};

/// A server as it takes part: a column of the table.
#[derive(Clone, Copy, Debug)]
pub struct Contender {
    /// The column's heading.
    pub name: &'static str,
    pub kind: Kind,
    /// Sleeve's number of workers.
    pub workers: Option<u32>,
    /// The CPUs on which its threads may run.
    pub cpus: &'static [usize],
    /// Further options.
    pub options: &'static [&'static str],
}

impl Contender {
    pub const SLEEVE: Contender = Contender { workers: Some(1), ..Contender::new("sleeve", Kind::Sleeve) };
    pub const REDIS: Contender = Contender::new("redis", Kind::Redis);
    pub const REDIS8: Contender = Contender::new("redis 8", Kind::Redis8);
    pub const VALKEY: Contender = Contender::new("valkey", Kind::Valkey);

    const fn new(name: &'static str, kind: Kind) -> Contender {
        Contender { name, kind, workers: None, cpus: &[0], options: &[] }
    }

    /// Starts it.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(&self, builds: &Builds) -> Result<Server, String> {
        let workers = self.workers.map(|workers| ["--workers".to_owned(), workers.to_string()]);
        let options = self.options.iter().map(|&word| word.to_owned());
        let arguments = workers.into_iter().flatten().chain(options).collect();
        start_on(self.cpus, self.kind, builds.binary(self.kind)?, arguments)
    }
}

/// The contenders of a table.
#[derive(Debug)]
pub struct Fleet {
    pub servers: Vec<(Contender, Server)>,
}

impl Fleet {
    /// Starts them all.
    ///
    /// # Errors
    /// When one does not come up.
    pub fn start(contenders: &[Contender], builds: &Builds) -> Result<Fleet, String> {
        let started = contenders.iter().map(|contender| Ok((*contender, contender.start(builds)?)));
        Ok(Fleet { servers: started.collect::<Result<_, String>>()? })
    }

    /// Writes so many keys of 16 bytes with 200-byte values into each.
    ///
    /// # Errors
    /// When a connection breaks.
    pub fn fill(&self, keys: u64) -> Result<(), String> {
        for (contender, server) in &self.servers {
            println!("    filling {}", contender.name);
            let mut noise = Noise(7);
            write(&mut server.connect(), 0..keys, |number| string(number, &mut noise))?;
        }
        Ok(())
    }

    /// Reads several figures of each contender in each round: a line for each figure, with this ratio.
    ///
    /// # Errors
    /// The errors of `read`.
    pub fn measure<const FIGURES: usize>(
        &self,
        figures: [(&str, Option<Bar>); FIGURES],
        ratio: Ratio,
        rounds: u32,
        mut read: impl FnMut(&Contender, &Server) -> Result<[f64; FIGURES], String>,
    ) -> Result<Vec<Line>, String> {
        let samples: Vec<_> = self.servers.iter().map(|(contender, _)| (contender.name, Vec::new())).collect();
        let line = |(label, bar): (&str, _)| Line {
            label: label.to_owned(),
            samples: samples.clone(),
            ratio: Some(ratio),
            bar,
        };
        let mut lines = figures.map(line);
        for round in 1..=rounds {
            for (index, (contender, server)) in self.servers.iter().enumerate() {
                let figures = read(contender, server)?;
                println!("    round {round}: {} {figures:.3?}", contender.name);
                for (line, figure) in lines.iter_mut().zip(figures) {
                    line.samples[index].1.push(figure);
                }
            }
        }
        Ok(lines.into())
    }
}

/// Servers and generator must not share a CPU.
///
/// # Errors
/// When this process may not use CPUs 0 and 1.
pub fn need_two_cpus() -> Result<(), String> {
    let cpus = sched_getaffinity(None).map_err(|error| error.to_string())?;
    let usable = cpus.is_set(0) && cpus.is_set(1);
    if usable { Ok(()) } else { Err("the measurements need CPUs 0 and 1".to_owned()) }
}
