//! LCS: the longest common subsequence of two strings.
//!
//! The table of lengths is never built. Lengths in one of its rows rise by at most one from column to column, so a row is a
//! string of bits, and the next row follows from it with an addition and a few logical operations, 64 columns at a time
//! (Hyyro, "Bit-parallel LCS-length computation revisited", 2004). LEN needs one row. The subsequence itself is found by
//! walking back through all rows; one bit says which way the table of lengths would lead, so the result is Redis's own choice
//! among equally long subsequences. The work is refused in the cases in which Redis refuses it, by the size of the table that
//! Redis would build; rows and masks never take more than that, and usually a thirtieth of it.

use std::sync::Arc;

use sleeve_store::Digits;
use sleeve_wire::number;

use crate::config::Opt;
use crate::context::Cx;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

const LEN_AND_IDX: Error = Error::fixed("ERR If you want both the length and indexes, please just use IDX.");
const NOT_STRINGS: Error = Error::fixed("ERR The specified keys must contain string values");
const TOO_LONG: Error = Error::fixed("ERR String too long for LCS");
const TOO_MUCH: Error = Error::fixed("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");

/// The bytes of one length in the table that Redis builds.
const LENGTH_BYTES: u128 = 4;

#[derive(Default)]
struct LcsOptions {
    length: bool,
    indexes: bool,
    with_match_len: bool,
    match_len_min: i64,
}

/// A run of bytes that both strings have in common: its first position in each, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Match {
    a: usize,
    b: usize,
    len: usize,
}

/// LCS key1 key2 \[LEN\] \[IDX\] \[MINMATCHLEN len\] \[WITHMATCHLEN\]
pub fn lcs(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (a, b) = (string(cx, request.key(0))?, string(cx, request.key(1))?);
    let options = options(request)?;
    check_size(cx, a.len(), b.len())?;
    if options.indexes {
        reply_indexes(cx, &options, &matches(&a, &b));
    } else if options.length {
        cx.reply().integer(length(&a, &b) as i64);
    } else {
        let mut subsequence = Vec::new();
        matches(&a, &b).iter().rev().for_each(|found| subsequence.extend_from_slice(&a[found.a..found.a + found.len]));
        cx.reply().bulk(&subsequence);
    }
    Ok(())
}

/// Returns a copy of the string at a key; a long string is shared, not copied.
fn string(cx: &mut Cx<'_>, key: Key<'_>) -> Result<Arc<Vec<u8>>, Error> {
    let entry = cx.read_string(key).map_err(|_| NOT_STRINGS)?;
    let Some(entry) = entry else { return Ok(Arc::default()) };
    let mut digits = Digits::default();
    Ok(entry.shared().unwrap_or_else(|| Arc::new(entry.value().bytes(&mut digits).to_vec())))
}

fn options(request: Request<'_>) -> Result<LcsOptions, Error> {
    let mut options = LcsOptions::default();
    let mut next = 3;
    while let Some(word) = request.args.get(next) {
        next += 1;
        if word.eq_ignore_ascii_case(b"idx") {
            options.indexes = true;
        } else if word.eq_ignore_ascii_case(b"len") {
            options.length = true;
        } else if word.eq_ignore_ascii_case(b"withmatchlen") {
            options.with_match_len = true;
        } else if word.eq_ignore_ascii_case(b"minmatchlen") && next < request.len() {
            options.match_len_min = number::parse_i64(request.arg(next)).ok_or(Error::NOT_INTEGER)?;
            next += 1;
        } else {
            return Err(Error::SYNTAX);
        }
    }
    if options.length && options.indexes { Err(LEN_AND_IDX) } else { Ok(options) }
}

/// Refuses the strings that Redis refuses, because their table of lengths would be larger than a string may be.
fn check_size(cx: &Cx<'_>, a_len: usize, b_len: usize) -> Outcome {
    let len_max = u32::MAX as usize - 1;
    if a_len >= len_max || b_len >= len_max {
        return Err(TOO_LONG);
    }
    let table_bytes = (a_len as u128 + 1) * (b_len as u128 + 1) * LENGTH_BYTES;
    let allowed = cx.engine.config.number(Opt::ProtoMaxBulkLen) as u128;
    if table_bytes > allowed { Err(TOO_MUCH) } else { Ok(()) }
}

