//! Whether two keys are the same: the last step of every look-up.

/// Compares two byte strings; quick for the lengths that keys have.
#[inline]
pub(crate) fn same_bytes(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let word = |bytes: &[u8], at: usize| bytes[at..].first_chunk::<8>().map(|chunk| u64::from_le_bytes(*chunk));
    match one.len() {
        8..=64 => {
            let last = one.len() - 8;
            let mut at = 0;
            while at < last {
                if word(one, at) != word(other, at) {
                    return false;
                }
                at += 8;
            }
            word(one, last) == word(other, last)
        }
        _ => one == other,
    }
}
