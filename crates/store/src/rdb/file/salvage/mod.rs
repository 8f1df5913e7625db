//! Saving the keys of a damaged file: all records that can still be read, copied as they stand.
//!
//! The format has no marks between records, so the record behind a damage has to be searched for. From top to bottom: here (the
//! way through the file, and the records that are kept) → `rewrite` (the new file) → `chains` (the search) → `parts` (a part at a
//! byte). One thread; the whole file is in memory, and nothing else in proportion to it but a few numbers for each record.
//!
//! 1. If the sum at the end says that a single byte was changed, and which one, it is changed back.
//! 2. Parts are read one after the other. Where none can be read, the next anchor is searched for (`chains`). The damaged
//!    record may have swallowed the beginning of its successors: a length has grown, and the reading failed only some records
//!    later. So the search begins in the last `LOOK_BACK` records.
//! 3. If all parts can be read, but fewer keys are there than the file announces, a damaged record has swallowed others and
//!    ends where one of them ends. Chains inside of records that end where a record ends, and have as many records as are
//!    missing, are kept as well.
//! 4. If nearly all keys of the file are readable, records in a row whose keys are not were read by chance. Readable records
//!    inside of them, and of the records beside them, are kept as well if they end where the record behind the row ends.
//!
//! Records inside of the first records behind a damage are kept too if they end where those end and their keys can be read.
//! A record that was read without a fault is kept, even if another was found inside of it: which one is right cannot be told,
//! and a value may hold the bytes of records. If a key is there twice, the first one stays, and a record inside of another
//! comes last.

mod chains;
mod parts;
mod rewrite;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use super::super::crc64::{changed_byte, crc64};
use super::super::limits::Limits;
use super::super::rdb_type::Origin;
use super::super::{VERSION_MAX, VERSION_VALKEY};
use super::reader::SUMMED_FROM;
use chains::{Stage, Way, find_anchor, ways, worth_of_record};
use parts::{Part, Parts};

/// The length of the header.
const HEADER: usize = 9;

/// The records before the place where the reading failed in which swallowed records are searched for.
const LOOK_BACK: usize = 8;

/// A record that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The bytes of the record in the file.
    pub bytes: Range<usize>,
    /// True if the key has a deadline.
    pub has_deadline: bool,
}

/// The sum at the end of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sum {
    /// It is that of the bytes, or was once a byte was changed back.
    Right,
    /// The server that wrote the file made none.
    None,
    /// It is that of other bytes, or cannot be found.
    #[default]
    Wrong,
}

/// The parts of a damaged file that can be read.
#[derive(Clone, Debug, Default)]
pub struct Salvaged {
    /// The project and the version of the new file.
    pub header: (Origin, u16),
    /// True if the header could be read.
    pub has_header: bool,
    /// The place of a byte that was changed back.
    pub mended: Option<usize>,
    /// Properties and functions.
    pub head: Vec<Range<usize>>,
    /// The number of libraries of functions.
    pub functions: usize,
    /// The records of each database.
    pub databases: BTreeMap<usize, Vec<Kept>>,
    /// The bytes that no kept part covers.
    pub skipped: Vec<Range<usize>>,
    /// The number of records that were found inside of others.
    pub swallowed: usize,
    /// The number of records that were left out, because their key was there already.
    pub doubles: usize,
    /// The number of kept records whose database is a guess, because its number was damaged.
    pub guessed: usize,
    /// The number of keys that the file announces, as far as the announcements can be read.
    pub announced: u64,
    /// The sum at the end of the file.
    pub sum: Sum,
    /// True if the end of the file was found.
    pub has_end: bool,
    /// True if the search was given up in some places, because it would have taken too long.
    pub is_cut_short: bool,
}

impl Salvaged {
    /// Returns the number of keys that are kept.
    pub fn keys(&self) -> usize {
        self.databases.values().map(Vec::len).sum()
    }

    /// Returns whether nothing is lost: every byte is accounted for, and none is in doubt.
    pub fn is_whole(&self) -> bool {
        let is_read = self.has_header && self.has_end && self.skipped.is_empty() && !self.is_cut_short;
        // Without a sum only the number of keys shows that a record has swallowed others.
        let has_all = match self.sum {
            Sum::Right => true,
            Sum::None => self.keys() as u64 >= self.announced,
            Sum::Wrong => false,
        };
        is_read && has_all && self.swallowed + self.doubles + self.guessed == 0
    }
}

