//! Options of the commands on keys of any type: how to copy, move, restore and scan.
//!
//! Each writes the words that the server documents, in the order in which it wants them. Pure data; any thread.

use std::time::Duration;

use crate::request::{Request, ToArgs};

/// Options of COPY.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyOptions {
    database: Option<u32>,
    replace: bool,
}

impl CopyOptions {
    /// Within the database, and never over a key that is there.
    pub fn new() -> Self {
        Self::default()
    }

    /// Into this database, instead of the key's own.
    pub fn database(mut self, database: u32) -> Self {
        self.database = Some(database);
        self
    }

    /// A key of the new name is overwritten.
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }
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
/// let target = MigrateTarget::new("10.0.0.7", 6379).password("secret").replace();
/// ```
#[derive(Clone)]
pub struct MigrateTarget {
    host: String,
    port: u16,
    database: u32,
    timeout: Duration,
    copy: bool,
    replace: bool,
    user: Option<String>,
    password: Option<String>,
}

impl MigrateTarget {
    /// Database 0 of the server at this name or address, as the server that has the keys sees it; without a password, waiting
    /// for a second at a time.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
            database: 0,
            timeout: Duration::from_secs(1),
            copy: false,
            replace: false,
            user: None,
            password: None,
        }
    }

    /// Into this database there.
    pub fn database(mut self, database: u32) -> Self {
        self.database = database;
        self
    }

    /// For how long the one server waits for the other at any one step, to the millisecond.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The keys stay where they are, too.
    pub fn copy(mut self) -> Self {
        self.copy = true;
        self
    }

    /// Keys of these names are overwritten there.
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }

    /// The user at the other server; the default one without it.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// The password at the other server.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }
}

impl std::fmt::Debug for MigrateTarget {
    /// Everything but the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MigrateTarget")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl ToArgs for MigrateTarget {
    fn write_to(&self, request: &mut Request) {
        request.arg(&self.host).arg(self.port).arg("").arg(self.database).arg(self.timeout.as_millis());
        request.arg(self.copy.then_some("COPY")).arg(self.replace.then_some("REPLACE"));
        match (&self.user, &self.password) {
            (Some(user), password) => {
                request.arg("AUTH2").arg(user).arg(password.as_deref().unwrap_or_default());
            }
            (None, Some(password)) => _ = request.arg("AUTH").arg(password),
            (None, None) => {}
        }
    }
}

/// Options of RESTORE.
#[derive(Clone, Copy, Debug, Default)]
pub struct RestoreOptions {
    replace: bool,
    is_absolute: bool,
    idle_s: Option<u64>,
    frequency: Option<u8>,
}

impl RestoreOptions {
    /// Never over a key that is there, with a time to live.
    pub fn new() -> Self {
        Self::default()
    }

    /// A key of this name is overwritten.
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }

    /// The time is one of the clock, in milliseconds since the epoch, instead of a time to live.
    pub fn absolute(mut self) -> Self {
        self.is_absolute = true;
        self
    }

    /// For how many seconds the key counts as unused, where eviction goes by use.
    pub fn idle_s(mut self, idle_s: u64) -> Self {
        self.idle_s = Some(idle_s);
        self
    }

    /// How often the key counts as used, where eviction goes by that; not together with `idle_s`.
    pub fn frequency(mut self, frequency: u8) -> Self {
        self.frequency = Some(frequency);
        self
    }
}

impl ToArgs for RestoreOptions {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.replace.then_some("REPLACE")).arg(self.is_absolute.then_some("ABSTTL"));
        request.arg(self.idle_s.map(|seconds| ("IDLETIME", seconds)));
        request.arg(self.frequency.map(|count| ("FREQ", count)));
    }
}

/// Options of SCAN.
///
/// ```
/// use sleeve::ScanOptions;
///
/// let sessions = ScanOptions::new().pattern("session:*").kind("hash").count(1_000);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    pattern: Option<String>,
    count: Option<u64>,
    kind: Option<String>,
}

impl ScanOptions {
    /// All keys, a few at a time.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only keys that this glob pattern matches.
    pub fn pattern(mut self, pattern: impl Into<String>) -> Self {
        self.pattern = Some(pattern.into());
        self
    }

    /// About how much work one call does, in keys.
    pub fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// Only keys of this type (`string`, `list`, ...).
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }
}

impl ToArgs for ScanOptions {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.pattern.as_ref().map(|pattern| ("MATCH", pattern)));
        request.arg(self.count.map(|count| ("COUNT", count)));
        request.arg(self.kind.as_ref().map(|kind| ("TYPE", kind)));
    }
}

/// Options of SSCAN, HSCAN and ZSCAN.
#[derive(Clone, Debug, Default)]
pub struct MembersScan {
    pattern: Option<String>,
    count: Option<u64>,
}

impl MembersScan {
    /// All members, a few at a time.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only members that this glob pattern matches.
    pub fn pattern(mut self, pattern: impl Into<String>) -> Self {
        self.pattern = Some(pattern.into());
        self
    }

    /// About how much work one call does, in members.
    pub fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }
}

impl ToArgs for MembersScan {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.pattern.as_ref().map(|pattern| ("MATCH", pattern)));
        request.arg(self.count.map(|count| ("COUNT", count)));
    }
}
