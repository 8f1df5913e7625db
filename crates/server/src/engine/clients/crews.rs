//! The workers of an engine, as to their number, which CONFIG SET changes while they serve.
//!
//! What a worker is, stands above the engine: whoever starts some enters a [`Crew`] here. A program that embeds the engine may
//! start several crews, one for each listener of its own; each has as many workers as the option says. Any thread, one change
//! at a time.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Workers that serve the same listeners.
pub trait Crew: Send + Sync {
    /// How many workers there are to be.
    fn size(&self) -> usize;

    /// Has so many workers be there from now on. Those that are too many are given no more connections, and end when their
    /// last has gone.
    ///
    /// # Errors
    /// Why there cannot be so many; what there was goes on.
    fn resize(&self, count: usize) -> Result<(), String>;

    /// How many workers are too many and have not ended.
    fn retiring(&self) -> usize;
}

/// All crews of one engine.
#[derive(Default)]
pub struct Crews(Mutex<Vec<Weak<dyn Crew>>>);

impl Crews {
    /// Enters a crew, for as long as it lives.
    pub fn enter(&self, crew: Weak<dyn Crew>) {
        let mut crews = self.0.lock();
        crews.retain(|crew| crew.strong_count() != 0);
        crews.push(crew);
    }

    fn all(&self) -> Vec<Arc<dyn Crew>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Has each crew have so many workers, or as many as before.
    ///
    /// # Errors
    /// The first reason why one cannot.
    pub fn resize(&self, count: usize) -> Result<(), String> {
        let mut changed = Vec::new();
        for crew in self.all() {
            let size = crew.size();
            if let Err(why) = crew.resize(count) {
                // There was room for these a moment ago; of what does not come back, the first refusal tells enough.
                changed.iter().for_each(|(crew, size): &(Arc<dyn Crew>, usize)| _ = crew.resize(*size));
                return Err(why);
            }
            changed.push((crew, size));
        }
        Ok(())
    }

    /// How many workers are too many and have not ended.
    pub fn retiring(&self) -> usize {
        self.all().iter().map(|crew| crew.retiring()).sum()
    }
}