/// Finds the parts of a file that can be read. A changed byte may be changed back in `bytes`.
pub fn salvage(bytes: &mut [u8], limits: &Limits) -> Salvaged {
    let (mended, sum) = mend(bytes);
    let salvaged = match read_header(bytes) {
        Some(header) => Salvaged { has_header: true, ..Search::run(bytes, header, sum, limits) },
        // The project decides about the types of values: the one with which more can be read is right.
        None => {
            let [redis, valkey] = [(Origin::Redis, VERSION_MAX), (Origin::Valkey, VERSION_VALKEY)]
                .map(|header| Search::run(bytes, header, sum, limits));
            if valkey.keys() > redis.keys() { valkey } else { redis }
        }
    };
    Salvaged { mended, ..salvaged }
}

/// Changes a byte back if the sum at the end says which one was changed. Returns its place, and the sum then.
fn mend(bytes: &mut [u8]) -> (Option<usize>, Sum) {
    if read_header(bytes).is_some_and(|(origin, version)| origin == Origin::Redis && version < SUMMED_FROM) {
        return (None, Sum::None);
    }
    let Some((summed, sum)) = bytes.split_last_chunk_mut::<8>() else { return (None, Sum::Wrong) };
    let stated = u64::from_le_bytes(*sum);
    let difference = crc64(summed) ^ stated;
    // A writer without a checksum writes zero.
    if stated == 0 || difference == 0 {
        return (None, if stated == 0 { Sum::None } else { Sum::Right });
    }
    match changed_byte(difference, summed.len()) {
        Some((at, bits)) => {
            summed[at] ^= bits;
            (Some(at), Sum::Right)
        }
        None => (None, Sum::Wrong),
    }
}

fn read_header(bytes: &[u8]) -> Option<(Origin, u16)> {
    let magic = bytes.first_chunk::<HEADER>()?;
    let (origin, digits) = match magic.strip_prefix(b"REDIS") {
        Some(digits) => (Origin::Redis, digits),
        None => (Origin::Valkey, magic.strip_prefix(b"VALKEY")?),
    };
    let version = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let is_known =
        if origin == Origin::Redis { (1..=VERSION_MAX).contains(&version) } else { version == VERSION_VALKEY };
    (is_known && digits.iter().all(u8::is_ascii_digit)).then_some((origin, version))
}

/// A record on the way through the file.
struct Found {
    bytes: Range<usize>,
    database: usize,
    key: u64,
    has_deadline: bool,
    is_readable: bool,
    /// True if it lies inside of another.
    is_inner: bool,
}

/// The way through a file.
struct Search<'a> {
    parts: Parts<'a>,
    out: Salvaged,
    stage: Stage,
    found: Vec<Found>,
    /// The number of readable keys among the found.
    readable: usize,
    database: usize,
    /// The database, with the keys that it announces, from this place among the found on.
    sizes: Option<(u64, usize)>,
    /// The place among the found of the first record of the database behind a gap.
    behind_gap: Option<usize>,
    /// The place among the found from which on the number of the database is a guess.
    guessed_from: Option<usize>,
    /// The end of the part before, if it selected a database.
    selected_at: Option<usize>,
}

impl<'a> Search<'a> {
    fn run(bytes: &'a [u8], header: (Origin, u16), sum: Sum, limits: &Limits) -> Salvaged {
        let parts = Parts::new(bytes, header.0, *limits);
        let out = Salvaged { header, sum, ..Salvaged::default() };
        let (stage, found) = (Stage::Head, Vec::new());
        let (sizes, behind_gap, guessed_from, selected_at) = (None, None, None, None);
        let mut search =
            Self { parts, out, stage, found, readable: 0, database: 0, sizes, behind_gap, guessed_from, selected_at };
        search.read_all();
        search.close_database();
        if search.out.skipped.is_empty() && search.out.has_end && search.found.iter().all(|found| !found.is_inner) {
            search.look_inside();
        }
        if sum != Sum::Right && search.has_readable_keys() {
            search.look_under_doubtful();
        }
        search.settle()
    }

    /// Reads the file from its header to its end.
    fn read_all(&mut self) {
        let (mut at, mut run) = (HEADER.min(self.parts.len()), Vec::new());
        while at < self.parts.len() {
            let stage = self.stage;
            match self.parts.part(at).filter(|(part, _)| stage.allows(*part) && !stage.lacks_database(*part)) {
                Some((part, end)) => {
                    self.take(part, at..end, false);
                    run.push(at);
                    at = end;
                }
                None => {
                    at = self.resume(at, &run);
                    run.clear();
                }
            }
        }
    }

