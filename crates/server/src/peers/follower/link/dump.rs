//! The dump before the stream. It consists of a stated number of bytes, or of all bytes up to a mark, which the primary
//! chooses at random.
//!
//! With a mark, only the last bytes are kept, because they may be the beginning of the mark.

use sleeve_wire::number;

use super::error::LinkError;

/// The length of a mark in bytes.
const MARK_BYTES: usize = 40;

/// The size of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// The number of bytes.
    Bytes(u64),
    /// The primary makes the dump while it sends it; a mark ends it.
    Unknown,
}

/// A dump that is arriving.
#[derive(Debug)]
pub enum Dump {
    /// The number of bytes that are still to arrive.
    Counted(u64),
    /// The dump ends at a mark.
    Marked {
        /// The mark.
        mark: [u8; MARK_BYTES],
        /// The last received bytes: those that the last call returned, followed by those that may be a part of the mark.
        held: Vec<u8>,
        /// The number of bytes of `held` that the last call returned.
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

    /// Returns the size of the dump.
    pub fn size(&self) -> Size {
        match self {
            Self::Counted(bytes) => Size::Bytes(*bytes),
            Self::Marked { .. } => Size::Unknown,
        }
    }

    /// Returns whether the dump has arrived completely.
    pub fn is_whole(&self) -> bool {
        match self {
            Self::Counted(left) => *left == 0,
            Self::Marked { is_over, .. } => *is_over,
        }
    }

    /// Takes received bytes, up to the end of the dump. Returns their number, and the bytes of the dump that are now known to
    /// belong to it, some of them from earlier calls.
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
                // Keep the last bytes: the mark may begin in them and continue in the next bytes.
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
