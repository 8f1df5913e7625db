//! The process's allocator, if the program has named the one that it has chosen.
//!
//! A library cannot know it, so the program's own code enters it once at the start. An application that embeds an engine need
//! not. Any thread may ask.

use std::sync::OnceLock;

/// The functions of an allocator.
#[derive(Debug, Clone, Copy)]
pub struct Allocator {
    /// Its name, with its version.
    pub name: &'static str,
    /// The function that returns free memory to the system.
    pub purge: fn(),
    /// A report about its own work, for people.
    pub describe: fn() -> String,
}

static CHOSEN: OnceLock<Allocator> = OnceLock::new();

/// Enters the allocator of this process. The first call counts.
pub fn enter(allocator: Allocator) {
    _ = CHOSEN.set(allocator);
}

/// The allocator, if the program has said which it is.
pub fn chosen() -> Option<&'static Allocator> {
    CHOSEN.get()
}
