//! Requests as they arrive: from a peer's bytes to arguments that still lie in those bytes.
//!
//! A request is a multibulk (`*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`) or an inline line (`GET k\r\n`). The parser copies nothing of
//! a multibulk: an argument is a [`Span`] of the caller's buffer, a [`Batch`] holds the spans of all requests that the buffer
//! completed, and both are reused. Inline arguments may need unescaping, so their bytes live in a side buffer of the batch; a
//! multibulk pays nothing for that beyond one bit per request.
//!
//! The parser can resume at any byte. Its knowledge of an unfinished request (spans found, where to go on, how far a line was
//! searched) stays in the parser, so that no byte is read twice however slowly the bytes arrive. It never reserves memory for
//! a claimed length: it grows with the bytes that arrived.
//!
//! It is not a reader: it owns no buffer, does no I/O and executes nothing. Each connection owns one parser; a batch may be
//! shared by all connections of one thread.
//!
//! Behaviour, limits and error texts are those of Redis's `networking.c` (7.0), including its tolerance: the two bytes after
//! an argument are skipped unread, and the byte after a line's `\r` is not checked. A zero byte in a `*` or `$` line is an
//! error at once, as is a TLS handshake; 7.0 waits there for bytes that cannot help.

pub use crate::arguments::{Args, ArgsIter, OwnedArgs, Span};
use crate::inline;
use crate::number;
pub use crate::protocol_error::ProtocolError;

/// Longest inline request and longest `*`/`$` line, in bytes.
pub const LINE_LEN_MAX: usize = 64 * 1024;
/// Most arguments of one request before the peer has authenticated.
pub const UNAUTHENTICATED_ARGS_MAX: i64 = 10;
/// Longest argument before the peer has authenticated, in bytes.
pub const UNAUTHENTICATED_BULK_LEN_MAX: i64 = 16 * 1024;

/// A request's place in its batch.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// The place of the request's first byte in the parsed buffer.
    start: u32,
    first: u32,
    /// Number of spans; the top bit says that they point into the batch's side buffer.
    count: u32,
}

const IN_SIDE: u32 = 1 << 31;

/// Complete requests, in the order of arrival. Reusable: [`Batch::clear`] keeps the memory.
#[derive(Debug, Default)]
pub struct Batch {
    spans: Vec<Span>,
    requests: Vec<Request>,
    side: Vec<u8>,
}

impl Batch {
    /// Returns an empty batch; it allocates when the first request arrives.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Returns how many requests there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns whether there is no request.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the arguments of request `index`; `buf` is the buffer that was parsed. At least one argument per request.
    #[inline]
    pub fn get<'a>(&'a self, index: usize, buf: &'a [u8]) -> Args<'a> {
        self.requests.get(index).map_or(Args::new(buf, &[]), |request| self.args(request, buf))
    }

    /// Returns the arguments of request `index` and of all behind it, as [`Batch::get`] gives them.
    #[inline]
    pub fn from<'a>(&'a self, index: usize, buf: &'a [u8]) -> impl Iterator<Item = Args<'a>> {
        self.requests.get(index..).unwrap_or_default().iter().map(move |request| self.args(request, buf))
    }

    #[inline]
    fn args<'a>(&'a self, &Request { first, count, .. }: &Request, buf: &'a [u8]) -> Args<'a> {
        let buf = if count & IN_SIDE == 0 { buf } else { &self.side };
        let first = first as usize;
        Args::new(buf, self.spans.get(first..first + (count & !IN_SIDE) as usize).unwrap_or_default())
    }

