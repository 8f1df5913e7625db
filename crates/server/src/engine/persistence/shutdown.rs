//! The shutdown of a server: the wait for its replicas, and its last snapshot.
//!
//! Replicas that lag first get up to `shutdown-timeout` seconds, while clients that write are held: a thread waits for the
//! replicas. SHUTDOWN ABORT cancels that.
//!
//! While the last snapshot is written all clients are held, so that no reply shows a change that the snapshot lacks. If it
//! cannot be written, the server goes on, unless it was ordered to end in any case.
//!
//! A script that runs for long would keep the shards from the snapshot. It is ended, unless it has written; then the server
//! waits for it, which SHUTDOWN NOSAVE avoids.

use std::sync::Arc;
use std::time::Duration;

use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::clients::blocking::Waiter;
use crate::engine::persistence::purpose::{Purpose, Refusal, WhenDone};
use crate::engine::readiness::Hindrance;
use crate::engine::readiness::Hold;
use crate::engine::replication::catching_up::CatchingUp;
use crate::host::clock::{self, Instant};
use crate::host::log;
use crate::request::error::Error;

/// The interval at which the thread checks whether the replicas have all data.
const LOOK: Duration = Duration::from_millis(5);

/// The choice of the caller of SHUTDOWN about a last snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinalSnapshot {
    /// A snapshot is written if `save` has rules.
    AsConfigured,
    /// A snapshot is written.
    Save,
    /// The server ends without a snapshot.
    NoSave,
}

/// The options of a shutdown.
#[derive(Debug, Clone, Copy)]
pub struct Shutdown {
    /// The last snapshot.
    pub final_snapshot: FinalSnapshot,
    /// The server ends even if that snapshot fails.
    pub force: bool,
    /// The server does not wait for replicas.
    pub now: bool,
}

const GOES_ON: &str = "Errors trying to shut down the server. Check the logs for more information.";

/// The reply to clients that asked for a shutdown that fails.
const FAILED: Error = Error::fixed("ERR Errors trying to SHUTDOWN. Check logs.");

/// Returns whether a last snapshot is to be written; never one of data that is loaded in part.
pub fn has_last_words(engine: &Engine, final_snapshot: FinalSnapshot) -> bool {
    match final_snapshot {
        _ if engine.lifecycle.readiness.has(Hindrance::Loading) => false,
        FinalSnapshot::AsConfigured => engine.persistence.snapshots.are_ruled() && engine.config.is_set(Opt::Save),
        FinalSnapshot::Save => true,
        FinalSnapshot::NoSave => false,
    }
}

/// Returns whether the engine may end, or has to by force. As long as the AOF lacks its first base, the data may be on no
/// disk, and the server goes on, as Redis does.
pub fn may_end(engine: &Engine, force: bool) -> bool {
    if !engine.persistence.aof.lacks_first_base(engine) {
        return true;
    }
    log::warning(if force { "Writing initial AOF. Exit anyway." } else { "Writing initial AOF, can't exit." });
    if !force {
        log::warning(GOES_ON);
    }
    force
}

/// Returns whether the shutdown has to wait for replicas.
pub fn has_lagging_replicas(engine: &Engine, how: Shutdown) -> bool {
    let end = engine.journal.end();
    let replicas = engine.replication.replicas.all();
    let mut known = replicas.iter().filter(|replica| replica.state().is_some());
    !how.now
        && engine.config.number(Opt::ShutdownTimeout) != 0
        && !engine.lifecycle.readiness.has(Hindrance::Loading)
        && known.any(|replica| replica.acked() != end)
}

/// Begins the shutdown of the engine: waits for replicas that lag, writes a last snapshot if `how` asks for it, and ends the
/// engine.
pub fn begin(engine: &Arc<Engine>, how: Shutdown, client: Option<Arc<Waiter>>) {
    let waiting = &engine.persistence.waiting;
    let Some(client) = waiting.join(client) else {
        // A shutdown is waiting already; the server ends with its options when the wait ends.
        return;
    };
    if !has_lagging_replicas(engine, how) {
        CatchingUp::default().tell(engine, clock::monotonic_ms());
        return finish(engine, how, client.into_iter().collect());
    }
    let until_ms = clock::monotonic_ms() + engine.config.number(Opt::ShutdownTimeout) as u64 * 1_000;
    // The hold begins before the wait, because the thread that ends the wait ends the hold.
    engine.clients.pause.hold_writes(Hold::Shutdown, true);
    if !waiting.begin(client, until_ms) {
        return;
    }
    log::notice("Waiting for replicas before shutting down.");
    let started = engine.detach_thread("shutdown", move |engine| {
        wait_for_replicas(engine, how, until_ms);
        Ok(())
    });
    if started.is_err() {
        engine.persistence.waiting.end().into_iter().for_each(|clients| finish(engine, how, clients));
    }
}

/// Waits until the replicas have all data, but at most until this time, and then ends the engine.
fn wait_for_replicas(engine: &Arc<Engine>, how: Shutdown, until_ms: u64) {
    let waiting = &engine.persistence.waiting;
    let mut catching_up = CatchingUp::default();
    loop {
        catching_up.ask(engine);
        if clock::monotonic_ms() >= until_ms || catching_up.is_over(engine) {
            break;
        }
        if !waiting.wait(LOOK) {
            return;
        }
    }
    let Some(clients) = waiting.end() else { return };
    catching_up.tell(engine, clock::monotonic_ms());
    // The AOF may have been switched on during the wait, and lack its first base.
    match may_end(engine, how.force) {
        true => finish(engine, how, clients),
        false => go_on(engine, &clients),
    }
}

