//! LZF, the compression of strings in Redis's formats: runs of plain bytes, and references to earlier bytes.
//!
//! A control byte below 32 is followed by so many plain bytes and one more. Any other is a reference: three bits of length
//! less two (seven: another byte of it follows) and thirteen bits of distance less one. The format is Marc Lehmann's.

const PLAIN_MAX: usize = 32;
const DISTANCE_MAX: usize = 1 << 13;
const MATCH_MIN: usize = 3;
const MATCH_MAX: usize = 264;

/// Places of recent triples of bytes, by their hash.
const PLACES: usize = 1 << 12;

/// The binary logarithm of the number of places without a match after which the search skips: after so many places in a row
/// it looks at every second place, after twice as many at every third, and so on.
const PATIENCE_SHIFT: u32 = 5;

/// A compressor: the table of places, which one string after the other uses without filling it anew.
///
/// Places are counted on from string to string, so that places of an earlier string lie below the place where this one
/// begins, and are no match. The table is made when it is first needed.
#[derive(Default)]
pub struct Packer {
    places: Vec<u32>,
    /// The place, counted over all strings, at which the next string begins.
    base: u32,
}

/// Returns the compressed form of `bytes`; None if it would not be at least four bytes shorter.
pub fn pack(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    Packer::default().pack(bytes, &mut out).then_some(out)
}

impl Packer {
    /// Writes the compressed form of `bytes` to `out`, replacing its contents. Returns false, with meaningless contents of
    /// `out`, if it would not be at least four bytes shorter.
    pub fn pack(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        out.clear();
        let (Some(room), Some(base)) = (bytes.len().checked_sub(4), self.begin(bytes.len())) else { return false };
        let places = self.places.first_chunk_mut::<PLACES>().expect("the table was made by `begin`");
        let (mut plain, mut at, mut misses) = (0, 0, 0_usize);
        while let Some(triple) = triple_at(bytes, at) {
            let place = &mut places[(triple.wrapping_mul(0x9e37_79b1) >> 20) as usize];
            // A place of an earlier string yields a distance beyond the longest one.
            let before = std::mem::replace(place, base + at as u32).wrapping_sub(base) as usize;
            let is_near = at.wrapping_sub(before) <= DISTANCE_MAX;
            if !is_near || triple_at(bytes, before) != Some(triple) {
                at += 1 + (misses >> PATIENCE_SHIFT);
                misses += 1;
                continue;
            }
            if out.len() > room {
                return false;
            }
            push_plain(out, &bytes[plain..at]);
            let pairs = bytes[at + MATCH_MIN..].iter().zip(&bytes[before + MATCH_MIN..]).take(MATCH_MAX - MATCH_MIN);
            let length = MATCH_MIN + pairs.take_while(|(one, other)| one == other).count();
            push_reference(out, length - 2, at - before - 1);
            (at, plain, misses) = (at + length, at + length, 0);
        }
        push_plain(out, &bytes[plain..]);
        out.len() <= room
    }

    /// Returns the place of the first byte of a string of this length, and prepares the table: no place in it is above this
    /// one. Returns none for a string that is longer than places can count.
    fn begin(&mut self, length: usize) -> Option<u32> {
        // Place 0 is that of an empty table.
        let length = u32::try_from(length).ok().filter(|&length| length < u32::MAX)?;
        if self.places.is_empty() || self.base.checked_add(length).is_none() {
            self.places.clear();
            self.places.resize(PLACES, 0);
            self.base = 1;
        }
        let base = self.base;
        self.base += length;
        Some(base)
    }
}

/// Returns three bytes as a number; none if fewer than four are left, so that they can be read at once.
#[inline]
fn triple_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.first_chunk().map(|four| u32::from_le_bytes(*four) & 0xff_ffff)
}

fn push_plain(out: &mut Vec<u8>, bytes: &[u8]) {
    for run in bytes.chunks(PLAIN_MAX) {
        out.push(run.len() as u8 - 1);
        out.extend_from_slice(run);
    }
}

