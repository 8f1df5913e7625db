//! A configuration file's text, cut into lines and words.
//!
//! Each line has one option, with words as in an inline request (quotes and escapes included); `#` begins a comment line.
//! Names are not looked up here. The text is untrusted: nothing in it can cause a panic, and the result is no larger than the
//! text. Pure functions; any thread.

use sleeve_wire::inline;

/// A line that is neither blank nor a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// Line number, from 1.
    pub line: usize,
    /// The line without white space around it.
    pub text: Vec<u8>,
    /// The words of the line, the first of which is the name. Never empty.
    pub words: Vec<Vec<u8>>,
}

/// A line that cannot be used, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Line number, from 1.
    pub line: usize,
    /// The line without white space around it.
    pub text: Vec<u8>,
    /// The reason in Redis's words.
    pub reason: String,
}

/// Cuts a whole text into its lines, in order: each as its words, or with the reason why it cannot be cut.
pub fn parse(text: &[u8]) -> Vec<Result<Directive, BadLine>> {
    let mut lines = Vec::new();
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = trim(line);
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        match words(line) {
            Some(words) if words.is_empty() => {}
            Some(words) => lines.push(Ok(Directive { line: index + 1, text: line.to_vec(), words })),
            None => {
                let reason = "Unbalanced quotes in configuration line".to_owned();
                lines.push(Err(BadLine { line: index + 1, text: line.to_vec(), reason }));
            }
        }
    }
    lines
}

/// Returns the words of a line; `None` if its quotes are unbalanced.
pub fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    if !inline::split(line, &mut bytes, &mut spans) {
        return None;
    }
    let word = |span: &sleeve_wire::request::Span| {
        let start = span.start as usize;
        bytes.get(start..start + span.len as usize).unwrap_or_default().to_vec()
    };
    Some(spans.iter().map(word).collect())
}

/// Returns a line without the white space around it.
pub fn trim(line: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| b" \t\r\n".contains(byte);
    let start = line.iter().take_while(|byte| is_blank(byte)).count();
    let line = line.get(start..).unwrap_or_default();
    let end = line.len() - line.iter().rev().take_while(|byte| is_blank(byte)).count();
    line.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blank_lines_count_but_say_nothing() {
        let lines: Result<Vec<_>, _> =
            parse(b"# x\n\n  port   6380 \r\n\t# y\nrequirepass \"a b\"").into_iter().collect();
        let lines = lines.expect("all can be cut");
        let read: Vec<_> = lines.iter().map(|directive| (directive.line, directive.words.join(&b'|'))).collect();
        assert_eq!(read, [(3, b"port|6380".to_vec()), (5, b"requirepass|a b".to_vec())]);
        assert_eq!(lines[0].text, b"port   6380");
    }

    #[test]
    fn unbalanced_quotes_spoil_their_line_alone() {
        let lines = parse(b"hz 10\nrequirepass \"abc\"d\nport x");
        assert!(matches!(lines.as_slice(), [Ok(_), Err(_), Ok(_)]), "{lines:?}");
        let bad = lines[1].as_ref().expect_err("a bad line");
        assert_eq!((bad.line, bad.text.as_slice()), (2, b"requirepass \"abc\"d".as_slice()));
    }
}
