//! The progress of loading the data, for INFO and for clients that are refused with LOADING; and requests to the loader. Any
//! thread.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

/// The error of a loading that was ended because the server is to end.
pub const GIVEN_UP: &str = "The loading was given up";

/// A loading that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadingStatus {
    /// The time at which it began, in seconds since the epoch.
    pub started_s: i64,
    /// The present data can be read during the load.
    pub is_beside: bool,
    /// The bytes of all files; 0 if that is unknown.
    pub total_bytes: u64,
    /// The bytes that have been read.
    pub loaded_bytes: u64,
    /// The bytes of memory that were in use when the snapshot was written, as it says itself.
    pub used_bytes: u64,
    /// The time of the last line about it in the server log, in monotonic milliseconds; 0 before the first bytes.
    told_ms: u64,
}

/// The interval of lines about a load in the server log.
const TOLD_EVERY_MS: u64 = 5_000;

impl LoadingStatus {
    /// Returns the loaded part, in percent.
    pub fn percent(&self) -> f64 {
        if self.total_bytes == 0 { 100.0 } else { self.loaded_bytes as f64 / self.total_bytes as f64 * 100.0 }
    }

    /// Returns an estimate of the remaining seconds, if the rest is read as fast as the beginning.
    pub fn eta_s(&self, now_s: i64) -> i64 {
        let elapsed_s = (now_s - self.started_s).max(0) as u64;
        if self.loaded_bytes == 0 {
            return 1;
        }
        let left = u128::from(elapsed_s) * u128::from(self.total_bytes.saturating_sub(self.loaded_bytes));
        (left / u128::from(self.loaded_bytes)) as i64
    }
}

/// The data that is loaded while the server runs, in place of the present data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// The snapshot: DEBUG RELOAD.
    Snapshot {
        /// The snapshot is written first.
        is_saved: bool,
        /// The present data is kept, and the loaded data is added to it.
        is_added: bool,
        /// Existing keys and libraries are replaced by loaded ones of the same name; otherwise they are an error.
        replaces: bool,
    },
    /// The AOF: DEBUG LOADAOF.
    Log,
}

/// The reason why the data was not loaded again. The present data is unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotLoaded {
    /// The snapshot could not be written first. The server log has the reason.
    Unsaved,
    /// The data to be loaded is missing or damaged; the reason, for the server log.
    Bad(String),
}

/// A callback for the outcome of a loading.
pub type WhenLoaded = Box<dyn FnOnce(Result<(), NotLoaded>) + Send>;

/// A function that loads data in a separate thread.
type Loader = Box<dyn Fn(Again, WhenLoaded) + Send + Sync>;

/// The state of loading in one engine.
#[derive(Default)]
pub struct Loading {
    /// The function that loads again; None if the engine has no files.
    loader: OnceLock<Loader>,
    running: Mutex<Option<LoadingStatus>>,
    /// The loading is to end, because the server is to end and the data is not needed any more.
    is_given_up: AtomicBool,
    keys_loaded: AtomicU64,
    keys_expired: AtomicU64,
}

impl fmt::Debug for Loading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loading").field("running", &self.running).finish_non_exhaustive()
    }
}

impl Loading {
    /// Sets the function that loads while the server runs.
    pub fn set_loader(&self, loader: impl Fn(Again, WhenLoaded) + Send + Sync + 'static) {
        // If it was set before, the first one stays: all loaders of one engine are the same.
        _ = self.loader.set(Box::new(loader));
    }

    /// Loads the data again, in another thread. Returns false if there is no loader.
    pub fn load_again(&self, what: Again, when_loaded: WhenLoaded) -> bool {
        let loader = self.loader.get();
        if let Some(loader) = loader {
            loader(what, when_loaded);
        }
        loader.is_some()
    }

    /// Returns the progress of the present loading, if there is one.
    pub fn status(&self) -> Option<LoadingStatus> {
        *self.running.lock()
    }

    /// Returns how many keys the last snapshot had, and how many of them had expired.
    pub fn keys(&self) -> (u64, u64) {
        (self.keys_loaded.load(Ordering::Relaxed), self.keys_expired.load(Ordering::Relaxed))
    }

    /// Begins a load of so many bytes.
    pub fn begin(&self, started_s: i64, total_bytes: u64) {
        self.begin_with(started_s, total_bytes, false);
    }

    /// Begins a loading during which the present data can be read.
    pub fn begin_beside(&self, started_s: i64, total_bytes: u64) {
        self.begin_with(started_s, total_bytes, true);
    }

    fn begin_with(&self, started_s: i64, total_bytes: u64, is_beside: bool) {
        *self.running.lock() =
            Some(LoadingStatus { started_s, is_beside, total_bytes, loaded_bytes: 0, used_bytes: 0, told_ms: 0 });
        self.keys_loaded.store(0, Ordering::Relaxed);
        self.keys_expired.store(0, Ordering::Relaxed);
    }

    /// Notes the bytes of memory that were in use when the snapshot was written, as it says itself.
    pub fn note_used_bytes(&self, bytes: u64) {
        if let Some(status) = &mut *self.running.lock() {
            status.used_bytes = bytes;
        }
    }

    /// Adds so many read bytes. Returns the progress, if a line in the server log is due.
    pub fn add_bytes(&self, bytes: u64, now_ms: u64) -> Option<LoadingStatus> {
        let mut running = self.running.lock();
        let status = running.as_mut()?;
        status.loaded_bytes += bytes;
        let is_first = status.told_ms == 0;
        if !is_first && now_ms.saturating_sub(status.told_ms) < TOLD_EVERY_MS {
            return None;
        }
        status.told_ms = now_ms.max(1);
        (!is_first).then_some(*status)
    }

    /// Adds to the numbers of loaded and of expired keys.
    pub fn add_keys(&self, loaded: u64, expired: u64) {
        self.keys_loaded.fetch_add(loaded, Ordering::Relaxed);
        self.keys_expired.fetch_add(expired, Ordering::Relaxed);
    }

    /// Ends the present loading without a result: the data is not needed any more.
    pub fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    /// Returns whether the loading has to end without a result.
    pub fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }

    /// Notes that the loading has ended.
    pub fn end(&self) {
        *self.running.lock() = None;
    }
}
