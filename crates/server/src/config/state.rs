//! The values of all options of one engine.
//!
//! Numbers, sizes, flags and choices are atomics, so that a hot path reads an option with one relaxed load. Texts are behind
//! a lock and are handed out as shared references. The atomic of a text holds its length, so that code can check for a
//! password without a lock.
//!
//! Changes are made one after the other under one lock: CONFIG SET applies all of its pairs or none. This module does not
//! know the consequences of a change (a new listener, another log level): the caller passes a function that applies them and
//! may refuse.
//!
//! Any thread may read or change options. This module knows neither files (`load`, `rewrite`) nor commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use sleeve_wire::pattern;

use super::enums::{Access, ClientCertificates, LogLevel, MaxmemoryPolicy, PropagationErrors};
use super::limits::{ClientClass, OutputLimit, OutputLimits};
use super::table::{COUNT, Change, Kind, Opt, ROWS, Row, find, names};
use super::unsupported;
use super::value;
use super::value::Value;
use crate::acl;
use crate::acl::Defaults;
use crate::request::error::Error;
use crate::request::renamed_commands::RenamedCommands;

/// The options of one engine.
#[derive(Debug)]
pub struct Config {
    numbers: [AtomicI64; COUNT],
    /// The text of each option; options that are no texts share one empty text.
    texts: RwLock<Vec<Arc<[u8]>>>,
    limits: [[AtomicU64; 3]; 3],
    file: RwLock<Option<PathBuf>>,
    /// The words behind each `user` of the configuration file.
    users: Mutex<Vec<Vec<Vec<u8>>>>,
    names: Mutex<RenamedCommands>,
    changing: Mutex<()>,
}

/// A pair of CONFIG SET that has passed the checks.
struct CheckedPair<'a> {
    row: &'static Row,
    /// The name as the option table writes it: the option's own or the alias that the client used.
    name: &'static str,
    text: &'a [u8],
}

impl Default for Config {
    fn default() -> Self {
        let empty: Arc<[u8]> = Arc::from([]);
        let config = Self {
            numbers: [const { AtomicI64::new(0) }; COUNT],
            texts: RwLock::new(vec![empty; COUNT]),
            limits: Default::default(),
            file: RwLock::default(),
            users: Mutex::default(),
            names: Mutex::default(),
            changing: Mutex::default(),
        };
        for row in &ROWS {
            config.keep(row.option, &config.default_of(row));
        }
        config
    }
}

/// A limit for slow commands below this number of microseconds makes every command be timed separately.
const TIMED_ALONE_US: i64 = 1_000;

/// Reading.
impl Config {
    /// Returns the number of a numeric option, the position of a choice, 0 or 1 for a flag, or the length of a text.
    #[inline]
    pub fn number(&self, option: Opt) -> i64 {
        self.numbers[option as usize].load(Ordering::Relaxed)
    }

    /// Returns the size of a memory option in bytes.
    #[inline]
    pub fn memory(&self, option: Opt) -> u64 {
        self.number(option) as u64
    }

    /// Returns whether a flag says `yes`.
    #[inline]
    pub fn flag(&self, option: Opt) -> bool {
        self.number(option) != 0
    }

    /// Returns whether a text is not empty.
    #[inline]
    pub fn is_set(&self, option: Opt) -> bool {
        self.number(option) != 0
    }

    /// Returns the bytes of a text option; words are joined by single spaces.
    pub fn text(&self, option: Opt) -> Arc<[u8]> {
        Arc::clone(&self.texts.read()[option as usize])
    }

    /// Returns whether small lists and sets are reported as in Redis 7.0.
    #[inline]
    pub fn has_old_encodings(&self) -> bool {
        self.number(Opt::Encodings) == 0
    }

