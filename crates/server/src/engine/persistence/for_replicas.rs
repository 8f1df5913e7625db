//! A snapshot for replicas: into their sockets as it is made, or into a file that is sent when it is whole.
//!
//! Into sockets, a stated number of bytes is kept at most, and the walk waits for the slowest replica. One that takes nothing is
//! let go: after a few seconds where another waits, or where so much is handed over by writers that they would be held; else
//! after `repl-timeout`. So no replica holds up anybody else for long. The thread of the snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sleeve_disk::disk::{File, Open};

use super::save::{ABORTED, Begun};
use super::snapshot_output::SnapshotForm;
use crate::config::Opt;
use crate::config::value::reason;
use crate::engine::Engine;
use crate::engine::readiness::Hindrance;
use crate::engine::replication::{Replica, Transfer};
use crate::host::clock;
use crate::host::log;
use crate::messaging::mail::Letter;

/// Bytes of blocks that wait for the slowest replica at most.
const BUFFER_BYTES: u64 = 8 << 20;

/// How long a replica may take nothing while others wait for it.
const STALL_MS: u64 = 5_000;

/// How often is looked whether that is so.
const LOOK: Duration = Duration::from_millis(50);

impl Engine {
    /// Writes a snapshot for the replicas that wait for one and can load the same; the changes that it has.
    pub(super) fn write_for_replicas(&self) -> Result<u64, String> {
        let waiting = self.replication.replicas.all();
        let waiting: Vec<_> = waiting.into_iter().filter(|replica| replica.waits_since_ms().is_some()).collect();
        let Some(first) = waiting.first() else { return Ok(0) };
        let form = first.told.lock().form();
        let is_streamed = self.config.flag(Opt::ReplDisklessSync) && first.told.lock().finds_end;
        let is_meant = |replica: &&Arc<Replica>| {
            let told = replica.told.lock();
            told.form() == form && (!is_streamed || told.finds_end)
        };
        let meant: Vec<_> = waiting.iter().filter(is_meant).cloned().collect();
        let target = if is_streamed { "replicas sockets" } else { "disk" };
        log::notice(&format!("Starting BGSAVE for SYNC with target: {target}"));
        let mut transfer = None;
        let begun = self.begin_snapshot(0, |offset| {
            self.journal.keep_backlog(self.config.memory(Opt::ReplBacklogSize));
            let mark = is_streamed.then(|| self.new_replication_id());
            let begun = Arc::new(Transfer::new((self.replication.ids.id(), offset), form, mark));
            for replica in &meant {
                begun.enter(replica.client.id, &replica.client.mailbox);
                let follows = !replica.told.lock().snapshot_only;
                let follower = if follows { self.journal.follow(offset) } else { None };
                if !replica.load(&begun, follower) {
                    begun.leave(replica.client.id);
                }
            }
            transfer = Some(begun);
            Ok(())
        })?;
        let Some(transfer) = transfer else { return Err(ABORTED.into()) };
        // They are told at which offset it begins.
        meant.iter().for_each(|replica| replica.client.mailbox.post(Letter::Stream));
        let changes = begun.changes;
        let written = match is_streamed {
            true => self.stream_to_replicas(&transfer, begun),
            false => self.file_for_replicas(&transfer, begun),
        };
        transfer.end(written.is_ok());
        if written.is_err() {
            // Also those who do not read, and so would not hear of it.
            transfer.takers().iter().for_each(|(client, ..)| self.close_replica(*client));
        }
        written.map(|()| changes)
    }

    /// Writes it into a file, and has it read from there. Nobody else sees the file.
    fn file_for_replicas(&self, transfer: &Arc<Transfer>, begun: Begun) -> Result<(), String> {
        let path = self.snapshot_path().with_file_name(format!("temp-repl-{}.rdb", self.mark()));
        self.replication.replicas.set_file(Some(transfer));
        let written = self.write_to(&path, begun, SnapshotForm::Replicas(transfer.form));
        self.replication.replicas.set_file(None);
        written?;
        let opened = self.disk.open(&path, Open::Read).and_then(|file| Ok((file.size()?, file)));
        // Whoever has it open can read it.
        _ = self.disk.remove(&path);
        let (length, file): (u64, Arc<dyn File>) =
            opened.map_err(|error| format!("cannot read {}: {}", path.display(), reason(&error)))?;
        transfer.set_file(file, length);
        Ok(())
    }

