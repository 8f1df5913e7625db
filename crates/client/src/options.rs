//! What commands can be told besides keys and values, as types that cannot be mistaken for each other.
//!
//! Each writes the words that the server documents, in the order in which it wants them. Pure data; any thread.

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

/// What SET can be told.
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
    /// Nothing out of the ordinary.
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
    /// What BITOP does with its sources.
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
    /// What the numbers of a range of BITCOUNT or BITPOS count.
    BitUnit {
        /// Bytes.
        Byte = "BYTE",
        /// Bits; since Redis 7.0.
        Bit = "BIT",
    }
    /// Whether a flush waits until the memory is free.
    FlushMode {
        /// The memory is freed later.
        Async = "ASYNC",
        /// The memory is free when it answers.
        Sync = "SYNC",
    }
    /// What FUNCTION RESTORE does with the libraries that there are.
    RestorePolicy {
        /// They stay; it is an error if one of the same name is restored.
        Append = "APPEND",
        /// They stay, but for those of the same names.
        Replace = "REPLACE",
        /// They are removed.
        Flush = "FLUSH",
    }
    /// What CLIENT PAUSE holds up.
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
        /// No.
        Off = "OFF",
    }
    /// What kind of connection CLIENT LIST and CLIENT KILL mean.
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

/// A part of a string, for BITCOUNT and BITPOS: first and last, counted from the end where negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitRange {
    /// The first.
    pub start: i64,
    /// The last, itself included; BITPOS can do without.
    pub end: Option<i64>,
    /// What they count; bytes without it.
    pub unit: Option<BitUnit>,
}

impl ToArgs for BitRange {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.start).arg(self.end).arg(self.unit);
    }
}

/// What BITFIELD does, one step after the other.
///
/// ```
/// use sleeve::BitField;
///
/// // A type is `u` or `i` and its bits; an offset counts bits, or with `#` whole fields.
/// let steps = BitField::new().overflow("SAT").incrby("u8", "#0", 10).get("i16", 8);
/// ```
#[derive(Clone, Debug, Default)]
pub struct BitField {
    words: Vec<String>,
}

impl BitField {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn with(mut self, words: &[&dyn std::fmt::Display]) -> Self {
        self.words.extend(words.iter().map(ToString::to_string));
        self
    }

    /// Reads a field.
    pub fn get(self, encoding: &str, offset: impl std::fmt::Display) -> Self {
        self.with(&[&"GET", &encoding, &offset])
    }

    /// Writes a field; answers what was there.
    pub fn set(self, encoding: &str, offset: impl std::fmt::Display, value: i64) -> Self {
        self.with(&[&"SET", &encoding, &offset, &value])
    }

    /// Adds to a field; answers what is there then, or nil where that overflows and `FAIL` is in force.
    pub fn incrby(self, encoding: &str, offset: impl std::fmt::Display, by: i64) -> Self {
        self.with(&[&"INCRBY", &encoding, &offset, &by])
    }

    /// What overflow does in the steps that follow: `WRAP`, `SAT` or `FAIL`.
    pub fn overflow(self, behaviour: &str) -> Self {
        self.with(&[&"OVERFLOW", &behaviour])
    }
}

impl ToArgs for BitField {
    fn write_to(&self, request: &mut Request) {
        request.arg(&self.words);
    }
}

/// What LCS with IDX can be told.
#[derive(Clone, Copy, Debug, Default)]
pub struct LcsOptions {
    /// Shorter matches are left out.
    pub min_match_length: Option<u64>,
    /// Whether each match comes with its length.
    pub with_match_length: bool,
}

impl ToArgs for LcsOptions {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.min_match_length.map(|length| ("MINMATCHLEN", length)));
        request.arg(self.with_match_length.then_some("WITHMATCHLEN"));
    }
}

/// What COPY can be told.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyOptions {
    /// The database to copy into, instead of the key's own.
    pub database: Option<u32>,
    /// Whether a key of the new name is overwritten.
    pub replace: bool,
}

impl ToArgs for CopyOptions {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.database.map(|database| ("DB", database))).arg(self.replace.then_some("REPLACE"));
    }
}