    /// Returns the present word of a choice.
    pub fn choice(&self, option: Opt) -> &'static str {
        match option.row().kind {
            Kind::Choice(words) => {
                usize::try_from(self.number(option)).ok().and_then(|at| words.get(at)).unwrap_or(&"")
            }
            _ => "",
        }
    }

    /// Returns the limits of unread bytes for clients of this class.
    pub fn output_limit(&self, class: ClientClass) -> OutputLimit {
        let [hard_bytes, soft_bytes, soft_seconds] =
            self.limits[class as usize].each_ref().map(|number| number.load(Ordering::Relaxed));
        OutputLimit { hard_bytes, soft_bytes, soft_seconds }
    }

    /// Returns how many bytes all clients may take together; 0 sets no limit.
    pub fn client_bytes_max(&self) -> u64 {
        match self.number(Opt::MaxmemoryClients) {
            bytes @ 0.. => bytes as u64,
            percent => (u128::from(self.memory(Opt::Maxmemory)) * u128::from(percent.unsigned_abs()) / 100) as u64,
        }
    }

    /// Returns the fewest ticks of the processor for which the slow log or the latency monitor records a command; 0 if every
    /// command is timed.
    #[inline]
    pub fn slow_ticks(&self) -> u64 {
        let slow_us = self.number(Opt::SlowlogLogSlowerThan);
        if self.number(Opt::LatencyMonitorThreshold) > 0 || (0..TIMED_ALONE_US).contains(&slow_us) {
            return 0;
        }
        // No processor's ticks are longer than five nanoseconds.
        u64::try_from(slow_us).map_or(u64::MAX, |slow_us| slow_us.saturating_mul(200))
    }

    /// Returns the number of bytes, of a request and its reply together, below which neither is large for COMMANDLOG
    /// LARGE-REQUEST or LARGE-REPLY.
    #[inline]
    pub fn large_bytes(&self) -> usize {
        // -1 stands for no limit.
        let bound = |option| self.number(option) as u64 as usize;
        bound(Opt::LargeRequestBytes).min(bound(Opt::LargeReplyBytes))
    }

    /// Returns whether any option limits the memory of clients: only then is it accounted.
    #[inline]
    pub fn bounds_memory(&self) -> bool {
        self.memory(Opt::Maxmemory) != 0 || self.number(Opt::MaxmemoryClients) != 0
    }

    /// Returns whether the access clock of a key counts how often it is used, instead of when it was used last: under an LFU
    /// policy.
    #[inline]
    pub fn counts_uses(&self) -> bool {
        const VOLATILE_LFU: i64 = MaxmemoryPolicy::VolatileLfu as i64;
        const ALLKEYS_LFU: i64 = MaxmemoryPolicy::AllkeysLfu as i64;
        matches!(self.number(Opt::MaxmemoryPolicy), VOLATILE_LFU | ALLKEYS_LFU)
    }

    /// Returns whether clients have to present a certificate under TLS.
    pub fn client_certificates(&self) -> ClientCertificates {
        ClientCertificates::at(self.number(Opt::TlsAuthClients))
    }

    /// Returns the users that the configuration file names: the words behind each `user`.
    pub fn users(&self) -> Vec<Vec<Vec<u8>>> {
        self.users.lock().clone()
    }

    /// Returns the names that the configuration file gives to commands.
    pub fn names(&self) -> RenamedCommands {
        self.names.lock().clone()
    }

    /// Returns the initial settings of a new user.
    pub fn acl_defaults(&self) -> Defaults {
        Defaults { all_channels: self.number(Opt::AclPubsubDefault) == 0 }
    }

    /// Returns the least important level that is logged.
    pub fn log_level(&self) -> LogLevel {
        LogLevel::at(self.number(Opt::Loglevel))
    }

    /// Returns the handling of a command of a primary, or of an AOF, that cannot be applied.
    pub fn propagation_errors(&self) -> PropagationErrors {
        PropagationErrors::at(self.number(Opt::PropagationErrorBehavior))
    }

    /// Returns the eviction policy, which also decides the kind of access clock that keys have.
    pub fn maxmemory_policy(&self) -> MaxmemoryPolicy {
        MaxmemoryPolicy::at(self.number(Opt::MaxmemoryPolicy))
    }

    /// Returns the clients that may use the feature that this option (`enable-...`) protects.
    pub fn access(&self, option: Opt) -> Access {
        Access::at(self.number(option))
    }

    /// Returns the number of background rounds a second for so many clients: `hz`. Under `dynamic-hz` it is doubled until at
    /// most 200 clients fall to a round; it is never over 500.
    pub fn rounds_a_second(&self, clients: usize) -> u32 {
        let mut rounds = self.number(Opt::Hz).clamp(1, 500) as usize;
        while self.flag(Opt::DynamicHz) && rounds < 500 && clients / rounds > 200 {
            rounds *= 2;
        }
        rounds.min(500) as u32
    }

    /// Returns an absolute `path` as it is, and a relative one resolved from `dir`.
    pub fn resolve(&self, path: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        let of = |bytes| Path::new(std::ffi::OsStr::from_bytes(bytes));
        of(&self.text(Opt::Dir)).join(of(path))
    }

    /// Returns the absolute path of the configuration file with which the engine was started.
    pub fn file(&self) -> Option<PathBuf> {
        self.file.read().clone()
    }

    /// Remembers the configuration file for CONFIG REWRITE and INFO.
    pub fn set_file(&self, file: PathBuf) {
        *self.file.write() = Some(file);
    }

    /// Returns names and values of the options that match any of the patterns, as CONFIG GET lists them: a plain name as the
    /// client wrote it, matches of a pattern in the table's order, and no option twice.
    pub fn get<'a>(&self, patterns: impl IntoIterator<Item = &'a [u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut add = |name: &[u8], row: &Row| {
            if !found.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                found.push((name.to_vec(), self.show(row.option)));
            }
        };
        for wanted in patterns {
            if wanted.iter().any(|byte| b"*?[".contains(byte)) {
                names()
                    .filter(|(row, name)| {
                        row.change != Change::Hidden && pattern::matches(wanted, name.as_bytes(), true)
                    })
                    .for_each(|(row, name)| add(name.as_bytes(), row));
            } else if let Some((row, _)) = find(wanted) {
                add(wanted, row);
            }
        }
        found
    }

    /// Returns the value as CONFIG GET shows it.
    pub fn show(&self, option: Opt) -> Vec<u8> {
        value::show(option.row().kind, &self.value(option))
    }

    /// Returns the value as it is kept.
    pub fn value(&self, option: Opt) -> Value {
        match option.row().kind {
            Kind::OutputLimits => Value::Limits(
                [ClientClass::Normal, ClientClass::Replica, ClientClass::Pubsub].map(|class| self.output_limit(class)),
            ),
            Kind::Text(_)
            | Kind::Words { .. }
            | Kind::Percentiles
            | Kind::Folder
            | Kind::FileName { .. }
            | Kind::Template
            | Kind::OomValues
            | Kind::SavePoints
            | Kind::Master
            | Kind::Announced(_)
            | Kind::Fixed(_) => Value::Text(self.text(option).to_vec()),
            _ => Value::Number(self.number(option)),
        }
    }

    /// Returns the option's default value.
    pub fn default_of(&self, row: &Row) -> Value {
        if row.option == Opt::Workers {
            return Value::Number(std::thread::available_parallelism().map_or(1, |cores| cores.get() as i64));
        }
        let none = match row.kind {
            Kind::OutputLimits => Value::Limits(OutputLimits::default()),
            _ => Value::Number(0),
        };
        match row.kind {
            // The present folder is looked up when it is needed, not whenever an engine is made.
            Kind::Folder | Kind::FileName { .. } | Kind::Text(_) | Kind::Template => Value::Text(row.default.into()),
            Kind::Words { .. }
            | Kind::Percentiles
            | Kind::OomValues
            | Kind::SavePoints
            | Kind::Fixed(_)
            | Kind::OutputLimits => {
                let words: Vec<_> = row.default.split(' ').map(str::as_bytes).collect();
                value::parse(row.kind, &words, &none).unwrap_or(none)
            }
            _ => value::parse(row.kind, &[row.default.as_bytes()], &none).unwrap_or(none),
        }
    }
}

