//! The thread on which callbacks and error hooks run, and on which their captured values are dropped.
//!
//! There is one such thread for the whole process, started when the first callback is due. So no foreign code runs on the
//! reactor's thread or under one of its locks. A callback may take its time, may use the client, and may wait for replies; it
//! only holds up other callbacks. If the system refuses to create the thread, callbacks wait: the next callback tries again,
//! and so does the reactor. A callback that panics ends itself, not the thread. A forked child has a thread of its own.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::PerProcess;
use super::lock::{Condvar, Mutex};
use super::trace;
use crate::error::Error;

type Job = Box<dyn FnOnce() + Send>;

/// The jobs to run, and whether a thread runs them.
struct Jobs {
    queue: Mutex<Queue>,
    came: Condvar,
    /// The function that starts the thread.
    start: fn(&'static Self) -> io::Result<()>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// True once the thread was started; it lives as long as the process.
    is_served: bool,
}

static JOBS: PerProcess<Jobs> = PerProcess::new(|| Jobs::new(start));

/// True while callbacks wait for a thread that could not be started.
static IS_LATE: AtomicBool = AtomicBool::new(false);

/// Queues `job` behind the jobs that were queued before it.
pub(crate) fn run(job: impl FnOnce() + Send + 'static) {
    if !JOBS.get().put(Box::new(job)) {
        IS_LATE.store(true, Ordering::Relaxed);
    }
}

/// Reports the errors of forgotten calls to the hook, if there is one, and to the collector of traces.
pub(crate) fn report<H: Fn(&Error) + Send + Sync + ?Sized + 'static>(errors: Vec<Error>, hook: Option<&Arc<H>>) {
    if (hook.is_none() && !trace::is_collected()) || errors.is_empty() {
        return;
    }
    let hook = hook.cloned();
    run(move || {
        for error in &errors {
            trace::failed(error);
            hook.iter().for_each(|hook| hook(error));
        }
    });
}

/// Tries again to start the thread, if callbacks wait for one. Returns false if they still do.
#[inline]
pub(crate) fn catch_up() -> bool {
    !IS_LATE.load(Ordering::Relaxed) || try_again()
}

#[cold]
fn try_again() -> bool {
    let is_served = JOBS.get().is_served();
    if is_served {
        IS_LATE.store(false, Ordering::Relaxed);
    }
    is_served
}

/// A value of the application that is dropped on the callback thread, regardless of its last owner.
pub(crate) struct Foreign<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> Foreign<T> {
    pub(crate) fn new(thing: T) -> Self {
        Self(Some(thing))
    }

    /// Returns the value; none only while it is being dropped.
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

impl<T: Send + 'static> Drop for Foreign<T> {
    fn drop(&mut self) {
        if let Some(thing) = self.0.take() {
            run(move || drop(thing));
        }
    }
}

impl Jobs {
    fn new(start: fn(&'static Self) -> io::Result<()>) -> Self {
        Self { queue: Mutex::default(), came: Condvar::new(), start }
    }

    /// Queues a job. Returns false if it has to wait for a thread.
    fn put(&'static self, job: Job) -> bool {
        self.queue.lock().jobs.push_back(job);
        self.came.notify_one();
        self.is_served()
    }

    /// Starts the thread if there is none, and returns whether there is one.
    fn is_served(&'static self) -> bool {
        let mut queue = self.queue.lock();
        queue.is_served = queue.is_served || (self.start)(self).is_ok();
        queue.is_served
    }

    fn next(&self) -> Job {
        let mut queue = self.queue.lock();
        loop {
            match queue.jobs.pop_front() {
                Some(job) => return job,
                None => self.came.wait(&mut queue),
            }
        }
    }
}

fn start(jobs: &'static Jobs) -> io::Result<()> {
    thread::Builder::new().name("sleeve-callbacks".to_owned()).spawn(move || serve(jobs)).map(drop)
}

fn serve(jobs: &Jobs) {
    loop {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(jobs.next())) {
            // The panic hook has already reported it. The payload may panic again when it is dropped.
            mem::forget(payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn without_a_thread_jobs_wait_for_one_and_run_in_their_order() {
        static REFUSALS: AtomicUsize = AtomicUsize::new(2);
        let start = |jobs| match REFUSALS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Err(io::ErrorKind::WouldBlock.into()),
            Err(_) => start(jobs),
        };
        let jobs: &'static Jobs = Box::leak(Box::new(Jobs::new(start)));
        let (sender, receiver) = channel();
        let job = |number: u32| {
            let sender = sender.clone();
            Box::new(move || sender.send((number, thread::current().id())).expect("the test waits"))
        };
        assert!(!jobs.put(job(1)));
        assert!(!jobs.put(job(2)));
        assert!(receiver.try_recv().is_err());
        assert!(jobs.is_served());
        assert!(jobs.put(job(3)));
        for expected in 1..=3 {
            let (number, thread) = receiver.recv().expect("it runs");
            assert_eq!(number, expected);
            assert_ne!(thread, thread::current().id());
        }
    }
}
