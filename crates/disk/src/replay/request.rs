//! Reading one request of an AOF: its end, and the check that it is well-formed to the byte.
//!
//! Redis's loader skips the bytes behind a number and behind an argument without looking at them; its redis-check-aof looks
//! at them. Sleeve looks at them: a server has written the AOF, so other bytes there are damage.

use std::io;

use sleeve_wire::request::{Args, Batch, Limits, Parser};

use super::damage::What;
use super::window::Window;

/// The meaning of a request to the reader of an AOF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// The beginning of a transaction.
    Multi,
    /// The end of a transaction.
    Exec,
    /// The requests behind it are for this database.
    Select(u32),
    /// Any other request.
    Other,
}

/// The memory that is used again from one request to the next.
#[derive(Debug, Default)]
pub struct Requests {
    batch: Batch,
}

impl Requests {
    /// Reads the next request into memory, whole, and returns its length and its kind. It begins with `*` and may have
    /// `limit` bytes.
    ///
    /// # Errors
    /// The outer error is a failed call to the system; the inner one says why the bytes are no request.
    pub fn next(&mut self, window: &mut Window, limit: u64) -> io::Result<Result<(usize, RequestKind), What>> {
        let mut parser = Parser::new();
        let limits = Limits { bulk_len_max: i64::MAX, requests_max: 1, ..Limits::default() };
        self.batch.clear();
        loop {
            let all = window.rest();
            let bytes = usize::try_from(limit).ok().and_then(|limit| all.get(..limit)).unwrap_or(all);
            let length = match parser.parse(bytes, &limits, &mut self.batch) {
                Ok(length) => length,
                Err(error) => return Ok(Err(What::NoRequest(error.to_string()))),
            };
            if length > 0 {
                let request = bytes.get(..length).unwrap_or_default();
                return Ok(self.judge(request).map(|kind| (length, kind)));
            }
            let have = bytes.len();
            let wanted = parser.wanted().max(have + 1);
            if wanted as u64 > limit {
                return Ok(Err(What::CutOff));
            }
            window.fill(wanted)?;
        }
    }

    fn judge(&self, request: &[u8]) -> Result<RequestKind, What> {
        if self.batch.is_empty() {
            return Err(What::NoRequest("it has no words".to_owned()));
        }
        let words = self.batch.get(0, request);
        if !is_exact(request, words) {
            return Err(What::NoRequest("a line does not end where it should".to_owned()));
        }
        Ok(kind_of(words))
    }
}

/// Calls a function with the arguments of each request in `bytes`, which holds whole requests.
///
/// # Errors
/// If the bytes are no requests.
pub fn for_each(bytes: &[u8], mut call: impl FnMut(Args<'_>)) -> Result<(), What> {
    let mut batch = Batch::new();
    let limits = Limits { bulk_len_max: i64::MAX, ..Limits::default() };
    let parsed = Parser::new().parse(bytes, &limits, &mut batch);
    let length = parsed.map_err(|error| What::NoRequest(error.to_string()))?;
    (0..batch.len()).for_each(|index| call(batch.get(index, bytes)));
    if length == bytes.len() { Ok(()) } else { Err(What::CutOff) }
}

/// Returns whether `\r\n` stands at every place where it is due: the parser of requests skips those bytes without a look.
fn is_exact(request: &[u8], words: Args<'_>) -> bool {
    let Some(first) = memchr::memchr(b'\r', request) else { return false };
    let mut at = first;
    for word in words.iter() {
        // `\r\n$`, digits, `\r\n`, the word: then the next `\r\n` is due.
        let head = request.get(at..).unwrap_or_default();
        let Some(line) = head.strip_prefix(b"\r\n$") else { return false };
        let Some(digits) = memchr::memchr(b'\r', line) else { return false };
        if line.get(digits + 1) != Some(&b'\n') {
            return false;
        }
        at += 3 + digits + 2 + word.len();
    }
    request.get(at..) == Some(b"\r\n".as_slice())
}

fn kind_of(words: Args<'_>) -> RequestKind {
    let Some(name) = words.get(0) else { return RequestKind::Other };
    match name.len() {
        4 if name.eq_ignore_ascii_case(b"exec") => RequestKind::Exec,
        5 if name.eq_ignore_ascii_case(b"multi") => RequestKind::Multi,
        6 if name.eq_ignore_ascii_case(b"select") => {
            let number =
                words.get(1).and_then(|text| std::str::from_utf8(text).ok()).and_then(|text| text.parse().ok());
            number.map_or(RequestKind::Other, RequestKind::Select)
        }
        _ => RequestKind::Other,
    }
}
