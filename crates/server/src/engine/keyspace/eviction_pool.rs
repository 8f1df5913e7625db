//! The best candidates for eviction: found by sampling, and kept between two evictions.
//!
//! A thread that evicts adds its samples and takes the best candidate. A candidate is only a name: the key may have been
//! removed since, which the thread finds out.

use parking_lot::Mutex;

/// A key that may be evicted.
#[derive(Debug)]
pub struct Candidate {
    /// The score: the higher it is, the sooner the key is evicted.
    pub score: u64,
    /// The key's database.
    pub database: usize,
    /// The key's name.
    pub name: Box<[u8]>,
}

/// The best candidates so far, the best last.
#[derive(Debug, Default)]
pub struct Candidates(Mutex<Vec<Candidate>>);

/// The most candidates that are remembered.
const CANDIDATES_MAX: usize = 16;

impl Candidates {
    /// Adds keys, and forgets the worst if there are too many.
    pub fn remember(&self, drawn: Vec<Candidate>) {
        let mut candidates = self.0.lock();
        for candidate in drawn {
            let is_same = |known: &Candidate| known.database == candidate.database && known.name == candidate.name;
            if !candidates.iter().any(is_same) {
                let place = candidates.partition_point(|known| known.score < candidate.score);
                candidates.insert(place, candidate);
            }
        }
        let excess = candidates.len().saturating_sub(CANDIDATES_MAX);
        candidates.drain(..excess);
    }

    /// Takes the best candidate out.
    pub fn take_best(&self) -> Option<Candidate> {
        self.0.lock().pop()
    }
}
