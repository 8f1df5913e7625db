//! The rules of `save`: pairs of seconds and changes, after which a snapshot is written automatically. Pure functions; any
//! thread.

/// A rule: a snapshot is due so many seconds after the last one if there were so many changes since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavePoint {
    /// Seconds since the last snapshot, at least 1.
    pub seconds: u64,
    /// Changes since the last snapshot.
    pub changes: u64,
}

/// Checks the rules, and returns them in the form in which they are shown: the words of a line, or one empty word for none.
///
/// # Errors
/// The reason in Redis's words.
pub fn parse(words: &[&[u8]]) -> Result<String, String> {
    let words: Vec<&[u8]> =
        words.iter().flat_map(|word| word.split(u8::is_ascii_whitespace)).filter(|word| !word.is_empty()).collect();
    let numbers: Option<Vec<i64>> = words.iter().map(|word| number(word)).collect();
    let numbers = numbers.filter(|numbers| {
        numbers.len().is_multiple_of(2) && numbers.chunks(2).all(|pair| pair[0] >= 1 && pair[1] >= 0)
    });
    let numbers = numbers.ok_or("Invalid save parameters")?;
    Ok(numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" "))
}

/// Returns the rules of a value in the form in which it is shown.
pub fn points(shown: &[u8]) -> Vec<SavePoint> {
    let numbers: Vec<u64> =
        shown.split(|&byte| byte == b' ').filter_map(number).filter_map(|number| u64::try_from(number).ok()).collect();
    numbers.chunks_exact(2).map(|pair| SavePoint { seconds: pair[0], changes: pair[1] }).collect()
}

/// Reads a number as C does: a plus sign and zeros may precede it.
fn number(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_kept_as_they_are_meant_and_nothing_else_is() {
        assert_eq!(parse(&[b"3600", b"1", b"60", b"010"]).as_deref(), Ok("3600 1 60 10"));
        assert_eq!(parse(&[b"900 1  300 2"]).as_deref(), Ok("900 1 300 2"));
        assert_eq!(parse(&[b""]).as_deref(), Ok(""));
        for wrong in ["1", "0 1", "1 -1", "a b", "1 2 3"] {
            assert!(parse(&[wrong.as_bytes()]).is_err(), "{wrong}");
        }
        let rules = [SavePoint { seconds: 900, changes: 1 }, SavePoint { seconds: 300, changes: 0 }];
        assert_eq!(points(b"900 1 300 0"), rules);
        assert_eq!(points(b""), []);
    }
}
