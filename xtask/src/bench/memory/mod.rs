//! Memory: the growth of a server's process by data and connections, and the part that it gives back.
//!
//! Resident memory is read from outside, so every server is measured alike, regardless of its own figures. A figure is a
//! growth.

mod churn;
mod elements;
mod idle;
mod resident;

use super::builds::Builds;
use super::effort::Effort;
use super::report::Table;
pub use elements::large_list;
pub use resident::NAME;

/// Measures all tables.
///
/// # Errors
/// When a server fails.
pub fn measure(builds: &Builds, effort: Effort) -> Result<[Table; 3], String> {
    Ok([elements::measure(builds, effort)?, churn::measure(builds, effort)?, idle::measure(builds, effort)?])
}
