//! The latest commands that took longer than `slowlog-log-slower-than` microseconds to execute, and those with requests or
//! replies larger than the options' limits.
//!
//! The code that runs commands reports slow or large ones; nothing is measured here. Arguments are kept shortened, so that an
//! entry has a bounded size, and passwords are not kept. Any thread may add or read.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::request::{REDACTED, Request};

/// The most arguments that an entry keeps, including the note about the others.
const ARGUMENTS_MAX: usize = 32;

/// The most bytes of an argument that an entry keeps.
const ARGUMENT_BYTES_MAX: usize = 128;

/// The measure by which a command is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The execution time in microseconds.
    Time,
    /// The bytes of the request.
    Request,
    /// The bytes of the reply.
    Reply,
}

/// A slow or large command.
#[derive(Debug)]
pub struct Entry {
    /// The id: ascending, and unique in its log for the life of the engine.
    pub id: u64,
    /// The time of the command's end, in seconds since the Unix epoch.
    pub time_s: i64,
    /// The command's duration or size, in the unit of the [`Measure`].
    pub amount: u64,
    /// The command's name and arguments, shortened.
    pub arguments: Vec<Vec<u8>>,
    /// The client's address.
    pub address: String,
    /// The name that the client has set.
    pub name: String,
}

/// The latest slow and large commands of one engine.
#[derive(Debug, Default)]
pub struct SlowLog {
    /// The entries of each measure.
    kept: [Mutex<Kept>; 3],
}

#[derive(Debug, Default)]
struct Kept {
    next_id: u64,
    /// The entries, newest first.
    entries: VecDeque<Arc<Entry>>,
}

impl SlowLog {
    /// Adds an entry, gives it its id, and keeps the latest `entries_max`.
    pub fn add(&self, measure: Measure, mut entry: Entry, entries_max: usize) {
        let mut kept = self.kept[measure as usize].lock();
        entry.id = kept.next_id;
        kept.next_id += 1;
        kept.entries.push_front(Arc::new(entry));
        kept.entries.truncate(entries_max);
    }

    /// Returns the latest `count` entries, newest first.
    pub fn latest(&self, measure: Measure, count: usize) -> Vec<Arc<Entry>> {
        self.kept[measure as usize].lock().entries.iter().take(count).cloned().collect()
    }

    /// Returns how many entries there are.
    pub fn len(&self, measure: Measure) -> usize {
        self.kept[measure as usize].lock().entries.len()
    }

    /// Forgets all entries.
    pub fn reset(&self, measure: Measure) {
        self.kept[measure as usize].lock().entries.clear();
    }
}

/// Returns the arguments of a request as an entry keeps them.
pub fn shortened(request: &Request<'_>) -> Vec<Vec<u8>> {
    let count = request.len();
    let shown = if count > ARGUMENTS_MAX { ARGUMENTS_MAX - 1 } else { count };
    let hidden = request.row.secrets.map_or(Vec::new(), |secrets| secrets.positions(request.args));
    let mut arguments: Vec<Vec<u8>> = (0..shown)
        .map(|index| match request.arg(index) {
            _ if hidden.binary_search(&index).is_ok() => REDACTED.to_vec(),
            argument if argument.len() <= ARGUMENT_BYTES_MAX => argument.to_vec(),
            argument => {
                let more = argument.len() - ARGUMENT_BYTES_MAX;
                [&argument[..ARGUMENT_BYTES_MAX], format!("... ({more} more bytes)").as_bytes()].concat()
            }
        })
        .collect();
    if shown < count {
        arguments.push(format!("... ({} more arguments)", count - shown).into_bytes());
    }
    arguments
}