    /// Forgets all requests, keeps the memory of ordinary batches and gives back that of extraordinary ones.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.requests.clear();
        self.side.clear();
        self.spans.shrink_to(KEPT_SPANS);
        self.requests.shrink_to(KEPT_SPANS);
        self.side.shrink_to(KEPT_SPANS);
    }

    /// Returns where request `index` begins in the buffer that was parsed; the buffer's part that was consumed ends there for
    /// a caller that cannot execute it now.
    pub fn start(&self, index: usize) -> usize {
        self.requests.get(index).map_or(0, |request| request.start as usize)
    }

    /// Returns where request `index` ends in the parsed buffer; `None` for an inline request. Bytes that are no request, such
    /// as an empty line, may stand in front of the next one.
    pub fn end(&self, index: usize) -> Option<usize> {
        let Request { first, count, .. } = *self.requests.get(index).filter(|request| request.count & IN_SIDE == 0)?;
        let last = self.spans.get((first + count) as usize - 1)?;
        Some((last.start + last.len) as usize + 2)
    }

    fn close(&mut self, start: usize, first: usize, side: bool) {
        let count = (self.spans.len() - first) as u32;
        let count = if side { count | IN_SIDE } else { count };
        self.requests.push(Request { start: start as u32, first: first as u32, count });
    }
}

/// Entries of a batch's vectors that survive a `clear`: a full 64 KiB read of the smallest usual requests.
const KEPT_SPANS: usize = 16 * 1024;

/// Limits on the requests of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest argument in bytes (`proto-max-bulk-len`). Values from 4 GiB up act as just under 4 GiB.
    pub bulk_len_max: i64,
    /// The maximum number of arguments of one request. A value beyond 31 bits acts as 2^31 - 1.
    pub args_max: i64,
    /// True if the peer may send large requests: false until it has passed AUTH, where AUTH is required.
    pub authenticated: bool,
    /// [`Parser::parse`] stops when the batch holds so many requests. 1 for a peer that is not authenticated, because
    /// the request after an AUTH is read under other limits.
    pub requests_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        let args_max = i64::from(i32::MAX);
        Limits { bulk_len_max: 512 * 1024 * 1024, args_max, authenticated: true, requests_max: usize::MAX }
    }
}

/// Reads requests, and keeps the state of the one request that has not fully arrived.
#[derive(Debug, Default)]
pub struct Parser {
    /// Arguments of the unfinished multibulk that are still to come; 0 when none is open.
    remaining: u32,
    /// The number of bytes of the unfinished request that are parsed, from its first byte.
    pos: usize,
    /// The number of bytes behind `pos` that hold no end of a line.
    searched: usize,
    /// Complete arguments of the unfinished multibulk, from its first byte.
    spans: Vec<Span>,
    /// The length in bytes that the unfinished request must reach before another attempt at parsing can help.
    wanted: usize,
}

/// The result of parsing the bytes at hand.
enum Step<T> {
    Done(T),
    /// More bytes are needed.
    Short,
}

/// The state of the multibulk that is being read.
struct Open {
    pos: usize,
    remaining: u32,
}

impl Parser {
    /// Returns a parser at the start of a connection. Allocates only while a request is incomplete.
    pub fn new() -> Parser {
        Parser::default()
    }

    /// Returns whether a request has begun and not ended.
    pub fn is_partial(&self) -> bool {
        self.wanted != 0
    }

