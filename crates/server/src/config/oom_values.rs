//! The three numbers of `oom-score-adj-values`: for a primary, for a replica, and for a child that writes a snapshot. Pure
//! functions; any thread.

/// The number of values.
const COUNT: usize = 3;
const LIMIT: i64 = 2_000;

/// Checks the numbers, and returns them in the form in which they are shown.
///
/// # Errors
/// The reason in Redis's words.
pub fn parse(words: &[&[u8]]) -> Result<String, String> {
    if words.len() != COUNT {
        return Err("wrong number of arguments".into());
    }
    let numbers: Option<Vec<i64>> = words.iter().map(|word| number(word)).collect();
    let numbers = numbers.filter(|numbers| numbers.iter().all(|number| number.abs() <= LIMIT));
    let numbers = numbers.ok_or("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")?;
    Ok(numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" "))
}

/// Returns the numbers of a value in the form in which it is shown.
pub fn numbers(shown: &[u8]) -> [i64; COUNT] {
    let mut numbers = [0; COUNT];
    let words = shown.split(|&byte| byte == b' ');
    numbers.iter_mut().zip(words).for_each(|(kept, word)| *kept = number(word).unwrap_or(0));
    numbers
}

/// Reads a number as C does: a plus sign and zeros may precede it, and an empty text is 0.
fn number(word: &[u8]) -> Option<i64> {
    if word.is_empty() { Some(0) } else { std::str::from_utf8(word).ok()?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        parse(&text.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    #[test]
    fn three_numbers_are_kept_as_they_are_meant() {
        assert_eq!(read("+5 06 -7").as_deref(), Ok("5 6 -7"));
        assert_eq!(numbers(b"5 6 -7"), [5, 6, -7]);
        for wrong in ["1 2", "1 2 3 4", ""] {
            assert_eq!(read(wrong), Err("wrong number of arguments".into()));
        }
        for wrong in ["a b c", "1 2 3x", "-2001 0 0", "1 2 99999999999999999999"] {
            assert!(read(wrong).is_err_and(|reason| reason.contains("between -2000 and 2000")), "{wrong}");
        }
    }
}
