//! Random numbers, drawn from a thread's own state and never from the machine.
//!
//! Each thread that runs commands has its own [`Dice`], with a seed from its engine: an engine that is started twice with one
//! seed draws the same numbers. They are for choices that need no secrecy; [`secret_bytes`] is for those that do.

use std::cell::Cell;

use fastrand::Rng;

/// A thread's generator of random numbers. It may be shared within the thread, even while other state is being changed.
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

    /// Returns a random number of 64 bits.
    #[inline]
    pub fn number(&self) -> u64 {
        self.draw(|rng| rng.u64(..))
    }

    /// Returns a random number below `end`, which is not 0.
    #[inline]
    pub fn below(&self, end: usize) -> usize {
        self.draw(|rng| rng.usize(..end))
    }

    /// Returns a random number from 0 to just below 1.
    #[inline]
    pub fn share(&self) -> f64 {
        self.draw(Rng::f64)
    }

    /// Shuffles the elements.
    pub fn shuffle<T>(&self, elements: &mut [T]) {
        self.draw(|rng| rng.shuffle(elements));
    }
}

/// Fills `bytes` with unpredictable ones from the system's source.
pub fn secret_bytes(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()).unwrap_or(0);
    }
}