/// Replies with the matches, the last one first, and the length of the whole subsequence.
fn reply_indexes(cx: &mut Cx<'_>, options: &LcsOptions, matches: &[Match]) {
    let is_shown = |found: &&Match| found.len as i64 >= options.match_len_min;
    let shown = matches.iter().filter(is_shown);
    let mut reply = cx.reply();
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(shown.clone().count());
    for found in shown {
        reply.array(if options.with_match_len { 3 } else { 2 });
        for first in [found.a, found.b] {
            reply.array(2);
            reply.integer(first as i64);
            reply.integer((first + found.len - 1) as i64);
        }
        if options.with_match_len {
            reply.integer(found.len as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(matches.iter().map(|found| found.len).sum::<usize>() as i64);
}

/// For each byte of one string, a mask of its positions in the other: bit n is set if byte n is equal.
struct Masks {
    /// The position in `bits` at which a byte's mask begins. Only bytes that the other string has get a mask.
    starts: [usize; 256],
    bits: Vec<u64>,
    words: usize,
}

impl Masks {
    fn new(asked: &[u8], text: &[u8]) -> Self {
        let words = text.len().div_ceil(64);
        let mut starts = [usize::MAX; 256];
        let mut end = 0;
        for &byte in asked {
            let start = &mut starts[byte as usize];
            if *start == usize::MAX {
                *start = end;
                end += words;
            }
        }
        let mut bits = vec![0_u64; end];
        for (index, &byte) in text.iter().enumerate() {
            let start = starts[byte as usize];
            if start != usize::MAX {
                bits[start + index / 64] |= 1 << (index % 64);
            }
        }
        Self { starts, bits, words }
    }

    fn of(&self, byte: u8) -> &[u64] {
        let start = self.starts[byte as usize];
        &self.bits[start..start + self.words]
    }
}

/// Turns a row into the next one. A clear bit of a row says that the length rises in that column.
fn advance(row: &mut [u64], mask: &[u64]) {
    let mut carry = false;
    for (word, mask) in row.iter_mut().zip(mask) {
        let common = *word & mask;
        let (sum, over) = word.overflowing_add(common);
        let (sum, over_again) = sum.overflowing_add(u64::from(carry));
        carry = over || over_again;
        *word = sum | (*word & !mask);
    }
}

/// Returns the length of the longest common subsequence.
fn length(a: &[u8], b: &[u8]) -> usize {
    let masks = Masks::new(a, b);
    let mut row = vec![u64::MAX; masks.words];
    a.iter().for_each(|&byte| advance(&mut row, masks.of(byte)));
    // Bits behind the last column never match, so they stay set.
    row.iter().map(|word| word.count_zeros() as usize).sum()
}

/// Returns the runs that make up the longest common subsequence, the last first.
fn matches(a: &[u8], b: &[u8]) -> Vec<Match> {
    let masks = Masks::new(a, b);
    let mut rows = Vec::with_capacity(a.len() * masks.words);
    let mut row = vec![u64::MAX; masks.words];
    for &byte in a {
        advance(&mut row, masks.of(byte));
        rows.extend_from_slice(&row);
    }
    let rises = |i: usize, j: usize| rows[i * masks.words + j / 64] >> (j % 64) & 1 == 0;
    let mut matches: Vec<Match> = Vec::new();
    let (mut i, mut j) = (a.len(), b.len());
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            (i, j) = (i - 1, j - 1);
            match matches.last_mut() {
                Some(found) if (found.a, found.b) == (i + 1, j + 1) => {
                    *found = Match { a: i, b: j, len: found.len + 1 }
                }
                _ => matches.push(Match { a: i, b: j, len: 1 }),
            }
        } else if rises(i - 1, j - 1) {
            // Without the last column the length is smaller; without the last row it cannot be.
            i -= 1;
        } else {
            j -= 1;
        }
    }
    matches
}
