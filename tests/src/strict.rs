//! The check that bytes are exactly one well-formed reply.
//!
//! Clients forgive much, and so do the scanners that cut replies. This walks over a reply without forgiving: lengths and
//! integers in their one form, no stray line ends, nothing missing and nothing left over, and no type of RESP3 where the peer
//! has not asked for it. It does not recurse. Any thread may call it.

/// Returns the fault of a reply; none if it is well-formed.
pub fn flaw(bytes: &[u8], resp3: bool) -> Option<String> {
    let mut at = 0;
    let mut pending: u64 = 1;
    while pending > 0 {
        pending -= 1;
        let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) else { return said("it is not whole", bytes) };
        let Some(length) = rest.iter().position(|&byte| byte == b'\n') else { return said("a line has no end", rest) };
        let Some(line) = rest[..length].strip_suffix(b"\r") else { return said("a line ends without \\r", rest) };
        at += length + 1;
        let (kind, text) = (line.first().copied().unwrap_or_default(), line.get(1..).unwrap_or_default());
        if !resp3 && b"_,#(!=%~>|".contains(&kind) {
            return said("a type of RESP3 in RESP2", line);
        }
        let is_good = match kind {
            b'+' | b'-' | b'(' => !text.contains(&b'\r'),
            b':' => canonical::<i64>(text).is_some(),
            b'_' => text.is_empty(),
            b'#' => text == b"t" || text == b"f",
            b',' => std::str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok()),
            b'$' | b'!' | b'=' => match size(text) {
                Some(None) => kind == b'$',
                Some(Some(length)) => {
                    let end = at.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
                    at = end.saturating_add(2);
                    bytes.get(end..at) == Some(b"\r\n")
                }
                None => false,
            },
            b'*' | b'~' | b'>' | b'%' | b'|' => match size(text) {
                Some(None) => kind == b'*',
                Some(Some(count)) => {
                    let each = if matches!(kind, b'%' | b'|') { 2 } else { 1 };
                    // An attribute precedes the frame that it describes.
                    pending = pending.saturating_add(count.saturating_mul(each)) + u64::from(kind == b'|');
                    true
                }
                None => false,
            },
            _ => false,
        };
        if !is_good {
            return said("a part of it is malformed", line);
        }
    }
    if at == bytes.len() { None } else { said("something follows it", &bytes[at..]) }
}

fn said(what: &str, bytes: &[u8]) -> Option<String> {
    Some(format!("{what}: {}", bytes[..bytes.len().min(200)].escape_ascii()))
}

/// Returns a length; `Some(None)` for the length that stands for null.
fn size(text: &[u8]) -> Option<Option<u64>> {
    if text == b"-1" { Some(None) } else { canonical(text).map(Some) }
}

/// Returns a number, if it is written in its one valid form.
fn canonical<N: std::str::FromStr + ToString>(text: &[u8]) -> Option<N> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok().filter(|number: &N| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_reply_has_no_flaw() {
        let two: &[&[u8]] = &[
            b"+OK\r\n",
            b"-ERR x\r\n",
            b":-1\r\n",
            b"$-1\r\n",
            b"$2\r\n\r\n\r\n",
            b"*-1\r\n",
            b"*2\r\n*0\r\n$0\r\n\r\n",
        ];
        let three: &[&[u8]] = &[
            b"_\r\n",
            b"#t\r\n",
            b",inf\r\n",
            b"%1\r\n+a\r\n~1\r\n:1\r\n",
            b"|1\r\n+a\r\n:1\r\n:2\r\n",
            b"=5\r\ntxt:a\r\n",
        ];
        assert!(two.iter().all(|reply| flaw(reply, false).is_none() && flaw(reply, true).is_none()));
        assert!(three.iter().all(|reply| flaw(reply, false).is_some() && flaw(reply, true).is_none()));
        let deep = [b"*1\r\n".repeat(100_000), b":1\r\n".to_vec()].concat();
        assert_eq!(flaw(&deep, false), None);
    }

    #[test]
    fn every_slip_is_one() {
        let bad: &[&[u8]] = &[
            b"",
            b"+OK",
            b"+OK\n",
            b"+O\rK\r\n",
            b":+1\r\n",
            b":01\r\n",
            b":9223372036854775808\r\n",
            b"$1\r\nab\r\n",
            b"$-2\r\n",
            b"*1\r\n",
            b"*1\r\n:1\r\n:2\r\n",
            b"~-1\r\n",
            b"?\r\n",
            b"$01\r\na\r\n",
            b",x\r\n",
            b"#y\r\n",
        ];
        for reply in bad {
            assert!(flaw(reply, true).is_some(), "{}", reply.escape_ascii());
        }
    }
}
