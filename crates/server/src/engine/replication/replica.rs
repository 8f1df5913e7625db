//! A replica: its properties as it stated them, its offset, and the next bytes for it.
//!
//! A replica is first sent a snapshot ([`Transfer`]) and then the journal from that snapshot's instant on, or only the
//! journal from its own offset on. The worker that owns its connection asks for the next bytes ([`Replica::next`]) whenever
//! the connection takes more; all other threads see only numbers. The server keeps nothing for a replica but its position in
//! the journal. So a replica that does not read costs the bytes that are written to the journal in that time: those beyond
//! the backlog take disk space, and those beyond the disk's allowance take memory, up to the limit of its class of clients.
//! Any thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use sleeve_disk::disk::File;

use super::role::Address;
use super::spill::Spill;
use super::sync_rate::SyncRate;
use super::transfer::{RdbFilter, ReplicaForm, Transfer, TransferRead};
use crate::engine::clients::client_info::ClientInfo;
use crate::engine::journal::ReplicaCursor;
use crate::host::planted::{self, Fault};

/// The number of bytes that go into a file at once.
const SPILL_BYTES: usize = 1 << 20;

/// The properties that a replica has stated before its PSYNC or SYNC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// The port on which the replica serves clients.
    pub port: u16,
    /// The address at which others reach it, if that differs from the address of its connection.
    pub address: Option<String>,
    /// The replica can find the end of a snapshot without a stated length.
    pub finds_end: bool,
    /// The replica understands that the stream may continue under another id.
    pub knows_ids: bool,
    /// The replica's version if it is a Valkey, in its own form: 0x090102 is 9.1.2.
    pub valkey: Option<u32>,
    /// The replica loads every version of Redis's format, including the newest.
    pub loads_newest: bool,
    /// The replica wants a snapshot and no stream after it.
    pub snapshot_only: bool,
    /// The part of the data that the replica wants.
    pub filter: RdbFilter,
}

impl Told {
    /// Returns the format that the replica can load, and the part of the data that it wants.
    pub fn form(&self) -> ReplicaForm {
        let valkey = self.valkey.filter(|_| !self.loads_newest);
        ReplicaForm { valkey: valkey.map(|version| version >> 16), filter: self.filter }
    }
}

/// The phase of a replica's sync.
#[derive(Debug)]
enum Phase {
    /// The replica waits for the beginning of a snapshot.
    Waiting,
    /// The replica is sent this snapshot, and has been sent the bytes before `at`.
    Loading { transfer: Arc<Transfer>, at: u64, is_announced: bool, rate: SyncRate },
    /// The replica has been sent a snapshot, and has to acknowledge that it has loaded it.
    Loaded,
    /// The replica is sent the journal.
    Online,
    /// The replica has all the data that it asked for, and is sent no more.
    Done,
}

/// The state of a replica, as INFO names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaState {
    /// The replica waits for a snapshot, or is sent one while it is made.
    WaitBgsave,
    /// The replica is sent a snapshot from a file, or loads one.
    SendBulk,
    /// The replica is sent the journal.
    Online,
}

impl ReplicaState {
    /// Returns Redis's name of the state.
    pub fn name(self) -> &'static str {
        match self {
            Self::WaitBgsave => "wait_bgsave",
            Self::SendBulk => "send_bulk",
            Self::Online => "online",
        }
    }
}

/// The bounds on the next bytes for a replica.
#[derive(Debug, Clone, Copy)]
pub struct FeedLimits {
    /// The offset of the journal up to which it may be sent.
    pub end: u64,
    /// The bytes of the journal that are read at once, about.
    pub bytes_max: usize,
    /// The bytes of a snapshot that may be sent each second; 0 for no bound.
    pub sync_rate: u64,
    /// The present time, in monotonic milliseconds.
    pub now_ms: u64,
}

/// The outcome of asking for the next bytes for a replica.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Bytes were appended.
    Bytes,
    /// There is nothing to send for now.
    Nothing,
    /// The replica has all the data that it asked for, and is sent no more.
    Done,
    /// The replica cannot go on, because its snapshot has failed or no longer waits for it.
    Lost,
}

