//! The arguments of a request: places in somebody's buffer, or a packed copy.
//!
//! [`Args`] is what commands are given: two slices, `Copy`, no allocation. It does not know where the buffer came from;
//! a socket's, a script's and a log's requests look the same. [`OwnedArgs`] keeps a request beyond its buffer. Any thread.

use std::ops::Index;

use crate::number::Digits;

/// Where an argument lies in its buffer, in bytes. Buffers are at most 4 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Span {
    fn slice(self, buf: &[u8]) -> Option<&[u8]> {
        buf.get(self.start as usize..)?.get(..self.len as usize)
    }
}

/// The arguments of one request, the command's name first. Two slices; `Copy`.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    buf: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// Arguments that lie in `buf` at `spans`. A span that leaves the buffer reads as missing ([`Args::get`]).
    pub fn new(buf: &'a [u8], spans: &'a [Span]) -> Self {
        Args { buf, spans }
    }

    /// How many arguments there are.
    #[inline]
    pub fn len(self) -> usize {
        self.spans.len()
    }

    /// Whether there is no argument.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.spans.is_empty()
    }

    /// The argument at `index`, if there is one.
    #[inline]
    pub fn get(self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index)?.slice(self.buf)
    }

    /// The argument at `index`; for callers that have checked the arity. Panics when there is none.
    #[inline]
    pub fn arg(self, index: usize) -> &'a [u8] {
        let Span { start, len } = self.spans[index];
        &self.buf[start as usize..start as usize + len as usize]
    }

    /// The arguments without the first `n` (none when there are fewer).
    #[inline]
    pub fn from(self, n: usize) -> Args<'a> {
        Args { buf: self.buf, spans: self.spans.get(n..).unwrap_or_default() }
    }

    /// The first `n` arguments (all when there are fewer).
    #[inline]
    pub fn first(self, n: usize) -> Args<'a> {
        Args { buf: self.buf, spans: self.spans.get(..n).unwrap_or(self.spans) }
    }

    /// All arguments in order.
    #[inline]
    pub fn iter(self) -> ArgsIter<'a> {
        ArgsIter { buf: self.buf, spans: self.spans.iter() }
    }

    /// The bytes of all arguments together.
    pub fn bytes_len(self) -> usize {
        self.spans.iter().map(|span| span.len as usize).sum()
    }

    /// The bytes in which the request came, if they are just what its arguments make as a multibulk: `*`, `$` and nothing
    /// unusual between them. Other bytes that say the same are not found, nor is what came in another form.
    pub fn as_multibulk(self) -> Option<&'a [u8]> {
        let (first, rest) = self.spans.split_first()?;
        let start = line_before(self.buf, first.start as usize, b'$', first.len as usize)?;
        let start = line_before(self.buf, start, b'*', self.spans.len())?;
        let mut end = first.start as usize + first.len as usize;
        for span in rest {
            let line = line_before(self.buf, span.start as usize, b'$', span.len as usize)?;
            if line != end + LINE_END.len() || !ends_line(self.buf, end) {
                return None;
            }
            end = span.start as usize + span.len as usize;
        }
        if !ends_line(self.buf, end) {
            return None;
        }
        self.buf.get(start..end + LINE_END.len())
    }

    /// A copy that owns its bytes, packed, for requests that outlive their buffer (MULTI's queue).
    pub fn to_owned(self) -> OwnedArgs {
        OwnedArgs::collect(self.iter())
    }
}

const LINE_END: &[u8; 2] = b"\r\n";

#[inline(always)]
fn ends_line(buf: &[u8], at: usize) -> bool {
    buf.get(at..).and_then(<[u8]>::first_chunk) == Some(LINE_END)
}

/// Where the line of this marker and number begins that ends right before `at`, if there is such a line. Always inline: a few
/// comparisons of whole words, but for long numbers.
#[inline(always)]
fn line_before(buf: &[u8], at: usize, marker: u8, number: usize) -> Option<usize> {
    let before = buf.get(..at)?;
    if number < 10 {
        let line = [marker, b'0' + number as u8, b'\r', b'\n'];
        return (before.last_chunk() == Some(&line)).then(|| at - line.len());
    }
    if number < 100 {
        let line = [marker, b'0' + (number / 10) as u8, b'0' + (number % 10) as u8, b'\r', b'\n'];
        return (before.last_chunk() == Some(&line)).then(|| at - line.len());
    }
    long_line_before(before, marker, number)
}

fn long_line_before(before: &[u8], marker: u8, number: usize) -> Option<usize> {
    let digits = Digits::new(number as i64);
    let line = before.strip_suffix(LINE_END)?.strip_suffix(digits.as_bytes())?.strip_suffix(&[marker])?;
    Some(line.len())
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        self.arg(index)
    }
}

impl<'a> IntoIterator for Args<'a> {
    type Item = &'a [u8];
    type IntoIter = ArgsIter<'a>;

    fn into_iter(self) -> ArgsIter<'a> {
        self.iter()
    }
}

impl std::fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().map(|arg| arg.escape_ascii().to_string())).finish()
    }
}

/// Iterator over the arguments of a request.
#[derive(Clone)]
pub struct ArgsIter<'a> {
    buf: &'a [u8],
    spans: std::slice::Iter<'a, Span>,
}

impl<'a> Iterator for ArgsIter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.spans.next()?.slice(self.buf)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.spans.size_hint()
    }
}

impl ExactSizeIterator for ArgsIter<'_> {}

/// Arguments that own their bytes: one buffer and its spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedArgs {
    bytes: Box<[u8]>,
    spans: Box<[Span]>,
}

impl OwnedArgs {
    /// Packs the arguments one after the other. Together they must stay under 4 GiB; what lies beyond is left out.
    pub fn collect<'b>(args: impl IntoIterator<Item = &'b [u8]>) -> OwnedArgs {
        let mut bytes = Vec::new();
        let mut spans = Vec::new();
        for arg in args {
            let (Ok(start), Ok(len)) = (u32::try_from(bytes.len()), u32::try_from(arg.len())) else { break };
            spans.push(Span { start, len });
            bytes.extend_from_slice(arg);
        }
        OwnedArgs { bytes: bytes.into(), spans: spans.into() }
    }

    /// The arguments.
    pub fn args(&self) -> Args<'_> {
        Args { buf: &self.bytes, spans: &self.spans }
    }

    /// Memory held outside this struct, in bytes.
    pub fn heap_len(&self) -> usize {
        self.bytes.len() + self.spans.len() * size_of::<Span>()
    }
}
