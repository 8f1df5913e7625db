//! The arguments of a request: places in a buffer of the caller, or a packed copy.
//!
//! [`Args`] is the form in which commands receive their arguments: two slices, `Copy`, no allocation. It does not know where
//! the buffer came from; the requests of a socket, a script and an AOF look the same. [`OwnedArgs`] keeps a request beyond
//! its buffer. Any thread.

use std::ops::Index;

use crate::number::Digits;

/// The place of an argument in its buffer, in bytes. Buffers are at most 4 GiB.
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
    /// Returns the arguments that lie in `buf` at `spans`. A span beyond the buffer reads as missing ([`Args::get`]).
    pub fn new(buf: &'a [u8], spans: &'a [Span]) -> Self {
        Args { buf, spans }
    }

    /// Returns how many arguments there are.
    #[inline]
    pub fn len(self) -> usize {
        self.spans.len()
    }

    /// Returns whether there is no argument.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the argument at `index`, if there is one.
    #[inline]
    pub fn get(self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index)?.slice(self.buf)
    }

    /// Returns the argument at `index`; for callers that have checked the arity. Panics when there is none.
    #[inline]
    pub fn arg(self, index: usize) -> &'a [u8] {
        let Span { start, len } = self.spans[index];
        &self.buf[start as usize..start as usize + len as usize]
    }

    /// Returns the arguments without the first `n` (none when there are fewer).
    #[inline]
    pub fn from(self, n: usize) -> Args<'a> {
        Args { buf: self.buf, spans: self.spans.get(n..).unwrap_or_default() }
    }

    /// Returns the first `n` arguments (all when there are fewer).
    #[inline]
    pub fn first(self, n: usize) -> Args<'a> {
        Args { buf: self.buf, spans: self.spans.get(..n).unwrap_or(self.spans) }
    }

    /// Returns all arguments in order.
    #[inline]
    pub fn iter(self) -> ArgsIter<'a> {
        ArgsIter { buf: self.buf, spans: self.spans.iter() }
    }

    /// Returns the number of bytes of all arguments together.
    pub fn bytes_len(self) -> usize {
        self.spans.iter().map(|span| span.len as usize).sum()
    }

    /// Returns the length of the buffer that holds the arguments, in bytes. Other requests may lie in it too.
    #[inline]
    pub fn buffer_len(self) -> usize {
        self.buf.len()
    }

    /// Returns the number of bytes from the first argument to the end of the last, with everything between them. Takes
    /// constant time.
    #[inline]
    pub fn extent(self) -> usize {
        let end = self.spans.last().map_or(0, |last| last.start as usize + last.len as usize);
        end.saturating_sub(self.spans.first().map_or(0, |first| first.start as usize))
    }

    /// Returns the number of bytes that the request takes as a multibulk.
    pub fn multibulk_len(self) -> usize {
        let digits = |number: usize| number.checked_ilog10().unwrap_or(0) as usize + 1;
        let bulk = |argument: &[u8]| digits(argument.len()) + argument.len() + "$\r\n\r\n".len();
        digits(self.spans.len()) + "*\r\n".len() + self.iter().map(bulk).sum::<usize>()
    }

    /// Returns the bytes in which the request came, if they are exactly the multibulk that its arguments make: `*`, `$` and
    /// nothing unusual between them. Returns `None` for other bytes of the same meaning and for an inline request.
    pub fn as_multibulk(self) -> Option<&'a [u8]> {
        let (first, rest) = self.spans.split_first()?;
        let start = first_lines_before(self.buf, self.spans.len(), *first)?;
        let mut end = first.start as usize + first.len as usize;
        for span in rest {
            if line_before(self.buf, *span)? != end {
                return None;
            }
            end = span.start as usize + span.len as usize;
        }
        if self.buf.get(end..)?.first_chunk() != Some(LINE_END) {
            return None;
        }
        self.buf.get(start..end + LINE_END.len())
    }

    /// Returns a copy that owns its bytes, packed, for requests that outlive their buffer (MULTI's queue).
    pub fn to_owned(self) -> OwnedArgs {
        OwnedArgs::collect(self.iter())
    }
}

const LINE_END: &[u8; 2] = b"\r\n";

/// The number of bytes that are compared at once: the first lines of most requests have this length, and the lines of the
/// other arguments end with the end of the argument before.
const WORD: usize = size_of::<u64>();

/// Returns where the first two lines of a request of `count` arguments begin, if they are right before the first one.
#[inline(always)]
fn first_lines_before(buf: &[u8], count: usize, first: Span) -> Option<usize> {
    let before = buf.get(..first.start as usize)?;
    if count < 10 && first.len < 10 {
        let lines = u64::from_le_bytes(*b"*0\r\n$0\r\n") + ((count as u64) << 8) + (u64::from(first.len) << 40);
        return (word_before(before)? == lines).then(|| before.len() - WORD);
    }
    let before = before_line(before, b'$', first.len as usize)?;
    before_line(before, b'*', count).map(<[u8]>::len)
}

/// Returns where the end of the line before begins, and behind it the line of an argument, if both are right before it.
/// Always inline: a comparison of one word, but for arguments of a hundred bytes and more.
#[inline(always)]
fn line_before(buf: &[u8], span: Span) -> Option<usize> {
    let (before, len) = (buf.get(..span.start as usize)?, u64::from(span.len));
    if len < 10 {
        let line = u64::from_le_bytes(*b"\0\0\r\n$0\r\n") + (len << 40);
        return (word_before(before)? >> 16 == line >> 16).then(|| before.len() - (WORD - 2));
    }
    if len < 100 {
        let line = u64::from_le_bytes(*b"\0\r\n$00\r\n") + ((len / 10) << 32) + ((len % 10) << 40);
        return (word_before(before)? >> 8 == line >> 8).then(|| before.len() - (WORD - 1));
    }
    before_line(before, b'$', span.len as usize)?.strip_suffix(LINE_END).map(<[u8]>::len)
}

/// Returns the last bytes.
#[inline(always)]
fn word_before(before: &[u8]) -> Option<u64> {
    before.last_chunk::<WORD>().map(|word| u64::from_le_bytes(*word))
}

/// Returns the bytes before the line of this marker and number, if `before` ends with that line.
fn before_line(before: &[u8], marker: u8, number: usize) -> Option<&[u8]> {
    let digits = Digits::new(number as i64);
    before.strip_suffix(LINE_END)?.strip_suffix(digits.as_bytes())?.strip_suffix(&[marker])
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
    /// Packs the arguments one after the other. Together they must stay under 4 GiB; arguments beyond that are left out.
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

    /// Returns the arguments.
    pub fn args(&self) -> Args<'_> {
        Args { buf: &self.bytes, spans: &self.spans }
    }

    /// Returns memory held outside this struct, in bytes.
    pub fn heap_len(&self) -> usize {
        self.bytes.len() + self.spans.len() * size_of::<Span>()
    }
}
