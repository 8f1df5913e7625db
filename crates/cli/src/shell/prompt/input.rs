//! A typed line as arguments: quotes and escapes as Redis's inline commands know them, and a leading repeat count.

use sleeve_wire::inline;

/// Returns the arguments of a line; `None` when its quotes are not balanced.
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    if !inline::split(line, &mut bytes, &mut spans) {
        return None;
    }
    let word = |start: u32, len: u32| bytes.get(start as usize..(start + len) as usize).map(<[u8]>::to_vec);
    spans.iter().map(|span| word(span.start, span.len)).collect()
}

/// Unquotes one argument, as `--quoted-input` takes it.
pub fn unquote(word: &[u8]) -> Option<Vec<u8>> {
    match split(word)?.as_slice() {
        [] => Some(Vec::new()),
        [one] => Some(one.clone()),
        _ => None,
    }
}

/// Takes a leading repeat count off: `5 INCR x` runs five times. A lone number is a command like any other.
pub fn take_repeat(words: &mut Vec<Vec<u8>>) -> u64 {
    let count = words.first().and_then(|word| std::str::from_utf8(word).ok()).and_then(|text| text.parse::<u64>().ok());
    match count {
        Some(count) if words.len() > 1 => {
            words.remove(0);
            count
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_escapes() {
        assert_eq!(split(b"set 'a b' \"c\\x00\"").unwrap(), [b"set".to_vec(), b"a b".to_vec(), b"c\0".to_vec()]);
        assert_eq!(split(b"get \"a"), None);
        assert_eq!(unquote(b"\"a\\n\"").unwrap(), b"a\n");
        assert_eq!(unquote(b"a b"), None);
    }

    #[test]
    fn a_count_in_front_repeats() {
        let mut words = split(b"3 incr x").unwrap();
        assert_eq!((take_repeat(&mut words), words.len()), (3, 2));
        let mut words = split(b"3").unwrap();
        assert_eq!((take_repeat(&mut words), words.len()), (1, 1));
    }
}