    /// Goes on behind damage: no part begins at byte `at`, and the parts before begin at the bytes of `run`. Returns the byte
    /// at which the reading goes on.
    fn resume(&mut self, at: usize, run: &[usize]) -> usize {
        let is_readable = self.has_readable_keys();
        let found = find_anchor(&mut self.parts, at + 1, self.stage, is_readable)
            .or_else(|| find_anchor(&mut self.parts, at + 1, self.stage, false).filter(|_| is_readable));
        let anchor = match found.or(self.parts.end().filter(|&end| end > at)) {
            Some(anchor) => anchor,
            None => {
                self.out.skipped.push(at..self.parts.len());
                return self.parts.len();
            }
        };
        let from = run.iter().rev().nth(LOOK_BACK - 1).or(run.first()).map_or(at, |begin| begin + 1);
        let ways = ways(&mut self.parts, from, &[anchor], self.stage);
        // Of chains with the same worth the last one is right: the others begin with bytes of the damaged record.
        let best = ways.iter().max_by_key(|(begin, way)| (way.worth, **begin));
        let mut next = best.map_or(anchor, |(begin, _)| *begin);
        if next > at {
            self.out.skipped.push(at..next);
        }
        self.behind_gap.get_or_insert(self.found.len());
        self.selected_at = None;
        let mut first = LOOK_BACK;
        while next < anchor {
            let Some((part, end)) = self.parts.part(next) else { break };
            self.take(part, next..end, next < at);
            if first > 0 && matches!(part, Part::Record { .. }) {
                first -= 1;
                self.take_inner(next + 1..end, &ways);
            }
            next = end;
        }
        anchor
    }

    /// Keeps the records inside of a record behind damage that end where that ends: it may begin with damaged bytes, and have
    /// been read by chance. Their keys have to be readable.
    fn take_inner(&mut self, inside: Range<usize>, ways: &HashMap<usize, Way>) {
        let worth = |at: usize| ways.get(&at).map_or(0, |way| way.worth);
        let mut begins: Vec<usize> = inside.clone().filter(|begin| ways.contains_key(begin)).collect();
        begins.sort_by_key(|begin| (std::cmp::Reverse(worth(*begin)), *begin));
        for begin in begins {
            let (mut at, mut chain) = (begin, Vec::new());
            while at < inside.end {
                match self.parts.part(at) {
                    Some((part @ Part::Record { is_readable: true, .. }, end)) => {
                        chain.push((part, at..end));
                        at = end;
                    }
                    _ => break,
                }
            }
            if at == inside.end {
                chain.into_iter().for_each(|(part, bytes)| self.take(part, bytes, true));
                return;
            }
        }
    }

    /// Returns whether nearly all keys so far are readable, so that the next ones are expected to be.
    fn has_readable_keys(&self) -> bool {
        self.found.len() >= LOOK_BACK && self.readable * 10 >= self.found.len() * 9
    }

    /// Keeps a part.
    fn take(&mut self, part: Part, bytes: Range<usize>, is_inner: bool) {
        self.stage = self.stage.behind(part);
        let begin = bytes.start;
        match part {
            Part::About => self.out.head.push(bytes),
            Part::Function => {
                self.out.functions += 1;
                self.out.head.push(bytes);
            }
            Part::Select(database) => {
                self.close_database();
                self.database = database;
                self.selected_at = Some(bytes.end);
            }
            Part::Sizes(keys) => {
                if self.selected_at != Some(begin) {
                    // The number of the database was in the damaged bytes. Files have their databases in order.
                    self.close_database();
                    self.database += 1;
                    self.guessed_from = Some(self.found.len());
                }
                self.out.announced = self.out.announced.saturating_add(keys);
                self.sizes = Some((keys, self.found.len()));
            }
            Part::Record { key, has_deadline, is_readable } => {
                self.readable += usize::from(is_readable);
                let database = self.database;
                self.found.push(Found { bytes, database, key, has_deadline, is_readable, is_inner });
            }
            Part::End => self.out.has_end = true,
        }
    }

    /// Ends a database: if it has more keys than it announced, the number of the next one was damaged, and the keys behind the
    /// damage belong to that.
    fn close_database(&mut self) {
        let (sizes, behind_gap) = (self.sizes.take(), self.behind_gap.take());
        let mut guessed = self.guessed_from.take();
        if let (Some((keys, first)), Some(behind)) = (sizes, behind_gap) {
            // Some of the records may have been read by chance.
            let count = self.found.len().saturating_sub(first + LOOK_BACK) as u64;
            if count > keys && behind > first {
                self.found.iter_mut().skip(behind).for_each(|found| found.database += 1);
                guessed = guessed.or(Some(behind));
            }
        }
        self.out.guessed += guessed.map_or(0, |from| self.found.len() - from);
    }