/// Cancels a shutdown that waits for its replicas, or for the periodic work. Returns false if there is none.
pub fn abort(engine: &Engine) -> bool {
    let waiting = &engine.persistence.waiting;
    let (clients, had_signal) = (waiting.end(), waiting.take_signal());
    if clients.is_none() && !had_signal {
        return false;
    }
    log::notice("Shutdown manually aborted.");
    clients.into_iter().for_each(|clients| go_on(engine, &clients));
    true
}

/// Ends the engine, after a last snapshot if `how` asks for it.
fn finish(engine: &Arc<Engine>, how: Shutdown, clients: Vec<Arc<Waiter>>) {
    let final_snapshot = how.final_snapshot;
    if !has_last_words(engine, final_snapshot) {
        return end_now(engine, final_snapshot);
    }
    engine.scripts.running.set_spares_writers(true);
    engine.clients.pause.set_ending(true);
    log::notice("Saving the final RDB snapshot before exiting.");
    save_last(engine, how, clients);
}

/// Starts the last snapshot. A running snapshot is aborted for it, because its data is older. The caller does not wait for
/// the end.
fn save_last(engine: &Arc<Engine>, how: Shutdown, clients: Vec<Arc<Waiter>>) {
    let (ending, told) = (Arc::clone(engine), clients.clone());
    let mut ended: Option<WhenDone> =
        Some(Box::new(move |is_good| end_after_snapshot(&ending, is_good, how.force, &told)));
    match engine.persistence.snapshots.start(engine, Purpose::File, Instant::now(), &mut ended) {
        Ok(()) => {}
        Err(Refusal::Running(purpose)) => {
            let ending = Arc::clone(engine);
            let mut again: Option<WhenDone> = Some(Box::new(move |_| save_last(&ending, how, clients)));
            if !engine.persistence.snapshots.abort(purpose, &mut again) {
                again.into_iter().for_each(|again| again(false));
            }
        }
        Err(refusal) => {
            log::warning(&format!("Error trying to save the DB: {refusal}"));
            ended.into_iter().for_each(|ended| ended(false));
        }
    }
}

/// Ends the engine at once. If a script has written, waits for its end, unless SHUTDOWN NOSAVE was given.
pub fn end_now(engine: &Engine, final_snapshot: FinalSnapshot) {
    engine.scripts.running.set_spares_writers(final_snapshot != FinalSnapshot::NoSave);
    // From here on nothing is appended to the journal, not even for replicas: they will continue at the offset at which the
    // AOF ends.
    engine.clients.pause.hold_writes(Hold::Shutdown, true);
    if engine.lifecycle.readiness.has(Hindrance::Loading) {
        log::warning("Received shutdown signal during loading, exiting now.");
        engine.persistence.loading.give_up();
    }
    engine.post_stop();
}

fn end_after_snapshot(engine: &Engine, is_good: bool, force: bool, clients: &[Arc<Waiter>]) {
    if is_good || force {
        if !is_good {
            log::warning("Error trying to save the DB, exiting all the same as FORCE says.");
        }
        return engine.post_stop();
    }
    log::warning("Error trying to save the DB, can't exit.");
    log::warning(GOES_ON);
    engine.scripts.running.set_spares_writers(false);
    go_on(engine, clients);
}

/// Keeps the server running after a failed shutdown, and answers the clients that asked for it with an error.
fn go_on(engine: &Engine, clients: &[Arc<Waiter>]) {
    engine.clients.pause.give_up_end();
    engine.clients.post_resume();
    for waiter in clients {
        engine.answer(waiter, |reply| reply.error(FAILED.text()));
    }
}

#[cfg(test)]
mod tests {
    use crate::loading;
    use std::sync::mpsc;
    use std::thread;

    use sleeve_disk::disk::gated::{Gate, GatedDisk};
    use sleeve_disk::disk::memory::MemoryDisk;

    use super::*;
    use crate::config::Config;
    use crate::engine::origin::Origin;

    #[test]
    fn whoever_ends_the_server_waits_for_no_snapshot_that_hangs() {
        let gate = GatedDisk::gated(Arc::new(MemoryDisk::new()));
        let engine = Engine::begin(Config::default(), Origin::of_machine().on(Arc::new(gate.clone())));
        loading::load(&engine).expect("there is nothing");
        gate.set(Gate::Closed);
        engine.persistence.snapshots.start(&engine, Purpose::File, Instant::now(), &mut None).expect("a snapshot");
        gate.wait_for_sync();
        let (ending, (told, is_told)) = (Arc::clone(&engine), mpsc::channel());
        let teller = thread::spawn(move || {
            begin(&ending, Shutdown { final_snapshot: FinalSnapshot::Save, force: false, now: true }, None);
            told.send(()).expect("the test waits");
        });
        let has_returned = is_told.recv_timeout(Duration::from_secs(60)).is_ok();
        gate.set(Gate::Open);
        teller.join().expect("it returns now at the latest");
        assert!(has_returned, "it waited for the disk");
        while engine.persistence.snapshots.status().saves == 0 {
            thread::yield_now();
        }
    }
}
