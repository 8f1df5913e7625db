//! A walk through all keys with SCAN, and the common parts of the modes that look at every key: their progress, their pauses,
//! and their end by Ctrl-C.

pub mod census;
pub mod hotkeys;
pub mod scan;

use std::io;
use std::time::Duration;

use sleeve_wire::frame::{Frame, decode};

use super::connection::Connection;
use crate::interrupt::Interrupt;
use crate::output;

/// The number of SCANs between two pauses of a mode that samples.
const ROUNDS_BETWEEN_PAUSES: u64 = 100;
/// The number of keys after which a mode that samples prints its progress.
const KEYS_BETWEEN_NOTES: u64 = 1_000_000;

/// The keys to walk through, and the pauses of the walk.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Glob pattern of the names.
    pub pattern: Option<Vec<u8>>,
    /// COUNT of each SCAN.
    pub count: Option<u32>,
    /// The pause.
    pub pause: Duration,
}

/// A walk that has begun.
#[derive(Debug)]
pub struct Walk<'a> {
    listing: &'a Listing,
    /// The cursor at which SCAN goes on; `None` at the end.
    cursor: Option<Vec<u8>>,
}

impl<'a> Walk<'a> {
    /// Begins a walk.
    pub fn new(listing: &'a Listing) -> Self {
        Self { listing, cursor: Some(b"0".to_vec()) }
    }

    /// Returns whether all keys were seen.
    pub fn is_done(&self) -> bool {
        self.cursor.is_none()
    }

    /// Returns the keys of the next SCAN; `None` if all keys were seen.
    pub fn next(&mut self, connection: &mut Connection) -> io::Result<Option<Vec<Vec<u8>>>> {
        let Some(cursor) = self.cursor.take() else { return Ok(None) };
        let mut words = vec![b"SCAN".to_vec(), cursor];
        if let Some(pattern) = &self.listing.pattern {
            words.extend([b"MATCH".to_vec(), pattern.clone()]);
        }
        if let Some(count) = self.listing.count {
            words.extend([b"COUNT".to_vec(), count.to_string().into_bytes()]);
        }
        let (cursor, keys) = page(&connection.ask(&words)?)?;
        self.cursor = (cursor != b"0").then_some(cursor);
        Ok(Some(keys))
    }
}

/// Returns the cursor and the keys of a reply of SCAN.
fn page(reply: &[u8]) -> io::Result<(Vec<u8>, Vec<Vec<u8>>)> {
    let unexpected = || io::Error::new(io::ErrorKind::InvalidData, "Unexpected reply of SCAN");
    let (frame, _) = decode(reply).map_err(|_| unexpected())?;
    let mut items = match frame {
        Frame::Array(items) => items,
        Frame::Error(text) => return Err(io::Error::other(String::from_utf8_lossy(text).into_owned())),
        _ => return Err(unexpected()),
    };
    let (Some(Ok(Frame::Bulk(cursor))), Some(Ok(Frame::Array(keys)))) = (items.next(), items.next()) else {
        return Err(unexpected());
    };
    let key = |key| if let Ok(Frame::Bulk(key)) = key { Ok(key.to_vec()) } else { Err(unexpected()) };
    Ok((cursor.to_vec(), keys.map(key).collect::<io::Result<_>>()?))
}

/// The progress of a walk that samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// The number of keys that were looked at.
    pub sampled: u64,
    /// The number of keys in the database.
    total: u64,
    /// True if Ctrl-C ended the walk.
    pub is_cut: bool,
}

impl Progress {
    /// Returns the share of the keys that were looked at, in percent.
    fn percent(&self) -> f64 {
        100.0 * self.sampled as f64 / self.total.max(1) as f64
    }

    /// The head of the summary.
    pub fn summarize(&self) {
        output::line(format_args!("\n-------- summary -------\n"));
        let far = if self.is_cut { format!("[{:05.2}%] ", self.percent()) } else { String::new() };
        output::line(format_args!("{far}Sampled {} keys in the keyspace!", self.sampled));
    }
}

/// Walks through the keys; `look` is given each page's keys and the progress of the walk before it, in percent.
///
/// `what` names the kind of key that is looked for.
pub fn sample(
    connection: &mut Connection,
    listing: &Listing,
    interrupt: &Interrupt,
    what: &str,
    mut look: impl FnMut(&mut Connection, &[Vec<u8>], f64) -> io::Result<()>,
) -> io::Result<Progress> {
    output::line(format_args!(
        "\n# Looking at every key for {what}.\n# -i 0.1 rests a tenth of a second after every {ROUNDS_BETWEEN_PAUSES} SCANs; \
         Ctrl-C ends with a summary.\n"
    ));
    output::flush();
    let mut progress = Progress { total: connection.ask_number(&["DBSIZE"])?.unwrap_or(0), ..Progress::default() };
    let mut walk = Walk::new(listing);
    for round in 1.. {
        let page = walk.next(connection).and_then(|page| {
            let Some(keys) = page else { return Ok(None) };
            look(connection, &keys, progress.percent()).map(|()| Some(keys.len() as u64))
        });
        output::flush();
        let count = match page {
            Err(_) if interrupt.is_heard() => break,
            Err(error) => return Err(error),
            Ok(None) => return Ok(progress),
            Ok(Some(count)) => count,
        };
        let notes = progress.sampled / KEYS_BETWEEN_NOTES;
        progress.sampled += count;
        if progress.sampled / KEYS_BETWEEN_NOTES > notes {
            output::line(format_args!("[{:05.2}%] Sampled {} keys so far", progress.percent(), progress.sampled));
        }
        if round % ROUNDS_BETWEEN_PAUSES == 0 {
            interrupt.sleep(listing.pause);
        }
        if interrupt.is_heard() {
            break;
        }
    }
    Ok(Progress { is_cut: true, ..progress })
}
