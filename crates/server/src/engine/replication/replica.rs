//! One replica: its properties as it stated them, its offset, and the next bytes for it.
//!
//! A replica is first sent a snapshot ([`Transfer`]) and then the journal from that snapshot's instant on, or only the
//! journal from its own offset on. The worker that owns its connection asks for the next bytes ([`Replica::next`]) whenever
//! the connection takes more; all other threads see only numbers. The server keeps nothing for a replica but its position in
//! the journal. So a replica that does not read costs the bytes that are written in that time: beyond the backlog on the
//! disk, and beyond the disk's allowance in memory, up to the limit of its class of clients. Any thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use sleeve_disk::disk::File;

use super::role::Address;
use super::spill::Spill;
use super::transfer::{RdbFilter, ReplicaForm, Transfer, TransferRead};
use crate::engine::clients::client_info::ClientInfo;
use crate::engine::journal::ReplicaCursor;
use crate::host::planted::{self, Fault};

/// Bytes that go into a file at once.
const SPILL_BYTES: usize = 1 << 20;

/// The properties that a replica has stated before it asked for the data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// The port that it serves.
    pub port: u16,
    /// The address at which others reach it, if that differs from the address of its connection.
    pub address: Option<String>,
    /// The replica finds the end of a snapshot of unstated length.
    pub finds_end: bool,
    /// The replica knows that the stream may have got another id since.
    pub knows_ids: bool,
    /// The version of a Valkey, in its own way of counting: 0x090102 is 9.1.2.
    pub valkey: Option<u32>,
    /// The replica loads the newest version of Redis's format, whichever that is.
    pub loads_newest: bool,
    /// The replica wants a snapshot and nothing behind it.
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

/// The progress of a replica.
#[derive(Debug)]
enum Phase {
    /// The replica waits for the beginning of a snapshot.
    Waiting,
    /// The replica is sent this snapshot, and has been sent the bytes before `at`.
    Loading { transfer: Arc<Transfer>, at: u64, is_announced: bool },
    /// The replica has been sent a snapshot, and has to acknowledge that it has loaded it.
    Loaded,
    /// The replica is sent the journal.
    Online,
    /// The replica has the data that it wanted, and is sent no more.
    Done,
}

/// The name of the state in INFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaState {
    /// Waits for a snapshot, or is sent one as it is made.
    WaitBgsave,
    /// Is sent a snapshot from a file, or loads one.
    SendBulk,
    /// Follows.
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

/// The next bytes for a replica.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// The bytes that were appended.
    Bytes,
    /// There is nothing to send for now.
    Nothing,
    /// The replica has the data that it wanted, and is sent no more.
    Done,
    /// The replica cannot go on, because its snapshot has failed or has gone on without it.
    Lost,
}

/// One replica, as its primary knows it.
#[derive(Debug)]
pub struct Replica {
    /// The client that its connection is.
    pub client: Arc<ClientInfo>,
    /// The properties that the replica has stated.
    pub told: Mutex<Told>,
    /// The replica has begun with SYNC: it acknowledges nothing, and is told no offsets.
    pub is_silent: AtomicBool,
    feed: Mutex<Feed>,
    /// The offset that it has applied, as it has said last.
    acked: AtomicU64,
    /// The offset that is on its disk.
    acked_synced: AtomicU64,
    /// The number of its acknowledgements.
    answers: AtomicU64,
    /// The time of its last message since it is online, monotonic milliseconds; 0 before the first message or check.
    heard_ms: AtomicU64,
    pub(super) is_registered: AtomicBool,
}

#[derive(Debug)]
struct Feed {
    phase: Phase,
    follower: Option<ReplicaCursor>,
    /// The part of the journal that is sent before the bytes that the follower reads.
    spill: Spill,
    /// The time at which it began to wait for a snapshot, monotonic milliseconds.
    since_ms: u64,
    /// The bytes of the snapshot that the replica had taken at the last check, and the time since when it has taken no more.
    seen: (u64, u64),
    /// Bytes of the stream that the connection sends at its end.
    rest: Vec<u8>,
}

/// The most bytes of the stream that a connection sends at its end.
const REST_BYTES_MAX: usize = 256 << 10;

impl Replica {
    /// A client that has said something only replicas say.
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

    /// Returns the address at which it is reached: the one that it has stated, or that of its connection.
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

    /// Its address and the port that it serves.
    pub fn reached_at(&self) -> Address {
        Address { host: self.address(), port: self.told.lock().port }
    }

    /// Returns whether it is reached at this address.
    pub fn is_at(&self, address: &Address) -> bool {
        self.reached_at() == *address
    }

    /// Returns whether it has asked for the data.
    pub fn is_registered(&self) -> bool {
        self.is_registered.load(Ordering::Relaxed)
    }

    /// Goes on with the journal from this follower's position.
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

