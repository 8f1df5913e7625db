//! A window on the bytes of a file that is read from beginning to end, with the checksum of the bytes read so far.
//!
//! The window is a few hundred KiB. A string that does not fit into it is read past it, into a buffer that grows with the
//! bytes that arrive.

use std::io::{self, Read};

use super::super::bad::Bad;
use super::super::crc64::crc64_of_more;
use super::super::scan::{Correction, FEW_MAX, Source};

/// The size of the window in bytes: at least as many as a caller may ask for in one piece.
const WINDOW: usize = 4 * FEW_MAX;

/// The bytes of a file, one after the other.
pub(super) struct Feed<R> {
    source: R,
    window: Vec<u8>,
    /// The next byte of the window, and the end of the bytes that were read into it.
    at: usize,
    end: usize,
    /// The number of bytes before the window in the file.
    before: u64,
    /// The sum of all bytes up to this place in the window.
    sum: u64,
    summed: usize,
    is_summing: bool,
    /// The size of the file in bytes, if it is known.
    size: Option<u64>,
    /// The error of the source, if it has failed.
    failed: Option<io::Error>,
    /// The worst correction since the caller last asked for it.
    corrected: Option<Correction>,
}

impl<R: Read> Feed<R> {
    pub fn new(source: R) -> Self {
        let window = vec![0; WINDOW];
        let (sum, is_summing, size, failed, corrected) = (0, true, None, None, None);
        Self { source, window, at: 0, end: 0, before: 0, sum, summed: 0, is_summing, size, failed, corrected }
    }

    /// Sets the size of the file in bytes.
    pub fn expect_size(&mut self, bytes: u64) {
        self.size = Some(bytes);
    }

    /// Stops computing the checksum.
    pub fn stop_summing(&mut self) {
        self.is_summing = false;
    }

    /// Returns whether there is a sum.
    pub fn is_summing(&self) -> bool {
        self.is_summing
    }

    /// Returns how many bytes have been taken.
    pub fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// Returns the sum of all bytes that have been taken.
    pub fn sum(&mut self) -> u64 {
        if self.is_summing {
            self.sum = crc64_of_more(self.sum, &self.window[self.summed..self.at]);
        }
        self.summed = self.at;
        self.sum
    }

    /// Returns the bytes that are in the window and were not taken.
    pub fn ahead(&self) -> &[u8] {
        &self.window[self.at..self.end]
    }

    /// Takes the next `count` bytes, which are in the window, into `out`. `out` may receive more bytes behind them.
    pub fn take_into(&mut self, count: usize, out: &mut Vec<u8>) {
        let (begin, rest) = (self.at, self.end - self.at - count);
        self.at += count;
        if begin > 0 || rest >= count {
            out.clear();
            out.extend_from_slice(&self.window[begin..self.at]);
            return;
        }
        // The bytes are nearly all of the window: the window's buffer is given away, and a new one goes on with the remaining
        // bytes.
        self.sum();
        out.resize(WINDOW, 0);
        out[..rest].copy_from_slice(&self.window[self.at..self.end]);
        std::mem::swap(&mut self.window, out);
        self.before += self.at as u64;
        (self.end, self.at, self.summed) = (rest, 0, 0);
    }

    /// Reads more into the window; false if there is no room, or nothing more, or the source failed.
    pub fn read_more(&mut self) -> bool {
        self.sum();
        if self.at > 0 {
            self.window.copy_within(self.at..self.end, 0);
            self.before += self.at as u64;
            (self.end, self.at, self.summed) = (self.end - self.at, 0, 0);
        }
        if self.end == self.window.len() {
            return false;
        }
        loop {
            match self.source.read(&mut self.window[self.end..]) {
                Ok(read) => {
                    self.end += read;
                    return read > 0;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failed = Some(error);
                    return false;
                }
            }
        }
    }

    /// Returns the worst correction since the last call.
    pub fn take_corrected(&mut self) -> Option<Correction> {
        self.corrected.take()
    }

    /// Takes the error of the source, if it has failed.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// Returns the bytes that are left in the window, and the source.
    pub fn into_rest(self) -> (Vec<u8>, R) {
        (self.ahead().to_vec(), self.source)
    }

    /// Ensures that `count` bytes are in the window.
    #[cold]
    fn fill(&mut self, count: usize) -> Result<(), Bad> {
        while self.end - self.at < count {
            if self.failed.is_some() {
                return Err(Bad::Unreadable);
            }
            if !self.read_more() && self.failed.is_none() {
                return Err(Bad::End);
            }
        }
        Ok(())
    }

    fn fail(&mut self, error: io::Error) -> Bad {
        self.failed = Some(error);
        Bad::Unreadable
    }
}

impl<R: Read> Source for Feed<R> {
    fn correct(&mut self, correction: Correction) {
        self.corrected = self.corrected.max(Some(correction));
    }

    #[inline]
    fn few(&mut self, count: usize) -> Result<&[u8], Bad> {
        if self.end - self.at < count {
            self.fill(count)?;
        }
        self.at += count;
        Ok(&self.window[self.at - count..self.at])
    }

    fn many(&mut self, count: u64, out: &mut Vec<u8>) -> Result<(), Bad> {
        if count <= FEW_MAX as u64 {
            out.extend_from_slice(self.few(count as usize)?);
            return Ok(());
        }
        // A length that is damaged must not bring all the rest of a large file into memory.
        if self.size.is_some_and(|size| count > size.saturating_sub(self.offset())) {
            return Err(Bad::End);
        }
        let here = (self.end - self.at).min(usize::try_from(count).unwrap_or(usize::MAX));
        out.extend_from_slice(self.few(here)?);
        let (begin, rest) = (out.len(), count - here as u64);
        self.sum();
        let read = self.source.by_ref().take(rest).read_to_end(out);
        if self.is_summing {
            self.sum = crc64_of_more(self.sum, &out[begin..]);
        }
        self.before += (out.len() - begin) as u64;
        match read {
            Ok(read) if read as u64 == rest => Ok(()),
            Ok(_) => Err(Bad::End),
            Err(error) => Err(self.fail(error)),
        }
    }
}
