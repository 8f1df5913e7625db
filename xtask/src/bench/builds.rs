//! The choice of the build of each server that takes part: the fastest of those that are found on this machine.
//!
//! The same version of a server can be a third slower in one package than in another, because of its allocator or its
//! compiler. A ratio says something only against a server at its best, so several builds of one server are first measured
//! against each other, and the fastest goes into the tables.

use std::path::{Path, PathBuf};

use super::effort::Effort;
use super::generator::{Figure, Load, State, measure};
use super::report::median;
use crate::peers;
use crate::steps::build_sleeve;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use sleeve_tests::{Kind, Server, Settings};

/// The servers that Sleeve is compared with.
const PEERS: [Kind; 3] = [Kind::Redis, Kind::Redis8, Kind::Valkey];

/// The largest number of measurements of each of several builds before one is chosen.
const ROUNDS_MAX: u32 = 3;

/// The binaries that take part, one for each kind.
#[derive(Debug)]
pub struct Builds {
    chosen: Vec<(Kind, PathBuf, String)>,
}

impl Builds {
    /// Builds Sleeve unless `SLEEVE_BIN` names its binary, and chooses the build of each peer.
    ///
    /// # Errors
    /// When Sleeve does not compile, a peer is missing, or one of its builds does not run.
    pub fn set_up(effort: Effort) -> Result<Builds, String> {
        peers::set_up_servers()?;
        let sleeve = match std::env::var_os("SLEEVE_BIN") {
            Some(path) => PathBuf::from(path),
            None => {
                println!("==> building sleeve");
                build_sleeve("release")?
            }
        };
        Builds::choose(sleeve, effort)
    }

    /// Chooses of each peer the build with the least CPU time per request.
    fn choose(sleeve: PathBuf, effort: Effort) -> Result<Builds, String> {
        let mut chosen = vec![(Kind::Sleeve, sleeve.clone(), env!("CARGO_PKG_VERSION").to_owned())];
        for kind in PEERS {
            let mut found = kind.binaries()?;
            let binary = if found.len() == 1 { found.remove(0) } else { fastest(kind, found, &sleeve, effort)? };
            let version = peers::version_at(&binary)?;
            println!("    {}: {version}", kind.name());
            chosen.push((kind, binary, version));
        }
        Ok(Builds { chosen })
    }

    /// Returns the program to start for a kind.
    ///
    /// # Errors
    /// When no build of that kind takes part.
    pub fn binary(&self, kind: Kind) -> Result<&Path, String> {
        let build = self.chosen.iter().find(|(chosen, ..)| *chosen == kind);
        build.map(|(_, binary, _)| binary.as_path()).ok_or_else(|| format!("no build of {} takes part", kind.name()))
    }

    /// Returns the load generator, which is a part of Sleeve's binary.
    pub fn generator(&self) -> &Path {
        &self.chosen[0].1
    }

    /// Returns the name of each server with the version and the allocator of the build that takes part.
    pub fn versions(&self) -> Vec<(&'static str, String)> {
        self.chosen.iter().map(|(kind, _, version)| (kind.name(), version.clone())).collect()
    }
}

/// Returns the build that takes the least CPU time for a GET at depth 64, where builds differ most.
fn fastest(kind: Kind, found: Vec<PathBuf>, generator: &Path, effort: Effort) -> Result<PathBuf, String> {
    println!("==> choosing one of {} builds of {}", found.len(), kind.name());
    let load = Load {
        test: "get",
        clients: 50,
        pipeline: 64,
        requests: 2_000_000,
        data_size: 16,
        keyspace: 1_000_000,
        state: State::Kept("get"),
        rate: None,
    };
    let load = load.divided(effort.divisor);
    let mut builds = Vec::new();
    for binary in found {
        let server = start_on(&[0], kind, &binary, Vec::new())?;
        load.fill(generator, &server)?;
        builds.push((binary, server, Vec::new()));
    }
    for _ in 0..effort.rounds.min(ROUNDS_MAX) {
        for (_, server, samples) in &mut builds {
            samples.push(measure(generator, server, &load, Figure::ServerCpu)?);
        }
    }
    let mut best = None;
    for (binary, _, samples) in builds {
        let figure = median(&samples).ok_or("no round was run")?;
        println!("    {}: {figure:.3} us for a GET at depth 64", peers::version_at(&binary)?);
        if best.as_ref().is_none_or(|(least, _)| figure < *least) {
            best = Some((figure, binary));
        }
    }
    best.map(|(_, binary)| binary).ok_or_else(|| format!("no build of {} was found", kind.name()))
}

/// Starts a server that may run on these CPUs only. It inherits them from this thread, which is bound to them at that moment.
///
/// # Errors
/// When the CPUs are not available or the server does not start.
pub fn start_on(cpus: &[usize], kind: Kind, binary: &Path, arguments: Vec<String>) -> Result<Server, String> {
    bound_to(cpus, || Server::launch(kind, binary, Settings { arguments, password: None }))?
}

/// Runs `work` with this thread bound to these CPUs. Processes that it starts inherit the binding.
///
/// # Errors
/// When the CPUs are not available.
pub fn bound_to<R>(cpus: &[usize], work: impl FnOnce() -> R) -> Result<R, String> {
    let before = sched_getaffinity(None).map_err(|error| error.to_string())?;
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set).map_err(|error| format!("cannot bind to CPUs {cpus:?}: {error}"))?;
    let result = work();
    sched_setaffinity(None, &before).map_err(|error| error.to_string())?;
    Ok(result)
}
