//! Clients that wait for replicas: WAIT, and WAITAOF for disks elsewhere; and programs that embed the engine and wait so.
//!
//! Whoever enters looks afterwards whether what it waits for has come about; whoever hears of a replica says so first and looks
//! at the list then. Any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::engine::clients::blocking::{Reached, Waiter};

/// What a client waits for, all of it.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// The offset of the journal that it is about.
    pub offset: u64,
    /// So many replicas have applied it.
    pub applied: usize,
    /// So many replicas have it on their disks.
    pub synced: usize,
    /// This server has it on its own disk.
    pub own_disk: bool,
}

impl Wanted {
    /// Whether it has come about.
    pub fn is_met(&self, reached: &Reached) -> bool {
        reached.applied >= self.applied && reached.synced >= self.synced && (reached.own_disk || !self.own_disk)
    }
}

/// What is called when replicas have what was wanted: with false where the time is over, or another is the primary now.
pub type AckCall = Box<dyn FnOnce(bool) + Send>;

/// A program that waits.
pub struct Caller {
    /// What it waits for.
    pub wanted: Wanted,
    /// When its time is over, monotonic milliseconds.
    pub until_ms: Option<u64>,
    /// What it wants called.
    pub call: AckCall,
}

/// Who waits, and what replicas were asked.
#[derive(Default)]
pub struct AckWaiters {
    rows: Mutex<Vec<(Wanted, Arc<Waiter>)>>,
    callers: Mutex<Vec<Caller>>,
    /// How many clients wait.
    count: AtomicUsize,
    /// The offset at which all replicas were last asked how far they are.
    asked: AtomicU64,
}

impl std::fmt::Debug for AckWaiters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AckWaiters").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl AckWaiters {
    /// Enters a program that waits.
    pub fn enter_caller(&self, caller: Caller) {
        self.callers.lock().push(caller);
    }

    /// Takes out the programs whose waiting is over, and says of each whether what it waits for has come about.
    pub fn take_callers(&self, is_over: impl Fn(&Caller) -> Option<bool>) -> Vec<(bool, AckCall)> {
        let (mut callers, mut over) = (self.callers.lock(), Vec::new());
        for caller in std::mem::take(&mut *callers) {
            match is_over(&caller) {
                Some(has_come) => over.push((has_come, caller.call)),
                None => callers.push(caller),
            }
        }
        over
    }

    /// Enters a client that waits.
    pub fn enter(&self, wanted: Wanted, waiter: &Arc<Waiter>) {
        let mut rows = self.rows.lock();
        rows.push((wanted, Arc::clone(waiter)));
        self.count.store(rows.len(), Ordering::Relaxed);
    }

    /// Whether nobody waits. Costs one load.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Takes out those whose waiting is over, and forgets those for whom it has ended otherwise. `reached` says how far an
    /// offset has got.
    pub fn take_met(&self, reached: impl Fn(u64) -> Reached) -> Vec<(Reached, Arc<Waiter>)> {
        let mut rows = self.rows.lock();
        rows.retain(|(_, waiter)| waiter.claim().is_some());
        let met = rows.extract_if(.., |(wanted, _)| wanted.is_met(&reached(wanted.offset)));
        let met: Vec<_> = met.map(|(wanted, waiter)| (reached(wanted.offset), waiter)).collect();
        self.count.store(rows.len(), Ordering::Relaxed);
        met
    }

    /// Whether replicas have still to be asked about an offset.
    pub fn must_ask(&self, offset: u64) -> bool {
        self.asked.load(Ordering::Relaxed) < offset
    }

    /// They were asked at this offset.
    pub fn note_asked(&self, offset: u64) {
        self.asked.store(offset, Ordering::Relaxed);
    }

    /// The stream is another one, and its offsets have nothing to do with those before.
    pub fn forget_asked(&self) {
        self.note_asked(0);
    }
}
