//! A snapshot for replicas: sent to their sockets as it is made, or written to a file that is sent when it is complete.
//!
//! For sockets, a bounded number of bytes is buffered, and the walk waits for the slowest replica as long as that delays no
//! other client. If another replica or another snapshot is waiting, or if writers hand over so many before-images that they
//! would be held, the rest goes into a file, and the walk waits for the disk only. If no file can be created, the slow
//! replicas are dropped. So no replica delays the others. The end of a snapshot is sent when its instant is durable, as with
//! replies: until then no replica can load data that this server may lose. All this runs in the snapshot's thread.

use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sleeve_disk::disk::{File, Open};

use super::output::SnapshotForm;
use super::walk::{ABORTED, Begun};
use crate::config::Opt;
use crate::config::value::reason;
use crate::engine::Engine;
use crate::engine::persistence::snapshot::walk;
use crate::engine::replication::primary;
use crate::engine::replication::{Replica, Transfer};
use crate::host::clock;
use crate::host::log;
use crate::messaging::mail::Letter;

/// The most bytes of blocks that wait for the slowest replica.
const BUFFER_BYTES: u64 = 8 << 20;

/// The time for which others wait for slow replicas, in total.
const PATIENCE_MS: u64 = 1_000;

/// The interval at which the snapshot thread checks whether others wait.
const LOOK: Duration = Duration::from_millis(20);

/// Writes a snapshot for the replicas that wait for one and can load the same form; returns the changes that it contains.
pub(in crate::engine::persistence) fn write_for_replicas(engine: &Engine) -> Result<u64, String> {
    let waiting = engine.replication.replicas.all();
    let waiting: Vec<_> = waiting.into_iter().filter(|replica| replica.waits_since_ms().is_some()).collect();
    let Some(first) = waiting.first() else { return Ok(0) };
    let form = first.told.lock().form();
    let is_streamed = engine.config.flag(Opt::ReplDisklessSync) && first.told.lock().finds_end;
    let is_meant = |replica: &&Arc<Replica>| {
        let told = replica.told.lock();
        told.form() == form && (!is_streamed || told.finds_end)
    };
    let meant: Vec<_> = waiting.iter().filter(is_meant).cloned().collect();
    let target = if is_streamed { "replicas sockets" } else { "disk" };
    log::notice(&format!("Starting BGSAVE for SYNC with target: {target}"));
    let mut transfer = None;
    let begun = walk::begin(engine, 0, |offset| {
        engine.journal.keep_backlog(engine.config.memory(Opt::ReplBacklogSize));
        engine.journal.forget_database();
        let mark = is_streamed.then(|| primary::new_replication_id(engine));
        let begun = Arc::new(Transfer::new((engine.replication.ids.id(), offset), form, mark));
        for replica in &meant {
            let follows = !replica.told.lock().snapshot_only;
            let follower = if follows { engine.journal.follow(offset) } else { None };
            replica.load(&begun, follower);
        }
        transfer = Some(begun);
        Ok(())
    })?;
    let Some(transfer) = transfer else { return Err(ABORTED.into()) };
    let what = if is_streamed { "RDB transfer" } else { "saving" };
    log::notice(&format!("Background {what} started by pid {}", std::process::id()));
    // The replicas are sent the offset at which the snapshot begins.
    meant.iter().for_each(|replica| replica.client.mailbox.post(Letter::Stream));
    let changes = begun.changes;
    let written = match is_streamed {
        true => stream_to_replicas(engine, &transfer, begun),
        false => file_for_replicas(engine, &transfer, begun),
    };
    let taking = transfer.takers().len();
    // The lines are in Redis's words, because scripts look for them, though there is neither a pipe nor a child.
    match (is_streamed, &written) {
        (true, Ok(())) => {
            log::notice(&format!("Diskless rdb transfer, done reading from pipe, {taking} replicas still up."));
        }
        (true, Err(_)) if taking == 0 => {
            log::notice("Diskless rdb transfer, last replica dropped, killing fork child.");
        }
        _ => {}
    }
    transfer.end(written.is_ok());
    if written.is_err() {
        // Replicas that do not read are closed too; they would not notice the end otherwise.
        transfer.takers().iter().for_each(|(client, ..)| close_replica(engine, *client));
    }
    written.map(|()| changes)
}

/// Writes the snapshot into a file, from which it is sent. Only the transfer uses the file.
fn file_for_replicas(engine: &Engine, transfer: &Arc<Transfer>, begun: Begun) -> Result<(), String> {
    let path = path_for_replicas(engine);
    engine.replication.replicas.set_file(Some(transfer));
    // The replicas for which the file was begun may have disconnected before this.
    primary::give_up_unwanted_file(engine);
    let written = walk::write_to(engine, &path, begun, SnapshotForm::Replicas(transfer.form));
    let written = written.and_then(|()| wait_for_log(engine, transfer));
    engine.replication.replicas.set_file(None);
    let opened = written.and_then(|()| {
        let opened = engine.persistence.disk.open(&path, Open::Read).and_then(|file| Ok((file.size()?, file)));
        opened.map_err(|error| format!("cannot read {}: {}", path.display(), reason(&error)))
    });
    // The open file stays readable after its name is removed.
    _ = engine.persistence.disk.remove(&path);
    let (length, file): (u64, Arc<dyn File>) = opened?;
    transfer.set_file(file, length);
    Ok(())
}

/// Returns the path of the file for replicas. The file has this name until it is opened for reading.
fn path_for_replicas(engine: &Engine) -> PathBuf {
    engine.persistence.snapshots.path(engine).with_file_name(format!("temp-repl-{}.rdb", engine.identity.mark()))
}

