//! Files and options of other servers.
//!
//! `clients/` has programs that drive Sleeve through client libraries; `xtask/src/clients.rs` runs them.

mod exchange;
mod odd_values;
mod options;
pub mod rdb_files;
