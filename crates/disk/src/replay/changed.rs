//! The check whether a damaged block was changed on the disk after it was written, or is the torn end of the last write.
//!
//! A crash leaves a prefix of a write, perhaps with zeros behind, or takes whole sectors of it: they are missing, are zeros, or
//! hold something else. So a block was whole once, and has changed, if
//!
//! - it is right but for one bit, or if it is short for one byte: from a CRC-32C that is off the place of such a change follows,
//!   at one step a byte. That other damage looks like this is as likely as one in 2^32 for each byte, times the ways in which a
//!   byte can change;
//! - its line is wrong in a sector that was written, because the beginning of the line is there;
//! - its line is right, and a request in it is wrong in a sector that was written, because a header of a request is there; or all
//!   requests are well formed, and each sector has such a header.
//!
//! Several wrong bytes within a string that fills whole sectors look like a sector that the crash took, and count as one. Called
//! only where an AOF does not end as it should; any thread.

use std::io;
use std::sync::Arc;

use crate::disk::File;
use crate::format::annotation::{self, LINE_BYTES_MAX, Line, Salt, Stretch};
use crate::format::crc32c;

use super::window::Window;

/// Bytes of a line in front of a block: five numbers of up to twenty digits, and two sums.
const BLOCK_LINE_BYTES_MAX: usize = 160;

/// Bytes that a disk writes at once: a write is torn between two of these, never inside one.
const SECTOR_BYTES: u64 = 512;

/// Bytes that show that a sector was written if they are where they should be.
const PROOF_BYTES: u64 = 6;

/// Returns whether the block at byte `at` of the file, the next of the stretch, was whole once and has changed.
///
/// # Errors
/// When the file cannot be read.
pub fn is_changed_block(file: &Arc<dyn File>, at: u64, stretch: Stretch) -> io::Result<bool> {
    let salt = Some(stretch.salt);
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
        if actual == sums.whole {
            return Ok(false);
        }
        if crc32c::is_off_by_one_byte(actual, sums.whole, block.length) {
            return Ok(true);
        }
        let length = usize::try_from(block.length).unwrap_or(usize::MAX);
        window.fill(length)?;
        return Ok(Written::new(at + end as u64).is_whole(window.rest().get(..length).unwrap_or_default()));
    }
    if is_damaged_line(&front, at, stretch.next_number) {
        return Ok(true);
    }
    for bit in 0..front.len().min(BLOCK_LINE_BYTES_MAX) * 8 {
        let mut turned = front.clone();
        turned[bit / 8] ^= 1 << (bit % 8);
        let Some((end, Line::Block(block, sums))) = line_of(&turned, salt) else { continue };
        window.seek(at + end as u64);
        if block.number == stretch.next_number
            && window.remaining() >= block.length
            && window.sum_of_next(block.length, sums.line)? == sums.whole
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether these bytes, which do not parse as the line of a block, once were one: the front of the line is there, but
/// for a few bytes, and the line ends in the same sector.
fn is_damaged_line(front: &[u8], at: u64, number: u64) -> bool {
    let in_sector = (SECTOR_BYTES - at % SECTOR_BYTES) as usize;
    let Some(end) = memchr::memchr(b'\n', front).filter(|&end| end < in_sector) else { return false };
    let expected = format!("#SLV:B {number} ");
    let right = front[..end].iter().zip(expected.as_bytes()).filter(|(own, other)| own == other);
    right.count() as u64 >= PROOF_BYTES
}

/// The sectors of a block that are known to have been written.
struct Written {
    /// The byte of the file at which the block's content begins. The line in front of it is intact.
    at: u64,
    /// The last sector with a proof.
    last: Option<u64>,
    /// True if a sector before `last` has no proof that it was written.
    has_gap: bool,
}

impl Written {
    fn new(at: u64) -> Written {
        let is_proved = at % SECTOR_BYTES >= PROOF_BYTES;
        Written { at, last: is_proved.then_some(at / SECTOR_BYTES), has_gap: false }
    }

    fn sector_of(&self, index: usize) -> u64 {
        (self.at + index as u64) / SECTOR_BYTES
    }

    /// Returns whether no crash can have left this content, which has a wrong checksum.
    fn is_whole(&mut self, content: &[u8]) -> bool {
        match self.read(content) {
            Ok(()) => {
                !self.has_gap
                    && self.last == content.len().checked_sub(1).map_or(self.last, |end| Some(self.sector_of(end)))
            }
            Err(wrong) => {
                let sector_end = (self.sector_of(wrong) + 1) * SECTOR_BYTES - self.at;
                let rest = content.iter().take(usize::try_from(sector_end).unwrap_or(usize::MAX)).skip(wrong);
                let is_cut_off = rest.copied().all(|byte| byte == 0);
                self.last == Some(self.sector_of(wrong)) && !is_cut_off
            }
        }
    }

    /// Reads the requests; fails with the index of the first wrong byte.
    fn read(&mut self, content: &[u8]) -> Result<(), usize> {
        let mut at = 0;
        while at < content.len() {
            if content[at] == b'#' {
                at = self.header(content, at, b"#TS:")?.0;
                continue;
            }
            let (mut next, words) = self.header(content, at, b"*")?;
            for _ in 0..words {
                let (start, length) = self.header(content, next, b"$")?;
                let length = usize::try_from(length).ok().filter(|&length| length <= content.len() - start);
                let end = start + length.ok_or(next)?;
                next = expect(content, end, b"\r\n")?;
            }
            at = next;
        }
        Ok(())
    }

    /// Reads a mark, a number and the end of the line; returns where the next byte stands, and the number. If all of it is in
    /// one sector, that sector was written.
    fn header(&mut self, content: &[u8], at: usize, mark: &[u8]) -> Result<(usize, u64), usize> {
        let mut end = expect(content, at, mark)?;
        let mut number = 0_u64;
        while let Some(digit) = content.get(end).filter(|byte| byte.is_ascii_digit()) {
            number = number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
            end += 1;
        }
        let next = expect(content, end, b"\r\n")?;
        let sector = self.sector_of(at);
        if sector == self.sector_of(next - 1) {
            self.has_gap |= sector > self.last.map_or(self.sector_of(0), |last| last + 1);
            self.last = Some(sector);
        }
        Ok((next, number))
    }
}

/// Returns the index behind these bytes, which are expected at `at`, or the index of the first byte that is another.
fn expect(content: &[u8], at: usize, expected: &[u8]) -> Result<usize, usize> {
    for (index, byte) in expected.iter().enumerate() {
        if content.get(at + index) != Some(byte) {
            return Err(at + index);
        }
    }
    Ok(at + expected.len())
}

/// Returns the line at the front of these bytes, and its length.
fn line_of(front: &[u8], salt: Option<Salt>) -> Option<(usize, Line)> {
    let end = memchr::memchr(b'\n', front)? + 1;
    Some((end, annotation::parse(front.get(..end)?, salt)))
}
