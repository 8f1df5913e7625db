//! The search for records behind damage: chains of parts that fit each other.
//!
//! One part that can be read by chance is no evidence; eight records in a row, or a chain that ends where the file ends, are.
//! (Three, if there are no eight up to the end.) The place behind the last of them is an *anchor*: it is taken for the
//! beginning of a true part. Then all chains that end exactly at the anchor are compared, from a place before the damage on,
//! and the one of the most worth is taken. So a part that was read by chance and leapt over true records loses against them.

use std::collections::HashMap;

use super::parts::{Part, Parts};

/// The records in a row that are evidence, and those that are if there is no better.
const EVIDENCE: [usize; 2] = [8, 3];

/// The most that the length of a record is worth, and the worth of a key that can be read.
const WORTH_MAX: usize = 32;
const WORTH_READABLE: u64 = 64;

/// The bytes behind weak evidence in which better evidence is looked for.
const WEAK_BYTES: usize = 64 << 10;

/// The most parts of a chain that are looked at for evidence.
const PARTS_MAX: usize = 64;

/// The parts that are allowed to stand in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The stage before the first key: properties and functions may follow.
    Head,
    /// The stage of databases and keys: else follows but the end.
    Keys,
}

impl Stage {
    pub fn allows(self, part: Part) -> bool {
        self == Self::Head || !matches!(part, Part::About | Part::Function)
    }

    /// Returns whether this part needs a database in front of it: without one it is damaged, or the database is.
    pub fn lacks_database(self, part: Part) -> bool {
        self == Self::Head && matches!(part, Part::Record { .. })
    }

    /// Returns the stage behind this part.
    pub fn behind(self, part: Part) -> Self {
        match part {
            Part::About | Part::Function | Part::End => self,
            Part::Select(_) | Part::Sizes(_) | Part::Record { .. } => Self::Keys,
        }
    }
}

/// The best chain from a byte on to an anchor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// The number of records.
    pub records: usize,
    /// The worth of the records as evidence.
    pub worth: u64,
    /// The byte at which the chain ends, which is an anchor.
    pub anchor: usize,
}

/// Returns the first anchor behind byte `from`.
/// With `is_readable` the keys of the evidence have to be readable. Then a few records in a row are enough if they lie in
/// front of all that is better: two damages may be close to each other, and the records between them are few.
pub(super) fn find_anchor(parts: &mut Parts<'_>, from: usize, stage: Stage, is_readable: bool) -> Option<usize> {
    let mut weaker: Option<usize> = None;
    let [strong, weak] = EVIDENCE;
    for at in from..parts.len() {
        if is_readable && weaker.is_some_and(|anchor| at > anchor + WEAK_BYTES) {
            return weaker;
        }
        match evidence(parts, at, stage, is_readable) {
            (anchor, records) if records >= strong => {
                return weaker.filter(|&weaker| is_readable && weaker <= at).or(Some(anchor));
            }
            (anchor, records) if records >= weak && weaker.is_none() => weaker = Some(anchor),
            _ => {}
        }
    }
    weaker
}

/// Returns the end of the chain that begins at a byte, or its part with enough records, and the number of them. A chain that
/// leads to the end of the file counts as one with enough records.
fn evidence(parts: &mut Parts<'_>, begin: usize, mut stage: Stage, wants_readable: bool) -> (usize, usize) {
    let [strong, _] = EVIDENCE;
    let (mut at, mut keys) = (begin, Vec::new());
    for _ in 0..PARTS_MAX {
        let Some((part, end)) = parts.part(at).filter(|(part, _)| stage.allows(*part)) else { break };
        stage = stage.behind(part);
        match part {
            Part::End => return (at, if at > begin { strong } else { 0 }),
            Part::Record { is_readable: false, .. } if wants_readable => break,
            Part::Record { key, .. } if keys.contains(&key) || parts.are_zero(at, end) => break,
            Part::Record { key, .. } => keys.push(key),
            _ => {}
        }
        at = end;
        if keys.len() == strong {
            break;
        }
    }
    (at, keys.len())
}

/// Returns the worth of a part of this length as evidence. A few zeros and ones can be read as several records, so short ones are
/// worth less; but not in proportion to the length, so that a long one that was read by chance does not outweigh many. The parts
/// in front of records decide only between chains with the same records: a database whose size follows, and the head's parts.
fn worth_of(part: Part, length: usize, stage: Stage, is_size_next: bool) -> u64 {
    match part {
        Part::Record { is_readable, .. } => worth_of_record(is_readable, length),
        Part::Select(_) => u64::from(is_size_next),
        Part::About | Part::Function => u64::from(stage == Stage::Head),
        Part::Sizes(_) | Part::End => 0,
    }
}

/// Returns the worth of a record of this length as evidence.
pub(super) fn worth_of_record(is_readable: bool, length: usize) -> u64 {
    length.min(WORTH_MAX) as u64 + if is_readable { WORTH_READABLE } else { 0 }
}

/// Returns for each byte from `from` on, up to the last anchor, the best chain that begins there and ends at the first anchor
/// that it meets. A byte without a chain is not in the table. The anchors are in order.
pub(super) fn ways(parts: &mut Parts<'_>, from: usize, anchors: &[usize], stage: Stage) -> HashMap<usize, Way> {
    let mut ways: HashMap<usize, Way> = HashMap::new();
    let Some(&last) = anchors.last() else { return ways };
    for at in (from..last).rev() {
        let Some((part, end)) = parts.part(at).filter(|(part, end)| stage.allows(*part) && *end <= last) else {
            continue;
        };
        let is_record = matches!(part, Part::Record { .. });
        if part == Part::End || is_record && parts.are_zero(at, end) {
            continue;
        }
        let behind = match anchors.binary_search(&end) {
            Ok(_) => Way { records: 0, worth: 0, anchor: end },
            Err(_) => match ways.get(&end) {
                Some(way) => *way,
                None => continue,
            },
        };
        let worth = behind.worth + worth_of(part, end - at, stage, parts.is_size(end));
        let records = behind.records + usize::from(is_record);
        ways.insert(at, Way { records, worth, ..behind });
    }
    ways
}
