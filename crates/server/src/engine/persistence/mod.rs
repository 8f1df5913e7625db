//! Data that outlives the process: the AOF, to which the journal is written, and the snapshots, and the times at which both
//! are written.
//!
//! With an AOF, a reply is sent when the changes that it shows are written to the AOF's file (`appendfsync` `everysec` and
//! `no`: if the process dies, nothing that was answered is lost) or fsynced (`always`: nothing is lost even if the machine
//! dies). `reply_gate` checks that. [`Persistence`] is the state, with the waiters; the code that loads the data is in the
//! room `loading`.
//!
//! | file | contents |
//! | --- | --- |
//! | `shutdown` | The last snapshot of a server that ends; `shutdown_wait`: the wait for its replicas. |
//! | `snapshot` | Writing snapshots: to a file, as a base of the AOF, for replicas; when they begin by themselves. |
//! | `aof` | The AOF: its file, its writer, its threads, switching it on and off. |
//! | `reply_gate` | The check whether a reply may be sent; `sync_waiters`: the clients and calls that wait for an fsync. |
//! | `loading` | The progress of loading. |
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

/// The state of persistence in one engine: the offset for which replies wait, and the files behind it. Any thread.
#[derive(Debug)]
pub struct Persistence {
    /// The offset of the journal up to which replies may show changes.
    passed: AtomicU64,
    /// A lock that is held for a moment, from determining that offset until it is stored, so that threads store in the order
    /// in which they determine it.
    passing: Mutex<()>,
    /// The owners of replies that wait.
    owners: Mutex<Vec<Arc<Mailbox>>>,
    /// The condition for threads that wait by themselves.
    moved: Condvar,
    /// The AOF cannot be written: requests that are not answered yet get an error.
    fails: AtomicBool,
    /// The engine has failed: no thread writes the AOF any more.
    is_over: AtomicBool,
    /// The AOF, if there is one.
    pub aof: Aof,
    /// The snapshots.
    pub snapshots: Snapshots,
    /// The loading of the data.
    pub loading: Loading,
    /// The wait for replicas before the end of the server.
    pub waiting: ShutdownWait,
    /// The disk with the AOF and the snapshots.
    pub(crate) disk: Arc<dyn Disk>,
    /// An AOF is being replayed. The AOF itself records the removal of expired keys.
    pub(crate) is_replaying: AtomicBool,
}

impl Persistence {
    /// Makes the state of an engine without an AOF; `started` counts as the time of the last snapshot.
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

    /// Registers `owner` for a letter when the offset has advanced. If `shown` is passed by now, or never will be, returns
    /// true, and no letter is sent.
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

    /// Sets the offset up to which replies may show changes; `u64::MAX` if there is no AOF.
    pub fn pass(&self, offset: u64) {
        self.pass_with(|| offset);
    }

    /// Sets the offset to the one that `look` returns. No other thread sets it during the call.
    pub fn pass_with(&self, look: impl FnOnce() -> u64) {
        let passing = self.passing.lock();
        let offset = look();
        let is_news = self.passed.swap(offset, Ordering::AcqRel) != offset;
        drop(passing);
        if is_news {
            self.tell();
        }
    }

    /// Sets whether the AOF cannot be written. Returns whether that changed.
    pub fn set_fails(&self, fails: bool) -> bool {
        let is_news = self.fails.swap(fails, Ordering::AcqRel) != fails;
        if is_news {
            self.tell();
        }
        is_news
    }

    /// Notes that the engine has failed: waiting threads go on, and no snapshot begins, because the data may be half changed.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.snapshots.refuse_more();
        self.tell();
    }

    /// Waits until replies may show changes up to this offset. Returns false if the AOF cannot be written, or if the engine
    /// has failed.
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
        // If the engine has failed, there is no AOF any more, so all offsets count as passed.
        !is_over()
    }

    /// Waits until replies may show changes up to this offset, or until the timeout.
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
