//! A journal's bytes as text for tests to compare, with one line for each request.

/// Returns the requests in a journal's bytes, one line each, with each word converted by `show`.
pub fn lines_by(mut bytes: &[u8], show: impl Fn(&[u8]) -> String) -> Vec<String> {
    let mut lines = Vec::new();
    let number = |bytes: &mut &[u8]| {
        let end = bytes.iter().position(|byte| *byte == b'\r').expect("a line ends");
        let number = std::str::from_utf8(&bytes[1..end]).ok().and_then(|text| text.parse().ok());
        *bytes = &bytes[end + 2..];
        number.unwrap_or(0_usize)
    };
    while !bytes.is_empty() {
        let words = (0..number(&mut bytes)).map(|_| {
            let len = number(&mut bytes);
            let word = show(&bytes[..len]);
            bytes = &bytes[len + 2..];
            word
        });
        lines.push(words.collect::<Vec<_>>().join(" "));
    }
    lines
}

/// Returns the requests in a journal's bytes, one line each.
pub fn lines(bytes: &[u8]) -> Vec<String> {
    lines_by(bytes, |word| String::from_utf8_lossy(word).into_owned())
}
