//! Clients that wait for replicas: those of WAIT, those of WAITAOF that wait for replicas' disks, and programs that embed the
//! engine and wait in the same way.
//!
//! A waiter first enters the list, and then checks whether its condition is met. A thread that receives an acknowledgement
//! first records the offset, and then reads the list. Any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::engine::clients::blocking::{Reached, Waiter};

/// The conditions for which a client waits; all of them have to be met.
#[derive(Debug, Clone, Copy)]
pub struct WaitCondition {
    /// The offset of the journal.
    pub offset: u64,
    /// The number of replicas that have to apply the journal up to it.
    pub applied: usize,
    /// The number of replicas that have to fsync the journal up to it.
    pub synced: usize,
    /// This server has to fsync the journal up to it, too.
    pub own_disk: bool,
}

impl WaitCondition {
    /// Returns whether the conditions are met.
    pub fn is_met(&self, reached: &Reached) -> bool {
        reached.applied >= self.applied && reached.synced >= self.synced && (reached.own_disk || !self.own_disk)
    }
}

/// The callback for the time when enough replicas have the offset: it gets false if the timeout has passed, or if this server
/// is no primary any more.
pub type AckCall = Box<dyn FnOnce(bool) + Send>;

/// A program that waits for replicas.
pub struct Caller {
    /// The conditions that it waits for.
    pub wanted: WaitCondition,
    /// The time of the timeout, in monotonic milliseconds.
    pub until_ms: Option<u64>,
    /// The callback of the program.
    pub call: AckCall,
}

/// The waiters, and the last question to the replicas.
#[derive(Default)]
pub struct AckWaiters {
    rows: Mutex<Vec<(WaitCondition, Arc<Waiter>)>>,
    callers: Mutex<Vec<Caller>>,
    /// The number of waiting clients.
    count: AtomicUsize,
    /// The offset behind the last question to all replicas for their offsets.
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

    /// Takes out the programs that have finished waiting, each with whether its conditions are met.
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
    pub fn enter(&self, wanted: WaitCondition, waiter: &Arc<Waiter>) {
        let mut rows = self.rows.lock();
        rows.push((wanted, Arc::clone(waiter)));
        self.count.store(rows.len(), Ordering::Relaxed);
    }

    /// Returns whether no client waits. Costs one load.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Takes out the waiters with conditions that are met, and forgets those that have stopped waiting for other reasons.
    /// `reached` returns how many servers have an offset.
    pub fn take_met(&self, reached: impl Fn(u64) -> Reached) -> Vec<(Reached, Arc<Waiter>)> {
        let mut rows = self.rows.lock();
        rows.retain(|(_, waiter)| waiter.claim().is_some());
        let met = rows.extract_if(.., |(wanted, _)| wanted.is_met(&reached(wanted.offset)));
        let met: Vec<_> = met.map(|(wanted, waiter)| (reached(wanted.offset), waiter)).collect();
        self.count.store(rows.len(), Ordering::Relaxed);
        met
    }

    /// Takes out the clients that wait for this server's disk.
    pub fn take_of_own_disk(&self) -> Vec<Arc<Waiter>> {
        let mut rows = self.rows.lock();
        let taken = rows.extract_if(.., |(wanted, _)| wanted.own_disk).map(|(_, waiter)| waiter).collect();
        self.count.store(rows.len(), Ordering::Relaxed);
        taken
    }

    /// Returns whether replicas have still to be asked about an offset.
    pub fn must_ask(&self, offset: u64) -> bool {
        self.asked.load(Ordering::Relaxed) < offset
    }

    /// Notes that replicas were asked at this offset.
    pub fn note_asked(&self, offset: u64) {
        self.asked.store(offset, Ordering::Relaxed);
    }

    /// Forgets the last question, because the stream has changed, and its offsets have no relation to those before.
    pub fn forget_asked(&self) {
        self.note_asked(0);
    }
}
