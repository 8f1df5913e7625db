//! The words of a request on the wire: where each begins and ends in its bytes.
//!
//! For code that has only the bytes: the near cache and the routing of a cluster, which ask the command table where keys
//! stand. The bytes are this client's own, so bytes of another form end the words. Pure functions; any thread.

use sleeve_wire::arguments::{Args, Span};

/// The words of a request, one after the other.
#[derive(Clone)]
pub(crate) struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
    left: usize,
}

impl<'a> Words<'a> {
    /// The words of the request that these bytes begin with.
    #[inline]
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let mut words = Self { bytes, at: 0, left: 0 };
        words.left = words.number().unwrap_or(0);
        words
    }

    /// How many words are left.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Where the next word begins, or the next request where none is left.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The number in a line such as `$3` or `*2`, which ends where the next thing begins.
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

/// The places of a request's words as the command table reads them.
#[derive(Default)]
pub(crate) struct Places(Vec<Span>);

impl Places {
    /// Returns the words of the request at the beginning of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(Words::of(bytes).map(|(start, end)| Span { start: start as u32, len: (end - start) as u32 }).collect())
    }

    /// The words, in the bytes that they are the places of.
    pub(crate) fn args<'a>(&'a self, bytes: &'a [u8]) -> Args<'a> {
        Args::new(bytes, &self.0)
    }
}