fn push_reference(out: &mut Vec<u8>, length: usize, distance: usize) {
    if length < 7 {
        out.push((length << 5 | distance >> 8) as u8);
    } else {
        out.extend([(7 << 5 | distance >> 8) as u8, (length - 7) as u8]);
    }
    out.push(distance as u8);
}

/// Returns the `len` bytes that were compressed to `packed`; None if it is not the compressed form of so many.
pub fn unpack(packed: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    unpack_onto(packed, len, &mut out).then_some(out)
}

/// Appends the `len` bytes that were compressed to `packed`; returns false if it is not the compressed form of so many. The
/// output is bounded by the input: three bytes make 264 at most.
pub fn unpack_onto(mut packed: &[u8], len: usize, out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    out.reserve(len.min(packed.len().saturating_mul(MATCH_MAX / 3)));
    while !packed.is_empty() {
        let Some(rest) = unpack_step(packed, begin, out) else { return false };
        packed = rest;
        if out.len() - begin > len {
            return false;
        }
    }
    out.len() - begin == len
}

/// Appends the bytes of one control byte, and returns the rest of `packed`; None if it is invalid.
fn unpack_step<'a>(packed: &'a [u8], begin: usize, out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (&control, rest) = packed.split_first()?;
    let control = usize::from(control);
    if control < PLAIN_MAX {
        let (plain, rest) = rest.split_at_checked(control + 1)?;
        out.extend_from_slice(plain);
        return Some(rest);
    }
    let (more, rest) = match control >> 5 {
        7 => rest.split_first().map(|(&more, rest)| (usize::from(more), rest))?,
        _ => (0, rest),
    };
    let (&low, rest) = rest.split_first()?;
    let start = (out.len() - begin).checked_sub(((control & 31) << 8 | usize::from(low)) + 1)?;
    push_again(out, begin + start, (control >> 5) + more + 2);
    Some(rest)
}

/// Appends `length` bytes from `start` on, which may reach into the appended bytes.
fn push_again(out: &mut Vec<u8>, start: usize, mut length: usize) {
    while length > 0 {
        let step = length.min(out.len() - start);
        out.extend_from_within(start..start + step);
        length -= step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_is_unpacked() {
        let mut state = 9u64;
        for round in 0..if cfg!(miri) { 20 } else { 2_000 } {
            let (mut bytes, kinds) = (Vec::new(), 1 + round % 40);
            for _ in 0..round {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let length = 1 + (state >> 59) as usize;
                bytes.extend(std::iter::repeat_n((state >> 33) as u8 % kinds as u8, length));
            }
            if let Some(packed) = pack(&bytes) {
                assert!(packed.len() + 4 <= bytes.len());
                assert_eq!(unpack(&packed, bytes.len()).as_deref(), Some(bytes.as_slice()));
                assert_eq!(unpack(&packed, bytes.len() + 1), None);
            }
        }
        assert!(pack(&[7; 10_000]).is_some_and(|packed| packed.len() < 130));
        assert_eq!(pack(b"no byte twice"), None);
    }

    #[test]
    fn what_an_earlier_string_has_left_is_no_match() {
        let (mut packer, mut out) = (Packer::default(), Vec::new());
        let strings = [b"abcdefgh".repeat(9), b"hgfedcba".repeat(9), b"abcdefghijklmnopqrstuvwxyz".to_vec()];
        // In the second round the places reach their end, and the table is emptied.
        for round in 0..6 {
            if round == 3 {
                packer.base = u32::MAX - 100;
            }
            for string in &strings {
                let is_shorter = packer.pack(string, &mut out);
                assert_eq!(is_shorter, string.len() > 26);
                assert_eq!(
                    is_shorter.then(|| unpack(&out, string.len())).flatten(),
                    is_shorter.then(|| string.clone())
                );
                assert_eq!(pack(string), is_shorter.then(|| out.clone()));
            }
        }
    }
}
