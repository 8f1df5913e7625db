//! For whom the journal's bytes are kept in memory.

/// Where the journal's memory goes, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalMemory {
    /// All of it, the room in its chunks that nothing fills included.
    pub held: u64,
    /// What is kept for replicas to come back to, which `repl-backlog-size` bounds.
    pub backlog: u64,
    /// What the log's file, or who else reads, has still to take of what was before that.
    pub for_log: u64,
    /// What slow replicas have still to be sent of what was before all that.
    pub for_replicas: u64,
}
