//! The answer to one command, as it lies in its slot until the caller takes it, and in a cache.
//!
//! Most replies are short and lie in the slot itself, so that they cost no memory of their own. A longer one that several
//! callers have, or a cache as well, is one shared copy. The content of a bulk string may lie without its frame, if the code
//! that cut it off has read the frame already. Nothing is decoded here. Pure data; any thread.

use std::sync::Arc;

use sleeve_wire::frame::{self, Frame, short_bulk};

use crate::error::Error;
use crate::values::decode::owned::whole;

/// The longest reply, in bytes, that needs no memory of its own: with its frame, but where it is a bulk string.
const INLINE_LENGTH_MAX: usize = 30;

/// The answer to one command. To clone one that is short or shared costs next to nothing.
#[derive(Clone)]
pub(crate) enum Payload {
    /// A reply of `length` bytes.
    Short { length: u8, bytes: [u8; INLINE_LENGTH_MAX] },
    /// A reply that is a bulk string of `length` bytes, without its frame: the code that cut it off has read the frame.
    Text { length: u8, bytes: [u8; INLINE_LENGTH_MAX] },
    /// A longer reply.
    Long(Box<[u8]>),
    /// A longer reply that others may have too.
    Shared(Arc<[u8]>),
    /// A longer bulk string, without its frame, that others may have too.
    SharedText(Arc<[u8]>),
    /// There is no reply.
    Failed(Error),
}

impl Payload {
    /// Keeps the bytes of one frame.
    #[inline]
    pub(crate) fn of(frame: &[u8]) -> Self {
        let head = short_bulk(frame).map_or(0, |(head, _)| head);
        Self::short(frame, head).unwrap_or_else(|| Self::Long(frame.into()))
    }

    /// Keeps the bytes of one frame, if they need no memory of their own. Where it is a bulk string, so many bytes stand in
    /// front of its text; otherwise none do.
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

    /// Keeps the bytes of one frame so that many may have them.
    pub(crate) fn shared(frame: &[u8]) -> Self {
        let head = short_bulk(frame).map_or(0, |(head, _)| head);
        Self::short(frame, head).unwrap_or_else(|| match frame::decode(frame) {
            Ok((Frame::Bulk(text), _)) => Self::SharedText(text.into()),
            _ => Self::Shared(frame.into()),
        })
    }

    /// Bytes that it takes beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Short { .. } | Self::Text { .. } | Self::Failed(_) => 0,
            Self::Long(bytes) => bytes.len(),
            Self::Shared(bytes) | Self::SharedText(bytes) => bytes.len(),
        }
    }

    /// Returns the reply itself.
    #[inline]
    pub(crate) fn frame(&self) -> Result<Frame<'_>, Error> {
        match self {
            Self::Text { length, bytes } => Ok(Frame::Bulk(bytes.get(..usize::from(*length)).unwrap_or_default())),
            Self::Short { length, bytes } => whole(bytes.get(..usize::from(*length)).unwrap_or_default()),
            Self::Long(bytes) => whole(bytes),
            Self::SharedText(text) => Ok(Frame::Bulk(text)),
            Self::Shared(bytes) => whole(bytes),
            Self::Failed(error) => Err(error.clone()),
        }
    }

    /// Returns the bytes of the reply as they arrived: of every kind but a string without its frame, and of none if there is
    /// no reply.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Self::Long(bytes) => bytes,
            Self::Shared(bytes) => bytes,
            Self::Text { .. } | Self::SharedText(_) | Self::Failed(_) => &[],
        }
    }

    /// Returns the error that this is, if it is one.
    pub(crate) fn into_error(self) -> Option<Error> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Text { .. } | Self::SharedText(_) => None,
            Self::Short { bytes, .. } if bytes.first() != Some(&b'-') && bytes.first() != Some(&b'!') => None,
            payload => payload.frame().err(),
        }
    }
}
