//! The history of the simulated server: numbered pieces, in order, each of which sets keys that carry its number.

use sleeve_disk::replay::request;
use sleeve_tests::random::Random;

/// The pieces of one run of the server, in order.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    bytes: Vec<u8>,
    /// The kind of each piece, and the offset at which it ends.
    pieces: Vec<(Kind, u64)>,
    /// The journal's offset of the first byte.
    start: u64,
    /// The number of the first piece.
    first: usize,
}

/// The kind of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A piece of one request.
    Single,
    /// A piece of so many requests between MULTI and EXEC.
    Transaction(usize),
    /// A piece that is not logged.
    Unlogged,
}

impl Journal {
    /// Returns a journal that goes on behind so many pieces, at this offset.
    pub fn new(start: u64, first: usize) -> Journal {
        Journal { start, first, ..Journal::default() }
    }

    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Adds a piece.
    pub fn add(&mut self, random: &mut Random) {
        let number = self.first + self.pieces.len();
        let kind = match random.below(10) {
            0 => Kind::Unlogged,
            1..3 => Kind::Transaction(random.below(4) + 1),
            _ => Kind::Single,
        };
        let size = if random.once_in(5) { random.below(2_000) } else { random.below(60) };
        match kind {
            Kind::Single => put(&mut self.bytes, &["SET", &format!("k:{number}:0:1"), &"v".repeat(size)]),
            Kind::Transaction(count) => {
                put(&mut self.bytes, &["MULTI"]);
                for index in 0..count {
                    put(&mut self.bytes, &["SET", &format!("k:{number}:{index}:{count}"), &"t".repeat(size)]);
                }
                put(&mut self.bytes, &["EXEC"]);
            }
            Kind::Unlogged => put(&mut self.bytes, &["PING"]),
        }
        self.pieces.push((kind, self.end()));
    }

    /// Adds one command with effects that are recorded as two pieces, which is a fault.
    pub fn add_torn(&mut self) {
        let number = self.first + self.pieces.len();
        put(&mut self.bytes, &["SET", &format!("k:{number}:0:2"), "a"]);
        self.pieces.push((Kind::Single, self.end()));
        put(&mut self.bytes, &["SET", &format!("k:{number}:1:2"), "b"]);
        self.pieces.push((Kind::Single, self.end()));
    }

    /// Returns the next whole pieces from `from` on, at most `count`: the offset at which they end, and the parts of them
    /// that are logged.
    pub fn read(&self, from: u64, count: usize) -> (u64, Vec<&[u8]>) {
        let (mut end, mut slices) = (from, Vec::new());
        for &(kind, to) in self.pieces.iter().filter(|(_, to)| *to > from).take(count) {
            if kind != Kind::Unlogged {
                slices.push(&self.bytes[(end - self.start) as usize..(to - self.start) as usize]);
            }
            end = to;
        }
        (end, slices)
    }

    /// Returns the numbers of the pieces that are in the AOF if it reaches this offset.
    pub fn logged_until(&self, offset: u64) -> Vec<usize> {
        let pieces = self.pieces.iter().enumerate().filter(|(_, (kind, to))| *kind != Kind::Unlogged && *to <= offset);
        pieces.map(|(index, _)| self.first + index).collect()
    }

    /// Returns the number behind the last piece.
    pub fn next_number(&self) -> usize {
        self.first + self.pieces.len()
    }
}

pub fn put(into: &mut Vec<u8>, words: &[&str]) {
    into.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    words.iter().for_each(|word| into.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes()));
}

/// Returns the numbers of the pieces that these requests are, each of them whole.
pub fn numbers(requests: &[u8]) -> Result<Vec<usize>, String> {
    let (mut numbers, mut seen, mut wrong) = (Vec::new(), 0, None);
    let parsed = request::for_each(requests, |words| {
        let key = String::from_utf8_lossy(words.get(1).unwrap_or_default()).into_owned();
        let Some(key) = key.strip_prefix("k:") else { return };
        let parts: Vec<usize> = key.split(':').filter_map(|part| part.parse().ok()).collect();
        let [number, index, count] = parts[..] else { return };
        if index != seen {
            wrong = Some(format!("effect {index} of piece {number} where effect {seen} was due"));
        }
        seen = if index + 1 == count { 0 } else { index + 1 };
        if seen == 0 {
            numbers.push(number);
        }
    });
    parsed.map_err(|what| what.to_string())?;
    match wrong {
        Some(wrong) => Err(wrong),
        None if seen > 0 => Err("a piece is half there".to_owned()),
        None => Ok(numbers),
    }
}
