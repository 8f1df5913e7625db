//! Options of commands besides keys and values, as types that cannot be mistaken for each other.
//!
//! Each writes the words that the server documents, in the order in which it wants them. Pure data; any thread.

pub(crate) mod bits;
pub(crate) mod geo;
pub(crate) mod key;
pub(crate) mod list;
pub(crate) mod sorted_set;
pub(crate) mod stream;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::Error;
use crate::request::{Request, ToArg, ToArgs};

/// When a key that is set, or looked at by GETEX, goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiry {
    /// After this long, to the millisecond.
    After(Duration),
    /// At this time, to the millisecond.
    At(SystemTime),
    /// As it was to go before (SET only).
    Keep,
    /// Never (GETEX only; a plain SET means it too).
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

/// Whole seconds travel as such, because older servers and logs read better that way.
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

    /// NX: only if the key is not there.
    pub fn if_absent(mut self) -> Self {
        self.condition = Some("NX");
        self
    }

    /// XX: only if the key is there.
    pub fn if_present(mut self) -> Self {
        self.condition = Some("XX");
        self
    }

    /// GET: the answer is the value from before.
    pub fn get(mut self) -> Self {
        self.get = true;
        self
    }

    /// When the key goes away.
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

/// A word that a command takes in a place of its own.
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
    /// When EXPIRE and its kin change a key's time to live.
    ExpireIf {
        /// Only if it has none.
        Absent = "NX",
        /// Only if it has one.
        Present = "XX",
        /// Only if the new one is later.
        Later = "GT",
        /// Only if the new one is sooner; no time to live counts as the latest.
        Sooner = "LT",
    }
    /// When HSETEX sets its fields.
    FieldsIf {
        /// Only if none of them is there.
        Absent = "FNX",
        /// Only if all of them are there.
        Present = "FXX",
    }
    /// The operation of BITOP on its sources.
    BitOperation {
        /// Bits that are set in all.
        And = "AND",
        /// Bits that are set in any.
        Or = "OR",
        /// Bits that are set in an odd number.
        Xor = "XOR",
        /// The only source's bits, inverted.
        Not = "NOT",
    }
    /// Whether a flush waits until the memory is free.
    FlushMode {
        /// The memory is freed later.
        Async = "ASYNC",
        /// The memory is free when it answers.
        Sync = "SYNC",
    }
    /// The treatment of present libraries by FUNCTION RESTORE.
    RestorePolicy {
        /// They stay; it is an error if one of the same name is restored.
        Append = "APPEND",
        /// They stay, but for those of the same names.
        Replace = "REPLACE",
        /// They are removed.
        Flush = "FLUSH",
    }
    /// The requests that CLIENT PAUSE holds up.
    PauseMode {
        /// Only commands that may write.
        Write = "WRITE",
        /// All commands.
        All = "ALL",
    }
    /// How CLIENT UNBLOCK ends a wait.
    Unblock {
        /// As if the time were up.
        Timeout = "TIMEOUT",
        /// With an error.
        Error = "ERROR",
    }
    /// A yes or no of CLIENT NO-EVICT and CLIENT NO-TOUCH.
    Switch {
        /// Yes.
        On = "ON",
        /// Turns it off.
        Off = "OFF",
    }
    /// The kind of connection for CLIENT LIST and CLIENT KILL.
    ClientType {
        /// A program's.
        Normal = "NORMAL",
        /// From this server to its master.
        Master = "MASTER",
        /// From a replica.
        Replica = "REPLICA",
        /// A subscriber's.
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
    /// All matches, without their lengths.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shorter matches are left out.
    pub fn min_match_length(mut self, min_match_length: u64) -> Self {
        self.min_match_length = Some(min_match_length);
        self
    }

    /// Each match comes with its length.
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

/// Which connections CLIENT KILL ends: those that all of these are true of.
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
    /// All, but for the one that asks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Its id.
    pub fn id(mut self, id: u64) -> Self {
        self.id = Some(id);
        self
    }

    /// Its own address, `ip:port`.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// The server's address that it came to, `ip:port`.
    pub fn local_address(mut self, local_address: impl Into<String>) -> Self {
        self.local_address = Some(local_address.into());
        self
    }

    /// The user that it is logged in as.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Its kind.
    pub fn kind(mut self, kind: ClientType) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Whether the connection that asks is spared; the server spares it unless this says otherwise.
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

/// Which commands COMMAND LIST names.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CommandFilter {
    /// The commands of this module.
    Module(String),
    /// The commands of this ACL category.
    Category(String),
    /// The commands with a name that this glob pattern matches.
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
