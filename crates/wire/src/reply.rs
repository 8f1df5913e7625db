//! Writing replies: values to bytes, in RESP2 or RESP3.
//!
//! A [`Writer`] appends to a buffer of the caller and knows the peer's protocol. A command names the meaning (`map`,
//! `double`, `null`) and the writer chooses the form. There is no tree of values: an aggregate is its header, followed by its
//! elements. The writer does not check that as many elements follow as were announced. The text of errors and of simple
//! strings is one line by construction: line ends in it become spaces. A writer borrows its buffer; one thread.

use crate::frame::LINE_LENGTH_MAX;
use crate::number;

/// The protocol that a peer has chosen with HELLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, where every connection begins.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
}

/// Writes replies to the end of a buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    /// The buffer to which the replies are appended.
    pub out: &'a mut Vec<u8>,
    /// The protocol that the peer reads.
    pub protocol: Protocol,
    /// The length in bytes from which `out` is full. A command that writes many elements may then leave out the rest, because
    /// the client is closed and never reads it.
    pub len_max: usize,
}

impl<'a> Writer<'a> {
    /// Returns a writer to the end of `out`.
    #[inline]
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Writer<'a> {
        Writer { out, protocol, len_max: usize::MAX }
    }

    /// Returns a writer to the end of `out`, which is full from `len_max` bytes on; see [`Writer::is_full`].
    #[inline]
    pub fn bounded(out: &'a mut Vec<u8>, protocol: Protocol, len_max: usize) -> Writer<'a> {
        Writer { out, protocol, len_max }
    }

    /// Returns whether `out` has more bytes than the peer may be owed. The writer itself goes on writing; once elements are
    /// left out, the bytes are worthless.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.out.len() >= self.len_max
    }

    #[inline]
    fn resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    /// Writes `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// Writes `+PONG`.
    #[inline]
    pub fn pong(&mut self) {
        self.out.extend_from_slice(b"+PONG\r\n");
    }

    /// Writes `+QUEUED`.
    #[inline]
    pub fn queued(&mut self) {
        self.out.extend_from_slice(b"+QUEUED\r\n");
    }

    /// Writes a simple string (`+text`).
    #[inline]
    pub fn simple(&mut self, text: &str) {
        self.out.push(b'+');
        self.push_line(text.as_bytes());
    }

    /// Writes an error (`-text`): the code first, as in `ERR syntax error`.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        self.out.push(b'-');
        self.push_line(text.as_ref());
    }

    /// Appends the text of a line without bytes that would end it early, cut at the length that readers of lines must accept.
    fn push_line(&mut self, text: &[u8]) {
        let start = self.out.len();
        let text = text.get(..LINE_LENGTH_MAX).unwrap_or(text);
        self.out.extend_from_slice(text);
        if memchr::memchr2(b'\r', b'\n', text).is_some() {
            let line = self.out.get_mut(start..).unwrap_or_default();
            line.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
        }
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes an integer (`:n`).
    #[inline]
    pub fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    /// Writes a bulk string.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.bulk_header(bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes several bulk strings.
    #[inline]
    pub fn bulks(&mut self, all: &[&[u8]]) {
        all.iter().for_each(|bytes| self.bulk(bytes));
    }

    /// Writes the head of a bulk string of `len` bytes; the caller adds the bytes and `\r\n` ([`Writer::bulk_end`]).
    #[inline]
    pub fn bulk_header(&mut self, len: usize) {
        self.header(b'$', len as i64);
    }

    /// Writes the line end after the bytes of a bulk string.
    #[inline]
    pub fn bulk_end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes an integer as a bulk string.
    #[inline]
    pub fn bulk_integer(&mut self, value: i64) {
        self.bulk(number::Digits::new(value).as_bytes());
    }

    /// Writes a double as a bulk string in either protocol.
    pub fn bulk_double(&mut self, value: f64) {
        let mut text = Vec::with_capacity(24);
        number::push_f64(&mut text, value);
        self.bulk(&text);
    }

    /// Writes a double: `,n` in RESP3, a bulk string in RESP2.
    pub fn double(&mut self, value: f64) {
        if self.resp3() {
            self.out.push(b',');
            number::push_f64(self.out, value);
            self.out.extend_from_slice(b"\r\n");
        } else {
            self.bulk_double(value);
        }
    }

    /// Writes a double that is more exact than 64 bits, given in decimal: `,n` in RESP3, a bulk string in RESP2.
    pub fn double_text(&mut self, text: &[u8]) {
        if self.resp3() {
            self.out.push(b',');
            self.push_line(text);
        } else {
            self.bulk(text);
        }
    }

    /// Writes an integer beyond 64 bits, given in decimal: `(n` in RESP3, a bulk string in RESP2.
    pub fn big_number(&mut self, digits: &str) {
        if self.resp3() {
            self.out.push(b'(');
            self.push_line(digits.as_bytes());
        } else {
            self.bulk(digits.as_bytes());
        }
    }

    /// Writes null: `_` in RESP3, the null bulk string in RESP2.
    #[inline]
    pub fn null(&mut self) {
        self.out.extend_from_slice(if self.resp3() { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Writes a null array: `_` in RESP3, the null array in RESP2.
    #[inline]
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(if self.resp3() { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// Writes a bulk string, or null if there is none.
    #[inline]
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Writes the head of an array of `len` elements.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len as i64);
    }

    /// Writes the head of a map of `len` pairs; in RESP2, of an array of twice as many elements.
    #[inline]
    pub fn map(&mut self, len: usize) {
        if self.resp3() { self.header(b'%', len as i64) } else { self.header(b'*', 2 * len as i64) }
    }

    /// Writes the head of a set of `len` elements; in RESP2, of an array.
    #[inline]
    pub fn set(&mut self, len: usize) {
        self.header(if self.resp3() { b'~' } else { b'*' }, len as i64);
    }

    /// Writes the head of a push message of `len` elements; in RESP2, of an array.
    #[inline]
    pub fn push(&mut self, len: usize) {
        self.header(if self.resp3() { b'>' } else { b'*' }, len as i64);
    }

    /// Appends the head of an attribute of `len` pairs, which precedes the reply that it describes. RESP3 only: to RESP2
    /// nothing may be sent, and this returns false.
    pub fn attribute(&mut self, len: usize) -> bool {
        if self.resp3() {
            self.header(b'|', len as i64);
        }
        self.resp3()
    }

    /// Writes a boolean: `#t`/`#f` in RESP3, 1 or 0 in RESP2.
    #[inline]
    pub fn boolean(&mut self, value: bool) {
        match (self.protocol, value) {
            (Protocol::Resp3, true) => self.out.extend_from_slice(b"#t\r\n"),
            (Protocol::Resp3, false) => self.out.extend_from_slice(b"#f\r\n"),
            (Protocol::Resp2, value) => self.integer(i64::from(value)),
        }
    }

    /// Writes text with its format (three letters: `txt`, `mkd`): `=` in RESP3, a bulk string in RESP2.
    pub fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        if !self.resp3() {
            return self.bulk(text);
        }
        self.header(b'=', text.len() as i64 + 4);
        self.out.extend_from_slice(format);
        self.out.push(b':');
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn header(&mut self, marker: u8, value: i64) {
        match value {
            0..10 => self.out.extend_from_slice(&[marker, b'0' + value as u8, b'\r', b'\n']),
            10..100 => {
                let (tens, ones) = (value as u8 / 10, value as u8 % 10);
                self.out.extend_from_slice(&[marker, b'0' + tens, b'0' + ones, b'\r', b'\n']);
            }
            _ => self.long_header(marker, value),
        }
    }

    /// Appends a line with a marker and a number. It is built backwards in a buffer, so that it is copied once.
    fn long_header(&mut self, marker: u8, value: i64) {
        const LINE_LEN_MAX: usize = number::INTEGER_LEN_MAX + 3;
        let mut line = [0; LINE_LEN_MAX];
        line[LINE_LEN_MAX - 2] = b'\r';
        line[LINE_LEN_MAX - 1] = b'\n';
        let start = number::write_before(&mut line, LINE_LEN_MAX - 2, value) - 1;
        line[start] = marker;
        self.out.extend_from_slice(line.get(start..).unwrap_or_default());
    }
}
