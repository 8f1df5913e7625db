//! The journal's memory, by the readers that need it.

/// Where the journal's memory goes, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalMemory {
    /// All of it, the room in its chunks that nothing fills included.
    pub held: u64,
    /// The backlog, to which replicas can come back, bounded by `repl-backlog-size`.
    pub backlog: u64,
    /// The bytes before the backlog that the AOF's file, or another reader, has still to take.
    pub for_log: u64,
    /// The bytes before all these that slow replicas have still to be sent.
    pub for_replicas: u64,
}