    /// Puts it into the blocks of a transfer.
    fn stream_to_replicas(&self, transfer: &Transfer, begun: Begun) -> Result<(), String> {
        let mut stalls = Stalls::default();
        self.give_out(begun, SnapshotForm::Replicas(transfer.form), &mut |bytes| {
            transfer.push(bytes.to_vec());
            self.wait_for_takers(transfer, &mut stalls)
        })
    }

    /// Waits until no replica has more before it than may be kept, and lets those go that take nothing.
    fn wait_for_takers(&self, transfer: &Transfer, stalls: &mut Stalls) -> Result<(), String> {
        let timeout_ms = self.config.number(Opt::ReplTimeout) as u64 * 1_000;
        loop {
            let takers = transfer.takers();
            let most = takers.iter().map(|(.., waits)| *waits).max();
            let most = most.ok_or_else(|| "no replica takes it any more".to_owned())?;
            if most <= BUFFER_BYTES {
                return Ok(());
            }
            if self.durability.snapshots.is_aborted() {
                return Err(ABORTED.into());
            }
            self.hold_writers_behind_disk();
            let has_idle = takers.iter().any(|(.., waits)| *waits == 0);
            let is_in_the_way = has_idle || self.readiness.has(Hindrance::DiskBehind) || self.has_snapshot_waiting();
            let stall_ms = if is_in_the_way { STALL_MS.min(timeout_ms) } else { timeout_ms };
            for client in stalls.stalled(&takers, stall_ms, clock::monotonic_ms()) {
                let seconds = stall_ms / 1_000;
                log::warning(&format!(
                    "A replica (client {client}) has taken nothing of its snapshot for {seconds} seconds and is let go."
                ));
                transfer.leave(client);
                self.close_replica(client);
            }
            transfer.wait(LOOK);
        }
    }

    /// Whether somebody waits for this snapshot to be over: other replicas, or one that was scheduled.
    fn has_snapshot_waiting(&self) -> bool {
        let status = self.durability.snapshots.status();
        let replicas = self.replication.replicas.all();
        status.file_scheduled
            || status.base_scheduled
            || replicas.iter().any(|replica| replica.waits_since_ms().is_some())
    }

    /// Closes the connection of a replica.
    fn close_replica(&self, client: u64) {
        if let Some(client) = self.clients.find(client) {
            client.mailbox.post(Letter::Close(client.id));
        }
    }
}

/// Since when each replica that has bytes before it has taken nothing: its place, and the time in monotonic milliseconds.
#[derive(Debug, Default)]
struct Stalls(BTreeMap<u64, (u64, u64)>);

impl Stalls {
    /// Those that have taken nothing for longer than `stall_ms`.
    fn stalled(&mut self, takers: &[(u64, u64, u64)], stall_ms: u64, now_ms: u64) -> Vec<u64> {
        let is_stalled = |(client, at, waits): &(u64, u64, u64)| {
            let (seen, since_ms) = self.0.entry(*client).or_insert((*at, now_ms));
            if *waits == 0 || *seen != *at {
                (*seen, *since_ms) = (*at, now_ms);
            }
            (now_ms - *since_ms > stall_ms).then_some(*client)
        };
        takers.iter().filter_map(is_stalled).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_nothing_of_what_is_there_is_stalled_and_nobody_else() {
        let mut stalls = Stalls::default();
        assert!(stalls.stalled(&[(1, 0, 9), (2, 5, 4), (3, 9, 0)], 100, 1_000).is_empty());
        assert!(stalls.stalled(&[(1, 0, 9), (2, 6, 3), (3, 9, 0)], 100, 1_100).is_empty());
        assert_eq!(stalls.stalled(&[(1, 0, 9), (2, 6, 3), (3, 9, 0)], 100, 1_101), [1]);
        assert_eq!(stalls.stalled(&[(2, 6, 3), (3, 9, 1)], 100, 1_201), [2]);
    }
}
