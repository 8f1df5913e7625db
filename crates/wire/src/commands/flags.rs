//! The closed sets of words in a command's row: flags, ACL categories, key flags, groups, and reasons to own a connection.
//!
//! Each set is an integer with a name per bit, in the order in which Redis lists them. Constants and pure functions only.

/// Defines a set of named bits: constants, membership, union, and the names of its members.
macro_rules! bit_set {
    ($(#[$doc:meta])* $set:ident($int:ty) { $($(#[$bit_doc:meta])* $bit:ident $name:literal)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $set($int);

        bit_set!(@constants $set $int; 0; $($(#[$bit_doc])* $bit)*);

        impl $set {
            /// All members with their names, in Redis's order.
            pub const ALL: &'static [($set, &'static str)] = &[$(($set::$bit, $name)),*];

            /// The set without members.
            pub const EMPTY: $set = $set(0);

            /// Returns the members of either set.
            #[must_use]
            pub const fn or(self, other: $set) -> $set {
                $set(self.0 | other.0)
            }

            /// Returns the members of this set that are not in the other.
            #[must_use]
            pub const fn without(self, other: $set) -> $set {
                $set(self.0 & !other.0)
            }

            /// Returns whether all members of `other` are in this set.
            #[inline]
            pub const fn contains(self, other: $set) -> bool {
                self.0 & other.0 == other.0
            }

            /// Returns whether the sets have a member in common.
            #[inline]
            pub const fn intersects(self, other: $set) -> bool {
                self.0 & other.0 != 0
            }

            /// Returns whether there is no member.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Returns the names of the members, in Redis's order.
            pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
                Self::ALL.iter().filter(move |(bit, _)| self.contains(*bit)).map(|&(_, name)| name)
            }

            /// Returns the member of this name, in any case.
            pub fn named(name: &[u8]) -> Option<$set> {
                Self::ALL.iter().find(|(_, own)| own.as_bytes().eq_ignore_ascii_case(name)).map(|&(bit, _)| bit)
            }
        }
    };
    (@constants $set:ident $int:ty; $at:expr; $(#[$doc:meta])* $bit:ident $($rest:tt)*) => {
        impl $set {
            $(#[$doc])*
            pub const $bit: $set = $set(1 << ($at));
        }
        bit_set!(@constants $set $int; $at + 1; $($rest)*);
    };
    (@constants $set:ident $int:ty; $at:expr;) => {};
}

bit_set! {
    /// Flags of a command: its nature and the states in which it may run.
    Flags(u32) {
        /// May change data.
        WRITE "write"
        /// Reads data and changes none.
        READONLY "readonly"
        /// Refused when memory has run out.
        DENYOOM "denyoom"
        /// Comes from a module.
        MODULE "module"
        /// For operators.
        ADMIN "admin"
        /// About publish and subscribe.
        PUBSUB "pubsub"
        /// Refused in scripts.
        NOSCRIPT "noscript"
        /// May block its client.
        BLOCKING "blocking"
        /// Runs while data is loaded.
        LOADING "loading"
        /// Runs on a replica with stale data.
        STALE "stale"
        /// Hidden from MONITOR.
        SKIP_MONITOR "skip_monitor"
        /// Kept out of the slow log.
        SKIP_SLOWLOG "skip_slowlog"
        /// Allowed for a slot that is being imported, like ASKING.
        ASKING "asking"
        /// Constant or logarithmic time.
        FAST "fast"
        /// Runs before authentication.
        NO_AUTH "no_auth"
        /// May replicate although it is no write.
        MAY_REPLICATE "may_replicate"
        /// May be given without keys although it has key specifications.
        NO_MANDATORY_KEYS "no_mandatory_keys"
        /// Needs `enable-debug-command` or the like.
        PROTECTED "protected"
        /// Refused while data is loaded in the background.
        NO_ASYNC_LOADING "no_async_loading"
        /// Refused within a transaction.
        NO_MULTI "no_multi"
        /// Keys cannot be told from positions alone.
        MOVABLE_KEYS "movablekeys"
        /// Runs while a script holds the server.
        ALLOW_BUSY "allow_busy"
    }
}

bit_set! {
    /// ACL categories.
    Categories(u32) {
        /// About keys of any type.
        KEYSPACE "keyspace"
        /// Reads keys.
        READ "read"
        /// Writes keys.
        WRITE "write"
        /// About sets.
        SET "set"
        /// About sorted sets.
        SORTEDSET "sortedset"
        /// About lists.
        LIST "list"
        /// About hashes.
        HASH "hash"
        /// About strings.
        STRING "string"
        /// About bitmaps.
        BITMAP "bitmap"
        /// About HyperLogLogs.
        HYPERLOGLOG "hyperloglog"
        /// About geographic positions.
        GEO "geo"
        /// About streams.
        STREAM "stream"
        /// About publish and subscribe.
        PUBSUB "pubsub"
        /// For operators.
        ADMIN "admin"
        /// Constant or logarithmic time.
        FAST "fast"
        /// Slow: every command that is not fast.
        SLOW "slow"
        /// May block.
        BLOCKING "blocking"
        /// Can do harm.
        DANGEROUS "dangerous"
        /// About connections.
        CONNECTION "connection"
        /// About transactions.
        TRANSACTION "transaction"
        /// About scripts.
        SCRIPTING "scripting"
    }
}

impl Categories {
    /// Returns these categories with those that follow from the command's flags, as Redis derives them. A read-only script
    /// command is not in `@read`: it may run any code, and `+@read` is given to users that may only look.
    pub const fn with_implied(self, flags: Flags) -> Categories {
        let mut all = self.or(if flags.contains(Flags::FAST) { Categories::FAST } else { Categories::SLOW });
        if flags.contains(Flags::WRITE) {
            all = all.or(Categories::WRITE);
        }
        if flags.contains(Flags::READONLY) && !self.contains(Categories::SCRIPTING) {
            all = all.or(Categories::READ);
        }
        if flags.contains(Flags::ADMIN) {
            all = all.or(Categories::ADMIN).or(Categories::DANGEROUS);
        }
        if flags.contains(Flags::PUBSUB) {
            all = all.or(Categories::PUBSUB);
        }
        if flags.contains(Flags::BLOCKING) {
            all = all.or(Categories::BLOCKING);
        }
        all
    }
}

bit_set! {
    /// Flags of a key: the effect of a command on it.
    KeyFlags(u16) {
        /// Reads the value or facts about it.
        RO "RO"
        /// Changes the value in a way that depends on the value.
        RW "RW"
        /// Overwrites the value without reading it.
        OW "OW"
        /// Removes the key.
        RM "RM"
        /// Returns or copies the user's data.
        ACCESS "access"
        /// Changes the user's data in a way that may depend on the present data.
        UPDATE "update"
        /// Adds data without touching the present data.
        INSERT "insert"
        /// Removes data.
        DELETE "delete"
        /// An argument that only routes the request, as a key would.
        NOT_KEY "not_key"
        /// The key specification does not find all keys.
        INCOMPLETE "incomplete"
        /// The arguments decide between flags; see [`super::keys::KeyUses`].
        VARIABLE_FLAGS "variable_flags"
    }
}

/// The reason why a command's connection cannot be shared: the command changes the connection's state or relies on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnConnection {
    /// The command selects the database of the commands behind it.
    Database,
    /// The command begins or ends a transaction: requests are queued in between.
    Transaction,
    /// The command changes the set of keys that the connection watches.
    Watch,
    /// The command changes the user, the protocol, or ends the connection.
    Greeting,
    /// From this command on the server sends messages that answer no request.
    Messages,
    /// The command switches on or off the messages that tell the connection which offset is durable.
    Journal,
    /// The command decides whether the connection gets invalidations of changed keys.
    Tracking,
    /// The command decides whether the server replies to the commands behind it.
    Silence,
    /// The command refers to the writes of its connection.
    Written,
}

/// The families of commands in the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Bits in strings.
    Bitmap,
    /// Several servers that share the keys.
    Cluster,
    /// The connection itself.
    Connection,
    /// Positions on the earth.
    Geo,
    /// Keys of any type.
    Generic,
    /// Hashes.
    Hash,
    /// Strings that count approximately.
    HyperLogLog,
    /// Lists.
    List,
    /// Streams.
    Stream,
    /// Publishing and subscribing.
    PubSub,
    /// The server.
    Server,
    /// Sets.
    Set,
    /// Scripts and functions.
    Scripting,
    /// Sorted sets.
    SortedSet,
    /// Strings.
    String,
    /// Transactions.
    Transactions,
}

impl Group {
    /// Returns whether the group's commands are about keys and their values, and change no state of the client.
    pub(super) const fn is_of_data(self) -> bool {
        use Group::{Bitmap, Generic, Geo, Hash, HyperLogLog, List, Set, SortedSet, Stream, String};
        matches!(self, Bitmap | Geo | Generic | Hash | HyperLogLog | List | Stream | Set | SortedSet | String)
    }

    /// Returns the group's name in COMMAND DOCS.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Bitmap => "bitmap",
            Group::Cluster => "cluster",
            Group::Connection => "connection",
            Group::Geo => "geo",
            Group::Generic => "generic",
            Group::Hash => "hash",
            Group::HyperLogLog => "hyperloglog",
            Group::List => "list",
            Group::Stream => "stream",
            Group::PubSub => "pubsub",
            Group::Server => "server",
            Group::Set => "set",
            Group::Scripting => "scripting",
            Group::SortedSet => "sorted-set",
            Group::String => "string",
            Group::Transactions => "transactions",
        }
    }
}