/// Changing.
impl Config {
    /// Sets one option to the words of a configuration line, even if it may not be changed later. Only before the start.
    ///
    /// # Errors
    /// The reason in Redis's words; the option keeps its value.
    pub fn assign(&self, option: Opt, words: &[&[u8]]) -> Result<(), String> {
        let _changing = self.changing.lock();
        let kind = option.row().kind;
        // A line may give several words in one pair of quotes.
        let split = match words {
            [word] if !word.is_empty() => words_of(kind, word),
            _ => words.to_vec(),
        };
        let value = parsed(option.row(), &split, &self.value(option))?;
        self.keep(option, &value);
        Ok(())
    }

    /// Keeps the words behind `user` until the start, if they describe a user.
    ///
    /// # Errors
    /// The reason in Redis's words.
    pub fn add_user(&self, words: &[Vec<u8>]) -> Result<(), String> {
        let mut users = self.users.lock();
        acl::check_line(words, &users, self.acl_defaults())?;
        users.push(words.to_vec());
        Ok(())
    }

    /// Renames a command, or removes it if the new name is empty. Only before the start.
    ///
    /// # Errors
    /// The reason in Redis's words.
    pub fn rename_command(&self, old: &[u8], new: &[u8]) -> Result<(), String> {
        self.names.lock().rename(old, new)
    }

    /// Applies CONFIG SET: sets all pairs or none, and returns the options with changed values. `local` says whether the
    /// client is on this machine, for protected options. `apply` is called for each changed option once all are set. If it
    /// refuses one, the old values are restored and it is called again for those already applied.
    ///
    /// # Errors
    /// The whole error reply, worded as in Redis.
    pub fn set(
        &self,
        pairs: &[(&[u8], &[u8])],
        local: bool,
        mut apply: impl FnMut(Opt) -> Result<(), String>,
    ) -> Result<Vec<Opt>, Error> {
        let _changing = self.changing.lock();
        let wanted = self.admit(pairs, local)?;
        let mut undo: Vec<(Opt, Value)> = Vec::new();
        for CheckedPair { row, name, text } in wanted {
            let old = self.value(row.option);
            match parsed(row, &words_of(row.kind, text), &old) {
                Ok(new) if new == old && !is_about_a_file(row.option) => {}
                Ok(new) => {
                    self.keep(row.option, &new);
                    if undo.iter().all(|(known, _)| *known != row.option) {
                        undo.push((row.option, old));
                    }
                }
                Err(reason) => {
                    self.restore(&undo);
                    return Err(failed(name.as_bytes(), &reason));
                }
            }
        }
        for (index, (option, _)) in undo.iter().enumerate() {
            if let Err(reason) = apply(*option) {
                self.restore(&undo);
                for (applied, _) in undo.iter().take(index) {
                    // The old value was applied a moment ago. If it is refused now, the cause lies outside of the server; the
                    // client gets the first refusal.
                    let _ = apply(*applied);
                }
                return Err(failed(option.name().as_bytes(), &reason));
            }
        }
        Ok(undo.into_iter().map(|(option, _)| option).collect())
    }

