//! Reading replies: where a frame ends, and its content.
//!
//! There are two halves, both without I/O and without allocation. [`Scanner`] finds the end of the first frame in a buffer;
//! it remembers how far it came, so a reply that arrives byte by byte is read once. [`decode_whole`] turns the frame that it
//! has cut into a [`Frame`]: its strings are slices of the buffer and its aggregates are iterators over it. [`decode`] does
//! so where more may follow the frame.
//!
//! There is no tree of values: a caller that wants one builds it. RESP2 and RESP3 are known, but not the streamed types of
//! RESP3, which no server sends. Nothing recurses: an aggregate only adds to a count of frames that are still to come. A
//! consumer that descends into aggregates bounds its own depth by [`DEPTH_MAX`].
//!
//! Both halves may be used from any thread; a `Scanner` belongs to one stream.

pub use super::protocol_error::{FrameError, speaks_tls};

/// The depth of nested aggregates beyond which a consumer should call the reply malformed.
pub const DEPTH_MAX: usize = 128;

/// The longest line (a simple string, an error, a number, a length) that is accepted, in bytes without its `\r\n`.
pub const LINE_LENGTH_MAX: usize = 1024 * 1024;

/// The most elements that one aggregate may claim. It bounds a count, not memory: nothing is reserved for a claim.
const ELEMENTS_MAX: u64 = u32::MAX as u64;

/// The longest bulk string that one frame may claim, in bytes. Nothing is reserved for a claim.
const BULK_LENGTH_MAX: u64 = 1 << 40;

/// The shortest frame, a null, in bytes.
const FRAME_LENGTH_MIN: u64 = 3;

/// Finds the end of the first frame of a buffer, resumable at any byte.
#[derive(Clone, Debug, Default)]
pub struct Scanner {
    /// Bytes of the buffer that are already understood.
    position: usize,
    /// The number of bytes behind `position` that hold no end of a line.
    searched: usize,
    /// Frames that must still be read before the outermost one is whole; 0 stands for "not begun", which means one.
    pending: u64,
}

impl Scanner {
    /// Returns a scanner at the start of a frame.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the length of the frame that `buffer` starts with, or `None` while it is not whole.
    ///
    /// After `None` call again with the same bytes and more behind them; after a length the scanner is at the start of the
    /// next frame, so call with the bytes that follow. After an error the stream cannot be read any further.
    #[inline]
    pub fn scan(&mut self, buffer: &[u8]) -> Result<Option<usize>, FrameError> {
        let mut pending = self.pending.max(1);
        while pending > 0 {
            let Some(head) = read_head(buffer, self.position, self.searched)? else {
                self.searched = buffer.len().saturating_sub(self.position);
                self.pending = pending;
                return Ok(None);
            };
            let end = match head.content {
                Content::Line => head.body,
                Content::Bulk(length) => match bulk_end(buffer, head.body, length)? {
                    Some(end) => end,
                    None => {
                        self.pending = pending;
                        return Ok(None);
                    }
                },
                Content::Aggregate(count) => {
                    pending = pending.checked_add(count).ok_or(FrameError::BadNumber)?;
                    head.body
                }
                // An attribute precedes the frame that it describes, so it does not count as a frame itself.
                Content::Attribute(count) => {
                    pending = pending.checked_add(count + 1).ok_or(FrameError::BadNumber)?;
                    head.body
                }
            };
            self.position = end;
            self.searched = 0;
            pending -= 1;
        }
        let length = self.position;
        self.position = 0;
        self.pending = 0;
        Ok(Some(length))
    }

    /// Returns the least length in bytes of the frame that `buffer` starts with: by the bytes of it that have arrived, and by
    /// the lengths that it claims. Called after a [`scan`](Scanner::scan) of the same bytes that has returned `None`.
    #[cold]
    pub fn length_min(&self, buffer: &[u8]) -> u64 {
        let next = match read_head(buffer, self.position, self.searched) {
            Ok(Some(Head { content: Content::Bulk(length), body, .. })) => {
                (body as u64 + 2).saturating_add(length as u64)
            }
            _ => buffer.len() as u64,
        };
        next.saturating_add(self.pending.saturating_sub(1).saturating_mul(FRAME_LENGTH_MIN))
    }
}

/// The first line of a frame.
struct Head {
    kind: u8,
    /// The end of the line, without `\r\n`; the line starts one byte after the frame does.
    line_end: usize,
    /// The offset of the first byte behind the line.
    body: usize,
    content: Content,
}

