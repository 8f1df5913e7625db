//! What a slot holds when it is answered: the bytes of one reply, or why there are none.
//!
//! Most replies are short, so they are kept inside the slot; longer ones are copied once into memory of their own size,
//! which keeps a small reply from holding on to a large read buffer; a very long one is handed over in its buffer.
//! Decoding happens elsewhere, on the caller's thread. Pure data; any thread.

use sleeve_wire::frame::{self, Frame};

use crate::error::Error;

/// The longest reply, in bytes with its frame, that needs no memory of its own. A bulk string of 22 bytes fits.
const INLINE_LENGTH_MAX: usize = 30;

/// The answer to one command.
pub(crate) enum Payload {
    /// A reply of `length` bytes.
    Short { length: u8, bytes: [u8; INLINE_LENGTH_MAX] },
    /// A longer reply.
    Long(Box<[u8]>),
    /// There is no reply.
    Failed(Error),
}

impl Payload {
    /// Keeps the bytes of one frame.
    #[inline]
    pub(crate) fn of(frame: &[u8]) -> Self {
        Self::short(frame).unwrap_or_else(|| Self::Long(frame.into()))
    }

    /// Keeps the bytes of one frame, if they need no memory of their own.
    #[inline]
    pub(crate) fn short(frame: &[u8]) -> Option<Self> {
        let mut bytes = [0; INLINE_LENGTH_MAX];
        bytes.get_mut(..frame.len())?.copy_from_slice(frame);
        Some(Self::Short { length: frame.len() as u8, bytes })
    }

    /// The reply itself.
    pub(crate) fn frame(&self) -> Result<Frame<'_>, Error> {
        let bytes = match self {
            Self::Short { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Self::Long(bytes) => bytes,
            Self::Failed(error) => return Err(error.clone()),
        };
        match frame::decode(bytes) {
            Ok((Frame::Error(text), _)) => Err(Error::server(text)),
            Ok((frame, _)) => Ok(frame),
            Err(error) => Err(Error::protocol(error)),
        }
    }

    /// The error that this is, if it is one.
    pub(crate) fn into_error(self) -> Option<Error> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Short { bytes, .. } if bytes.first() != Some(&b'-') && bytes.first() != Some(&b'!') => None,
            payload => payload.frame().err(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_replies_read_back() {
        for length in [0usize, 1, 21, 22, 23, 24, 5000] {
            let text = vec![b'x'; length];
            let mut frame = format!("${length}\r\n").into_bytes();
            frame.extend_from_slice(&text);
            frame.extend_from_slice(b"\r\n");
            assert_eq!(Payload::of(&frame).frame(), Ok(Frame::Bulk(&text)));
        }
    }

    #[test]
    fn an_error_reply_is_an_error() {
        let error = Payload::of(b"-WRONGTYPE no\r\n").into_error().unwrap();
        assert_eq!(error.code(), Some("WRONGTYPE"));
        assert!(Payload::of(b"+OK\r\n").into_error().is_none());
    }

    #[test]
    fn a_payload_takes_half_a_cache_line() {
        assert_eq!(size_of::<Payload>(), 32);
    }
}
