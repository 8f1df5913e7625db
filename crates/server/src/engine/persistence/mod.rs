//! Data that outlives the process: the AOF that the journal is written to, the snapshots, and when either is written.
//!
//! With an AOF, a reply leaves when the changes it shows are written to the AOF's file (`appendfsync` `everysec` and `no`:
//! the death of the process loses nothing that was answered) or synced (`always`: nor does the death of the machine).
//! `reply_gate` says whether it may. [`Persistence`] is the state, with the waiters; loading the data is above, in `loading`.
//!
//! | file | contents |
//! | --- | --- |
//! | `shutdown` | The last snapshot of a server that ends; `shutdown_wait`: the wait for its replicas. |
//! | `snapshot` | Writing snapshots: to a file, as a base of the AOF, for replicas; when they begin by themselves. |
//! | `aof` | The AOF: its file, its writer, its threads, switching it on and off. |
//! | `reply_gate` | The check that lets a reply leave; `sync_waiters`: the clients and calls that wait for a sync. |
//! | `loading` | How far the loading is. |
//! | `purpose` | The purposes of snapshots. |

pub mod aof;
pub mod loading;
pub mod purpose;
mod reply_gate;
pub mod shutdown;
mod shutdown_wait;
pub mod snapshot;
mod sync_waiters;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sleeve_disk::disk::Disk;

use crate::host::clock::Instant;
use crate::host::waiting::Condvar;
use crate::messaging::mail::{Letter, Mailbox};
use aof::Aof;
use loading::Loading;
use shutdown_wait::ShutdownWait;
use snapshot::Snapshots;

/// The offset that replies wait for, and the files that stand behind it. One an engine; any thread.
#[derive(Debug)]
pub struct Persistence {
    /// The offset of the journal up to which replies may show changes.
    passed: AtomicU64,
    /// A lock that is held, for moments, from reading that offset until it is stored: the thread that read first stores
    /// first.
    passing: Mutex<()>,
    /// Owners of replies that wait.
    owners: Mutex<Vec<Arc<Mailbox>>>,
    /// Wakes threads that wait themselves.
    moved: Condvar,
    /// Whether the AOF cannot be written: requests that are not answered yet are answered with an error.
    fails: AtomicBool,
    /// Whether the engine has failed: no thread goes on with the AOF.
    is_over: AtomicBool,
    /// The AOF, if there is one.
    pub aof: Aof,
    /// The snapshots.
    pub snapshots: Snapshots,
    /// The loading of the data.
    pub loading: Loading,
    /// The end of the server, while replicas are waited for.
    pub waiting: ShutdownWait,
    /// The disk with the files.
    pub(crate) disk: Arc<dyn Disk>,
    /// An AOF is being applied, which itself records the expired keys.
    pub(crate) is_replaying: AtomicBool,
}

impl Persistence {
    /// Creates the state of an engine without an AOF, with nothing saved since this time.
    pub fn new(started: Instant, disk: Arc<dyn Disk>) -> Self {
        Self {
            passed: AtomicU64::new(u64::MAX),
            passing: Mutex::default(),
            owners: Mutex::default(),
            moved: Condvar::new(),
            fails: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            aof: Aof::default(),
            snapshots: Snapshots::new(started),
            loading: Loading::default(),
            waiting: ShutdownWait::default(),
            disk,
            is_replaying: AtomicBool::new(false),
        }
    }

    /// Returns the offset of the journal up to which replies may show changes.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Acquire)
    }

    /// Sends `owner` a letter when more has passed. Returns true when `shown` has passed by now, or never will: no letter
    /// follows then.
    pub fn tell_when_passed(&self, shown: u64, owner: &Arc<Mailbox>) -> bool {
        let mut owners = self.owners.lock();
        if shown <= self.passed() || self.fails() {
            return true;
        }
        if !owners.iter().any(|known| Arc::ptr_eq(known, owner)) {
            owners.push(Arc::clone(owner));
        }
        drop(owners);
        self.aof.ask();
        false
    }

    /// Returns whether the AOF cannot be written.
    pub fn fails(&self) -> bool {
        self.fails.load(Ordering::Acquire)
    }

    /// Says how far the journal has passed; `u64::MAX` where nothing is logged.
    pub fn pass(&self, offset: u64) {
        self.pass_with(|| offset);
    }

    /// Stores how far the journal has passed, as `look` finds it while no other thread stores it.
    pub fn pass_with(&self, look: impl FnOnce() -> u64) {
        let passing = self.passing.lock();
        let offset = look();
        let is_news = self.passed.swap(offset, Ordering::AcqRel) != offset;
        drop(passing);
        if is_news {
            self.tell();
        }
    }

    /// Sets whether the AOF cannot be written. Returns whether that is a change.
    pub fn set_fails(&self, fails: bool) -> bool {
        let is_news = self.fails.swap(fails, Ordering::AcqRel) != fails;
        if is_news {
            self.tell();
        }
        is_news
    }

    /// Notes that the engine has failed: waiting threads go on, and no snapshot begins with data that may be half changed.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.snapshots.refuse_more();
        self.tell();
    }

    /// Waits until the journal has passed this offset. Returns false when the AOF cannot be written, or the engine has
    /// failed.
    pub fn wait(&self, shown: u64) -> bool {
        let is_over = || self.is_over.load(Ordering::Acquire);
        let mut owners = self.owners.lock();
        while shown > self.passed() {
            if self.fails() || is_over() {
                return false;
            }
            self.aof.ask();
            self.moved.wait(&mut owners);
        }
        // If the engine has failed, all passes because there is no AOF any more.
        !is_over()
    }

    /// Waits until the journal has passed this offset, or until the timeout.
    pub fn wait_for(&self, shown: u64, timeout: Duration) {
        let mut owners = self.owners.lock();
        if shown > self.passed() {
            self.aof.ask();
            self.moved.wait_for(&mut owners, timeout);
        }
    }

    /// Wakes all waiters.
    fn tell(&self) {
        let mut owners = self.owners.lock();
        let told = std::mem::take(&mut *owners);
        self.moved.notify_all();
        drop(owners);
        told.iter().for_each(|owner| owner.post(Letter::Durable));
    }
}