/// A replica, as its primary knows it.
#[derive(Debug)]
pub struct Replica {
    /// The client of the replica's connection.
    pub client: Arc<ClientInfo>,
    /// The properties that the replica has stated.
    pub told: Mutex<Told>,
    /// The replica has begun with SYNC: it acknowledges nothing, and is sent no offsets.
    pub is_silent: AtomicBool,
    feed: Mutex<Feed>,
    /// The offset up to which it has applied the journal, as it has acknowledged last.
    acked: AtomicU64,
    /// The offset up to which it has fsynced the journal, as it has acknowledged last.
    acked_synced: AtomicU64,
    /// The number of its acknowledgements.
    answers: AtomicU64,
    /// The time of its last message since it is online, in monotonic milliseconds; 0 before the first message or check.
    heard_ms: AtomicU64,
    pub(super) is_registered: AtomicBool,
}

#[derive(Debug)]
struct Feed {
    phase: Phase,
    follower: Option<ReplicaCursor>,
    /// The part of the journal in files, which is sent before the bytes that the cursor reads.
    spill: Spill,
    /// The time at which it began to wait for a snapshot, in monotonic milliseconds.
    since_ms: u64,
    /// The number of bytes of the snapshot that the replica had taken at the last check, and the time since which that has
    /// not grown.
    seen: (u64, u64),
    /// The last bytes of the stream, for the end of the connection.
    rest: Vec<u8>,
}

/// The most bytes of the stream that are sent at the end of a connection.
const REST_BYTES_MAX: usize = 256 << 10;

impl Replica {
    /// Makes the state of a client that has sent a command which only replicas send.
    pub fn new(client: &Arc<ClientInfo>) -> Self {
        Self {
            client: Arc::clone(client),
            told: Mutex::default(),
            is_silent: AtomicBool::new(false),
            feed: Mutex::new(Feed {
                phase: Phase::Waiting,
                follower: None,
                spill: Spill::default(),
                since_ms: 0,
                seen: (u64::MAX, 0),
                rest: Vec::new(),
            }),
            acked: AtomicU64::new(0),
            acked_synced: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            heard_ms: AtomicU64::new(0),
            is_registered: AtomicBool::new(false),
        }
    }

    /// Returns the address at which the replica is reached: the one that it has stated, or that of its connection.
    pub fn address(&self) -> String {
        let told = self.told.lock().address.clone();
        told.unwrap_or_else(|| {
            let host = self
                .client
                .socket
                .address
                .rsplit_once(':')
                .map_or(self.client.socket.address.as_str(), |(host, _)| host);
            host.trim_matches(['[', ']']).to_owned()
        })
    }

    /// Returns the address and the port at which the replica is reached.
    pub fn reached_at(&self) -> Address {
        Address { host: self.address(), port: self.told.lock().port }
    }

    /// Returns whether the replica is reached at this address.
    pub fn is_at(&self, address: &Address) -> bool {
        self.reached_at() == *address
    }

    /// Returns whether the replica has sent PSYNC or SYNC.
    pub fn is_registered(&self) -> bool {
        self.is_registered.load(Ordering::Relaxed)
    }

    /// Sends the replica the journal from this cursor's position on.
    pub fn go_online(&self, follower: ReplicaCursor, now_ms: u64) {
        self.hear(now_ms);
        let mut feed = self.feed.lock();
        feed.phase = Phase::Online;
        feed.follower = Some(follower);
    }

    /// Makes the replica wait for a snapshot from now on.
    pub fn wait_for_snapshot(&self, now_ms: u64) {
        let mut feed = self.feed.lock();
        feed.phase = Phase::Waiting;
        feed.since_ms = now_ms;
    }

    /// Returns the time since which it waits for a snapshot to begin, if it does.
    pub fn waits_since_ms(&self) -> Option<u64> {
        let feed = self.feed.lock();
        matches!(feed.phase, Phase::Waiting).then_some(feed.since_ms)
    }

    /// Sends the replica this snapshot, and then the journal from the snapshot's instant on. Returns false if it does not
    /// wait for a snapshot, because it has got another one already.
    pub fn load(&self, transfer: &Arc<Transfer>, follower: Option<ReplicaCursor>) -> bool {
        let mut feed = self.feed.lock();
        if !matches!(feed.phase, Phase::Waiting) {
            return false;
        }
        transfer.enter(self.client.id, &self.client.mailbox);
        feed.phase =
            Phase::Loading { transfer: Arc::clone(transfer), at: 0, is_announced: false, rate: SyncRate::default() };
        feed.follower = follower;
        true
    }

