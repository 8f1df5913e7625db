//! The replicas of a server: their list, how many have reached an offset, and the threads that are notified of
//! acknowledgements. Any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::replica::Replica;
use super::transfer::Transfer;
use super::wait::AckWaiters;
use crate::messaging::mail::{Letter, Mailbox};

/// The numbers of full syncs and of partial syncs.
#[derive(Debug, Default)]
pub struct SyncCounts {
    /// The number of full syncs.
    pub full: AtomicU64,
    /// The number of partial syncs.
    pub partial: AtomicU64,
    /// The number of partial syncs that replicas requested and did not get.
    pub refused: AtomicU64,
}

impl SyncCounts {
    /// Sets all numbers to zero.
    pub fn reset(&self) {
        [&self.full, &self.partial, &self.refused].iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

/// The offsets that given numbers of replicas have reached: the first is reached by at least one replica, the second by at
/// least two, and so on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AckedByCount {
    /// The offsets up to which the replicas have applied the journal.
    pub applied: Vec<u64>,
    /// The offsets up to which the replicas have fsynced the journal.
    pub synced: Vec<u64>,
}

impl AckedByCount {
    /// Returns whether all replicas have applied and fsynced the journal up to an offset; false if there are no replicas.
    pub fn all_have(&self, offset: u64) -> bool {
        let have = |offsets: &[u64]| offsets.last().is_some_and(|least| *least >= offset);
        have(&self.applied) && have(&self.synced)
    }
}

/// The replicas of one server.
#[derive(Debug, Default)]
pub struct Replicas {
    rows: Mutex<Vec<Arc<Replica>>>,
    count: AtomicUsize,
    /// The snapshot file that is being written for some of the replicas.
    file: Mutex<Option<Arc<Transfer>>>,
    /// The numbers of syncs.
    pub syncs: SyncCounts,
    /// The clients that wait for replicas.
    pub waiters: AckWaiters,
    /// The bytes that wait in files for slow replicas.
    pub spilled: Arc<AtomicU64>,
    /// Writing to these files has failed, and that was logged.
    pub is_spill_failing: AtomicBool,
    /// The owners of connections that wait for the replicas' offsets; each gets one letter.
    ack_owners: Mutex<Vec<Arc<Mailbox>>>,
    /// The time of the last PING, in monotonic milliseconds.
    pub pinged_ms: AtomicU64,
    /// The time of the last signs of life to replicas that wait for a snapshot.
    pub signed_ms: AtomicU64,
    /// The last time at which there was a replica, in monotonic milliseconds.
    pub seen_ms: AtomicU64,
}

impl Replicas {
    /// Returns all replicas, in the order in which they connected.
    pub fn all(&self) -> Vec<Arc<Replica>> {
        self.rows.lock().clone()
    }

    /// Returns the number of replicas. Costs one load.
    #[inline]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns whether there are no replicas.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a replica that has sent PSYNC or SYNC.
    pub fn enter(&self, replica: &Arc<Replica>) {
        replica.is_registered.store(true, Ordering::Relaxed);
        replica.client.roles.is_replica.store(true, Ordering::Relaxed);
        let mut rows = self.rows.lock();
        rows.push(Arc::clone(replica));
        self.count.store(rows.len(), Ordering::Relaxed);
    }

    /// Removes a replica after the end of its connection.
    pub fn leave(&self, replica: &Replica) {
        let mut rows = self.rows.lock();
        rows.retain(|known| known.client.id != replica.client.id);
        self.count.store(rows.len(), Ordering::Relaxed);
        drop(rows);
        replica.end();
    }

    /// Sets the snapshot file that is being written for replicas.
    pub fn set_file(&self, file: Option<&Arc<Transfer>>) {
        *self.file.lock() = file.cloned();
    }

    /// Calls `share` with the snapshot file that is being written, if there is one; nothing of it was sent yet. The file is
    /// not given up before `share` returns.
    pub fn with_file(&self, share: impl FnOnce(&Arc<Transfer>)) {
        let file = self.file.lock();
        if let Some(file) = file.as_ref().filter(|file| file.is_being_written()) {
            share(file);
        }
    }

    /// Gives up the snapshot file that is being written, if `is_unwanted` returns true for it, and calls `abort` then. The
    /// lock is held meanwhile, so that no replica can get a file that has been given up, and that `abort` cannot hit a later
    /// snapshot.
    pub fn give_up_file(&self, is_unwanted: impl FnOnce(&Transfer) -> bool, abort: impl FnOnce()) {
        let mut file = self.file.lock();
        if file.as_ref().is_some_and(|file| file.is_being_written() && is_unwanted(file)) {
            *file = None;
            abort();
        }
    }

    /// Returns how many replicas have applied the journal up to an offset.
    pub fn acked(&self, offset: u64) -> usize {
        self.count_where(|replica| replica.acked() >= offset)
    }

    /// Returns how many replicas have fsynced the journal up to an offset.
    pub fn synced(&self, offset: u64) -> usize {
        self.count_where(|replica| replica.acked_synced() >= offset)
    }

    /// Returns the offsets that given numbers of replicas have reached.
    pub fn acked_by_count(&self) -> AckedByCount {
        let mut acked = AckedByCount::default();
        for replica in self.rows.lock().iter().filter(|replica| replica.is_online()) {
            acked.applied.push(replica.acked());
            acked.synced.push(replica.acked_synced());
        }
        for offsets in [&mut acked.applied, &mut acked.synced] {
            offsets.sort_unstable_by(|one, other| other.cmp(one));
        }
        acked
    }

    /// Registers `owner` for a letter at the next acknowledgement of a replica.
    pub fn tell_when_acknowledged(&self, owner: &Arc<Mailbox>) {
        let mut owners = self.ack_owners.lock();
        if !owners.iter().any(|known| Arc::ptr_eq(known, owner)) {
            owners.push(Arc::clone(owner));
        }
    }

    /// Notifies these owners that a replica has acknowledged an offset.
    pub fn tell_ack_owners(&self) {
        let owners = std::mem::take(&mut *self.ack_owners.lock());
        owners.iter().for_each(|owner| owner.post(Letter::Synced));
    }

    /// Returns the number of replicas that are online and have sent a message within so many milliseconds.
    pub fn good(&self, silent_ms_max: u64, now_ms: u64) -> usize {
        self.count_where(|replica| replica.silent_ms(now_ms) <= silent_ms_max)
    }

    fn count_where(&self, is_meant: impl Fn(&Replica) -> bool) -> usize {
        if self.is_empty() {
            return 0;
        }
        self.rows.lock().iter().filter(|replica| replica.is_online() && is_meant(replica)).count()
    }
}
