//! The words of a request on the wire: the range of each in its bytes.
//!
//! For code that has only the bytes: the near cache and the routing of a cluster, which ask the command table for the
//! positions of keys. The bytes were written by this client, so bytes of another form count as the end of the words. Pure
//! functions; any thread.

use sleeve_wire::arguments::{Args, Span};

/// An iterator over the words of a request.
#[derive(Clone)]
pub(crate) struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
    left: usize,
}

impl<'a> Words<'a> {
    /// Creates the iterator over the first request in these bytes.
    #[inline]
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let mut words = Self { bytes, at: 0, left: 0 };
        words.left = words.number().unwrap_or(0);
        words
    }

    /// Returns the number of words that are left.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Returns the offset at which the next word begins; after the last word, that of the next request.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Reads the number in a line such as `$3` or `*2`, and moves behind the line.
    #[inline]
    fn number(&mut self) -> Option<usize> {
        let mut number = 0usize;
        loop {
            self.at += 1;
            match self.bytes.get(self.at)? {
                digit @ b'0'..=b'9' => number = number.checked_mul(10)?.checked_add(usize::from(digit - b'0'))?,
                _ => break,
            }
        }
        self.at += 2;
        Some(number)
    }
}

impl Iterator for Words<'_> {
    type Item = (usize, usize);

    #[inline]
    fn next(&mut self) -> Option<(usize, usize)> {
        self.left = self.left.checked_sub(1)?;
        let length = self.number()?;
        let word = (self.at, self.at.checked_add(length)?);
        self.at = word.1 + 2;
        (word.1 <= self.bytes.len()).then_some(word)
    }
}

/// The ranges of a request's words, in the form that the command table reads.
#[derive(Default)]
pub(crate) struct Places(Vec<Span>);

impl Places {
    /// Returns the ranges of the words of the first request in these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(Words::of(bytes).map(|(start, end)| Span { start: start as u32, len: (end - start) as u32 }).collect())
    }

    /// Returns the words; `bytes` are the bytes that the ranges were made from.
    pub(crate) fn args<'a>(&'a self, bytes: &'a [u8]) -> Args<'a> {
        Args::new(bytes, &self.0)
    }
}
