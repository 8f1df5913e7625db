//! The thread on which callbacks and error hooks run.
//!
//! One for the whole process, started when the first callback is due. So no foreign code runs on the reactor's thread or
//! under one of its locks: a callback may take its time, may use the client, and may wait for replies; it only holds up
//! other callbacks. One that panics ends itself, not the thread. A forked child has a thread of its own.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::fork::PerProcess;

type Job = Box<dyn FnOnce() + Send>;

/// Has `job` run soon, after the jobs that were given before it.
pub(crate) fn run(job: impl FnOnce() + Send + 'static) {
    static JOBS: PerProcess<Option<Sender<Job>>> = PerProcess::new(start);
    match JOBS.get() {
        // The receiver lives as long as the process.
        Some(jobs) => drop(jobs.send(Box::new(job))),
        // No thread could be started; being late is worse than being in the wrong place.
        None => job(),
    }
}

fn start() -> Option<Sender<Job>> {
    let (sender, receiver) = channel();
    thread::Builder::new().name("sleeve-callbacks".to_owned()).spawn(move || serve(receiver)).ok().map(|_| sender)
}

fn serve(jobs: Receiver<Job>) {
    for job in jobs {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(job)) {
            // The panic hook has already said what happened. What was thrown may throw again when it is dropped.
            mem::forget(payload);
        }
    }
}
