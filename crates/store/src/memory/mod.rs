//! The memory of entries and tables: pages of large regions, cells of equal size in them, and hints to the processor's cache.

pub mod heap;
pub mod pages;
pub mod prefetch;
