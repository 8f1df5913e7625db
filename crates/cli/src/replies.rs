//! Counts whole replies in a stream of bytes, without decoding them.
//!
//! The load generator needs to know only how many replies have arrived and whether one of them was an error, so this
//! scanner keeps three numbers and, when a line is cut by the end of a read, the beginning of that line. It refuses to
//! keep values. Foreign bytes cannot make it allocate more than one line of 64 KiB, and nesting costs no stack because
//! only the number of frames that are still missing is kept.

pub mod info;

use std::io;

use sleeve_wire::frame::{FrameError, Scanner, speaks_tls};

/// The longest line (error text, number, header) that a reply may hold, in bytes.
const LINE_LENGTH_MAX: usize = 64 * 1024;

/// The most bytes that are kept of one reply: room for the longest string of a server, 512 MiB, and as much again.
const REPLY_BYTES_MAX: u64 = 1 << 30;

/// The message for a server that expects TLS on a port to which the tool connects without it.
const USE_TLS: &str = "this port speaks TLS: add --tls";

/// Returns the length of the reply that the buffer begins with, if it is whole.
///
/// Fails with `InvalidData` if the bytes are not RESP, and if the reply is longer, or claims to be longer, than the limit on
/// one reply.
pub fn cut(scanner: &mut Scanner, buffer: &[u8]) -> io::Result<Option<usize>> {
    let fault = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    match scanner.scan(buffer) {
        Ok(None) if scanner.length_min(buffer) > REPLY_BYTES_MAX => Err(fault(format!(
            "A reply has {} bytes or more, and no more than {REPLY_BYTES_MAX} are kept of one: ask for less at once (GETRANGE, \
             LRANGE, a SCAN)",
            scanner.length_min(buffer)
        ))),
        Err(FrameError::UnknownType(first)) if speaks_tls(first) => Err(fault(USE_TLS.to_owned())),
        outcome => outcome.map_err(|error| fault(error.to_string())),
    }
}

/// The scanner's state between reads.
#[derive(Debug)]
pub struct Replies {
    /// The bytes of the current bulk, with its line end, that have not arrived.
    skip: usize,
    /// The number of frames that are missing until the current top-level reply is whole.
    missing: u64,
    /// True if the frame is no reply but a message that the server pushes.
    is_push: bool,
    /// The beginning of a line with an end that has not arrived yet.
    line: Vec<u8>,
    first_error: Option<String>,
}

impl Default for Replies {
    fn default() -> Self {
        Self { skip: 0, missing: 1, is_push: false, line: Vec::new(), first_error: None }
    }
}

impl Replies {
    /// Returns the text of the first error reply, without its leading `-`.
    pub fn first_error(&self) -> Option<&str> {
        self.first_error.as_deref()
    }

    /// Takes the next bytes of the stream and returns the number of top-level replies that they complete.
    ///
    /// Fails with `InvalidData` if the bytes are not RESP.
    pub fn count(&mut self, mut bytes: &[u8]) -> io::Result<usize> {
        let mut complete = 0;
        while !bytes.is_empty() {
            if self.skip > 0 {
                let step = self.skip.min(bytes.len());
                self.skip -= step;
                bytes = bytes.get(step..).unwrap_or_default();
                if self.skip > 0 {
                    break;
                }
                complete += self.frame_done();
                continue;
            }
            let Some(end) = memchr::memchr(b'\n', bytes) else {
                self.keep_line(bytes)?;
                break;
            };
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            if self.line.is_empty() {
                complete += self.take_line(line)?;
            } else {
                self.keep_line(line)?;
                let whole = std::mem::take(&mut self.line);
                complete += self.take_line(&whole)?;
            }
        }
        Ok(complete)
    }

