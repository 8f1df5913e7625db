//! The watchdog: while `watchdog-period` is set, the server log shows when clients were not served for longer than that.
//!
//! It helps to find the cause of delays that show nowhere else. One thread checks twice in each period. If the option is 0
//! there is no thread and no cost.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::config::Opt;
use crate::config::value::reason;
use crate::engine::Engine;
use crate::engine::watchdog::{Watch, Watchdog};
use crate::host::{clock, log, threads};

/// The longest time between two checks whether the engine still exists, no matter how long the period is.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Applies `watchdog-period`: starts the thread if the option asks for one and it does not run, or has it use the new period.
///
/// # Errors
/// The thread cannot start.
pub(crate) fn apply_period(engine: &Arc<Engine>) -> Result<(), String> {
    let watchdog = Arc::clone(&engine.lifecycle.watchdog);
    let mut has_thread = engine.lifecycle.watchdog.has_thread.lock();
    engine.lifecycle.watchdog.changed.notify_all();
    if *has_thread || engine.config.number(Opt::WatchdogPeriod) == 0 {
        return Ok(());
    }
    let own = Arc::downgrade(engine);
    let started = threads::detach("watchdog", move || watch(&watchdog, &own));
    *has_thread = started.is_ok();
    started.map_err(|error| format!("The watchdog's thread cannot start: {}", reason(&error)))
}

/// Runs the thread until the option is 0 or the engine has ended.
fn watch(watchdog: &Watchdog, engine: &Weak<Engine>) {
    let mut watch = Watch::default();
    while let Some(engine) = engine.upgrade() {
        let mut has_thread = watchdog.has_thread.lock();
        let period_ms = engine.config.number(Opt::WatchdogPeriod) as u64;
        *has_thread = period_ms != 0;
        if period_ms == 0 {
            return;
        }
        drop(has_thread);
        let loading = engine.persistence.loading.status();
        for delay in watch.look(&engine.clients.mailboxes(), loading, period_ms, clock::monotonic_ms()) {
            log::warning(&format!("--- WATCHDOG TIMER EXPIRED --- {delay}"));
        }
        // While the thread waits, the program that embeds the engine may drop it.
        drop(engine);
        let pause = Duration::from_millis(period_ms.div_ceil(2)).min(LOOK_MAX);
        watchdog.changed.wait_for(&mut watchdog.has_thread.lock(), pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn there_is_a_thread_while_the_option_is_set() {
        let engine = Engine::new(Config::default());
        let set = |period: &[u8]| {
            engine.config.assign(Opt::WatchdogPeriod, &[period]).expect("a number");
            apply_period(&engine).expect("a thread");
        };
        let has_thread = || *engine.lifecycle.watchdog.has_thread.lock();
        set(b"0");
        assert!(!has_thread());
        set(b"1");
        assert!(has_thread());
        set(b"0");
        while has_thread() {
            std::thread::yield_now();
        }
        set(b"1");
        assert!(has_thread());
    }
}
