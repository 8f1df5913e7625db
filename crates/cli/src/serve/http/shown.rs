//! Foreign bytes as people can read them: a line of bounded length, in which bytes that cannot be printed are written as
//! `\x1f`.

use std::fmt::Write;

/// The most characters of a name or an argument that are shown.
const SHOWN_MAX: usize = 200;

/// Returns bytes in a form for people.
pub fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut characters = 0;
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if characters == SHOWN_MAX {
                return with_rest(text, bytes.len());
            }
            characters += 1;
            if character.is_control() || is_formatting(character) {
                let mut buffer = [0; 4];
                character.encode_utf8(&mut buffer).bytes().for_each(|byte| _ = write!(text, "\\x{byte:02x}"));
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            if characters == SHOWN_MAX {
                return with_rest(text, bytes.len());
            }
            characters += 1;
            _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

fn with_rest(text: String, bytes: usize) -> String {
    format!("{text}… ({bytes} bytes)")
}

/// Returns whether a character changes the display of others: directions, separators of lines, and marks without width.
fn is_formatting(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unprintable_bytes_are_escaped_and_long_values_are_cut() {
        assert_eq!(shown("a\"<b> ü€".as_bytes()), "a\"<b> ü€");
        assert_eq!(shown(b"a\x00\n\x7f\xff\xfe"), "a\\x00\\x0a\\x7f\\xff\\xfe");
        assert_eq!(shown("\u{202e}x".as_bytes()), "\\xe2\\x80\\xaex");
        let long = shown(&[b'x'; 1_000_000]);
        assert!(long.ends_with("x… (1000000 bytes)") && long.chars().count() < 250, "{long}");
        assert!(shown(&[0xff; 1_000]).len() < 1_000);
        assert_eq!(shown(&[b'x'; SHOWN_MAX]).len(), SHOWN_MAX);
    }
}
