//! What owes something to a snapshot after the store has let go of it (a flushed database, say), and how much of it is handed
//! over at a time.
//!
//! The snapshot holds it as an [`Owing`]; each step has a [`Budget`], so that none takes long.

/// How much may be handed over in one go, which is for as long as a lock is held.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Bytes to copy.
    pub bytes: usize,
    /// Entries, members, packs and whatever else is looked at one by one.
    pub pieces: usize,
}

impl Budget {
    /// Everything at once.
    pub fn unbounded() -> Self {
        Self { bytes: usize::MAX, pieces: usize::MAX }
    }

    /// Whether nothing more may be handed over.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.bytes == 0 || self.pieces == 0
    }

    /// Takes one piece of so many bytes off.
    #[inline]
    pub fn spend(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.pieces = self.pieces.saturating_sub(1);
    }

    /// Nothing more now.
    pub fn exhaust(&mut self) {
        self.bytes = 0;
    }
}

/// Something that belonged to the store and was given to the snapshot when the store let go of it.
pub trait Owing: Send + std::fmt::Debug {
    /// Hands over more of what is owed, in order.
    fn hand_over(&mut self, budget: &mut Budget);
}