/// The content that the first line of a frame announces.
#[derive(Clone, Copy)]
enum Content {
    Line,
    Bulk(usize),
    Aggregate(u64),
    Attribute(u64),
}

/// Reads the line at `position`, which `searched` bytes are known not to end. `None` when the line is not whole.
#[inline(always)]
fn read_head(buffer: &[u8], position: usize, searched: usize) -> Result<Option<Head>, FrameError> {
    let Some(rest) = buffer.get(position..) else { return Ok(None) };
    // Most lengths have one digit.
    if let [kind @ (b'*' | b'$'), digit @ b'0'..=b'9', b'\r', b'\n', ..] = *rest {
        let length = digit - b'0';
        let content = if kind == b'*' { Content::Aggregate(length.into()) } else { Content::Bulk(length.into()) };
        return Ok(Some(Head { kind, line_end: position + 2, body: position + 4, content }));
    }
    let Some((&kind, _)) = rest.split_first() else { return Ok(None) };
    // The last byte that was searched is searched again, because it may have been a '\r' without its '\n'.
    let from = searched.saturating_sub(1).max(1);
    let Some(found) = rest.get(from..).and_then(|bytes| bytes.iter().position(|&byte| byte == b'\r')) else {
        known_type(kind)?;
        return if rest.len() > LINE_LENGTH_MAX { Err(FrameError::BadLine) } else { Ok(None) };
    };
    let line_end = from + found;
    match rest.get(line_end + 1) {
        Some(b'\n') => {}
        Some(_) => return Err(FrameError::BadLine),
        None => {
            known_type(kind)?;
            return Ok(None);
        }
    }
    let line = rest.get(1..line_end).unwrap_or_default();
    if line.len() > LINE_LENGTH_MAX {
        return Err(FrameError::BadLine);
    }
    let content = read_content(kind, line)?;
    Ok(Some(Head { kind, line_end: position + line_end, body: position + line_end + 2, content }))
}

fn known_type(kind: u8) -> Result<(), FrameError> {
    match kind {
        b'+' | b'-' | b':' | b'$' | b'*' | b'_' | b'#' | b',' | b'(' | b'!' | b'=' | b'%' | b'~' | b'>' | b'|' => {
            Ok(())
        }
        other => Err(FrameError::UnknownType(other)),
    }
}

/// Reads the content that a frame's first line announces.
#[inline]
fn read_content(kind: u8, line: &[u8]) -> Result<Content, FrameError> {
    match kind {
        b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => Ok(Content::Line),
        b'$' | b'!' | b'=' => match read_length(line, BULK_LENGTH_MAX)? {
            Some(length) => Ok(Content::Bulk(usize::try_from(length).map_err(|_| FrameError::BadNumber)?)),
            None => Ok(Content::Line),
        },
        b'*' | b'~' | b'>' => Ok(read_length(line, ELEMENTS_MAX)?.map_or(Content::Line, Content::Aggregate)),
        b'%' => Ok(read_length(line, ELEMENTS_MAX)?.map_or(Content::Line, |pairs| Content::Aggregate(pairs * 2))),
        b'|' => Ok(Content::Attribute(read_length(line, ELEMENTS_MAX)?.ok_or(FrameError::BadNumber)? * 2)),
        other => Err(FrameError::UnknownType(other)),
    }
}

/// Reads a length of at most `max`; `None` for `-1`, which stands for null.
#[inline]
fn read_length(line: &[u8], max: u64) -> Result<Option<u64>, FrameError> {
    if line == b"-1" {
        return Ok(None);
    }
    if line.is_empty() || line.len() > 19 {
        return Err(FrameError::BadNumber);
    }
    let mut value = 0u64;
    for &byte in line {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(FrameError::BadNumber);
        }
        value = value * 10 + u64::from(digit);
    }
    if value > max { Err(FrameError::BadNumber) } else { Ok(Some(value)) }
}

/// Returns where a bulk string's frame ends, if all of it is there.
#[inline]
fn bulk_end(buffer: &[u8], body: usize, length: usize) -> Result<Option<usize>, FrameError> {
    let end = body.checked_add(length).and_then(|end| end.checked_add(2)).ok_or(FrameError::BadNumber)?;
    match buffer.get(end - 2..end) {
        Some(b"\r\n") => Ok(Some(end)),
        Some(_) => Err(FrameError::BadBulk),
        None => Ok(None),
    }
}

