//! The options with a choice of several words, as enums. Plain data; any thread.
//!
//! The variants have the order of the words in the option table. A test compares the two.

/// The importance of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Lines for developers only.
    Debug,
    /// Details that are seldom useful.
    Verbose,
    /// Lines that an operator wants to know.
    Notice,
    /// Lines that an operator must know.
    Warning,
}

/// The choice of the keys to evict, and with it the access clock that keys carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxmemoryPolicy {
    /// The key with a deadline that was not used for the longest time.
    VolatileLru,
    /// The key with a deadline that is used least often.
    VolatileLfu,
    /// A random key with a deadline.
    VolatileRandom,
    /// The key that expires next.
    VolatileTtl,
    /// The key that was not used for the longest time.
    AllkeysLru,
    /// The key that is used least often.
    AllkeysLfu,
    /// A random key.
    AllkeysRandom,
    /// Evicts nothing.
    NoEviction,
}

/// The clients that may use a guarded feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// None of the clients.
    No,
    /// Every client.
    Yes,
    /// Connections from this machine.
    Local,
}

/// The certificates that clients with TLS have to present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Clients are not asked for a certificate.
    NotAsked,
    /// A client without a trusted certificate is refused.
    Required,
    /// A client that presents a certificate that is not trusted is refused.
    Optional,
}

impl ClientCertificates {
    /// Returns the setting at this position of the table's list; [`ClientCertificates::Required`] for any other number.
    pub fn at(position: i64) -> Self {
        match position {
            0 => Self::NotAsked,
            2 => Self::Optional,
            _ => Self::Required,
        }
    }
}

/// The cases in which a replica loads its primary's data directly from the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisklessLoad {
    /// Never: the data goes through a file.
    Disabled,
    /// Only if the replica has no keys.
    OnEmptyDb,
    /// Always. The present data can be read during the load if it is an older state of the same data.
    SwapDb,
}

impl DisklessLoad {
    /// Returns the setting at this position of the table's list; [`DisklessLoad::Disabled`] for any other number.
    pub fn at(position: i64) -> Self {
        match position {
            1 => Self::OnEmptyDb,
            2 => Self::SwapDb,
            _ => Self::Disabled,
        }
    }
}

/// The handling of a command of a primary, or of an AOF, that cannot be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PropagationErrors {
    /// A replica asks for a full sync, and an AOF is not loaded.
    Resync,
    /// The command is skipped.
    Ignore,
    /// The server ends; if the command is in an AOF, it does not start.
    Panic,
    /// A replica ends; in an AOF the command is skipped.
    PanicOnReplicas,
}

impl PropagationErrors {
    /// Returns the setting at this position of the table's list; [`PropagationErrors::Resync`] for any other number.
    pub fn at(position: i64) -> Self {
        match position {
            1 => Self::Ignore,
            2 => Self::Panic,
            3 => Self::PanicOnReplicas,
            _ => Self::Resync,
        }
    }

    /// Returns whether a command of an AOF that answers an error is skipped.
    pub fn passes_over_in_log(self) -> bool {
        self != Self::Panic
    }

    /// Returns whether an unknown command of an AOF is skipped.
    pub fn passes_over_unknown_in_log(self) -> bool {
        matches!(self, Self::Ignore | Self::PanicOnReplicas)
    }

    /// Returns whether a failed command of a primary is skipped. If clients of the replica write, their writes may be the
    /// reason, and no replica ends for that.
    pub fn passes_over_in_stream(self, is_read_only: bool) -> bool {
        self == Self::Ignore || self != Self::Resync && !is_read_only
    }

    /// Returns whether a replica ends if it cannot apply a command of its primary.
    pub fn ends_replica(self, is_read_only: bool) -> bool {
        is_read_only && matches!(self, Self::Panic | Self::PanicOnReplicas)
    }
}

impl LogLevel {
    /// Returns the level at this position of the table's list; the most important for any other number.
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
    /// Returns the policy at this position of the table's list; no eviction for any other number.
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

    /// Returns whether only keys with a deadline may be evicted.
    pub fn is_volatile(self) -> bool {
        matches!(self, Self::VolatileLru | Self::VolatileLfu | Self::VolatileRandom | Self::VolatileTtl)
    }

    /// Returns whether the least recently used keys are evicted.
    pub fn is_lru(self) -> bool {
        matches!(self, Self::VolatileLru | Self::AllkeysLru)
    }

    /// Returns whether the access clock of a key counts how often it is used, instead of when it was used last.
    pub fn is_lfu(self) -> bool {
        matches!(self, Self::VolatileLfu | Self::AllkeysLfu)
    }
}

impl Access {
    /// Returns the setting at this position of the table's list; [`Access::No`] for any other number.
    pub fn at(position: i64) -> Self {
        match position {
            1 => Self::Yes,
            2 => Self::Local,
            _ => Self::No,
        }
    }

    /// Returns whether a client may use the feature; `local` says whether the client is on this machine.
    pub fn allows(self, local: bool) -> bool {
        match self {
            Self::No => false,
            Self::Yes => true,
            Self::Local => local,
        }
    }
}
