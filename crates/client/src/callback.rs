//! The thread on which callbacks and error hooks run.
//!
//! One for the whole process, started when the first callback is due. So no foreign code runs on a connection's thread or
//! under one of its locks: a callback may take its time, may use the client, and may wait for replies; it only holds up
//! other callbacks. One that panics ends itself, not the thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// Has `job` run soon, after the jobs that were given before it.
pub(crate) fn run(job: impl FnOnce() + Send + 'static) {
    static JOBS: OnceLock<Option<Sender<Job>>> = OnceLock::new();
    let jobs = JOBS.get_or_init(|| {
        let (sender, receiver) = channel::<Job>();
        let serve = move || {
            for job in receiver {
                // The panic hook has already said what happened.
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
        };
        thread::Builder::new().name("sleeve-callbacks".to_owned()).spawn(serve).ok().map(|_| sender)
    });
    match jobs {
        // The receiver lives as long as the process.
        Some(jobs) => drop(jobs.send(Box::new(job))),
        // No thread could be started; being late is worse than being in the wrong place.
        None => job(),
    }
}
