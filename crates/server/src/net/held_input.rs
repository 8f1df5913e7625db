//! Bytes that have arrived and are put aside, because the worker takes none of them for now. One thread at a time.

/// Bytes that have arrived and wait for the worker.
#[derive(Debug, Default)]
pub struct HeldInput {
    bytes: Vec<u8>,
    /// The number of bytes that have been taken.
    taken: usize,
}

impl HeldInput {
    /// Returns whether all bytes have been taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds so many bytes, which `fill` writes.
    pub fn put(&mut self, count: usize, fill: impl FnOnce(&mut [u8])) {
        let start = self.bytes.len();
        self.bytes.resize(start + count, 0);
        fill(&mut self.bytes[start..]);
    }

    /// Takes as many bytes as `into` has room for; returns their number.
    pub fn take(&mut self, into: &mut [u8]) -> usize {
        let left = &self.bytes[self.taken..];
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.taken += count;
        if self.taken == self.bytes.len() {
            *self = Self::default();
        }
        count
    }
}
