//! The last snapshot of a server that is told to end.
//!
//! While it is written every client is held, so that nothing is answered which it does not have. Where it cannot be written
//! the server goes on, unless it was told to end all the same.
//!
//! A script that runs for long would keep the shards from the snapshot: it is ended, unless it has written. Then it is waited
//! for, and whoever does not want that says SHUTDOWN NOSAVE.

use std::sync::Arc;

use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::clients::blocking::Waiter;
use crate::engine::durability::snapshots::{Purpose, Refusal, WhenDone};
use crate::engine::readiness::Hindrance;
use crate::host::clock::Instant;
use crate::host::log;
use crate::request::error::Error;

/// What whoever ends the server says about a last snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinalSnapshot {
    /// One is written if `save` has rules.
    AsConfigured,
    /// One is written.
    Save,
    /// None is written.
    NoSave,
}

const GOES_ON: &str = "Errors trying to shut down the server. Check the logs for more information.";

/// Who is told that the server goes on, and how.
pub type Client = (Arc<Waiter>, Error);

impl Engine {
    /// Whether a snapshot is to be written before the end: never of what is loaded in part.
    pub fn has_last_words(&self, final_snapshot: FinalSnapshot) -> bool {
        match final_snapshot {
            _ if self.readiness.has(Hindrance::Loading) => false,
            FinalSnapshot::AsConfigured => self.durability.snapshots.are_ruled() && self.config.is_set(Opt::Save),
            FinalSnapshot::Save => true,
            FinalSnapshot::NoSave => false,
        }
    }

    /// Whether the engine may end, or is to by force. While the first base of its log is not there the data may be nowhere else,
    /// and the server goes on, as Redis does.
    pub fn may_end(&self, force: bool) -> bool {
        if !self.lacks_first_base() {
            return true;
        }
        log::warning(if force { "Writing initial AOF. Exit anyway." } else { "Writing initial AOF, can't exit." });
        if !force {
            log::warning(GOES_ON);
        }
        force
    }

    /// Ends the engine, behind a last snapshot if that is wished; `force` ends it even when that fails.
    pub fn shut_down(self: &Arc<Self>, final_snapshot: FinalSnapshot, force: bool, client: Option<Client>) {
        if !self.has_last_words(final_snapshot) {
            return self.end_now(final_snapshot);
        }
        self.scripts.running.set_spares_writers(true);
        self.pause.set_ending(true);
        log::notice("Saving the final RDB snapshot before exiting.");
        let engine = Arc::clone(self);
        let mut ended: Option<WhenDone> =
            Some(Box::new(move |is_good| engine.end_after_snapshot(is_good, force, client)));
        let begun = loop {
            match self.start_snapshot(Purpose::File, Instant::now(), &mut ended) {
                // What that one has is older.
                Err(Refusal::Running(_)) => self.durability.snapshots.abort_and_wait(),
                begun => break begun,
            }
        };
        if let (Err(refusal), Some(ended)) = (begun, ended) {
            log::warning(&format!("Error trying to save the DB: {refusal}"));
            ended(false);
        }
    }

    /// Ends the engine as it is. A script that has written is waited for, unless nothing is wished to be kept.
    pub fn end_now(&self, final_snapshot: FinalSnapshot) {
        self.scripts.running.set_spares_writers(final_snapshot != FinalSnapshot::NoSave);
        if self.readiness.has(Hindrance::Loading) {
            log::warning("Received shutdown signal during loading, exiting now.");
            self.durability.loading.give_up();
        }
        self.post_stop();
    }

    fn end_after_snapshot(&self, is_good: bool, force: bool, client: Option<Client>) {
        if is_good || force {
            if !is_good {
                log::warning("Error trying to save the DB, exiting all the same as FORCE says.");
            }
            return self.post_stop();
        }
        log::warning("Error trying to save the DB, can't exit.");
        log::warning(GOES_ON);
        self.scripts.running.set_spares_writers(false);
        self.pause.give_up_end();
        self.post_resume();
        if let Some((waiter, error)) = client {
            self.answer(&waiter, |reply| reply.error(error.text()));
        }
    }
}
