//! The end of a reply, and a reply of unspecified order in a fixed order.
//!
//! A scanner for both protocols that is as plain as can be, because it judges the product's own. It works on a whole buffer
//! from its start each time and is slow for that; it is meant for tests only. Any thread may call it.

/// The reason why a buffer is not a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    /// More bytes are needed.
    Short,
    /// The bytes begin no reply, or a length is no number.
    Malformed,
}

/// A scanned reply: its own line, and the replies inside it.
struct Node<'a> {
    /// The bytes of the whole reply.
    bytes: &'a [u8],
    /// The bytes of the reply's first line, with the line end.
    header: &'a [u8],
    /// The replies inside it, in order.
    children: Vec<Node<'a>>,
}

/// Returns the reply with its children sorted at every level; `pairs` keeps names and values of a flattened map together.
/// Bytes that are no reply come back as they are.
pub fn sorted(bytes: &[u8], pairs: bool) -> Vec<u8> {
    match scan(bytes) {
        Ok(node) => settle(&node, pairs),
        Err(_) => bytes.to_vec(),
    }
}

/// Returns the replies, or requests, that follow each other in `bytes`; an incomplete one at the end is left out.
pub fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Ok(node) = scan(bytes) {
        parts.push(node.bytes);
        bytes = &bytes[node.bytes.len()..];
    }
    parts
}

/// Returns the replies that the reply holds at its top level, or none if it is no collection.
pub fn children(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let node = scan(bytes).ok()?;
    matches!(node.header.first(), Some(b'*' | b'~' | b'%' | b'>'))
        .then(|| node.children.iter().map(|child| child.bytes).collect())
}

/// Returns the texts of all strings and numbers in a reply, at any depth, in their order. Nulls are left out.
pub fn leaves(bytes: &[u8]) -> Vec<Vec<u8>> {
    fn gather(node: &Node<'_>, all: &mut Vec<Vec<u8>>) {
        if node.children.is_empty() {
            all.extend(text(node.bytes).filter(|_| !node.header.starts_with(b"_")).map(<[u8]>::to_vec));
        }
        node.children.iter().for_each(|child| gather(child, all));
    }
    let mut all = Vec::new();
    if let Ok(node) = scan(bytes) {
        gather(&node, &mut all);
    }
    all
}

/// A function that [`rewritten`] calls with the mark and the text of each leaf. It returns a new text, or none to keep it.
pub type Rewrite = dyn Fn(u8, &[u8]) -> Option<Vec<u8>>;

/// Returns the reply with the texts of its strings, doubles and errors changed.
pub fn rewritten(bytes: &[u8], rewrite: &Rewrite) -> Vec<u8> {
    fn write(node: &Node<'_>, rewrite: &Rewrite, out: &mut Vec<u8>) {
        let mark = node.header.first().copied().unwrap_or_default();
        let new = text(node.bytes).filter(|_| b"$,-:".contains(&mark)).and_then(|text| rewrite(mark, text));
        match new {
            Some(new) if matches!(mark, b'-' | b':') => out.extend([[mark].as_slice(), &new, b"\r\n"].concat()),
            Some(new) => out.extend([b"$", new.len().to_string().as_bytes(), b"\r\n", &new, b"\r\n"].concat()),
            None if node.children.is_empty() => out.extend(node.bytes),
            None => out.extend(node.header),
        }
        node.children.iter().for_each(|child| write(child, rewrite, out));
    }
    let mut out = Vec::with_capacity(bytes.len());
    match scan(bytes) {
        Ok(node) => write(&node, rewrite, &mut out),
        Err(_) => out.extend(bytes),
    }
    out
}

/// Returns the text of a string, number or error, without its marks.
pub fn text(bytes: &[u8]) -> Option<&[u8]> {
    let node = scan(bytes).ok()?;
    let body = match node.header.first()? {
        b'$' | b'=' | b'!' => node.bytes.get(node.header.len()..)?,
        b'*' | b'~' | b'%' | b'>' | b'|' => return None,
        _ => node.header.get(1..)?,
    };
    body.strip_suffix(b"\r\n")
}

fn settle(node: &Node<'_>, pairs: bool) -> Vec<u8> {
    if node.children.is_empty() {
        return node.bytes.to_vec();
    }
    let group = if pairs || node.header.starts_with(b"%") { 2 } else { 1 };
    let mut groups: Vec<Vec<u8>> = node
        .children
        .chunks(group)
        .map(|chunk| chunk.iter().flat_map(|child| settle(child, false)).collect())
        .collect();
    groups.sort();
    let mut bytes = node.header.to_vec();
    bytes.extend(groups.concat());
    bytes
}

fn scan(bytes: &[u8]) -> Result<Node<'_>, Fault> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n").ok_or(Fault::Short)? + 2;
    let header = &bytes[..end];
    let line = &header[1..end - 2];
    match header[0] {
        b'+' | b'-' | b':' | b',' | b'#' | b'_' | b'(' => Ok(Node { bytes: header, header, children: Vec::new() }),
        b'$' | b'=' | b'!' => {
            let whole = if line == b"-1" { end } else { end + number(line)? + 2 };
            let bytes = bytes.get(..whole).ok_or(Fault::Short)?;
            Ok(Node { bytes, header, children: Vec::new() })
        }
        b'*' | b'~' | b'>' if line == b"-1" => Ok(Node { bytes: header, header, children: Vec::new() }),
        b'*' | b'~' | b'>' => scan_children(bytes, header, number(line)?),
        b'%' => scan_children(bytes, header, number(line)? * 2),
        b'|' => scan_children(bytes, header, number(line)? * 2 + 1),
        _ => Err(Fault::Malformed),
    }
}

fn scan_children<'a>(bytes: &'a [u8], header: &'a [u8], count: usize) -> Result<Node<'a>, Fault> {
    let mut children = Vec::new();
    let mut end = header.len();
    for _ in 0..count {
        let child = scan(&bytes[end..])?;
        end += child.bytes.len();
        children.push(child);
    }
    Ok(Node { bytes: &bytes[..end], header, children })
}

fn number(line: &[u8]) -> Result<usize, Fault> {
    let digits = line.strip_prefix(b"txt:").unwrap_or(line);
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or(Fault::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_ends_where_its_last_part_ends() {
        let reply = b"%1\r\n+a\r\n*3\r\n:1\r\n$-1\r\n$2\r\n\r\n\r\n";
        assert_eq!(scan(reply).map(|node| node.bytes.len()), Ok(reply.len()));
        for cut in 0..reply.len() {
            assert!(matches!(scan(&reply[..cut]), Err(Fault::Short)));
        }
        assert!(matches!(scan(b"?\r\n"), Err(Fault::Malformed)));
    }

    #[test]
    fn order_is_settled_at_every_level() {
        assert_eq!(sorted(b"*2\r\n:0\r\n*2\r\n+b\r\n+a\r\n", false), b"*2\r\n*2\r\n+a\r\n+b\r\n:0\r\n");
        assert_eq!(sorted(b"*4\r\n+b\r\n:1\r\n+a\r\n:2\r\n", true), b"*4\r\n+a\r\n:2\r\n+b\r\n:1\r\n");
    }
}
