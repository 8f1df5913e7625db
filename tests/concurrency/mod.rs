//! Many clients at once, and long runs.

mod endurance;
pub mod linearizable;
mod workers;
