//! Syncing: the AOF gives out a job that has the files and nothing else, so the thread that runs it holds no lock and others
//! append at the same time.
//!
//! When it has run the AOF notes the durable offset; after a failure none of those bytes may be counted on.

use std::io;
use std::sync::Arc;

use crate::disk::File;

use super::writer::{Health, Log};

/// The files to be synced, and the offsets that are durable then. It holds the files and nothing of the AOF.
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

    /// Syncs the files, in the order in which they were written.
    ///
    /// # Errors
    /// Those of the system; then [`Log::sync_failed`] is due, and none of these bytes may be counted on.
    pub fn run(&self) -> io::Result<()> {
        self.files.iter().try_for_each(|(_, file, _)| file.sync())
    }
}

impl Log {
    /// Returns the job that syncs; none where all is durable, and where only healing helps.
    pub fn sync_job(&self) -> Option<SyncJob> {
        if self.synced == self.end || matches!(self.health, Health::SyncFailed(_)) {
            return None;
        }
        let unsynced = self.tail.iter().filter(|part| part.synced_length < part.length);
        let files = unsynced.map(|part| (part.number, part.file.clone(), part.length)).collect();
        Some(SyncJob { files, end: self.end, blocks_end: self.blocks_end, failures: self.sync_failures })
    }

    /// Notes that a job has succeeded. It proves nothing where another has failed since it was taken: a system reports bytes
    /// that it could not write once, and only to the first of two callers.
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

    /// Notes that a job has failed: the bytes that were written since the last one that succeeded are not trusted any more.
    pub fn sync_failed(&mut self, error: &io::Error) {
        self.sync_failures += 1;
        self.health = Health::SyncFailed(error.to_string());
    }
}