    /// Returns the memory that is held for an unfinished request in addition to its bytes.
    pub fn heap_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
    }

    /// Returns the least length that the buffer must reach, counted from the first byte that was not consumed, before parsing
    /// on can help. A hint for the size of the next read; claimed by the peer, so never a reason to allocate at once.
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// Adds every complete request at the start of `buf` to `batch` and returns how many bytes they took.
    ///
    /// The next call must pass the bytes from there on: the same unfinished request, followed by bytes that have arrived
    /// since. The spans of `batch` count from the start of this `buf`, so the caller executes and clears the batch before it
    /// calls again. When `batch` is full (`limits.requests_max`) more requests may be waiting in `buf`.
    ///
    /// # Errors
    /// When the bytes break the protocol. The requests already in `batch` came before the error, and the caller must execute
    /// them.
    pub fn parse(&mut self, buf: &[u8], limits: &Limits, batch: &mut Batch) -> Result<usize, ProtocolError> {
        let buf = buf.get(..BUFFER_LEN_MAX).unwrap_or(buf);
        let mut start = 0;
        if self.wanted != 0 {
            if buf.len() < self.wanted {
                return Ok(0);
            }
            match self.resume(buf, limits, batch)? {
                Step::Done(end) => start = end,
                Step::Short => return Ok(0),
            }
        }
        while start < buf.len() && batch.requests.len() < limits.requests_max {
            let step = if buf[start] == b'*' {
                self.begin_multibulk(buf, start, limits, batch)?
            } else {
                self.inline(buf, start, batch)?
            };
            match step {
                Step::Done(end) => start = end,
                Step::Short => break,
            }
        }
        Ok(start)
    }

    /// Goes on with the request that an earlier buffer left unfinished.
    #[inline(never)]
    fn resume(&mut self, buf: &[u8], limits: &Limits, batch: &mut Batch) -> Result<Step<usize>, ProtocolError> {
        if self.remaining == 0 {
            return if buf.first() == Some(&b'*') {
                self.begin_multibulk(buf, 0, limits, batch)
            } else {
                self.inline(buf, 0, batch)
            };
        }
        let mut open = Open { pos: self.pos, remaining: self.remaining };
        let mut spans = std::mem::take(&mut self.spans);
        match self.bulks(buf, 0, &mut open, limits, &mut spans)? {
            Step::Done(()) => {
                let first = batch.spans.len();
                batch.spans.append(&mut spans);
                batch.close(0, first, false);
                self.reset();
                Ok(Step::Done(open.pos))
            }
            Step::Short => {
                (self.pos, self.remaining, self.spans) = (open.pos, open.remaining, spans);
                Ok(Step::Short)
            }
        }
    }

    /// Reads the multibulk that begins at `start`, as far as it has arrived. Always inline: its result would go through memory.
    #[inline(always)]
    fn begin_multibulk(
        &mut self,
        buf: &[u8],
        start: usize,
        limits: &Limits,
        batch: &mut Batch,
    ) -> Result<Step<usize>, ProtocolError> {
        if let Some((count, name)) = quick_head(buf, start, limits) {
            let first = batch.spans.len();
            batch.spans.push(name);
            let pos = name.start as usize + name.len as usize + 2;
            return self.arguments(buf, start, Open { pos, remaining: count - 1 }, limits, (batch, first));
        }
        let (count, pos) = match quick_length(buf, start, b'*') {
            Some(found) => found,
            None => match self.count_line(buf, start)? {
                Step::Done(found) => found,
                Step::Short => return Ok(Step::Short),
            },
        };
        if count > limits.args_max.min(i64::from(i32::MAX)) {
            return Err(ProtocolError::InvalidMultibulkLength);
        }
        if count > UNAUTHENTICATED_ARGS_MAX && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedMultibulkLength);
        }
        if count <= 0 {
            self.reset();
            return Ok(Step::Done(pos));
        }
        self.searched = 0;
        let open = Open { pos, remaining: u32::try_from(count).unwrap_or(u32::MAX) };
        let first = batch.spans.len();
        self.arguments(buf, start, open, limits, (batch, first))
    }

    /// Reads the remaining arguments of the multibulk that begins at `start`, with its first span at `first`, and closes it.
    #[inline(always)]
    fn arguments(
        &mut self,
        buf: &[u8],
        start: usize,
        mut open: Open,
        limits: &Limits,
        (batch, first): (&mut Batch, usize),
    ) -> Result<Step<usize>, ProtocolError> {
        match self.bulks(buf, start, &mut open, limits, &mut batch.spans)? {
            Step::Done(()) => {
                batch.close(start, first, false);
                if self.wanted != 0 {
                    self.reset();
                }
                Ok(Step::Done(open.pos))
            }
            Step::Short => {
                self.suspend(start, open, batch, first);
                Ok(Step::Short)
            }
        }
    }

    /// Puts the unfinished multibulk away, relative to its own first byte: the next buffer begins there.
    #[cold]
    fn suspend(&mut self, start: usize, open: Open, batch: &mut Batch, first: usize) {
        let moved = batch.spans.drain(first..).map(|span| Span { start: span.start - start as u32, len: span.len });
        self.spans.clear();
        self.spans.extend(moved);
        // The batch is the thread's, which may not need so much again.
        batch.spans.shrink_to(KEPT_SPANS);
        (self.pos, self.remaining) = (open.pos - start, open.remaining);
    }

    /// Reads arguments until none remains. `start` is where the request begins in `buf`.
    #[inline(always)]
    fn bulks(
        &mut self,
        buf: &[u8],
        start: usize,
        open: &mut Open,
        limits: &Limits,
        spans: &mut Vec<Span>,
    ) -> Result<Step<()>, ProtocolError> {
        while open.remaining > 0 {
            let (len, at) = match quick_length(buf, open.pos, b'$') {
                Some(found) if found.0 <= limits.bulk_len_max => found,
                _ => match self.bulk_line(buf, start, open.pos, limits)? {
                    Step::Done(found) => found,
                    Step::Short => return Ok(Step::Short),
                },
            };
            let end = at + len as usize + 2;
            if end > buf.len() {
                self.searched = 0;
                self.wanted = end - start;
                return if self.wanted > BUFFER_LEN_MAX {
                    Err(ProtocolError::InvalidBulkLength)
                } else {
                    Ok(Step::Short)
                };
            }
            spans.push(Span { start: at as u32, len: len as u32 });
            self.searched = 0;
            open.pos = end;
            open.remaining -= 1;
        }
        Ok(Step::Done(()))
    }

    /// Reads a `*` line of any length: the number and where the line ends.
    #[cold]
    fn count_line(&mut self, buf: &[u8], start: usize) -> Result<Step<(i64, usize)>, ProtocolError> {
        match self.line(buf, start, start) {
            Ok(Step::Done((line, next))) => match number::parse_i64(line.get(1..).unwrap_or_default()) {
                Some(count) => Ok(Step::Done((count, next))),
                None => Err(ProtocolError::InvalidMultibulkLength),
            },
            Ok(Step::Short) => Ok(Step::Short),
            Err(TooLong) => Err(ProtocolError::TooBigMultibulkCount),
        }
    }

    /// Reads a `$` line of any length: the number and where the line ends.
    #[cold]
    fn bulk_line(
        &mut self,
        buf: &[u8],
        start: usize,
        pos: usize,
        limits: &Limits,
    ) -> Result<Step<(i64, usize)>, ProtocolError> {
        let (line, next) = match self.line(buf, start, pos) {
            Ok(Step::Done(found)) => found,
            Ok(Step::Short) => return Ok(Step::Short),
            Err(TooLong) => return Err(ProtocolError::TooBigBulkCount),
        };
        let digits = match line.split_first() {
            Some((b'$', digits)) => digits,
            Some((&other, _)) => return Err(ProtocolError::ExpectedDollar(other)),
            None => return Err(ProtocolError::ExpectedDollar(b'\r')),
        };
        let len = number::parse_i64(digits).filter(|&len| (0..=limits.bulk_len_max).contains(&len));
        match len {
            None => Err(ProtocolError::InvalidBulkLength),
            Some(len) if len > UNAUTHENTICATED_BULK_LEN_MAX && !limits.authenticated => {
                Err(ProtocolError::UnauthenticatedBulkLength)
            }
            Some(len) if len >= BUFFER_LEN_MAX as i64 => Err(ProtocolError::InvalidBulkLength),
            Some(len) => Ok(Step::Done((len, next))),
        }
    }

    /// Reads the line at `pos`; returns it without its end, and where the next begins. Remembers how far it has searched.
    fn line<'b>(&mut self, buf: &'b [u8], start: usize, pos: usize) -> Result<Step<(&'b [u8], usize)>, TooLong> {
        let rest = buf.get(pos..).unwrap_or_default();
        let unseen = rest.get(self.searched..).unwrap_or_default();
        let Some(found) = memchr::memchr(b'\r', unseen) else {
            self.searched = rest.len();
            self.wanted = buf.len() - start + 1;
            return if rest.len() > LINE_LEN_MAX { Err(TooLong) } else { Ok(Step::Short) };
        };
        let len = self.searched + found;
        if len > LINE_LEN_MAX {
            return Err(TooLong);
        }
        if rest.len() < len + 2 {
            self.searched = len;
            self.wanted = pos + len + 2 - start;
            return Ok(Step::Short);
        }
        self.searched = 0;
        Ok(Step::Done((rest.get(..len).unwrap_or_default(), pos + len + 2)))
    }

    /// Reads the inline request at `start`.
    #[cold]
    fn inline(&mut self, buf: &[u8], start: usize, batch: &mut Batch) -> Result<Step<usize>, ProtocolError> {
        let rest = buf.get(start..).unwrap_or_default();
        inline::check(rest)?;
        let unseen = rest.get(self.searched..).unwrap_or_default();
        // To Redis the buffer is a C string here: a line that holds a zero byte never ends, until it is too long.
        let end = memchr::memchr2(b'\n', 0, unseen).unwrap_or(unseen.len());
        if unseen.get(end) != Some(&b'\n') {
            self.searched += end;
            self.wanted = rest.len() + 1;
            return if rest.len() > LINE_LEN_MAX { Err(ProtocolError::TooBigInline) } else { Ok(Step::Short) };
        }
        let len = self.searched + end;
        if len > LINE_LEN_MAX {
            return Err(ProtocolError::TooBigInline);
        }
        self.reset();
        let line = rest.get(..len).unwrap_or_default();
        let first = batch.spans.len();
        if !inline::split(line.strip_suffix(b"\r").unwrap_or(line), &mut batch.side, &mut batch.spans) {
            batch.spans.truncate(first);
            return Err(ProtocolError::UnbalancedQuotes);
        }
        if batch.spans.len() > first {
            batch.close(start, first, true);
        }
        Ok(Step::Done(start + len + 1))
    }

    fn reset(&mut self) {
        *self = Parser::default();
    }
}