/// Reads the usual reply at once: if `buffer` starts with a whole bulk string of less than 100 bytes, returns the number of
/// bytes in front of its text, and the length of the frame. If it returns none, the frame may still be whole: [`Scanner`]
/// decides.
#[inline]
pub fn short_bulk(buffer: &[u8]) -> Option<(usize, usize)> {
    let digit = |byte: u8| usize::from(byte - b'0');
    let (head, length) = match *buffer {
        [b'$', ones @ b'0'..=b'9', b'\r', b'\n', ..] => (4, digit(ones)),
        [b'$', tens @ b'0'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => (5, digit(tens) * 10 + digit(ones)),
        _ => return None,
    };
    let end = head + length + 2;
    (buffer.get(end - 2..end)? == b"\r\n").then_some((head, end))
}

/// A reply, or an element of a reply. Strings are slices of the bytes that were decoded.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Frame<'a> {
    /// `+`: a status line.
    Simple(&'a [u8]),
    /// `-` or `!`: an error, its code first.
    Error(&'a [u8]),
    /// `:`: an integer.
    Integer(i64),
    /// `$`: any bytes.
    Bulk(&'a [u8]),
    /// `_`, or the null string and null array of RESP2.
    Null,
    /// `#`: a boolean.
    Boolean(bool),
    /// `,`: the text as it was sent, which [`parse_double`] reads.
    Double(&'a [u8]),
    /// `(`: a whole number of any size, as text.
    BigNumber(&'a [u8]),
    /// `=`: a text and its three-letter format (`txt`, `mkd`).
    Verbatim {
        /// The format's three letters.
        format: &'a [u8],
        /// The text without its format.
        text: &'a [u8],
    },
    /// `*`: an array.
    Array(Items<'a>),
    /// `~`: a set.
    Set(Items<'a>),
    /// `%`: keys and values in turn, so an even number of items.
    Map(Items<'a>),
    /// `>`: a message that answers no request.
    Push(Items<'a>),
}

/// The elements of an aggregate, decoded one by one as they are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Items<'a> {
    bytes: &'a [u8],
    remaining: u64,
}

impl<'a> Items<'a> {
    /// Returns the number of elements left (a map counts keys and values).
    ///
    /// The number is the sender's claim. Decoding bounds it by the bytes that arrived, because an element takes at least
    /// three.
    pub fn len(&self) -> usize {
        usize::try_from(self.remaining).unwrap_or(usize::MAX)
    }

    /// Returns whether no element is left.
    pub fn is_empty(&self) -> bool {
        self.remaining == 0
    }

    /// Returns these elements and everything below them, each once and in order: see [`Walk`].
    pub fn walk(self) -> Walk<'a> {
        Walk { bytes: self.bytes }
    }
}

/// An iterator over all elements of an aggregate, nested ones too, in the order of the bytes.
///
/// An aggregate comes ahead of its elements and without them: its items say how many follow and hold none. So each byte is
/// read once, however deep it lies. A caller that descends by [`Items`] instead searches each level for the ends of its
/// elements.
#[derive(Clone, Debug, Default)]
pub struct Walk<'a> {
    bytes: &'a [u8],
}

impl<'a> Iterator for Walk<'a> {
    type Item = Result<Frame<'a>, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let taken = step(self.bytes);
        self.bytes = taken.as_ref().map_or(&[], |(_, length)| self.bytes.get(*length..).unwrap_or_default());
        Some(taken.map(|(frame, _)| frame))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.bytes.len() / 3))
    }
}

/// Returns the frame that `buffer` starts with, an aggregate without its elements, and the offset of the next frame.
fn step(buffer: &[u8]) -> Result<(Frame<'_>, usize), FrameError> {
    decode_first(buffer, |body, _| Ok(body))
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Frame<'a>, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.remaining == 0 {
            return None;
        }
        match decode(self.bytes) {
            Ok((frame, length)) => {
                self.remaining -= 1;
                self.bytes = self.bytes.get(length..).unwrap_or_default();
                Some(Ok(frame))
            }
            Err(error) => {
                self.remaining = 0;
                Some(Err(error))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // A claim is not a promise: each element takes at least three bytes, so the capacity taken from this hint is bounded
        // by the bytes that arrived.
        (self.len().min(self.bytes.len() / 3), Some(self.len()))
    }
}

/// Decodes the frame that `buffer` starts with; returns it with its length in bytes.
///
/// Attributes before it are passed over. Fails with [`FrameError::Truncated`] when the frame is not whole.
pub fn decode(buffer: &[u8]) -> Result<(Frame<'_>, usize), FrameError> {
    decode_first(buffer, |body, count| skip(buffer, body, count))
}

/// Decodes a buffer that is one frame, as a [`Scanner`] cuts it. The end of an aggregate is not searched for again.
pub fn decode_whole(buffer: &[u8]) -> Result<Frame<'_>, FrameError> {
    decode_first(buffer, |_, _| Ok(buffer.len())).map(|(frame, _)| frame)
}

/// Decodes the first frame behind its attributes; returns it with the offset of its end. `end_of` returns the end of an
/// aggregate's elements from their offset and count.
///
/// Each caller has a copy of its own: a call would lay the head down in memory.
#[inline(always)]
fn decode_first(
    buffer: &[u8],
    end_of: impl FnOnce(usize, u64) -> Result<usize, FrameError>,
) -> Result<(Frame<'_>, usize), FrameError> {
    let mut start = 0;
    loop {
        let head = read_head(buffer, start, 0)?.ok_or(FrameError::Truncated)?;
        let line = buffer.get(start + 1..head.line_end).unwrap_or_default();
        return match head.content {
            Content::Line => Ok((line_frame(head.kind, line)?, head.body)),
            Content::Bulk(length) => {
                let end = bulk_end(buffer, head.body, length)?.ok_or(FrameError::Truncated)?;
                let text = buffer.get(head.body..end - 2).unwrap_or_default();
                Ok((bulk_frame(head.kind, text)?, end))
            }
            Content::Aggregate(count) => {
                let end = end_of(head.body, count)?;
                let bytes = buffer.get(head.body..end).unwrap_or_default();
                Ok((aggregate_frame(head.kind, Items { bytes, remaining: count }), end))
            }
            Content::Attribute(count) => {
                start = skip(buffer, head.body, count)?;
                continue;
            }
        };
    }
}

/// Returns where the `count` frames that start at `position` end.
fn skip(buffer: &[u8], position: usize, count: u64) -> Result<usize, FrameError> {
    if count == 0 {
        return Ok(position);
    }
    let mut scanner = Scanner { position, searched: 0, pending: count };
    scanner.scan(buffer)?.ok_or(FrameError::Truncated)
}

fn line_frame(kind: u8, line: &[u8]) -> Result<Frame<'_>, FrameError> {
    match kind {
        b'+' => Ok(Frame::Simple(line)),
        b'-' => Ok(Frame::Error(line)),
        b':' => parse_integer(line).map(Frame::Integer).ok_or(FrameError::BadNumber),
        b'#' => match line {
            b"t" => Ok(Frame::Boolean(true)),
            b"f" => Ok(Frame::Boolean(false)),
            _ => Err(FrameError::BadNumber),
        },
        b',' => parse_double(line).map(|_| Frame::Double(line)).ok_or(FrameError::BadNumber),
        b'(' => Ok(Frame::BigNumber(line)),
        // A null: `_`, or the null forms of strings and aggregates.
        _ => Ok(Frame::Null),
    }
}

fn bulk_frame(kind: u8, text: &[u8]) -> Result<Frame<'_>, FrameError> {
    match kind {
        b'!' => Ok(Frame::Error(text)),
        b'=' => match (text.get(..3), text.get(3), text.get(4..)) {
            (Some(format), Some(b':'), Some(text)) => Ok(Frame::Verbatim { format, text }),
            _ => Err(FrameError::BadBulk),
        },
        _ => Ok(Frame::Bulk(text)),
    }
}

fn aggregate_frame(kind: u8, items: Items<'_>) -> Frame<'_> {
    match kind {
        b'~' => Frame::Set(items),
        b'%' => Frame::Map(items),
        b'>' => Frame::Push(items),
        _ => Frame::Array(items),
    }
}

/// Reads the number of a `:` frame: an optional sign and digits, in the range of `i64`.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0i64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // The value is built as a negative number, because the smallest i64 has no positive counterpart.
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

/// Reads the number of a `,` frame, which may be `inf`, `-inf` or `nan`.
pub fn parse_double(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
