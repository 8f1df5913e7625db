//! A server that takes no writes any more, where there may be another that does.
//!
//! One that was made a replica says READONLY. Where the server is always at one place, that is the caller's to hear and nobody
//! else's; where Sentinels say where the primary is, the connection is at an end, and they are asked again. Commands that wait
//! for their answers on it are lost with it.

use super::Link;
use super::reader::Cause;
use crate::pipe::reply_reader::Witness;

/// What a replica says behind its code.
const READ_ONLY: &[u8] = b"write against a read only";

impl Witness for Link {
    fn refused(&self, error: &[u8]) {
        // A script may begin its own errors as it likes.
        let turns_away = error.windows(READ_ONLY.len()).any(|words| words == READ_ONLY);
        if error.starts_with(b"READONLY ") && turns_away {
            self.report(Cause::Broken("the server takes no writes any more, so another is the primary".to_owned()));
        }
    }
}
