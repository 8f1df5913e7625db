//! Syncing: the log gives out a job that has the files and nothing else, so whoever runs it holds no lock and others append
//! meanwhile.
//!
//! When it has run the log is told what is durable; after a failure nothing of it may be counted on.

use std::io;
use std::sync::Arc;

use crate::disk::File;

use super::writer::{Health, Log};

/// What is to be synced, and what is durable then. It holds the files and nothing of the log.
#[derive(Clone, Debug)]
pub struct SyncJob {
    /// Each with its number and the length that it had.
    files: Vec<(i64, Arc<dyn File>, u64)>,
    end: u64,
    blocks_end: u64,
    /// How many syncs had failed when it was taken.
    failures: u64,
}

impl SyncJob {
    /// The journal's offset up to which it is durable when this has run.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Syncs, in the order in which it was written.
    ///
    /// # Errors
    /// What the system says; then [`Log::sync_failed`] is due, and nothing of this may be counted on.
    pub fn run(&self) -> io::Result<()> {
        self.files.iter().try_for_each(|(_, file, _)| file.sync())
    }
}

impl Log {
    /// What there is to sync; none where all is durable, and where only healing helps.
    pub fn sync_job(&self) -> Option<SyncJob> {
        if self.synced == self.end || matches!(self.health, Health::SyncFailed(_)) {
            return None;
        }
        let unsynced = self.tail.iter().filter(|part| part.synced_length < part.length);
        let files = unsynced.map(|part| (part.number, part.file.clone(), part.length)).collect();
        Some(SyncJob { files, end: self.end, blocks_end: self.blocks_end, failures: self.sync_failures })
    }

    /// That a job has run well. It says nothing where another has failed since it was taken: a system tells of what it could not
    /// write once, and to whoever of two asks first.
    pub fn synced(&mut self, job: &SyncJob) {
        if job.failures != self.sync_failures {
            return;
        }
        for (number, _, length) in &job.files {
            if let Some(part) = self.tail.iter_mut().find(|part| part.number == *number) {
                part.synced_length = part.synced_length.max(*length);
            }
        }
        self.synced = self.synced.max(job.end);
        self.synced_blocks = self.synced_blocks.max(job.blocks_end);
        let last = self.current().number;
        self.tail.retain(|part| part.number == last || part.synced_length < part.length);
    }

    /// That a job has failed: what was written since the last one that ran well is not trusted any more.
    pub fn sync_failed(&mut self, error: &io::Error) {
        self.sync_failures += 1;
        self.health = Health::SyncFailed(error.to_string());
    }
}
