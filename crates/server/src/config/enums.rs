//! The options that are one of several words, as enums. Plain data; any thread.
//!
//! The variants stand in the order in which the table lists the words, which is what ties the two together; a test
//! compares them.

/// How important a log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// What only developers want to see.
    Debug,
    /// Much that is seldom useful.
    Verbose,
    /// What an operator wants to know.
    Notice,
    /// What an operator must know.
    Warning,
}

/// What would be evicted, and with it which access clock keys carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxmemoryPolicy {
    /// The longest unused of the keys that expire.
    VolatileLru,
    /// The least used of the keys that expire.
    VolatileLfu,
    /// Any of the keys that expire.
    VolatileRandom,
    /// The next of the keys to expire.
    VolatileTtl,
    /// The longest unused key.
    AllkeysLru,
    /// The least used key.
    AllkeysLfu,
    /// Any key.
    AllkeysRandom,
    /// Nothing.
    NoEviction,
}

/// Who may use what an option guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nobody.
    No,
    /// Everybody.
    Yes,
    /// Connections from this machine.
    Local,
}

/// Whether clients that come with TLS show a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They are not asked.
    NotAsked,
    /// Who has none that is trusted is turned away.
    Required,
    /// Who shows one that is not trusted is turned away.
    Optional,
}

impl ClientCertificates {
    /// The answer at this position of the table's list; required for any other number.
    pub fn at(position: i64) -> Self {
        match position {
            0 => Self::NotAsked,
            2 => Self::Optional,
            _ => Self::Required,
        }
    }
}

/// Whether a replica loads its primary's data straight from the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisklessLoad {
    /// It goes through a file.
    Disabled,
    /// If it has no keys.
    OnEmptyDb,
    /// Always; what it has can be read meanwhile where it is an older state of the same data.
    SwapDb,
}

impl DisklessLoad {
    /// The answer at this position of the table's list; through a file for any other number.
    pub fn at(position: i64) -> Self {
        match position {
            1 => Self::OnEmptyDb,
            2 => Self::SwapDb,
            _ => Self::Disabled,
        }
    }
}

/// What becomes of a command of a primary, or of a log, that cannot be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PropagationErrors {
    /// A replica asks for all data, and a log is not loaded.
    Resync,
    /// It is passed over.
    Ignore,
    /// The server ends, and does not start.
    Panic,
    /// A replica ends; in a log it is passed over.
    PanicOnReplicas,
}

impl PropagationErrors {
    /// The answer at this position of the table's list; all data is asked for at any other number.
    pub fn at(position: i64) -> Self {
        match position {
            1 => Self::Ignore,
            2 => Self::Panic,
            3 => Self::PanicOnReplicas,
            _ => Self::Resync,
        }
    }

    /// Whether a command of a log that answers an error is passed over.
    pub fn passes_over_in_log(self) -> bool {
        self != Self::Panic
    }

    /// Whether a command of a log that is not known is passed over.
    pub fn passes_over_unknown_in_log(self) -> bool {
        matches!(self, Self::Ignore | Self::PanicOnReplicas)
    }

    /// Whether a command of a primary is. Where clients of the replica write, what they have written may be the reason, and no
    /// replica ends for that.
    pub fn passes_over_in_stream(self, is_read_only: bool) -> bool {
        self == Self::Ignore || self != Self::Resync && !is_read_only
    }

    /// Whether a replica ends that cannot apply what its primary has sent.
    pub fn ends_replica(self, is_read_only: bool) -> bool {
        is_read_only && matches!(self, Self::Panic | Self::PanicOnReplicas)
    }
}

impl LogLevel {
    /// The level at this position of the table's list; the most important for any other number.
    pub fn at(position: i64) -> Self {
        match position {
            0 => Self::Debug,
            1 => Self::Verbose,
            2 => Self::Notice,
            _ => Self::Warning,
        }
    }
}

impl MaxmemoryPolicy {
    /// The policy at this position of the table's list; no eviction for any other number.
    pub fn at(position: i64) -> Self {
        match position {
            0 => Self::VolatileLru,
            1 => Self::VolatileLfu,
            2 => Self::VolatileRandom,
            3 => Self::VolatileTtl,
            4 => Self::AllkeysLru,
            5 => Self::AllkeysLfu,
            6 => Self::AllkeysRandom,
            _ => Self::NoEviction,
        }
    }

    /// Whether only keys with a deadline may go.
    pub fn is_volatile(self) -> bool {
        matches!(self, Self::VolatileLru | Self::VolatileLfu | Self::VolatileRandom | Self::VolatileTtl)
    }

    /// Whether what was used least recently goes.
    pub fn is_lru(self) -> bool {
        matches!(self, Self::VolatileLru | Self::AllkeysLru)
    }

    /// Whether keys count how often they are used instead of when.
    pub fn is_lfu(self) -> bool {
        matches!(self, Self::VolatileLfu | Self::AllkeysLfu)
    }
}

impl Access {
    /// The answer at this position of the table's list; nobody for any other number.
    pub fn at(position: i64) -> Self {
        match position {
            1 => Self::Yes,
            2 => Self::Local,
            _ => Self::No,
        }
    }

    /// Whether a peer that is local or not may.
    pub fn allows(self, local: bool) -> bool {
        match self {
            Self::No => false,
            Self::Yes => true,
            Self::Local => local,
        }
    }
}
