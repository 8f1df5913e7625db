//! The process's allocator, if the program has named it.
//!
//! A library cannot know the allocator, so the program's own code enters it once at the start. An application that embeds an
//! engine need not. Any thread may ask.

use std::sync::OnceLock;

/// The functions of an allocator.
#[derive(Debug, Clone, Copy)]
pub struct Allocator {
    /// The allocator's name, with its version.
    pub name: &'static str,
    /// The function that returns free memory to the system.
    pub purge: fn(),
    /// The function that returns a report of the allocator, for people.
    pub describe: fn() -> String,
}

static CHOSEN: OnceLock<Allocator> = OnceLock::new();

/// Enters the allocator of this process. The first call counts.
pub fn enter(allocator: Allocator) {
    _ = CHOSEN.set(allocator);
}

/// Returns the allocator, if the program has entered one.
pub fn chosen() -> Option<&'static Allocator> {
    CHOSEN.get()
}
