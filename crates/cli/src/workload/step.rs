//! The parts of a workload: a step is one way to do the same work, by the client and, where it means something, raw.

use std::io;

use sleeve::Client;

use super::raw::Raw;
use super::sample::StepTimes;

/// Does the step through the client, with so many operations if it has many.
pub type ByClient = fn(&Client, u64) -> Result<StepTimes, sleeve::Error>;
/// Does it through a bare socket.
pub type ByRaw = fn(&mut Raw, u64) -> io::Result<StepTimes>;

/// A line of a workload.
#[derive(Debug)]
pub struct Step {
    /// The title of the line.
    pub title: &'static str,
    /// The document's own figure, if it gives one.
    pub document: Option<&'static str>,
    /// Operations that the workload stands for.
    pub operations: u64,
    /// The number of rounds; the median counts.
    pub rounds: usize,
    /// See [`ByClient`].
    pub by_client: ByClient,
    /// See [`ByRaw`].
    pub by_raw: Option<ByRaw>,
}

/// A named piece of work from the documents.
#[derive(Debug)]
pub struct Workload {
    /// The name that `--workload` takes.
    pub name: &'static str,
    /// A description of the work, in a line.
    pub about: &'static str,
    /// Writes the keys that the steps read.
    pub prepare: fn(&Client) -> Result<(), sleeve::Error>,
    /// Its lines.
    pub steps: &'static [Step],
    /// Removes the keys that the steps wrote, of so many operations.
    pub clean: fn(&Client, u64) -> Result<(), sleeve::Error>,
}
