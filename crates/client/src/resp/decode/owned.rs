//! Values from the memory of a reply that has no other owner.
//!
//! A string that is a whole reply takes over the reply's memory. `Bytes` share it: they are parts of it at any place, in
//! lists, maps and derived structs. While such a reply is read, this thread knows its memory, and a string within that memory
//! becomes a part of it. A type that cannot hold any `Bytes` says so at compile time (`FromReply::MAY_SHARE`), and its
//! replies are read without that step.
//!
//! Pure functions, except for the thread's note of that memory; any thread.

use std::cell::Cell;

use bytes::Bytes;
use sleeve_wire::frame::{self, Frame};

use crate::error::Error;

thread_local! {
    /// The memory of the reply that is being read.
    static LENT: Cell<Option<Bytes>> = const { Cell::new(None) };
}

/// Returns the frame of the bytes of a whole reply.
pub(crate) fn whole(reply: &[u8]) -> Result<Frame<'_>, Error> {
    match frame::decode_whole(reply) {
        Ok(Frame::Error(text)) => Err(Error::server(text)),
        Ok(frame) => Ok(frame),
        Err(error) => Err(Error::protocol(error)),
    }
}

/// Returns the text of a reply that is one string, in the reply's memory; otherwise the reply itself.
pub(super) fn text(reply: Box<[u8]>) -> Result<Vec<u8>, Box<[u8]>> {
    let length = match frame::decode(&reply) {
        Ok((Frame::Bulk(text), _)) => text.len(),
        _ => return Err(reply),
    };
    let mut bytes = reply.into_vec();
    // The text is followed by the end of the line, which is cut off.
    bytes.truncate(bytes.len().saturating_sub(2));
    bytes.drain(..bytes.len().saturating_sub(length));
    Ok(bytes)
}

/// Returns these bytes as a part of the reply that is being read, or a copy if they lie elsewhere.
pub(super) fn part(text: &[u8]) -> Bytes {
    let lent = LENT.take();
    let part = lent.as_ref().and_then(|reply| {
        let start = text.as_ptr().addr().checked_sub(reply.as_ptr().addr())?;
        (start + text.len() <= reply.len()).then(|| reply.slice(start..start + text.len()))
    });
    LENT.set(lent);
    part.unwrap_or_else(|| Bytes::copy_from_slice(text))
}

/// Reads a reply with this function, with its memory lent to `part`.
pub(super) fn lend<T>(reply: Box<[u8]>, read: fn(Frame<'_>) -> Result<T, Error>) -> Result<T, Error> {
    let reply = Bytes::from(reply);
    // The reading function may wait for another reply, and it may panic.
    let _outer = Outer(LENT.replace(Some(reply.clone())));
    read(whole(&reply)?)
}

/// A guard that restores the memory that was lent before.
struct Outer(Option<Bytes>);

impl Drop for Outer {
    fn drop(&mut self) {
        LENT.set(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::FromReply;

    /// Returns whether these bytes lie in the memory that the reply had.
    fn is_within(reply: &std::ops::Range<*const u8>, bytes: &[u8]) -> bool {
        let ends = bytes.as_ptr_range();
        reply.start <= ends.start && ends.end <= reply.end
    }

    fn reply(text: &str) -> (Box<[u8]>, std::ops::Range<*const u8>) {
        let reply: Box<[u8]> = text.as_bytes().into();
        let memory = reply.as_ptr_range();
        (reply, memory)
    }

    #[test]
    fn a_string_that_is_the_whole_reply_takes_its_memory() {
        let read = || reply("$5\r\nhello\r\n");
        let (owned, memory) = read();
        assert!(Vec::<u8>::from_owned(owned).is_ok_and(|text| text == b"hello" && is_within(&memory, &text)));
        let (owned, memory) = read();
        assert!(String::from_owned(owned).is_ok_and(|text| text == "hello" && is_within(&memory, text.as_bytes())));
        let (owned, memory) = read();
        assert!(
            Option::<Bytes>::from_owned(owned).is_ok_and(|text| text.is_some_and(|text| is_within(&memory, &text)))
        );
        let invalid = String::from_owned((*b"$1\r\n\xff\r\n").into()).unwrap_err();
        assert!(invalid.message().starts_with("expected a string of UTF-8"), "{invalid}");
    }

    #[test]
    fn bytes_are_parts_of_the_reply_wherever_they_stand() {
        let (owned, memory) = reply("*3\r\n$2\r\nab\r\n$-1\r\n$1\r\nc\r\n");
        let values = Vec::<Option<Bytes>>::from_owned(owned).unwrap();
        assert_eq!(values, [Some(Bytes::from_static(b"ab")), None, Some(Bytes::from_static(b"c"))]);
        assert!(values.iter().flatten().all(|value| is_within(&memory, value)));
        let (owned, memory) = reply("%1\r\n+name\r\n$2\r\nab\r\n");
        let fields = HashMap::<String, Bytes>::from_owned(owned).unwrap();
        assert!(fields["name"] == "ab" && is_within(&memory, &fields["name"]));
        assert!(LENT.take().is_none());
    }

    #[test]
    fn what_is_no_text_is_read_as_before() {
        assert_eq!(Vec::<u8>::from_owned((*b":7\r\n").into()), Ok(b"7".to_vec()));
        assert_eq!(Bytes::from_owned((*b":7\r\n").into()), Ok(Bytes::from_static(b"7")));
        assert_eq!(Option::<Bytes>::from_owned((*b"$-1\r\n").into()), Ok(None));
        assert_eq!(Bytes::from_reply(Frame::Bulk(b"ab")), Ok(Bytes::from_static(b"ab")));
        for wrong in [b"-ERR no\r\n".as_slice(), b"*0\r\n"] {
            assert!(Bytes::from_owned(wrong.into()).is_err() && String::from_owned(wrong.into()).is_err());
        }
        assert_eq!(Vec::<i64>::from_owned((*b"*1\r\n:7\r\n").into()), Ok(vec![7]));
    }
}