/// The error of a `*` or `$` line that does not end within the limit.
struct TooLong;

/// The largest length of a buffer in bytes: spans count in 32 bits.
const BUFFER_LEN_MAX: usize = u32::MAX as usize;

/// Reads the usual beginning of a multibulk, if it has arrived whole, name included: fewer than ten arguments, of which the
/// name is the first and has fewer than ten bytes. Returns how many there are, and where the name is.
#[inline(always)]
fn quick_head(buf: &[u8], start: usize, limits: &Limits) -> Option<(u32, Span)> {
    const LINES: u64 = u64::from_le_bytes(*b"*0\r\n$0\r\n");
    const DIGITS: u64 = 0xf << 8 | 0xf << 40;
    let head = u64::from_le_bytes(*buf.get(start..)?.first_chunk()?) ^ LINES;
    let (count, len) = ((head >> 8) as u32 & 0xf, (head >> 40) as u32 & 0xf);
    let is_usual = head & !DIGITS == 0 && (1..=9).contains(&count) && len <= 9;
    let is_allowed = i64::from(count) <= limits.args_max && i64::from(len) <= limits.bulk_len_max;
    let (at, has_come) = (start + 8, start + 8 + len as usize + 2 <= buf.len());
    (is_usual && is_allowed && has_come).then_some((count, Span { start: at as u32, len }))
}

/// Reads the usual case: a marker, one or two digits, `\r\n`. `None` leaves everything else to the careful way.
#[inline(always)]
fn quick_length(buf: &[u8], pos: usize, marker: u8) -> Option<(i64, usize)> {
    let head: &[u8; 5] = buf.get(pos..)?.first_chunk()?;
    let word = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let (first, second) = (head[1].wrapping_sub(b'0'), head[2].wrapping_sub(b'0'));
    // All bytes but the digits are compared at once.
    if word & 0xffff_00ff == u32::from_le_bytes([marker, 0, b'\r', b'\n']) {
        return (first <= 9).then_some((i64::from(first), pos + 4));
    }
    let is_ended = word & 0xff00_00ff == u32::from_le_bytes([marker, 0, 0, b'\r']) && head[4] == b'\n';
    if !is_ended || !(1..=9).contains(&first) || second > 9 {
        return None;
    }
    Some((i64::from(first) * 10 + i64::from(second), pos + 5))
}