    /// Since when it has waited for a snapshot to begin, if it does.
    pub fn waits_since_ms(&self) -> Option<u64> {
        let feed = self.feed.lock();
        matches!(feed.phase, Phase::Waiting).then_some(feed.since_ms)
    }

    /// Sends the replica this snapshot, and the journal from the snapshot's instant on. Returns false if it does not wait for
    /// a snapshot, because another one was first.
    pub fn load(&self, transfer: &Arc<Transfer>, follower: Option<ReplicaCursor>) -> bool {
        let mut feed = self.feed.lock();
        if !matches!(feed.phase, Phase::Waiting) {
            return false;
        }
        transfer.enter(self.client.id, &self.client.mailbox);
        feed.phase = Phase::Loading { transfer: Arc::clone(transfer), at: 0, is_announced: false };
        feed.follower = follower;
        true
    }

    /// Notes that the replica has applied the journal up to an offset, and has fsynced it up to another. Returns whether that
    /// brings it online.
    pub fn acknowledge(&self, applied: u64, synced: Option<u64>, now_ms: u64) -> bool {
        self.acked.fetch_max(applied, Ordering::Relaxed);
        self.acked_synced.fetch_max(synced.unwrap_or_default(), Ordering::Relaxed);
        // The store comes after the offsets that it counts.
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

    /// Returns the milliseconds since its last message, counted from the first check since it is online: while it loads its
    /// snapshot it may send nothing.
    pub fn silent_ms(&self, now_ms: u64) -> u64 {
        let heard = self.heard_ms.compare_exchange(0, now_ms, Ordering::Relaxed, Ordering::Relaxed);
        now_ms.saturating_sub(heard.err().unwrap_or(now_ms))
    }

    /// Returns the milliseconds for which it has taken nothing of the available snapshot, as far as that was checked.
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

    /// The offset that it has applied, as far as is known.
    pub fn acked(&self) -> u64 {
        self.acked.load(Ordering::Relaxed)
    }

    /// The offset that is on its disk, as far as is known.
    pub fn acked_synced(&self) -> u64 {
        self.acked_synced.load(Ordering::Relaxed)
    }

    /// Returns the number of its acknowledgements.
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Acquire)
    }

    /// Returns the name of the replica's phase in INFO; none for a replica that has the data that it wanted.
    pub fn state(&self) -> Option<ReplicaState> {
        match &self.feed.lock().phase {
            Phase::Waiting => Some(ReplicaState::WaitBgsave),
            Phase::Loading { transfer, .. } if transfer.is_being_written() || transfer.is_streamed() => {
                // As in Redis, which calls only the sending of a file so.
                Some(ReplicaState::WaitBgsave)
            }
            Phase::Loading { .. } | Phase::Loaded => Some(ReplicaState::SendBulk),
            Phase::Online => Some(ReplicaState::Online),
            Phase::Done => None,
        }
    }

    /// Returns whether it follows.
    pub fn is_online(&self) -> bool {
        self.state() == Some(ReplicaState::Online)
    }

    /// Returns whether it needs signs of life, because nothing else is sent to it for long.
    pub fn needs_signs(&self) -> bool {
        match &self.feed.lock().phase {
            Phase::Waiting => true,
            Phase::Loading { transfer, .. } => transfer.is_being_written(),
            Phase::Loaded | Phase::Online | Phase::Done => false,
        }
    }

    /// The bytes of the journal, which ends at `end`, that are kept for it.
    pub fn lag(&self, end: u64) -> u64 {
        self.feed.lock().follower.as_ref().map_or(0, |follower| end.saturating_sub(follower.offset()))
    }

    /// Appends about `bytes_max` of the bytes that come next; of the journal none behind `end`.
    pub fn next(&self, end: u64, bytes_max: usize, into: &mut Vec<u8>) -> Next {
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
            Phase::Loading { transfer, at, is_announced } => {
                if !std::mem::replace(is_announced, true) && !self.is_silent.load(Ordering::Relaxed) {
                    into.extend_from_slice(transfer.announcement().as_bytes());
                    return Next::Bytes;
                }
                match transfer.read(self.client.id, at, into) {
                    TransferRead::Bytes => return Next::Bytes,
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
                // This read gave no more bytes, but the next ones may be there.
                Next::Bytes
            }
        }
    }

    /// Moves the bytes that the journal keeps for this replica alone, up to `kept` bytes before `end`, into files that `make`
    /// begins. They are counted in `total`, which grows to `total_max` at most.
    ///
    /// # Errors
    /// Those of the system. The journal then goes on keeping the bytes.
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

    /// Ends the feed. The next bytes of the stream before `end` are kept for [`Replica::take_rest`].
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

    /// Takes the bytes that the connection is to send before it is closed.
    pub fn take_rest(&self) -> Vec<u8> {
        std::mem::take(&mut self.feed.lock().rest)
    }

    /// Releases the bytes that are kept for the replica: it is sent nothing any more.
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
