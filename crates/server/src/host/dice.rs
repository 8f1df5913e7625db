//! Random numbers, drawn from a thread's own state and never from the machine.
//!
//! Each thread that runs commands has a [`Dice`] of its own, with a seed from its engine: an engine that is begun from one
//! seed draws the same numbers again. These are for choices that need no secrecy; [`secret_bytes`] are for those that do.

use std::cell::Cell;

use fastrand::Rng;

/// A generator of one thread. It may be shared within the thread, even while other state is being changed.
#[derive(Debug, Clone)]
pub struct Dice(Cell<u64>);

impl Dice {
    /// Returns the dice of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    #[inline]
    fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        let mut rng = Rng::with_seed(self.0.get());
        let drawn = draw(&mut rng);
        self.0.set(rng.get_seed());
        drawn
    }

    /// Any number.
    #[inline]
    pub fn number(&self) -> u64 {
        self.draw(|rng| rng.u64(..))
    }

    /// A number below `end`, which is not 0.
    #[inline]
    pub fn below(&self, end: usize) -> usize {
        self.draw(|rng| rng.usize(..end))
    }

    /// A number from 0 to just below 1.
    #[inline]
    pub fn share(&self) -> f64 {
        self.draw(Rng::f64)
    }

    /// Brings the elements into an order by chance.
    pub fn shuffle<T>(&self, elements: &mut [T]) {
        self.draw(|rng| rng.shuffle(elements));
    }
}

/// Fills `bytes` from the system's source, which cannot be foreseen.
pub fn secret_bytes(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()).unwrap_or(0);
    }
}
