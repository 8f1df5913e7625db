//! The answer to one command, as it lies in its slot until the caller takes it, and in a cache.
//!
//! Most replies are short and lie in the slot itself, so that they cost no memory of their own. A longer one that several
//! callers have, or a cache as well, is one shared copy. The content of a bulk string may lie without its frame, if the code
//! that cut it off has read the frame already. Nothing is decoded here. Pure data; any thread.

use std::sync::Arc;

use sleeve_wire::frame::{self, Frame, short_bulk};

use crate::error::Error;
use crate::values::decode::owned::whole;

/// The longest reply, in bytes, that is kept in the slot itself: of a bulk string only the text counts, of any other reply
/// the whole frame.
const INLINE_LENGTH_MAX: usize = 30;

/// The answer to one command. Cloning a short or shared one is cheap.
#[derive(Clone)]
pub(crate) enum Payload {
    /// A reply of `length` bytes, kept in the payload itself.
    Short { length: u8, bytes: [u8; INLINE_LENGTH_MAX] },
    /// A reply that is a bulk string of `length` bytes, without its frame: the code that cut it off has read the frame.
    Text { length: u8, bytes: [u8; INLINE_LENGTH_MAX] },
    /// A reply of more than `INLINE_LENGTH_MAX` bytes.
    Long(Box<[u8]>),
    /// A reply of more than `INLINE_LENGTH_MAX` bytes that may have other owners.
    Shared(Arc<[u8]>),
    /// A bulk string of more than `INLINE_LENGTH_MAX` bytes, without its frame, that may have other owners.
    SharedText(Arc<[u8]>),
    /// The error because of which there is no reply.
    Failed(Error),
}

impl Payload {
    /// Keeps the bytes of one frame.
    #[inline]
    pub(crate) fn of(frame: &[u8]) -> Self {
        let head = short_bulk(frame).map_or(0, |(head, _)| head);
        Self::short(frame, head).unwrap_or_else(|| Self::Long(frame.into()))
    }

    /// Keeps the bytes of one frame in the payload itself, if they are short enough. `head` is the number of bytes in front
    /// of the text of a bulk string; 0 for any other frame.
    #[inline]
    pub(crate) fn short(frame: &[u8], head: usize) -> Option<Self> {
        let mut bytes = [0; INLINE_LENGTH_MAX];
        if head > 0 {
            let text = frame.get(head..frame.len().saturating_sub(2))?;
            bytes.get_mut(..text.len())?.copy_from_slice(text);
            return Some(Self::Text { length: text.len() as u8, bytes });
        }
        bytes.get_mut(..frame.len())?.copy_from_slice(frame);
        Some(Self::Short { length: frame.len() as u8, bytes })
    }

    /// Keeps the bytes of one frame so that it can have several owners.
    pub(crate) fn shared(frame: &[u8]) -> Self {
        let head = short_bulk(frame).map_or(0, |(head, _)| head);
        Self::short(frame, head).unwrap_or_else(|| match frame::decode(frame) {
            Ok((Frame::Bulk(text), _)) => Self::SharedText(text.into()),
            _ => Self::Shared(frame.into()),
        })
    }

    /// Returns the number of bytes that the payload takes outside of itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Short { .. } | Self::Text { .. } | Self::Failed(_) => 0,
            Self::Long(bytes) => bytes.len(),
            Self::Shared(bytes) | Self::SharedText(bytes) => bytes.len(),
        }
    }

    /// Returns the reply as a frame.
    #[inline]
    pub(crate) fn frame(&self) -> Result<Frame<'_>, Error> {
        match self {
            Self::Text { length, bytes } => Ok(Frame::Bulk(bytes.get(..usize::from(*length)).unwrap_or_default())),
            _ => self.decoded(),
        }
    }

    /// Returns a reply other than a short string as a frame.
    fn decoded(&self) -> Result<Frame<'_>, Error> {
        match self {
            Self::Text { length, bytes } => Ok(Frame::Bulk(bytes.get(..usize::from(*length)).unwrap_or_default())),
            Self::Short { length, bytes } => whole(bytes.get(..usize::from(*length)).unwrap_or_default()),
            Self::Long(bytes) => whole(bytes),
            Self::SharedText(text) => Ok(Frame::Bulk(text)),
            Self::Shared(bytes) => whole(bytes),
            Self::Failed(error) => Err(error.clone()),
        }
    }

    /// Returns the bytes of the reply as they arrived. A string that is kept without its frame, and an error without a reply,
    /// have none.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Self::Long(bytes) => bytes,
            Self::Shared(bytes) => bytes,
            Self::Text { .. } | Self::SharedText(_) | Self::Failed(_) => &[],
        }
    }

    /// Returns the error that the payload is, if it is one.
    pub(crate) fn into_error(self) -> Option<Error> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Text { .. } | Self::SharedText(_) => None,
            Self::Short { bytes, .. } if bytes.first() != Some(&b'-') && bytes.first() != Some(&b'!') => None,
            payload => payload.frame().err(),
        }
    }
}
