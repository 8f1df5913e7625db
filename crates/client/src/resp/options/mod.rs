//! Options of commands, in addition to keys and values, as types that cannot be mistaken for each other.
//!
//! Each writes the words of its command in the order that the server documents. Pure data; any thread.

pub(crate) mod bits;
pub(crate) mod geo;
pub(crate) mod key;
pub(crate) mod list;
pub(crate) mod sorted_set;
pub(crate) mod stream;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::Error;
use crate::resp::request::{Request, ToArg, ToArgs};

/// The time at which a key expires that SET writes or GETEX reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiry {
    /// After this time to live, to the millisecond.
    After(Duration),
    /// At this time, to the millisecond.
    At(SystemTime),
    /// The key keeps the deadline that it has (SET only).
    Keep,
    /// The key never expires (GETEX only; a plain SET has the same effect).
    Never,
}

impl ToArgs for Expiry {
    fn write_to(&self, request: &mut Request) {
        match self {
            Self::After(time) => time_argument(request, *time, "EX", "PX"),
            Self::At(time) => match time.duration_since(UNIX_EPOCH) {
                Ok(time) => time_argument(request, time, "EXAT", "PXAT"),
                Err(_) => request.refuse(Error::usage("a key cannot expire before 1970")),
            },
            Self::Keep => _ = request.word("KEEPTTL"),
            Self::Never => _ = request.word("PERSIST"),
        }
    }
}

/// Writes a time. A number of whole seconds is sent in seconds, for older servers, and for readable server logs.
fn time_argument(request: &mut Request, time: Duration, seconds: &str, milliseconds: &str) {
    if time.subsec_millis() == 0 {
        request.word(seconds).arg(time.as_secs());
    } else {
        request.word(milliseconds).arg(time.as_millis());
    }
}

/// Options of SET.
///
/// ```
/// use std::time::Duration;
/// use sleeve::{Expiry, SetOptions};
///
/// let lock = SetOptions::new().if_absent().expiry(Expiry::After(Duration::from_secs(30)));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SetOptions {
    condition: Option<&'static str>,
    get: bool,
    expiry: Option<Expiry>,
}

impl SetOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the key only if it does not exist (NX).
    pub fn if_absent(mut self) -> Self {
        self.condition = Some("NX");
        self
    }

    /// Sets the key only if it exists (XX).
    pub fn if_present(mut self) -> Self {
        self.condition = Some("XX");
        self
    }

    /// Returns the value from before (GET).
    pub fn get(mut self) -> Self {
        self.get = true;
        self
    }

    /// Sets the time at which the key expires.
    pub fn expiry(mut self, expiry: Expiry) -> Self {
        self.expiry = Some(expiry);
        self
    }
}

impl ToArgs for SetOptions {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.condition).arg(self.get.then_some("GET")).arg(self.expiry);
    }
}

/// Defines the words that a command takes in a place of their own.
macro_rules! words {
    ($($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? })+) => { $(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl ToArgs for $name {
            fn write_to(&self, request: &mut Request) {
                request.word(match self { $(Self::$variant => $word,)+ });
            }
        }

        impl ToArg for $name {}
    )+ };
}

