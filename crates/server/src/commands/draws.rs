//! The limit on the reply to a command that draws elements with repetitions, such as SRANDMEMBER with a negative count. The
//! client chooses the count, and the size of the collection does not bound it; so the length of the reply is checked before
//! the reply is built.

use crate::request::error::{Error, Outcome};

/// The longest reply, in bytes: as long as the longest string.
const REPLY_BYTES_MAX: usize = 512 * 1024 * 1024;

/// The bytes of the shortest element in a reply: `$0` and two line ends.
const ELEMENT_BYTES_MIN: usize = 6;

const TOO_LONG: Error = Error::fixed("ERR value is out of range, the reply would be longer than 512 MiB");

/// Checks the reply to `count` draws from `elements` elements. `bytes` sums up the bytes of all elements; it is called only
/// if that is no more work than the draws themselves.
///
/// # Errors
/// The reply would be too long.
pub fn judge(count: usize, elements: usize, bytes: impl FnOnce() -> usize) -> Outcome {
    if count > REPLY_BYTES_MAX / ELEMENT_BYTES_MIN {
        return Err(TOO_LONG);
    }
    if count >= elements && elements != 0 {
        let expected = count as u128 * (bytes() + elements * ELEMENT_BYTES_MIN) as u128 / elements as u128;
        if expected > REPLY_BYTES_MAX as u128 {
            return Err(TOO_LONG);
        }
    }
    Ok(())
}

/// Checks the size of the reply that has been written: if a few elements are very long, the draws may have chosen them often.
///
/// # Errors
/// The reply is too long.
#[inline]
pub fn judge_written(bytes: usize) -> Outcome {
    if bytes > REPLY_BYTES_MAX { Err(TOO_LONG) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claim_alone_is_judged_first_and_then_what_is_expected() {
        let unasked = || -> usize { panic!("there is no need to look") };
        assert!(judge(usize::MAX, 3, unasked).is_err());
        assert!(judge(2, 3, unasked).is_ok());
        assert!(judge(1_000_000, 2, || 2 * 500).is_ok());
        assert!(judge(1_000_000, 2, || 2 * 600).is_err());
        assert!(judge_written(REPLY_BYTES_MAX + 1).is_err());
    }
}