    /// Returns the rows of the named options, if all of them exist, may be changed and are named once; else the first reason
    /// why not.
    fn admit<'a>(&self, pairs: &[(&'a [u8], &'a [u8])], local: bool) -> Result<Vec<CheckedPair<'a>>, Error> {
        let mut wanted: Vec<CheckedPair<'a>> = Vec::with_capacity(pairs.len());
        for &(written, text) in pairs {
            let (row, name) = find(written).ok_or_else(|| unknown(written))?;
            let has_it = || {
                let present = self.value(row.option);
                value::parse(row.kind, &words_of(row.kind, text), &present).as_ref() == Ok(&present)
            };
            let is_admin = || self.access(Opt::EnableProtectedConfigs).allows(local);
            let refusal = match row.change {
                Change::Startup => Some("can't set immutable config"),
                Change::Own if !has_it() => Some("can't set immutable config"),
                Change::Protected if !is_admin() => Some("can't set protected config"),
                Change::OwnProtected if !is_admin() && !has_it() => Some("can't set protected config"),
                Change::Own | Change::Live | Change::Hidden | Change::Protected | Change::OwnProtected => None,
            };
            if let Some(refusal) = refusal {
                return Err(failed(written, refusal));
            }
            // As in Redis an alias counts as another name: if a request has both names of an option, the last one counts.
            if wanted.iter().any(|known| known.name == name) {
                return Err(failed(written, "duplicate parameter"));
            }
            wanted.push(CheckedPair { row, name, text });
        }
        Ok(wanted)
    }

    fn restore(&self, undo: &[(Opt, Value)]) {
        for (option, old) in undo {
            self.keep(*option, old);
        }
    }

    fn keep(&self, option: Opt, value: &Value) {
        let number = match value {
            Value::Number(number) => *number,
            Value::Text(text) => {
                self.texts.write()[option as usize] = Arc::from(text.as_slice());
                text.len() as i64
            }
            Value::Limits(limits) => {
                for (kept, limit) in self.limits.iter().zip(limits) {
                    kept[0].store(limit.hard_bytes, Ordering::Relaxed);
                    kept[1].store(limit.soft_bytes, Ordering::Relaxed);
                    kept[2].store(limit.soft_seconds, Ordering::Relaxed);
                }
                0
            }
        };
        self.numbers[option as usize].store(number, Ordering::Relaxed);
    }
}

/// Returns whether an option names a file. Its content may have changed, so setting the option to its present value has an
/// effect.
fn is_about_a_file(option: Opt) -> bool {
    matches!(option, Opt::TlsCertFile | Opt::TlsKeyFile | Opt::TlsCaCertFile | Opt::TlsCaCertDir)
}

/// Splits a value that came as one argument into its words.
fn words_of(kind: Kind, text: &[u8]) -> Vec<&[u8]> {
    match kind {
        Kind::Words { .. }
        | Kind::Percentiles
        | Kind::OutputLimits
        | Kind::Shutdown
        | Kind::OomValues
        | Kind::SavePoints
        | Kind::Master => text.split(|&byte| byte == b' ').collect(),
        _ => vec![text],
    }
}

/// Returns the value that these words stand for. If the option has fixed values, the error names the value to write instead.
fn parsed(row: &Row, words: &[&[u8]], old: &Value) -> Result<Value, String> {
    value::parse(row.kind, words, old).map_err(|reason| {
        match unsupported::instead(row.option, &String::from_utf8_lossy(&words.join(&b' '))) {
            Some(instead) => format!("{reason}: {instead}"),
            None => reason,
        }
    })
}

fn unknown(name: &[u8]) -> Error {
    if let Some(why) = unsupported::reason(name) {
        return failed(name, why);
    }
    Error::naming("ERR Unknown option or number of arguments for CONFIG SET - '{}'", &[name])
}

fn failed(name: &[u8], reason: &str) -> Error {
    let pattern = "ERR CONFIG SET failed (possibly related to argument '{}') - {}";
    Error::naming(pattern, &[name, reason.as_bytes()])
}
