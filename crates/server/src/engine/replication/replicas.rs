//! All replicas of a server: their list, how many have reached an offset, and the threads that are woken by acknowledgements.
//! Any thread.

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
    /// Snapshots that replicas were to be sent.
    pub full: AtomicU64,
    /// Replicas that went on.
    pub partial: AtomicU64,
    /// Replicas that wanted to go on and could not.
    pub refused: AtomicU64,
}

impl SyncCounts {
    /// Begins anew.
    pub fn reset(&self) {
        [&self.full, &self.partial, &self.refused].iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

/// The offsets that so many replicas have reached: the first number is that of at least one, the second of at least two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AckedByCount {
    /// The replicas' offsets of applied bytes.
    pub applied: Vec<u64>,
    /// The replicas' offsets of fsynced bytes.
    pub synced: Vec<u64>,
}

impl AckedByCount {
    /// Returns whether all have everything up to an offset; false if there are none.
    pub fn all_have(&self, offset: u64) -> bool {
        let have = |offsets: &[u64]| offsets.last().is_some_and(|least| *least >= offset);
        have(&self.applied) && have(&self.synced)
    }
}

/// All replicas of one server.
#[derive(Debug, Default)]
pub struct Replicas {
    rows: Mutex<Vec<Arc<Replica>>>,
    count: AtomicUsize,
    /// The file that is being written for some of them.
    file: Mutex<Option<Arc<Transfer>>>,
    /// The numbers of their syncs.
    pub syncs: SyncCounts,
    /// Clients that wait for them.
    pub waiters: AckWaiters,
    /// The bytes that wait in files for slow replicas.
    pub spilled: Arc<AtomicU64>,
    /// Writing to these files has failed, and the server log says so.
    pub is_spill_failing: AtomicBool,
    /// Owners of connections that wait for the replicas' offsets; each gets one letter.
    ack_owners: Mutex<Vec<Arc<Mailbox>>>,
    /// The time of the last ping, monotonic milliseconds.
    pub pinged_ms: AtomicU64,
    /// The time of the last signs of life to replicas that wait for a snapshot.
    pub signed_ms: AtomicU64,
    /// The time at which there was last a replica, monotonic milliseconds.
    pub seen_ms: AtomicU64,
}

impl Replicas {
    /// All, in the order in which they came.
    pub fn all(&self) -> Vec<Arc<Replica>> {
        self.rows.lock().clone()
    }

    /// Returns how many there are. Costs one load.
    #[inline]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Enters one that has asked for the data.
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

    /// Sets the file that is being written.
    pub fn set_file(&self, file: Option<&Arc<Transfer>>) {
        *self.file.lock() = file.cloned();
    }

    /// Returns the file that is being written, of which no replica has been sent anything.
    pub fn file_being_written(&self) -> Option<Arc<Transfer>> {
        self.file.lock().clone().filter(|file| file.is_being_written())
    }

    /// Returns how many have applied the journal up to an offset.
    pub fn acked(&self, offset: u64) -> usize {
        self.count_where(|replica| replica.acked() >= offset)
    }

    /// Returns how many have it on their disks.
    pub fn synced(&self, offset: u64) -> usize {
        self.count_where(|replica| replica.acked_synced() >= offset)
    }

    /// Returns the offsets that so many replicas have reached.
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

    /// Posts a letter to `owner` at the next acknowledgement of a replica.
    pub fn tell_when_acknowledged(&self, owner: &Arc<Mailbox>) {
        let mut owners = self.ack_owners.lock();
        if !owners.iter().any(|known| Arc::ptr_eq(known, owner)) {
            owners.push(Arc::clone(owner));
        }
    }

    /// Wakes the registered threads: a replica has acknowledged an offset.
    pub fn tell_ack_owners(&self) {
        let owners = std::mem::take(&mut *self.ack_owners.lock());
        owners.iter().for_each(|owner| owner.post(Letter::Synced));
    }

    /// Returns the number of replicas that follow and have sent something within so many milliseconds.
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
