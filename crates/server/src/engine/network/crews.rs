//! The crews of workers of an engine, and their size, which CONFIG SET changes while they serve.
//!
//! Workers are defined above the engine, so the code that starts some enters a [`Crew`] here. A program that embeds the
//! engine may start several crews, one for each of its own listeners; each has as many workers as the option says. Any
//! thread, one change at a time.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Workers that serve the same listeners.
pub trait Crew: Send + Sync {
    /// Returns the wanted number of workers.
    fn size(&self) -> usize;

    /// Changes the number of workers. Surplus workers get no more connections, and end when their last connection has ended.
    ///
    /// # Errors
    /// The reason why there cannot be so many. The present workers go on.
    fn resize(&self, count: usize) -> Result<(), String>;

    /// Returns the number of surplus workers that have not ended.
    fn retiring(&self) -> usize;
}

/// The crews of one engine.
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

    /// Sets the number of workers of each crew, or leaves all crews as they were.
    ///
    /// # Errors
    /// The first reason why a crew cannot change.
    pub fn resize(&self, count: usize) -> Result<(), String> {
        let mut changed = Vec::new();
        for crew in self.all() {
            let size = crew.size();
            if let Err(why) = crew.resize(count) {
                // These workers existed a moment ago. If some cannot be restored, only the first refusal is reported.
                changed.iter().for_each(|(crew, size): &(Arc<dyn Crew>, usize)| _ = crew.resize(*size));
                return Err(why);
            }
            changed.push((crew, size));
        }
        Ok(())
    }

    /// Returns the number of surplus workers, of all crews, that have not ended.
    pub fn retiring(&self) -> usize {
        self.all().iter().map(|crew| crew.retiring()).sum()
    }
}