    /// Notes that the replica has applied the journal up to an offset, and has fsynced it up to another. Returns whether the
    /// replica becomes online by that.
    pub fn acknowledge(&self, applied: u64, synced: Option<u64>, now_ms: u64) -> bool {
        self.acked.fetch_max(applied, Ordering::Relaxed);
        self.acked_synced.fetch_max(synced.unwrap_or_default(), Ordering::Relaxed);
        // The count is increased after the offsets are stored, so that a reader that sees it sees them too.
        self.answers.fetch_add(1, Ordering::Release);
        self.hear(now_ms);
        let mut feed = self.feed.lock();
        let has_loaded = matches!(feed.phase, Phase::Loaded);
        if has_loaded {
            feed.phase = Phase::Online;
        }
        has_loaded
    }

    /// Notes a message from the replica.
    fn hear(&self, now_ms: u64) {
        self.heard_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Returns the milliseconds since its last message. They are counted from the first check after it came online, because
    /// while it loads its snapshot it may send nothing.
    pub fn silent_ms(&self, now_ms: u64) -> u64 {
        let heard = self.heard_ms.compare_exchange(0, now_ms, Ordering::Relaxed, Ordering::Relaxed);
        now_ms.saturating_sub(heard.err().unwrap_or(now_ms))
    }

    /// Returns the milliseconds for which it has taken nothing of the available snapshot, as of the checks so far.
    pub fn stalled_ms(&self, now_ms: u64) -> u64 {
        let mut feed = self.feed.lock();
        let Feed { phase, seen, .. } = &mut *feed;
        match phase {
            Phase::Loading { transfer, at, .. } if *at == seen.0 && transfer.has_more(*at) => {
                now_ms.saturating_sub(seen.1)
            }
            Phase::Loading { at, .. } => {
                *seen = (*at, now_ms);
                0
            }
            Phase::Waiting | Phase::Loaded | Phase::Online | Phase::Done => {
                *seen = (0, now_ms);
                0
            }
        }
    }

    /// Returns the last known offset up to which it has applied the journal.
    pub fn acked(&self) -> u64 {
        self.acked.load(Ordering::Relaxed)
    }

    /// Returns the last known offset up to which it has fsynced the journal.
    pub fn acked_synced(&self) -> u64 {
        self.acked_synced.load(Ordering::Relaxed)
    }

    /// Returns the number of its acknowledgements.
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Acquire)
    }

    /// Returns the state for INFO; None for a replica that has all the data that it asked for.
    pub fn state(&self) -> Option<ReplicaState> {
        match &self.feed.lock().phase {
            Phase::Waiting => Some(ReplicaState::WaitBgsave),
            Phase::Loading { transfer, .. } if transfer.is_being_written() || transfer.is_streamed() => {
                // As in Redis: only the sending of a file is `send_bulk`.
                Some(ReplicaState::WaitBgsave)
            }
            Phase::Loading { .. } | Phase::Loaded => Some(ReplicaState::SendBulk),
            Phase::Online => Some(ReplicaState::Online),
            Phase::Done => None,
        }
    }

    /// Returns whether the replica is sent the journal.
    pub fn is_online(&self) -> bool {
        self.state() == Some(ReplicaState::Online)
    }

    /// Returns whether the replica needs signs of life, because it may be sent nothing else for long.
    pub fn needs_signs(&self) -> bool {
        match &self.feed.lock().phase {
            Phase::Waiting => true,
            Phase::Loading { transfer, .. } => transfer.is_being_written(),
            Phase::Loaded | Phase::Online | Phase::Done => false,
        }
    }

    /// Returns the number of bytes of the journal, which ends at `end`, that are kept for the replica.
    pub fn lag(&self, end: u64) -> u64 {
        self.feed.lock().follower.as_ref().map_or(0, |follower| end.saturating_sub(follower.offset()))
    }

    /// Appends the next bytes within these limits.
    pub fn next(&self, limits: FeedLimits, into: &mut Vec<u8>) -> Next {
        let FeedLimits { end, bytes_max, .. } = limits;
        let mut feed = self.feed.lock();
        let Feed { phase, follower, spill, rest, .. } = &mut *feed;
        match phase {
            Phase::Waiting | Phase::Loaded => Next::Nothing,
            Phase::Done if !rest.is_empty() => {
                into.append(rest);
                Next::Bytes
            }
            Phase::Done => Next::Done,
            Phase::Online if !spill.is_empty() => match spill.read(bytes_max, into) {
                Ok(()) => Next::Bytes,
                Err(_) => Next::Lost,
            },
            Phase::Online => {
                let read = follower.as_mut().map_or(0, |follower| follower.read(end, bytes_max, into));
                if let Some(follower) = follower.as_ref().filter(|_| planted::has(Fault::CountsSent)) {
                    self.acked.fetch_max(follower.offset(), Ordering::Relaxed);
                }
                if read == 0 { Next::Nothing } else { Next::Bytes }
            }
            Phase::Loading { transfer, at, is_announced, rate } => {
                if !std::mem::replace(is_announced, true) && !self.is_silent.load(Ordering::Relaxed) {
                    into.extend_from_slice(transfer.announcement().as_bytes());
                    return Next::Bytes;
                }
                let (before, allowed) = (*at, rate.allowed(limits.sync_rate, limits.now_ms).min(bytes_max));
                match transfer.read(self.client.id, at, allowed, into) {
                    TransferRead::Bytes => {
                        rate.spend((*at - before) as usize);
                        return Next::Bytes;
                    }
                    TransferRead::NotYet => return Next::Nothing,
                    TransferRead::Lost => return Next::Lost,
                    TransferRead::End => {}
                }
                let is_streamed = transfer.is_streamed();
                transfer.leave(self.client.id);
                *phase = match self.told.lock().snapshot_only {
                    true => Phase::Done,
                    false if is_streamed && !self.is_silent.load(Ordering::Relaxed) => Phase::Loaded,
                    false => Phase::Online,
                };
                self.heard_ms.store(0, Ordering::Relaxed);
                // This read has given no bytes, but there may be more.
                Next::Bytes
            }
        }
    }

    /// Moves the bytes that the journal keeps only for this replica into files that `make` begins, except for the last `kept`
    /// bytes before `end`. The bytes are counted in `total`, which does not grow beyond `total_max`.
    ///
    /// # Errors
    /// Errors of the operating system. The journal then goes on keeping the bytes.
    pub fn spill(
        &self,
        (end, kept): (u64, u64),
        (total, total_max): (&Arc<AtomicU64>, u64),
        make: impl Fn() -> io::Result<Arc<dyn File>>,
    ) -> io::Result<()> {
        let mut feed = self.feed.lock();
        let Feed { follower: Some(follower), spill, .. } = &mut *feed else { return Ok(()) };
        if follower.offset() + kept + SPILL_BYTES as u64 > end {
            return Ok(());
        }
        if spill.is_empty() {
            *spill = Spill::new(total);
        }
        let mut bytes = Vec::new();
        while follower.offset() + kept < end && total.load(Ordering::Relaxed) + (SPILL_BYTES as u64) <= total_max {
            bytes.clear();
            let count = follower.copy(end - kept, SPILL_BYTES, &mut bytes);
            if count == 0 {
                break;
            }
            spill.write(&bytes, &make)?;
            follower.advance(count);
        }
        Ok(())
    }

    /// Ends the feed. The last bytes of the stream before `end` are kept for [`Replica::take_rest`].
    pub(super) fn end_at(&self, end: u64) {
        let mut rest = Vec::new();
        let mut feed = self.feed.lock();
        if matches!(feed.phase, Phase::Online)
            && feed.spill.is_empty()
            && let Some(follower) = &mut feed.follower
        {
            follower.read(end, REST_BYTES_MAX, &mut rest);
        }
        feed.rest = rest;
        drop(feed);
        self.end();
    }

    /// Takes the bytes that the connection has to send before it is closed.
    pub fn take_rest(&self) -> Vec<u8> {
        std::mem::take(&mut self.feed.lock().rest)
    }

    /// Releases the bytes that are kept for the replica, which is sent no more.
    pub(super) fn end(&self) {
        let mut feed = self.feed.lock();
        if let Phase::Loading { transfer, .. } = &feed.phase {
            transfer.leave(self.client.id);
        }
        feed.phase = Phase::Done;
        feed.follower = None;
        feed.spill = Spill::default();
    }
}
