//! The server's reaction to signals.
//!
//! | the signal | the reaction |
//! | --- | --- |
//! | SIGTERM, SIGINT | the server ends, as the options `shutdown-on-sigterm` and `shutdown-on-sigint` state |
//! | SIGHUP | none, on purpose: the terminal at which a server was started may close, and all data would be lost with it |
//! | SIGXFSZ | none: a write beyond the maximum size of a file is an error, like a full disk |
//!
//! The functions are called once, by the thread that starts the server. Fatal signals are handled by `crash`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::config::{Opt, shutdown as bits_of};
use crate::engine::Engine;
use crate::engine::persistence::shutdown::{self, FinalSnapshot, Shutdown};
use crate::host::log;
use crate::host::waiting;

/// The interval of the checks whether a signal still has to wait.
const LOOK: Duration = Duration::from_millis(5);

/// Ignores SIGHUP and SIGXFSZ. SIGPIPE is already ignored, as in every Rust program.
pub fn ignore_hangups() {
    // SAFETY: ignored signals run no handler.
    unsafe {
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        // A file at its maximum size is like a full disk: the write fails, and the server does not end.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Makes SIGTERM and SIGINT stop all workers. A second signal ends the process at once, unless the server has given up the
/// first attempt to end.
///
/// # Errors
/// Errors of the operating system: there is no free descriptor, or no thread can be started.
pub fn catch(engine: &Arc<Engine>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let stopping = Arc::clone(engine);
    engine.start_thread("signals", move || {
        // The number of attempts to end that the server had given up when the present attempt began.
        let mut ending_since = None;
        for signal in signals.forever() {
            if ending_since == Some(stopping.clients.pause.ends_given_up()) {
                // Remove the partial snapshot, which is useless.
                _ = stopping.persistence.disk.remove(&stopping.persistence.snapshots.unfinished_path(&stopping));
                std::process::exit(1);
            }
            let (name, option) = match signal {
                SIGTERM => ("SIGTERM", Opt::ShutdownOnSigterm),
                _ => ("SIGINT", Opt::ShutdownOnSigint),
            };
            log::warning(&format!("Received {name} scheduling shutdown..."));
            if !wait_for_cron(&stopping) {
                continue;
            }
            log::warning("User requested shutdown...");
            let bits = stopping.config.number(option);
            let final_snapshot = match bits {
                bits if bits & bits_of::SAVE != 0 => FinalSnapshot::Save,
                bits if bits & bits_of::NO_SAVE != 0 => FinalSnapshot::NoSave,
                _ => FinalSnapshot::AsConfigured,
            };
            let force = bits & bits_of::FORCE != 0;
            if shutdown::may_end(&stopping, force) {
                ending_since = Some(stopping.clients.pause.ends_given_up());
                let now = bits & bits_of::NOW != 0;
                shutdown::begin(&stopping, Shutdown { final_snapshot, force, now }, None);
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// Waits while DEBUG PAUSE-CRON stops the periodic work, because ending the server is part of that work. Returns false if
/// SHUTDOWN ABORT has revoked the signal.
fn wait_for_cron(engine: &Engine) -> bool {
    let (is_paused, waiting) = (|| engine.debug.pauses_cron.load(Ordering::Relaxed), &engine.persistence.waiting);
    if !is_paused() {
        return true;
    }
    waiting.note_signal();
    while is_paused() && waiting.has_signal() {
        waiting::sleep(LOOK);
    }
    waiting.take_signal()
}