words! {
    /// The condition under which EXPIRE and its relatives change a key's time to live.
    ExpireIf {
        /// Only if the key has no time to live.
        Absent = "NX",
        /// Only if the key has a time to live.
        Present = "XX",
        /// Only if the new deadline is later.
        Later = "GT",
        /// Only if the new deadline is earlier; a key without a time to live counts as the latest.
        Sooner = "LT",
    }
    /// The condition under which HSETEX sets its fields.
    FieldsIf {
        /// Only if none of the fields exists.
        Absent = "FNX",
        /// Only if all of the fields exist.
        Present = "FXX",
    }
    /// The operation of BITOP on its sources.
    BitOperation {
        /// The bits that are set in all sources.
        And = "AND",
        /// The bits that are set in any source.
        Or = "OR",
        /// The bits that are set in an odd number of sources.
        Xor = "XOR",
        /// The bits of the only source, inverted.
        Not = "NOT",
    }
    /// The time at which a flush frees the memory.
    FlushMode {
        /// The server frees the memory after its answer.
        Async = "ASYNC",
        /// The server frees the memory before its answer.
        Sync = "SYNC",
    }
    /// The treatment of existing libraries by FUNCTION RESTORE.
    RestorePolicy {
        /// The existing libraries stay; it is an error if a library of the same name is restored.
        Append = "APPEND",
        /// The existing libraries stay, except those with the names of restored ones.
        Replace = "REPLACE",
        /// The existing libraries are removed.
        Flush = "FLUSH",
    }
    /// The requests that CLIENT PAUSE holds up.
    PauseMode {
        /// Only commands that may write.
        Write = "WRITE",
        /// All commands.
        All = "ALL",
    }
    /// The way in which CLIENT UNBLOCK ends a wait.
    Unblock {
        /// The blocked command answers as if its timeout had passed.
        Timeout = "TIMEOUT",
        /// The blocked command answers with an error.
        Error = "ERROR",
    }
    /// The argument of CLIENT NO-EVICT and CLIENT NO-TOUCH.
    Switch {
        /// Turns the option on.
        On = "ON",
        /// Turns the option off.
        Off = "OFF",
    }
    /// The kind of connection for CLIENT LIST and CLIENT KILL.
    ClientType {
        /// A connection of a program.
        Normal = "NORMAL",
        /// The connection from this server to its primary.
        Master = "MASTER",
        /// A connection from a replica.
        Replica = "REPLICA",
        /// A connection of a subscriber.
        PubSub = "PUBSUB",
    }
}

/// Options of LCS with IDX.
#[derive(Clone, Copy, Debug, Default)]
pub struct LcsOptions {
    min_match_length: Option<u64>,
    with_match_length: bool,
}

impl LcsOptions {
    /// Returns the defaults: all matches, without their lengths.
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves out shorter matches.
    pub fn min_match_length(mut self, min_match_length: u64) -> Self {
        self.min_match_length = Some(min_match_length);
        self
    }

    /// Returns each match with its length.
    pub fn with_match_length(mut self) -> Self {
        self.with_match_length = true;
        self
    }
}

impl ToArgs for LcsOptions {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.min_match_length.map(|length| ("MINMATCHLEN", length)));
        request.arg(self.with_match_length.then_some("WITHMATCHLEN"));
    }
}

/// The connections that CLIENT KILL ends: those for which all of these conditions hold.
#[derive(Clone, Debug, Default)]
pub struct ClientFilter {
    id: Option<u64>,
    address: Option<String>,
    local_address: Option<String>,
    user: Option<String>,
    kind: Option<ClientType>,
    skip_me: Option<bool>,
}

impl ClientFilter {
    /// Returns the filter without a condition: all connections, except the one that asks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects the connection with this id.
    pub fn id(mut self, id: u64) -> Self {
        self.id = Some(id);
        self
    }

    /// Selects the connections from this address, `ip:port`.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// Selects the connections to this address of the server, `ip:port`.
    pub fn local_address(mut self, local_address: impl Into<String>) -> Self {
        self.local_address = Some(local_address.into());
        self
    }

    /// Selects the connections that are logged in as this user.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Selects the connections of this kind.
    pub fn kind(mut self, kind: ClientType) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Sets whether the connection that asks is spared; the server spares it unless this is false.
    pub fn skip_me(mut self, skip_me: bool) -> Self {
        self.skip_me = Some(skip_me);
        self
    }
}

impl ToArgs for ClientFilter {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.id.map(|id| ("ID", id)));
        request.arg(self.address.as_ref().map(|address| ("ADDR", address)));
        request.arg(self.local_address.as_ref().map(|address| ("LADDR", address)));
        request.arg(self.user.as_ref().map(|user| ("USER", user)));
        request.arg(self.kind.map(|kind| ("TYPE", kind)));
        request.arg(self.skip_me.map(|skip| ("SKIPME", if skip { "yes" } else { "no" })));
    }
}

/// The commands that COMMAND LIST names.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CommandFilter {
    /// The commands of this module.
    Module(String),
    /// The commands of this ACL category.
    Category(String),
    /// The commands with a name that matches this glob pattern.
    Pattern(String),
}

impl ToArgs for CommandFilter {
    fn write_to(&self, request: &mut Request) {
        request.word("FILTERBY");
        match self {
            Self::Module(name) => request.word("MODULE").arg(name),
            Self::Category(name) => request.word("ACLCAT").arg(name),
            Self::Pattern(pattern) => request.word("PATTERN").arg(pattern),
        };
    }
}
