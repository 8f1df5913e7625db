//! The dump in front of the stream: a stated number of bytes, or all bytes before a random mark of the primary.
//!
//! Only the last bytes of it are kept, because they may be the beginning of the mark.

use sleeve_wire::number;

use super::error::LinkError;

/// Bytes of a mark.
const MARK_BYTES: usize = 40;

/// The size of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// The number of bytes.
    Bytes(u64),
    /// The dump is being made while it is sent; a mark ends it.
    Unknown,
}

/// A dump that is coming.
#[derive(Debug)]
pub enum Dump {
    /// The number of bytes that are still to arrive.
    Counted(u64),
    /// All bytes before the mark.
    Marked {
        /// The mark.
        mark: [u8; MARK_BYTES],
        /// The last bytes: those that were given out, and behind them those that may be a part of the mark.
        held: Vec<u8>,
        /// Bytes of it that were given out.
        given: usize,
        /// The mark has arrived.
        is_over: bool,
    },
}

impl Dump {
    /// Reads the line in front of a dump.
    ///
    /// # Errors
    /// The line does not announce a dump.
    pub fn begin(line: &[u8]) -> Result<Self, LinkError> {
        let shown = || line.escape_ascii().to_string();
        if line.starts_with(b"-") {
            return Err(LinkError::passing(format!("it has given the synchronization up: {}", shown())));
        }
        if let Some(mark) = line.strip_prefix(b"$EOF:") {
            let mark = mark.try_into().map_err(|_| {
                LinkError::foreign(format!(
                    "the mark that is to end its dump does not have {MARK_BYTES} bytes: '{}'",
                    shown()
                ))
            })?;
            return Ok(Self::Marked { mark, held: Vec::new(), given: 0, is_over: false });
        }
        let bytes = line.strip_prefix(b"$").and_then(number::parse_i64).and_then(|bytes| u64::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| LinkError::foreign(format!("no dump begins with '{}'", shown())))?;
        Ok(Self::Counted(bytes))
    }

    /// Returns how large it is.
    pub fn size(&self) -> Size {
        match self {
            Self::Counted(bytes) => Size::Bytes(*bytes),
            Self::Marked { .. } => Size::Unknown,
        }
    }

    /// Returns whether all of it has arrived.
    pub fn is_whole(&self) -> bool {
        match self {
            Self::Counted(left) => *left == 0,
            Self::Marked { is_over, .. } => *is_over,
        }
    }

    /// Takes received bytes, up to the dump's end. Returns their number, and the dump's own bytes among them and before.
    pub fn receive<'b>(&'b mut self, bytes: &'b [u8]) -> (usize, &'b [u8]) {
        match self {
            Self::Counted(left) => {
                let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                (taken, bytes.get(..taken).unwrap_or_default())
            }
            Self::Marked { mark, held, given, is_over } => {
                held.drain(..*given);
                held.extend_from_slice(bytes);
                let mut used = bytes.len();
                // Bytes that look like the beginning of the mark may go on with the next bytes.
                *given = held.len().saturating_sub(MARK_BYTES - 1);
                if let Some(at) = memchr::memmem::find(held, mark) {
                    *is_over = true;
                    used -= held.len() - (at + MARK_BYTES);
                    *given = at;
                }
                (used, held.get(..*given).unwrap_or_default())
            }
        }
    }
}
