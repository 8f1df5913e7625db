//! What is measured and counted while commands run, for INFO, LATENCY and SLOWLOG.

pub mod histogram;
pub mod latency;
pub(crate) mod rates;
pub(crate) mod slowlog;
pub(crate) mod stats;
