//! The shutdown of a server: the replicas it waits for, and its last snapshot.
//!
//! Replicas that lag are given `shutdown-timeout` seconds first, while clients that write are held: a thread waits for them.
//! SHUTDOWN ABORT ends that.
//!
//! While the snapshot is written every client is held, so that no reply shows a change that the snapshot lacks. If it cannot
//! be written, the server goes on, unless it was told to end all the same.
//!
//! A script that runs for long would keep the shards from the snapshot: it is ended, unless it has written. Then the server
//! waits for it; SHUTDOWN NOSAVE avoids that.

use std::sync::Arc;
use std::time::Duration;

use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::clients::blocking::Waiter;
use crate::engine::clients::pause::Hold;
use crate::engine::persistence::purpose::{Purpose, Refusal, WhenDone};
use crate::engine::readiness::Hindrance;
use crate::engine::replication::catching_up::CatchingUp;
use crate::host::clock::{self, Instant};
use crate::host::log;
use crate::request::error::Error;

/// The interval at which the thread checks whether replicas have everything.
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

/// How the server is to end.
#[derive(Debug, Clone, Copy)]
pub struct Shutdown {
    /// The last snapshot.
    pub final_snapshot: FinalSnapshot,
    /// It ends even if that fails.
    pub force: bool,
    /// Replicas are not waited for.
    pub now: bool,
}

const GOES_ON: &str = "Errors trying to shut down the server. Check the logs for more information.";

/// The reply to clients that wanted the server to end, if it goes on.
const FAILED: Error = Error::fixed("ERR Errors trying to SHUTDOWN. Check logs.");

/// Returns whether a snapshot is to be written before the end: never of data that is loaded in part.
pub fn has_last_words(engine: &Engine, final_snapshot: FinalSnapshot) -> bool {
    match final_snapshot {
        _ if engine.lifecycle.readiness.has(Hindrance::Loading) => false,
        FinalSnapshot::AsConfigured => engine.persistence.snapshots.are_ruled() && engine.config.is_set(Opt::Save),
        FinalSnapshot::Save => true,
        FinalSnapshot::NoSave => false,
    }
}

/// Returns whether the engine may end, or is to by force. While the first base of its log is not there the data may be
/// nowhere else, and the server goes on, as Redis does.
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

/// Returns whether replicas are to be waited for before the end.
pub fn has_lagging_replicas(engine: &Engine, how: Shutdown) -> bool {
    let end = engine.journal.end();
    let replicas = engine.replication.replicas.all();
    let mut known = replicas.iter().filter(|replica| replica.state().is_some());
    !how.now
        && engine.config.number(Opt::ShutdownTimeout) != 0
        && !engine.lifecycle.readiness.has(Hindrance::Loading)
        && known.any(|replica| replica.acked() != end)
}

/// Ends the engine: behind replicas that lack something, and behind a last snapshot if that is wished.
pub fn begin(engine: &Arc<Engine>, how: Shutdown, client: Option<Arc<Waiter>>) {
    let waiting = &engine.persistence.waiting;
    let Some(client) = waiting.join(client) else {
        // The server ends when the present wait ends, as it was told first.
        return;
    };
    if !has_lagging_replicas(engine, how) {
        CatchingUp::default().tell(engine, clock::monotonic_ms());
        return finish(engine, how, client.into_iter().collect());
    }
    let until_ms = clock::monotonic_ms() + engine.config.number(Opt::ShutdownTimeout) as u64 * 1_000;
    // Set before the wait: the thread that ends the wait releases them.
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

/// Waits until replicas have everything, but no longer than until this time, and ends the engine then.
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
    // An AOF may have been switched on in between, and its first base is not there yet.
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

/// Ends the engine, behind a last snapshot if that is wished.
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

/// Starts the last snapshot. A running snapshot is given up for it, because its data is older; the caller does not wait
/// for the end.
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

/// Ends the engine as it is. A script that has written is waited for, unless nothing is wished to be kept.
pub fn end_now(engine: &Engine, final_snapshot: FinalSnapshot) {
    engine.scripts.running.set_spares_writers(final_snapshot != FinalSnapshot::NoSave);
    // Nothing is appended any more, not even for replicas: they are to go on where the AOF ends.
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

/// Keeps the server running, and tells the clients that asked for its end.
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
