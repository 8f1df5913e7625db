//! Patterns for replies that hold a time, an address or a count.
//!
//! A pattern is escaped text with holes: `{any}` is any run of bytes, `{int}` an integer, `{int:1..100}` one between the two
//! bounds, both included, and `{hex}` a run of hexadecimal digits. A literal brace is written `\x7b`. The parts between two
//! `{any}` are looked for from left to right and never given back, which finds a match where there is one and takes no more
//! than quadratic time. Any thread may call it.

use super::escape::unescape;

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(Vec<u8>),
    Any,
    Hex,
    Integer(i64, i64),
}

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
    source: String,
}

impl Pattern {
    /// Reads a pattern; the error describes the fault in it.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((literal, hole)) = rest.split_once('{') {
            let (hole, after) = hole.split_once('}').ok_or("a hole is not closed")?;
            if !literal.is_empty() {
                parts.push(Part::Literal(unescape(literal)?));
            }
            parts.push(parse_hole(hole)?);
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(unescape(rest)?));
        }
        Ok(Pattern { parts, source: text.to_owned() })
    }

    /// Returns the pattern as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns whether the whole of `bytes` fits the pattern.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        fits(&self.parts, bytes)
    }
}

fn parse_hole(hole: &str) -> Result<Part, String> {
    match hole {
        "any" => return Ok(Part::Any),
        "hex" => return Ok(Part::Hex),
        "int" => return Ok(Part::Integer(i64::MIN, i64::MAX)),
        _ => {}
    }
    let bounds = hole.strip_prefix("int:").and_then(|range| range.split_once(".."));
    let bounds = bounds.and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    bounds.map(|(low, high)| Part::Integer(low, high)).ok_or_else(|| format!("unknown hole {{{hole}}}"))
}

/// Returns whether the whole of `bytes` fits the segments. Any bytes may stand between two segments.
fn fits(parts: &[Part], bytes: &[u8]) -> bool {
    let segments: Vec<&[Part]> = parts.split(|part| *part == Part::Any).collect();
    let Some((first, rest)) = segments.split_first() else { return false };
    let Some(mut at) = take(first, bytes) else { return false };
    let Some((last, middle)) = rest.split_last() else { return at == bytes.len() };
    for segment in middle {
        let found = (at..=bytes.len()).find_map(|start| take(segment, &bytes[start..]).map(|taken| start + taken));
        match found {
            Some(end) => at = end,
            None => return false,
        }
    }
    (at..=bytes.len()).any(|start| take(last, &bytes[start..]) == Some(bytes.len() - start))
}

/// Returns the number of bytes that the parts take from the beginning of `bytes`; each takes as many as it can.
fn take(parts: &[Part], bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    for part in parts {
        at += take_one(part, &bytes[at..])?;
    }
    Some(at)
}

fn take_one(part: &Part, bytes: &[u8]) -> Option<usize> {
    match part {
        Part::Literal(literal) => bytes.starts_with(literal).then_some(literal.len()),
        Part::Any => Some(0),
        Part::Hex => Some(bytes.iter().take_while(|byte| byte.is_ascii_hexdigit()).count()).filter(|&run| run > 0),
        Part::Integer(low, high) => {
            let sign = usize::from(bytes.first() == Some(&b'-'));
            let end = sign + bytes[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let value = std::str::from_utf8(&bytes[..end]).ok()?.parse::<i64>().ok()?;
            (*low..=*high).contains(&value).then_some(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_match_the_pattern_that_they_name() {
        let matches = |pattern: &str, bytes: &[u8]| Pattern::parse(pattern).unwrap().matches(bytes);
        assert!(matches(r":{int:1..100}\r\n", b":100\r\n"));
        assert!(!matches(r":{int:1..100}\r\n", b":101\r\n"));
        assert!(matches("a{any}b{any}", b"a..b..b"));
        assert!(!matches("a{any}b", b"a..b."));
        assert!(matches("+{hex}", b"+00ff"));
        assert!(Pattern::parse("{nothing}").is_err());
    }
}