    fn keep_line(&mut self, part: &[u8]) -> io::Result<()> {
        if self.line.is_empty() && part.first().is_some_and(|first| speaks_tls(*first)) {
            return Err(invalid(USE_TLS));
        }
        if self.line.len() + part.len() > LINE_LENGTH_MAX {
            return Err(invalid("reply line is too long"));
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn frame_done(&mut self) -> usize {
        self.missing -= 1;
        if self.missing == 0 {
            self.missing = 1;
            return usize::from(!std::mem::take(&mut self.is_push));
        }
        0
    }

    fn take_line(&mut self, line: &[u8]) -> io::Result<usize> {
        let Some((kind, rest)) = line.split_first() else {
            return Err(invalid("empty reply line"));
        };
        match kind {
            b'+' | b':' | b',' | b'#' | b'_' | b'(' => Ok(self.frame_done()),
            b'-' => {
                if self.first_error.is_none() {
                    self.first_error = Some(String::from_utf8_lossy(rest).trim_end().to_owned());
                }
                Ok(self.frame_done())
            }
            b'$' | b'=' | b'!' => match length(rest)? {
                None => Ok(self.frame_done()),
                Some(length) => {
                    self.skip = usize::try_from(length).map_err(|_| invalid("bulk is too long"))?.saturating_add(2);
                    Ok(0)
                }
            },
            b'>' if self.missing == 1 => {
                self.is_push = true;
                self.take_aggregate(length(rest)?, 1, false)
            }
            b'*' | b'~' | b'>' => self.take_aggregate(length(rest)?, 1, false),
            b'%' => self.take_aggregate(length(rest)?, 2, false),
            b'|' => self.take_aggregate(length(rest)?, 2, true),
            _ if speaks_tls(*kind) => Err(invalid(USE_TLS)),
            _ => Err(invalid("unknown reply type")),
        }
    }

    /// Adds the frames of an aggregate; an attribute is followed by the reply that it describes.
    fn take_aggregate(&mut self, count: Option<u64>, frames_each: u64, attribute: bool) -> io::Result<usize> {
        let more = count.unwrap_or(0).checked_mul(frames_each).and_then(|more| more.checked_add(self.missing));
        self.missing = more.ok_or_else(|| invalid("reply has too many elements"))?;
        Ok(if attribute { 0 } else { self.frame_done() })
    }
}

/// Returns the length of a bulk or aggregate; `None` is the null of RESP2.
fn length(line: &[u8]) -> io::Result<Option<u64>> {
    let digits = line.strip_suffix(b"\r\n").ok_or_else(|| invalid("reply line without CRLF"))?;
    if digits == b"-1" {
        return Ok(None);
    }
    let mut value: u64 = 0;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return Err(invalid("reply length is not a number"));
        }
        value = value.checked_mul(10).and_then(|v| v.checked_add(digit.into())).ok_or_else(|| invalid("too long"))?;
    }
    if digits.is_empty() { Err(invalid("reply length is missing")) } else { Ok(Some(value)) }
}

fn invalid(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("Protocol error: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b"+OK\r\n$-1\r\n$5\r\nab\r\nc\r\n*2\r\n:1\r\n*1\r\n$0\r\n\r\n-ERR no\r\n%1\r\n+a\r\n,1.5\r\n|1\r\n+k\r\n+v\r\n\
        :7\r\n*0\r\n*-1\r\n>2\r\n+invalidate\r\n*1\r\n+k\r\n_\r\n";

    #[test]
    fn counts_whole_replies() {
        let mut replies = Replies::default();
        assert_eq!(replies.count(STREAM).unwrap(), 10);
        assert_eq!(replies.first_error(), Some("ERR no"));
    }

    #[test]
    fn counts_the_same_when_cut_anywhere() {
        for cut in 0..STREAM.len() {
            let mut replies = Replies::default();
            let (head, tail) = STREAM.split_at(cut);
            assert_eq!(replies.count(head).unwrap() + replies.count(tail).unwrap(), 10, "cut at {cut}");
        }
        let mut replies = Replies::default();
        let total: usize = STREAM.iter().map(|byte| replies.count(&[*byte]).unwrap()).sum();
        assert_eq!(total, 10);
    }

    #[test]
    fn refuses_bytes_that_are_not_resp() {
        for bad in [&b"hello\r\n"[..], b"$x\r\n", b"$\r\n", b"*99999999999999999999\r\n", b"\n"] {
            assert!(Replies::default().count(bad).is_err());
        }
        assert!(Replies::default().count(&vec![b'+'; LINE_LENGTH_MAX + 1]).is_err());
    }
}
