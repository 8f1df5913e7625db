//! `sleeve cli --bigkeys` and `--memkeys`: the largest key of each type, by elements or by memory, and sums.

use std::io;

use sleeve_wire::inline::quote;

use super::{Listing, sample};
use crate::interrupt::Interrupt;
use crate::output;
use crate::shell::connection::{Connection, error_of, number_of};

/// The measure of a key's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The number of elements, or of bytes of a string.
    Length,
    /// The bytes of memory; the number of elements that the server samples, or its default.
    Memory(Option<u32>),
}

/// The findings about one type.
#[derive(Debug)]
struct Kind {
    name: String,
    /// The command that returns the length; none for a type that this program does not know.
    length: Option<&'static str>,
    unit: &'static str,
    count: u64,
    total: u64,
    /// The largest key, and its size.
    biggest: Option<(Vec<u8>, u64)>,
}

/// The types, the commands that return a value's length, and the unit of that length.
const KINDS: [(&str, &str, &str); 6] = [
    ("string", "STRLEN", "bytes"),
    ("list", "LLEN", "items"),
    ("hash", "HLEN", "fields"),
    ("stream", "XLEN", "entries"),
    ("set", "SCARD", "members"),
    ("zset", "ZCARD", "members"),
];

#[derive(Debug)]
struct KeyStatistics {
    measure: Measure,
    kinds: Vec<Kind>,
    names_length: u64,
}

/// Looks at every key and prints the findings, even if Ctrl-C comes before the end.
pub fn run(connection: &mut Connection, listing: &Listing, measure: Measure, interrupt: &Interrupt) -> io::Result<()> {
    let mut census = KeyStatistics::new(measure);
    let look = |connection: &mut Connection, keys: &[Vec<u8>], percent: f64| census.look(connection, keys, percent);
    let progress = sample(connection, listing, interrupt, "the biggest of each type", look)?;
    progress.summarize();
    census.summarize(progress.sampled);
    Ok(())
}

impl KeyStatistics {
    fn new(measure: Measure) -> Self {
        let kind = |(name, length, unit): &(&str, &'static str, &'static str)| {
            Kind::new(name, Some(length), measure.unit(unit))
        };
        Self { measure, kinds: KINDS.iter().map(kind).collect(), names_length: 0 }
    }

    /// Takes a page of keys in.
    fn look(&mut self, connection: &mut Connection, keys: &[Vec<u8>], percent: f64) -> io::Result<()> {
        let requests: Vec<[&[u8]; 2]> = keys.iter().map(|key| [b"TYPE".as_slice(), key]).collect();
        let types = connection.ask_all(&requests)?;
        let places: Vec<Option<usize>> = types.iter().map(|reply| self.place(reply)).collect();
        let present: Vec<(&Vec<u8>, usize)> =
            keys.iter().zip(places).filter_map(|(key, place)| place.map(|place| (key, place))).collect();
        let mut requests = Vec::new();
        for (key, place) in &present {
            if let Some(words) = self.kinds.get(*place).and_then(|kind| self.measure.request(kind, key)) {
                requests.push(words);
            }
        }
        let mut sizes = connection.ask_all(&requests)?.into_iter();
        for (key, place) in present {
            let Some(kind) = self.kinds.get_mut(place) else { continue };
            let size = match self.measure.request(kind, key).and_then(|_| sizes.next()) {
                Some(reply) => size(&reply, key)?,
                None => 0,
            };
            self.names_length += key.len() as u64;
            kind.take(key, size, percent);
        }
        Ok(())
    }

    /// Returns the index of the type that TYPE names; `None` for a key that does not exist any more.
    fn place(&mut self, reply: &[u8]) -> Option<usize> {
        let name = reply.strip_prefix(b"+").unwrap_or_default();
        let name = String::from_utf8_lossy(name).trim_end().to_owned();
        if name.is_empty() || name == "none" {
            return None;
        }
        let known = self.kinds.iter().position(|kind| kind.name == name);
        Some(known.unwrap_or_else(|| {
            self.kinds.push(Kind::new(&name, None, self.measure.unit("?")));
            self.kinds.len() - 1
        }))
    }

    fn summarize(&self, sampled: u64) {
        let average = |sum: u64, count: u64| sum as f64 / count.max(1) as f64;
        let names = self.names_length;
        output::line(format_args!("Total key length in bytes is {names} (avg len {:.2})\n", average(names, sampled)));
        for kind in &self.kinds {
            if let Some((key, size)) = &kind.biggest {
                let (name, unit) = (&kind.name, kind.unit);
                output::line(format_args!("Biggest {name:>6} found '{}' has {size} {unit}", quoted(key)));
            }
        }
        output::line(format_args!(""));
        for Kind { name, count, total, unit, .. } in &self.kinds {
            let (share, each) = (100.0 * average(*count, sampled), average(*total, *count));
            output::line(format_args!(
                "{count} {name}s with {total} {unit} ({share:05.2}% of keys, avg size {each:.2})"
            ));
        }
    }
}

impl Measure {
    fn unit(self, of_length: &'static str) -> &'static str {
        match self {
            Self::Length => of_length,
            Self::Memory(_) => "bytes",
        }
    }

    /// Returns the request that asks for a key's size, if there is one.
    fn request(self, kind: &Kind, key: &[u8]) -> Option<Vec<Vec<u8>>> {
        let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect();
        match self {
            Self::Length => kind.length.map(|command| words(&[command.as_bytes(), key])),
            Self::Memory(None) => Some(words(&[b"MEMORY", b"USAGE", key])),
            Self::Memory(Some(samples)) => {
                Some(words(&[b"MEMORY", b"USAGE", key, b"SAMPLES", samples.to_string().as_bytes()]))
            }
        }
    }
}

impl Kind {
    fn new(name: &str, length: Option<&'static str>, unit: &'static str) -> Self {
        Self { name: name.to_owned(), length, unit, count: 0, total: 0, biggest: None }
    }

    /// Counts a key, and prints it if it is the largest so far.
    fn take(&mut self, key: &[u8], size: u64, percent: f64) {
        self.count += 1;
        self.total += size;
        if size > self.biggest.as_ref().map_or(0, |(_, size)| *size) {
            let (name, unit) = (&self.name, self.unit);
            output::line(format_args!(
                "[{percent:05.2}%] Biggest {name:<6} found so far '{}' with {size} {unit}",
                quoted(key)
            ));
            self.biggest = Some((key.to_vec(), size));
        }
    }
}

/// Returns the size in a reply. A key that was removed or has changed its type since has none; other errors end the walk.
fn size(reply: &[u8], key: &[u8]) -> io::Result<u64> {
    match error_of(reply) {
        Some(text) if text.starts_with("WRONGTYPE") => {
            eprintln!("Warning: {} has changed its type meanwhile", quoted(key));
            Ok(0)
        }
        Some(text) => Err(io::Error::other(text)),
        None => Ok(number_of(reply).unwrap_or(0)),
    }
}

/// Returns a key in quotes.
pub fn quoted(key: &[u8]) -> String {
    let mut out = Vec::new();
    quote(key, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}