/// Sends the snapshot by the blocks of a transfer, or, once a replica is too slow, by a file.
fn stream_to_replicas(engine: &Engine, transfer: &Transfer, begun: Begun) -> Result<(), String> {
    let (mut file, mut waited_ms): (Option<Arc<dyn File>>, _) = (None, 0);
    walk::give_out(engine, begun, SnapshotForm::Replicas(transfer.form), &mut |bytes| match &file {
        Some(file) => {
            let written = file.append(&[IoSlice::new(bytes)]);
            written.map_err(|error| format!("cannot write a file for replicas: {}", reason(&error)))?;
            transfer.grow_file(bytes.len());
            nobody_left(&transfer.takers())
        }
        None => {
            transfer.push(bytes.to_vec());
            if holds_others_up(engine, transfer, &mut waited_ms)? {
                file = go_on_in_file(engine, transfer);
            }
            Ok(())
        }
    })?;
    wait_for_log(engine, transfer)
}

/// Waits until no replica lags by more than the buffer holds. Returns true if others would have to wait too long for that;
/// `waited_ms` is the time that they have waited so far.
fn holds_others_up(engine: &Engine, transfer: &Transfer, waited_ms: &mut u64) -> Result<bool, String> {
    let progress = &engine.persistence.snapshots.progress;
    loop {
        let takers = transfer.takers();
        nobody_left(&takers)?;
        if takers.iter().all(|(.., waits)| *waits <= BUFFER_BYTES) {
            return Ok(false);
        }
        if engine.persistence.snapshots.is_aborted() {
            return Err(ABORTED.into());
        }
        let are_writers_near = progress.note_waits() >= engine.config.memory(Opt::SnapshotMaxMemory) / 2;
        if are_writers_near || *waited_ms >= PATIENCE_MS {
            return Ok(true);
        }
        let has_idle = takers.iter().any(|(.., waits)| *waits == 0);
        let before_ms = clock::monotonic_ms();
        transfer.wait(LOOK);
        if has_idle || has_snapshot_waiting(engine) {
            *waited_ms += clock::monotonic_ms() - before_ms;
        }
    }
}

/// Makes the file for the rest of a snapshot, which has no name on the disk. If no file can be created, drops the replicas
/// that are too slow.
fn go_on_in_file(engine: &Engine, transfer: &Transfer) -> Option<Arc<dyn File>> {
    let path = path_for_replicas(engine);
    match engine.persistence.disk.open(&path, Open::Create) {
        Ok(file) => {
            _ = engine.persistence.disk.remove(&path);
            log::notice("Replicas are slower than others can wait: the rest of their snapshot goes by a file.");
            transfer.go_on_in_file(Arc::clone(&file));
            Some(file)
        }
        Err(error) => {
            for (client, ..) in transfer.takers().iter().filter(|(.., waits)| *waits > BUFFER_BYTES) {
                log::warning(&format!(
                    "A replica (client {client}) is slower than others can wait and is let go, because there can be no file \
                     for it: {}",
                    reason(&error)
                ));
                transfer.leave(*client);
                close_replica(engine, *client);
            }
            None
        }
    }
}

/// Waits until the data of the snapshot is as durable as the options demand for replies.
fn wait_for_log(engine: &Engine, transfer: &Transfer) -> Result<(), String> {
    while !engine.persistence.passes(engine, transfer.offset) {
        if engine.persistence.snapshots.is_aborted() {
            return Err(ABORTED.into());
        }
        nobody_left(&transfer.takers())?;
        engine.persistence.wait_for(transfer.offset, LOOK);
    }
    Ok(())
}

/// Returns whether other replicas, or a scheduled snapshot, wait for this snapshot to end.
fn has_snapshot_waiting(engine: &Engine) -> bool {
    let status = engine.persistence.snapshots.status();
    let replicas = engine.replication.replicas.all();
    status.file_scheduled || status.base_scheduled || replicas.iter().any(|replica| replica.waits_since_ms().is_some())
}

/// Closes the connection of a replica.
fn close_replica(engine: &Engine, client: u64) {
    if let Some(client) = engine.clients.list.find(client) {
        client.mailbox.post(Letter::Close(client.id));
    }
}

/// Returns an error if no replica takes the snapshot any more.
fn nobody_left(takers: &[(u64, u64, u64)]) -> Result<(), String> {
    if takers.is_empty() { Err("no replica takes it any more".into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use sleeve_disk::disk::memory::MemoryDisk;

    use super::*;
    use crate::config::Config;
    use crate::engine::origin::Origin;
    use crate::engine::persistence::purpose::Purpose;
    use crate::engine::replication::ReplicaForm;
    use crate::host::clock::Instant;

    #[test]
    fn a_file_whose_replicas_have_gone_before_it_has_begun_is_given_up() {
        let engine = Engine::begin(Config::default(), Origin::of_machine().on(Arc::new(MemoryDisk::new())));
        engine.config.assign(Opt::Save, &[b""]).expect("a value");
        engine.persistence.snapshots.begin(Purpose::Replicas, Instant::now(), &mut None).expect("none runs");
        let begun = walk::begin(&engine, 0, |_| Ok(())).expect("it begins");
        let transfer = Arc::new(Transfer::new((engine.replication.ids.id(), 0), ReplicaForm::default(), None));
        assert_eq!(file_for_replicas(&engine, &transfer, begun), Err(ABORTED.to_owned()));
        engine.replication.replicas.with_file(|file| panic!("{file:?} is still being written"));
    }
}
