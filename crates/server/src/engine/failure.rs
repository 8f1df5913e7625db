//! Failures in a thread of an engine, handled in one way.
//!
//! A thread that serves clients either ends on purpose or ends the engine too, because its clients would wait for ever:
//! [`Engine::start_thread`] starts it so, and [`Engine::fail`] ends the engine for all clients. If a thread cannot start, the
//! caller that starts it gets an error. `docs/threads.md` has the whole policy.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::Engine;
use crate::host::{log, panics, threads};

impl Engine {
    /// Starts a thread that serves this engine. If the thread ends with an error or a panic, the engine ends.
    ///
    /// # Errors
    /// Errors of the operating system: too many threads. Nothing has changed then.
    pub(crate) fn start_thread(
        self: &Arc<Self>,
        name: &str,
        serve: impl FnOnce() -> Result<(), String> + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        threads::start(name, self.watched(name, serve))
    }

    /// Starts a thread as [`Engine::start_thread`] does; no caller waits for its end.
    ///
    /// # Errors
    /// As [`Engine::start_thread`].
    pub(crate) fn detach_thread(
        self: &Arc<Self>,
        name: &str,
        serve: impl FnOnce(&Arc<Self>) -> Result<(), String> + Send + 'static,
    ) -> io::Result<()> {
        let engine = Arc::clone(self);
        threads::detach(name, self.watched(name, move || serve(&engine)))
    }

    /// Returns the body of a thread that ends the engine if it ends with an error or a panic.
    fn watched(
        self: &Arc<Self>,
        name: &str,
        serve: impl FnOnce() -> Result<(), String> + Send + 'static,
    ) -> impl FnOnce() + Send + 'static {
        let (engine, own_name) = (Arc::clone(self), name.to_owned());
        move || match catch_unwind(AssertUnwindSafe(serve)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => engine.fail(&format!("{own_name} {error}")),
            Err(panic) => engine.fail(&format!("{own_name} panicked: {}", panics::message(&*panic))),
        }
    }

    /// Ends the engine because of an internal fault, such as a panic, after which its data cannot be relied on. No client is
    /// left waiting: connections are closed, and sessions in this process, including those that are opened later, answer
    /// [`Closed`](crate::Closed). The program that embeds the engine goes on, and may make another.
    pub fn fail(&self, reason: &str) {
        log::warning(&format!("The engine is over: {reason}"));
        _ = self.lifecycle.failure.set(reason.to_owned());
        self.persistence.end();
        self.persistence.call_synced(None);
        self.post_stop();
    }

    /// Notes that the last worker has ended. A server ends with it. An embedded engine goes on, with one exception: if it has
    /// half of the effects of a script that was ended with the worker, it ends, because no AOF has these effects.
    pub(crate) fn outlive_workers(&self) {
        if self.persistence.snapshots.are_ruled() {
            return;
        }
        if self.scripts.running.has_left_half() && self.failure().is_none() {
            return self.fail("a script that had written was ended by SHUTDOWN");
        }
        self.clients.pause.set_ending(false);
        self.clients.post_resume();
    }

    /// Returns the reason for the engine's end, if it has failed.
    pub fn failure(&self) -> Option<&str> {
        self.lifecycle.failure.get().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::host::threads::refusal;

    #[test]
    fn a_thread_that_fails_or_panics_ends_the_engine_and_one_that_ends_not() {
        let engine = Engine::new(Config::default());
        engine.start_thread("well", || Ok(())).expect("a thread").join().expect("it is caught");
        assert_eq!(engine.failure(), None);
        engine.start_thread("ill", || Err("cannot go on".into())).expect("a thread").join().expect("it is caught");
        assert_eq!(engine.failure(), Some("ill cannot go on"));
        let engine = Engine::new(Config::default());
        engine.start_thread("broken", || panic!("by chance")).expect("a thread").join().expect("it is caught");
        assert_eq!(engine.failure(), Some("broken panicked: by chance"));
    }

    #[test]
    fn a_thread_that_cannot_start_is_an_error_and_ends_nothing() {
        let engine = Engine::new(Config::default());
        let error = refusal::after(0, || engine.start_thread("none", || Ok(()))).expect_err("it is refused");
        assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
        assert_eq!(engine.failure(), None);
    }
}
