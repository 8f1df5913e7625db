//! LZF, the compression of strings in Redis's formats: runs of plain bytes, and references to what came before.
//!
//! A control byte below 32 is followed by so many plain bytes and one more. Any other is a reference: three bits of length
//! less two (seven: another byte of it follows) and thirteen bits of distance less one. The format is Marc Lehmann's.

const PLAIN_MAX: usize = 32;
const DISTANCE_MAX: usize = 1 << 13;
const MATCH_MIN: usize = 3;
const MATCH_MAX: usize = 264;

/// Places of recent triples of bytes, by their hash.
const PLACES: usize = 1 << 12;

/// The compressed form of `bytes`; None if it would not be at least four bytes shorter.
pub fn pack(bytes: &[u8]) -> Option<Vec<u8>> {
    let room = bytes.len().checked_sub(4)?;
    let mut places = vec![usize::MAX; PLACES];
    let (mut out, mut plain, mut at) = (Vec::with_capacity(room), 0, 0);
    while at < bytes.len() && out.len() <= room {
        let found = bytes[at..].first_chunk::<3>().and_then(|triple| {
            let number = u32::from_le_bytes([triple[0], triple[1], triple[2], 0]);
            let place = &mut places[(number.wrapping_mul(0x9e37_79b1) >> 20) as usize];
            let before = std::mem::replace(place, at);
            (before < at && at - before <= DISTANCE_MAX && bytes[before..].starts_with(triple)).then_some(before)
        });
        let Some(before) = found else {
            at += 1;
            continue;
        };
        push_plain(&mut out, &bytes[plain..at]);
        let pairs = bytes[at..].iter().zip(&bytes[before..]).take(MATCH_MAX);
        let length = pairs.take_while(|(one, other)| one == other).count().max(MATCH_MIN);
        push_reference(&mut out, length - 2, at - before - 1);
        at += length;
        plain = at;
    }
    push_plain(&mut out, &bytes[plain..]);
    (out.len() <= room).then_some(out)
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

/// The `len` bytes that were compressed to `packed`; None if it is not the compressed form of so many. What is made is
/// bounded by what is given: three bytes make 264 at most.
pub fn unpack(mut packed: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(len.min(packed.len().saturating_mul(MATCH_MAX / 3)));
    while let Some((&control, rest)) = packed.split_first() {
        let control = usize::from(control);
        if control < PLAIN_MAX {
            let (plain, rest) = rest.split_at_checked(control + 1)?;
            out.extend_from_slice(plain);
            packed = rest;
        } else {
            let (more, rest) = match control >> 5 {
                7 => rest.split_first().map(|(&more, rest)| (usize::from(more), rest))?,
                _ => (0, rest),
            };
            let (&low, rest) = rest.split_first()?;
            let start = out.len().checked_sub(((control & 31) << 8 | usize::from(low)) + 1)?;
            (start..start + (control >> 5) + more + 2).for_each(|index| out.push(out[index]));
            packed = rest;
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
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
}
