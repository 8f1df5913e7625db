//! Options of the commands on keys of any type: copying, moving, restoring and scanning.
//!
//! Each writes the words of its command in the order that the server documents. Pure data; any thread.

use std::time::Duration;

use crate::resp::request::{Request, ToArgs};

/// Options of COPY.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyOptions {
    database: Option<u32>,
    replace: bool,
}

impl CopyOptions {
    /// Returns the defaults: a copy within the database, which overwrites no key.
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies into this database, instead of the key's own.
    pub fn database(mut self, database: u32) -> Self {
        self.database = Some(database);
        self
    }

    /// Overwrites an existing key of the new name.
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

/// The server to which MIGRATE sends keys, and its options.
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
    /// Returns the target with the defaults: database 0 of the server at this name or address, as the server that has the
    /// keys sees it; without a password, and with a timeout of a second for each step.
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

    /// Sets the database of the target server.
    pub fn database(mut self, database: u32) -> Self {
        self.database = database;
        self
    }

    /// Sets the time that one server waits for the other at any step, to the millisecond.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Keeps the keys on the server that sends them, too.
    pub fn copy(mut self) -> Self {
        self.copy = true;
        self
    }

    /// Overwrites existing keys of these names on the target server.
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }

    /// Sets the user at the target server; the default user without this.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets the password at the target server.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }
}

impl std::fmt::Debug for MigrateTarget {
    /// Writes everything but the password.
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
    /// Returns the defaults: no key is overwritten, and the time is a time to live.
    pub fn new() -> Self {
        Self::default()
    }

    /// Overwrites an existing key of this name.
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }

    /// Takes the time as a deadline, in milliseconds since the Unix epoch, instead of a time to live.
    pub fn absolute(mut self) -> Self {
        self.is_absolute = true;
        self
    }

    /// Sets the number of seconds for which the key counts as unused, for eviction by the last use (LRU).
    pub fn idle_s(mut self, idle_s: u64) -> Self {
        self.idle_s = Some(idle_s);
        self
    }

    /// Sets the number of uses that count for the key, for eviction by their frequency (LFU); not together with `idle_s`.
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
    /// Returns the defaults: all keys, a few in each call.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns only keys that match this glob pattern.
    pub fn pattern(mut self, pattern: impl Into<String>) -> Self {
        self.pattern = Some(pattern.into());
        self
    }

    /// Sets the approximate work of one call, as a number of keys.
    pub fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// Returns only keys of this type (`string`, `list`, ...).
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
    /// Returns the defaults: all members, a few in each call.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns only members that match this glob pattern.
    pub fn pattern(mut self, pattern: impl Into<String>) -> Self {
        self.pattern = Some(pattern.into());
        self
    }

    /// Sets the approximate work of one call, as a number of members.
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