/// Where MIGRATE sends keys to, and how.
///
/// ```
/// use sleeve::MigrateTarget;
///
/// let target = MigrateTarget { replace: true, ..MigrateTarget::new("10.0.0.7", 6379) };
/// ```
#[derive(Clone, Debug)]
pub struct MigrateTarget {
    /// The other server's name or address, as the server that has the keys sees it.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The database there.
    pub database: u32,
    /// For how many milliseconds the one server waits for the other at any one step.
    pub timeout_ms: u64,
    /// Whether the keys stay where they are, too.
    pub copy: bool,
    /// Whether keys of these names are overwritten there.
    pub replace: bool,
    /// The user at the other server; the default one without it.
    pub username: Option<String>,
    /// The password at the other server.
    pub password: Option<String>,
}

impl MigrateTarget {
    /// Database 0 of this server, without a password, waiting for a second at a time.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
            database: 0,
            timeout_ms: 1_000,
            copy: false,
            replace: false,
            username: None,
            password: None,
        }
    }
}

impl ToArgs for MigrateTarget {
    fn write_to(&self, request: &mut Request) {
        request.arg(&self.host).arg(self.port).arg("").arg(self.database).arg(self.timeout_ms);
        request.arg(self.copy.then_some("COPY")).arg(self.replace.then_some("REPLACE"));
        match (&self.username, &self.password) {
            (Some(username), password) => {
                request.arg("AUTH2").arg(username).arg(password.as_deref().unwrap_or_default());
            }
            (None, Some(password)) => _ = request.arg("AUTH").arg(password),
            (None, None) => {}
        }
    }
}

/// What RESTORE can be told.
#[derive(Clone, Copy, Debug, Default)]
pub struct RestoreOptions {
    /// Whether a key of this name is overwritten.
    pub replace: bool,
    /// Whether the time is one of the clock, in milliseconds since the epoch, instead of a time to live.
    pub is_absolute: bool,
    /// For how many seconds the key counts as unused, where eviction goes by use.
    pub idle_s: Option<u64>,
    /// How often the key counts as used, where eviction goes by that; not together with `idle_s`.
    pub frequency: Option<u8>,
}

impl ToArgs for RestoreOptions {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.replace.then_some("REPLACE")).arg(self.is_absolute.then_some("ABSTTL"));
        request.arg(self.idle_s.map(|seconds| ("IDLETIME", seconds)));
        request.arg(self.frequency.map(|count| ("FREQ", count)));
    }
}

/// What SCAN can be told.
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    /// Only keys that this glob pattern matches.
    pub pattern: Option<String>,
    /// About how much work one call does, in keys.
    pub count: Option<u64>,
    /// Only keys of this type (`string`, `list`, ...).
    pub kind: Option<String>,
}

impl ToArgs for ScanOptions {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.pattern.as_ref().map(|pattern| ("MATCH", pattern)));
        request.arg(self.count.map(|count| ("COUNT", count)));
        request.arg(self.kind.as_ref().map(|kind| ("TYPE", kind)));
    }
}

/// What SSCAN, HSCAN and ZSCAN can be told.
#[derive(Clone, Debug, Default)]
pub struct MembersScan {
    /// Only members that this glob pattern matches.
    pub pattern: Option<String>,
    /// About how much work one call does, in members.
    pub count: Option<u64>,
}

impl ToArgs for MembersScan {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.pattern.as_ref().map(|pattern| ("MATCH", pattern)));
        request.arg(self.count.map(|count| ("COUNT", count)));
    }
}

/// Which connections CLIENT KILL ends: those that all of these are true of.
#[derive(Clone, Debug, Default)]
pub struct ClientFilter {
    /// Its id.
    pub id: Option<u64>,
    /// Its own address, `ip:port`.
    pub address: Option<String>,
    /// The server's address that it came to, `ip:port`.
    pub local_address: Option<String>,
    /// The user that it is logged in as.
    pub user: Option<String>,
    /// Its kind.
    pub kind: Option<ClientType>,
    /// Whether the connection that asks is spared; the server spares it where this is `None`.
    pub skip_me: Option<bool>,
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
    /// Those of this module.
    Module(String),
    /// Those of this ACL category.
    Category(String),
    /// Those whose name this glob pattern matches.
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
