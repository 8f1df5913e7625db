//! Bytes as printable text and back, and request lines as words.
//!
//! The text form is that of C strings without the quotes: printable bytes stand for themselves, the others are `\r`, `\n`,
//! `\t`, `\\` or `\xHH`. It is exact in both directions. Plain functions, called from any thread.

/// Returns the printable form of `bytes`.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'\\' => text.push_str("\\\\"),
            0x20..=0x7e => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

/// Returns the bytes that `text` stands for; the error names the escape that is wrong.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'\\' { bytes.push(unescape_one(&mut rest)?) } else { bytes.push(byte) }
    }
    Ok(bytes)
}

/// Decodes the characters behind a backslash.
fn unescape_one(rest: &mut impl Iterator<Item = u8>) -> Result<u8, String> {
    match rest.next() {
        Some(b'r') => Ok(b'\r'),
        Some(b'n') => Ok(b'\n'),
        Some(b't') => Ok(b'\t'),
        Some(b'a') => Ok(7),
        Some(b'b') => Ok(8),
        Some(b'0') => Ok(0),
        Some(b'x') => {
            let (high, low) = (rest.next().and_then(hex_digit), rest.next().and_then(hex_digit));
            high.zip(low).map(|(high, low)| high * 16 + low).ok_or_else(|| "\\x needs two digits".to_owned())
        }
        Some(other) if other.is_ascii_punctuation() => Ok(other),
        Some(other) => Err(format!("unknown escape \\{}", char::from(other))),
        None => Err("a backslash ends the line".to_owned()),
    }
}

/// Returns the value of one hexadecimal digit.
fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Cuts a request line into words: blanks separate, `"..."` holds escapes, `'...'` is literal except for `\'`.
pub fn words(line: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let mut rest = line.bytes().peekable();
    loop {
        while rest.next_if(|byte| *byte == b' ').is_some() {}
        match rest.peek() {
            None => return Ok(words),
            Some(b'"') => words.push(quoted(&mut rest, b'"', true)?),
            Some(b'\'') => words.push(quoted(&mut rest, b'\'', false)?),
            Some(_) => {
                let mut word = Vec::new();
                while let Some(byte) = rest.next_if(|byte| *byte != b' ') {
                    word.push(byte);
                }
                words.push(word);
            }
        }
    }
}

/// Reads a quoted word. Its opening quote comes next.
fn quoted(rest: &mut impl Iterator<Item = u8>, quote: u8, escapes: bool) -> Result<Vec<u8>, String> {
    rest.next();
    let mut word = Vec::new();
    loop {
        match rest.next() {
            None => return Err("a quote is not closed".to_owned()),
            Some(byte) if byte == quote => return Ok(word),
            Some(b'\\') if escapes => word.push(unescape_one(rest)?),
            Some(byte) => word.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_the_way_to_text_and_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text = escape(&bytes);
        assert!(text.bytes().all(|byte| (0x20..=0x7e).contains(&byte)));
        assert_eq!(unescape(&text), Ok(bytes));
    }

    #[test]
    fn words_are_cut_as_redis_cli_cuts_them() {
        let expected = vec![b"SET".to_vec(), b"a b".to_vec(), b"\\x01".to_vec(), b"\x01\"".to_vec(), Vec::new()];
        assert_eq!(words(r#"SET  "a b" '\x01' "\x01\"" """#), Ok(expected));
        assert!(words("GET \"open").is_err());
    }
}
