//! The journal's memory, by the readers that need it.

/// The use of the journal's memory, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JournalMemory {
    /// All memory, including unused room in chunks.
    pub held: u64,
    /// The backlog, from which replicas can continue, bounded by `repl-backlog-size`.
    pub backlog: u64,
    /// The bytes before the backlog that the AOF's file, or another reader, has still to read.
    pub for_log: u64,
    /// The bytes before those, which are kept because slow replicas have still to be sent them.
    pub for_replicas: u64,
}