    /// Searches for records that others have swallowed without a trace.
    fn look_inside(&mut self) {
        let missing = self.out.announced.saturating_sub(self.found.len() as u64) as usize;
        let (Some(first), Some(last)) = (self.found.first(), self.found.last()) else { return };
        if missing == 0 || self.out.sum == Sum::Right {
            return;
        }
        let (from, mut anchors) = (first.bytes.start, Vec::with_capacity(self.found.len() + 1));
        anchors.extend(self.found.iter().map(|found| found.bytes.start));
        anchors.push(last.bytes.end);
        let inside = ways(&mut self.parts, from, &anchors, Stage::Keys);
        let place = |at: usize| anchors.partition_point(|&begin| begin <= at);
        // The chain stands for the records that it swallowed, and for those that were read by chance on the way to its end.
        let fits = |begin: usize, way: &Way| {
            let leapt = place(way.anchor - 1) - place(begin);
            anchors.binary_search(&begin).is_err() && way.records == missing + leapt
        };
        // A chain that leaps over records has as many more, so only its worth beyond theirs counts.
        let worth = |found: &Found| i64::try_from(worth_of_record(found.is_readable, found.bytes.len())).unwrap_or(0);
        let mut worth_before = vec![0];
        worth_before.extend(self.found.iter().scan(0, |sum, found| {
            *sum += worth(found);
            Some(*sum)
        }));
        let gain = |begin: usize, way: &Way| {
            let leapt = worth_before[place(way.anchor - 1)] - worth_before[place(begin)];
            i64::try_from(way.worth).unwrap_or(i64::MAX) - leapt
        };
        let (found, parts) = (&self.found, &mut self.parts);
        // The same record without its deadline or its access clock is no other one.
        let mut is_other = |begin: usize| match (parts.part(begin), &found[place(begin) - 1]) {
            (Some((Part::Record { key, .. }, end)), around) => key != around.key || end != around.bytes.end,
            _ => true,
        };
        let fitting = inside.iter().map(|(begin, way)| (*begin, *way));
        let fitting = fitting.filter(|(begin, way)| fits(*begin, way) && is_other(*begin));
        let fitting: Vec<_> = fitting.map(|(begin, way)| (begin, gain(begin, &way))).collect();
        let most = fitting.iter().map(|(_, gain)| *gain).max();
        let mut begins: Vec<_> =
            fitting.into_iter().filter(|(_, gain)| Some(*gain) == most).map(|(begin, _)| begin).collect();
        begins.sort_unstable();
        for begin in begins {
            self.database = self.found[place(begin).saturating_sub(1).min(anchors.len() - 2)].database;
            let mut at = begin;
            while anchors.binary_search(&at).is_err() {
                let Some((part, end)) = self.parts.part(at) else { break };
                if let Part::Record { .. } = part {
                    self.take(part, at..end, true);
                }
                at = end;
            }
        }
    }

    /// Searches for readable records inside of records in a row that were probably read by chance, because their keys are not
    /// readable as nearly all others are. The record before them may be the damaged one, and the one behind them may be
    /// readable by chance too.
    fn look_under_doubtful(&mut self) {
        let path: Vec<&Found> = self.found.iter().filter(|found| !found.is_inner).collect();
        let touches = |pair: [usize; 2]| match pair.map(|index| path.get(index)) {
            [Some(one), Some(next)] => one.bytes.end == next.bytes.start,
            _ => false,
        };
        let mut rows: Vec<(Range<usize>, usize)> = Vec::new();
        let mut next = 0;
        while let Some(length) = path[next..].iter().position(|found| !found.is_readable) {
            let (mut first, mut last) = (next + length, next + length);
            while touches([last, last + 1]) && !path[last + 1].is_readable {
                last += 1;
            }
            next = last + 1;
            first -= usize::from(first > 0 && touches([first - 1, first]));
            last += usize::from(touches([last, last + 1]));
            rows.push((path[first].bytes.start + 1..path[last].bytes.end, path[first].database));
        }
        for (row, database) in rows {
            let inside = ways(&mut self.parts, row.start, &[row.end], Stage::Keys);
            self.database = database;
            self.take_inner(row, &inside);
        }
    }

    /// Sorts the found records into their databases, each key once.
    fn settle(mut self) -> Salvaged {
        let mut seen = HashSet::with_capacity(self.found.len());
        let (outer, inner): (Vec<_>, Vec<_>) = self.found.drain(..).partition(|found| !found.is_inner);
        for found in outer.into_iter().chain(inner) {
            if !seen.insert((found.database, found.key)) {
                self.out.doubles += 1;
                continue;
            }
            self.out.swallowed += usize::from(found.is_inner);
            let kept = Kept { bytes: found.bytes, has_deadline: found.has_deadline };
            self.out.databases.entry(found.database).or_default().push(kept);
        }
        self.out.is_cut_short = self.parts.is_exhausted();
        self.out
    }
}
