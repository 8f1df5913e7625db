//! Persistence: the AOF, snapshots, and the journal that feeds the AOF.

pub mod failing;
mod inapplicable;
mod journal_units;
mod point_in_time;
mod producers;
mod reload;
mod removal;
pub mod replay;
mod restarts;
mod saving;
mod sync_threads;
mod totals;

use sleeve_tests::{Kind, Server};

/// The start options that every test of this folder needs.
const EVERYTHING: &[&str] = &["--enable-debug-command", "yes"];

/// Starts a Sleeve with DEBUG allowed.
fn start(arguments: &[&str]) -> Server {
    Server::start_with(Kind::Sleeve, &[EVERYTHING, arguments].concat())
}
