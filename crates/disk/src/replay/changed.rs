//! The check whether a damaged block was changed on the disk after it was written, in one byte, or is the torn end of the
//! last write.
//!
//! A crash takes whole sectors of a write: they are missing, are zeros, or hold something else. A block that is right but for
//! one bit, or in a short one for one byte, was whole once. From a CRC-32C that is off the place of such a change follows, at
//! one step a byte. That other damage looks like this is as likely as one in 2^32 for each byte, times the ways in which a
//! byte can change. Called only where an AOF does not end as it should; any thread.

use std::io;
use std::sync::Arc;

use crate::disk::File;
use crate::format::annotation::{self, LINE_BYTES_MAX, Line, Salt};
use crate::format::crc32c;

use super::window::Window;

/// Bytes of a line in front of a block: five numbers of up to twenty digits, and two sums.
const BLOCK_LINE_BYTES_MAX: usize = 160;

/// Returns whether a block that is right but for one byte stands at byte `at` of the file: the block with this number in the
/// stretch.
///
/// # Errors
/// Those of the system.
pub fn is_changed_block(file: &Arc<dyn File>, at: u64, salt: Option<Salt>, number: u64) -> io::Result<bool> {
    let mut window = Window::new(Arc::clone(file), at)?;
    window.fill(LINE_BYTES_MAX)?;
    let front = window.rest().get(..LINE_BYTES_MAX).unwrap_or(window.rest()).to_vec();
    if let Some((end, line)) = line_of(&front, salt)
        && let Line::Block(block, sums) = line
    {
        if window.remaining() < end as u64 + block.length {
            return Ok(false);
        }
        window.pass(end);
        let actual = window.sum_of_next(block.length, sums.line)?;
        return Ok(crc32c::is_off_by_one_byte(actual, sums.whole, block.length));
    }
    for bit in 0..front.len().min(BLOCK_LINE_BYTES_MAX) * 8 {
        let mut turned = front.clone();
        turned[bit / 8] ^= 1 << (bit % 8);
        let Some((end, Line::Block(block, sums))) = line_of(&turned, salt) else { continue };
        window.seek(at + end as u64);
        if block.number == number
            && window.remaining() >= block.length
            && window.sum_of_next(block.length, sums.line)? == sums.whole
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The line at the front of these bytes, and how long it is.
fn line_of(front: &[u8], salt: Option<Salt>) -> Option<(usize, Line)> {
    let end = memchr::memchr(b'\n', front)? + 1;
    Some((end, annotation::parse(front.get(..end)?, salt)))
}
