//! The cost of cutting off an AOF: how many bytes, and which keys are named in the requests that can still be recognised in
//! them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use sleeve_disk::disk::real::RealDisk;
use sleeve_disk::disk::{Disk, File, Open, read_full};
use sleeve_disk::replay::Cut;
use sleeve_wire::commands::{find, find_sub};
use sleeve_wire::request::{Args, Batch, Limits, Parser};

/// The number of keys that are named; the others are only counted.
const NAMED: usize = 20;

/// The number of keys that are remembered, so that none counts twice.
const KEYS_MAX: usize = 100_000;

/// The number of bytes that are searched for requests at a time. A longer request is not recognised.
const WINDOW_BYTES: usize = 4 << 20;

/// The data that are lost.
#[derive(Default)]
pub struct Cost {
    bytes: u64,
    files: usize,
    requests: u64,
    keys: BTreeSet<Vec<u8>>,
}

impl Cost {
    /// Returns the cost of this cut.
    ///
    /// # Errors
    /// The errors of the system.
    pub fn of(folder: &Path, cut: &Cut) -> Result<Cost, String> {
        let mut cost = Cost { files: cut.later.len(), ..Cost::default() };
        let later = cut.later.iter().map(|entry| (entry, 0));
        for (entry, at) in std::iter::once((&cut.file, cut.at)).chain(later) {
            cost.add(&folder.join(entry.path()), at).map_err(|error| format!("cannot read {entry}: {error}"))?;
        }
        Ok(cost)
    }

    fn add(&mut self, path: &Path, mut at: u64) -> std::io::Result<()> {
        let file = RealDisk.open(path, Open::Read)?;
        self.bytes += file.size()?.saturating_sub(at);
        let mut bytes = vec![0; WINDOW_BYTES];
        loop {
            let read = read_full(file.as_ref() as &dyn File, at, &mut bytes)?;
            let seen = self.look(&bytes[..read]);
            if read < WINDOW_BYTES {
                return Ok(());
            }
            at += seen as u64;
        }
    }

    /// Recognises requests at any offset; returns the number of bytes that need not be searched again, which is at least one.
    fn look(&mut self, bytes: &[u8]) -> usize {
        let (mut at, limits) = (0, Limits { requests_max: 1, ..Limits::default() });
        while let Some(found) = memchr::memchr(b'*', &bytes[at..]) {
            let start = at + found;
            let mut batch = Batch::new();
            match Parser::new().parse(&bytes[start..], &limits, &mut batch) {
                Ok(length) if length > 0 && batch.len() == 1 => {
                    self.count(batch.get(0, &bytes[start..]));
                    at = start + length;
                }
                // A request that is not whole here may be whole with the bytes that follow.
                Ok(0) if start > WINDOW_BYTES / 2 => return start,
                _ => at = start + 1,
            }
        }
        bytes.len()
    }

    fn count(&mut self, words: Args<'_>) {
        let row = words.get(0).and_then(find);
        let row = match row {
            Some(row) if row.is_container() => words.get(1).and_then(|name| find_sub(row.id, name)),
            row => row,
        };
        let Some(row) = row else { return };
        self.requests += 1;
        for key in row.key_positions(words).filter_map(|position| words.get(position)) {
            if self.keys.len() < KEYS_MAX && !self.keys.contains(key) {
                self.keys.insert(key.to_vec());
            }
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "It costs {} bytes", self.bytes)?;
        if self.files > 0 {
            write!(f, ", {} later files among them", self.files)?;
        }
        write!(f, ", in which {} requests can be recognised", self.requests)?;
        let names: Vec<String> =
            self.keys.iter().take(NAMED).map(|key| format!("\"{}\"", key.escape_ascii())).collect();
        if !names.is_empty() {
            write!(f, ", about {}", names.join(", "))?;
        }
        match self.keys.len().saturating_sub(NAMED) {
            0 => f.write_str("."),
            more if self.keys.len() < KEYS_MAX => write!(f, " and {more} more keys."),
            more => write!(f, " and more than {more} more keys."),
        }
    }
}
