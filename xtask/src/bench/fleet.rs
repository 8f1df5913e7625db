//! The servers of one comparison, all running at once, each bound to its CPUs.

use super::builds::{Builds, start_on};
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
    /// Where its threads may run.
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

/// All contenders of one table.
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
