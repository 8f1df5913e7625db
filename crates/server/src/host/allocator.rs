//! The process's allocator, as far as the program says which one it has chosen.
//!
//! A library cannot know it, so whoever makes the program enters it once at the start; an application that embeds an
//! engine need not. Any thread may ask.

use std::sync::OnceLock;

/// What an allocator can tell and do.
#[derive(Debug, Clone, Copy)]
pub struct Allocator {
    /// Its name, with its version.
    pub name: &'static str,
    /// Gives memory that is free back to the system.
    pub purge: fn(),
    /// What it knows of its own work, for people.
    pub describe: fn() -> String,
}

static CHOSEN: OnceLock<Allocator> = OnceLock::new();

/// Enters the allocator of this process. Whoever comes first is believed.
pub fn enter(allocator: Allocator) {
    _ = CHOSEN.set(allocator);
}

/// The allocator, if the program has said which it is.
pub fn chosen() -> Option<&'static Allocator> {
    CHOSEN.get()
}
