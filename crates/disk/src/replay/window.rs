//! A file that is read from front to back, with a part of it in memory: as much as the reader asks for.

use std::io;
use std::sync::Arc;

use crate::disk::{File, read_full};
use crate::format::crc32c;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// The file and the part of it that is in memory.
#[derive(Debug)]
pub struct Window {
    file: Arc<dyn File>,
    size: u64,
    /// The byte of the file at which `bytes` begins.
    start: u64,
    bytes: Vec<u8>,
    /// The number of bytes at the front of `bytes` that the reader has passed.
    passed: usize,
}

impl Window {
    /// Opens the file from byte `at` on; its length is the present one.
    ///
    /// # Errors
    /// When a call to the system fails.
    pub fn new(file: Arc<dyn File>, at: u64) -> io::Result<Window> {
        let size = file.size()?;
        Ok(Window { file, size, start: at, bytes: Vec::new(), passed: 0 })
    }

    /// Takes the file as ending at byte `length`.
    pub fn end_at(&mut self, length: u64) {
        self.size = self.size.min(length);
    }

    /// Returns the file's size.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the byte of the file that is read next.
    pub fn position(&self) -> u64 {
        self.start + self.passed as u64
    }

    /// Returns the number of bytes from the reader's position to the end of the file.
    pub fn remaining(&self) -> u64 {
        self.size.saturating_sub(self.position())
    }

    /// Returns the bytes in memory from here on.
    pub fn rest(&self) -> &[u8] {
        self.bytes.get(self.passed..).unwrap_or_default()
    }

    /// Reads until at least so many bytes, or the whole file, are in memory.
    ///
    /// # Errors
    /// When a call to the system fails, or if the file has become shorter.
    pub fn fill(&mut self, wanted: usize) -> io::Result<()> {
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX).min(self.remaining()) as usize;
        if self.rest().len() >= wanted {
            return Ok(());
        }
        self.bytes.drain(..self.passed);
        self.start += self.passed as u64;
        self.passed = 0;
        let have = self.bytes.len();
        let room = (self.size - self.start) as usize;
        self.bytes.resize(wanted.max(have + READ_BYTES).min(room), 0);
        let read = read_full(self.file.as_ref(), self.start + have as u64, &mut self.bytes[have..])?;
        self.bytes.truncate(have + read);
        if self.bytes.len() < wanted {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file has become shorter while it was read"));
        }
        Ok(())
    }

    /// Passes so many bytes, which are in memory.
    pub fn pass(&mut self, count: usize) {
        self.passed = (self.passed + count).min(self.bytes.len());
    }

    /// Goes to byte `at` of the file.
    pub fn seek(&mut self, at: u64) {
        let within = at.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
        match within.filter(|&skip| skip <= self.bytes.len()) {
            Some(skip) => self.passed = skip,
            None => {
                self.bytes.clear();
                (self.start, self.passed) = (at, 0);
            }
        }
    }

    /// Returns the checksum of the next `length` bytes, which the file has, continued from `sum`. Only a small part of them
    /// is read into memory at a time.
    ///
    /// # Errors
    /// The errors of [`Window::fill`].
    pub fn sum_of_next(&self, length: u64, mut sum: u32) -> io::Result<u32> {
        let here = self.rest();
        let first = here.len().min(usize::try_from(length).unwrap_or(usize::MAX));
        sum = crc32c::update(sum, &here[..first]);
        let (mut at, end) = (self.position() + first as u64, self.position() + length);
        let mut buffer = vec![0; READ_BYTES.min((end - at) as usize)];
        while at < end {
            let count = buffer.len().min((end - at) as usize);
            let read = read_full(self.file.as_ref(), at, &mut buffer[..count])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            sum = crc32c::update(sum, &buffer[..read]);
            at += read as u64;
        }
        Ok(sum)
    }
}
