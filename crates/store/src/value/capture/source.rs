//! A table or value that the store has released (of a flushed database, say) while a snapshot still lacks parts of it, and
//! the budget of a step.
//!
//! The snapshot holds it as a [`CaptureSource`]; each step has a [`Budget`], so that none takes long.

/// The amount that may be captured in one step, which holds a lock.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// The number of bytes to copy.
    pub bytes: usize,
    /// The number of entries, members, packs and other pieces to look at.
    pub pieces: usize,
}

impl Budget {
    /// Returns a budget without a limit.
    pub fn unbounded() -> Self {
        Self { bytes: usize::MAX, pieces: usize::MAX }
    }

    /// Returns whether the step has to end.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.bytes == 0 || self.pieces == 0
    }

    /// Subtracts one piece of so many bytes.
    #[inline]
    pub fn spend(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.pieces = self.pieces.saturating_sub(1);
    }

    /// Ends the step after this piece.
    pub fn exhaust(&mut self) {
        self.bytes = 0;
    }
}

/// A table or value that the store has released, given to the snapshot because it still lacks parts of it.
pub trait CaptureSource: Send + std::fmt::Debug {
    /// Captures more pending parts, in order.
    fn capture_more(&mut self, budget: &mut Budget);
}
