//! Freeing large values on a separate thread, so that clients need not wait for it.
//!
//! Each engine has one such thread, which frees large values in the order in which they arrive. It starts with the first of
//! them and ends when none has arrived for a while, so an engine that never drops a large value has no thread for it. Its
//! queue is bounded. If the queue is full, or if no thread can be started, the caller frees the value itself, which also
//! slows down a client that makes garbage faster than it can be freed. When the engine is dropped, it frees the queue and
//! waits for the thread. Any thread may call this, under any lock.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use sleeve_store::Garbage;

use super::log;
use super::panics;
use super::threads;

/// The size in bytes above which a value costs more to free than to hand over.
const ELSEWHERE_BYTES_MIN: usize = 1024 * 1024;

/// The most items in the queue; each is a large value, or all garbage of one command.
const WAITING_MAX: usize = 64;

/// The idle time after which the thread ends.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// An engine's thread that frees large values, and its queue.
pub struct LazyFree(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    /// The condition for the thread: garbage has arrived, or the engine is dropped.
    changed: Condvar,
    /// The number of objects that were given to the thread; below, the number that it has freed.
    given: AtomicU64,
    freed: AtomicU64,
    /// The number of objects that had been freed when the counter was last reset.
    forgotten: AtomicU64,
    /// The thread could not be started, and that was logged.
    is_refused: AtomicBool,
    idle_max: Duration,
    /// The function that gets the message if the thread panics.
    on_panic: Box<dyn Fn(&str) + Send + Sync>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<GarbageItem>,
    /// The thread, and the process that started it: a forked process does not have this thread.
    thread: Option<(JoinHandle<()>, u32)>,
    is_over: bool,
}

struct GarbageItem {
    garbage: Box<dyn Any + Send>,
    objects: u64,
}

impl LazyFree {
    /// Makes the queue, without a thread yet. `on_panic` gets the message of a panic during a free.
    pub fn new(on_panic: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self::with_idle_max(IDLE_MAX, on_panic)
    }

    fn with_idle_max(idle_max: Duration, on_panic: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            given: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            is_refused: AtomicBool::new(false),
            idle_max,
            on_panic: Box::new(on_panic),
        }))
    }

    /// Returns how many objects the thread has still to free.
    pub fn pending(&self) -> u64 {
        self.0.given.load(Ordering::Relaxed).saturating_sub(self.0.freed.load(Ordering::Relaxed))
    }

    /// Returns how many objects the thread has freed since [`LazyFree::forget`].
    pub fn done(&self) -> u64 {
        self.0.freed.load(Ordering::Relaxed).saturating_sub(self.0.forgotten.load(Ordering::Relaxed))
    }

    /// Counts from zero again (CONFIG RESETSTAT).
    pub fn forget(&self) {
        self.0.forgotten.store(self.0.freed.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Hands over garbage that consists of so many objects.
    ///
    /// # Errors
    /// The garbage, if too much is queued already or no thread can start. The caller has to free it when no client waits for
    /// it.
    pub fn hand_over<T: Send + 'static>(&self, garbage: T, objects: usize) -> Result<(), T> {
        let mut queue = self.0.queue.lock();
        if queue.waiting.len() >= WAITING_MAX || !self.has_thread(&mut queue) {
            return Err(garbage);
        }
        self.0.given.fetch_add(objects as u64, Ordering::Relaxed);
        queue.waiting.push_back(GarbageItem { garbage: Box::new(garbage), objects: objects as u64 });
        drop(queue);
        self.0.changed.notify_one();
        Ok(())
    }

    /// Frees the garbage of a write: on the thread if `is_later` asks for that and the garbage is large enough, else here.
    #[inline]
    pub fn now_or_later(&self, garbage: Garbage, is_later: bool) {
        if is_later {
            let bytes = garbage.bytes();
            self.later_if_large(garbage, 1, bytes);
        }
    }

    /// Frees garbage of many bytes on the thread, and smaller garbage here.
    pub fn later_if_large<T: Send + 'static>(&self, garbage: T, objects: usize, bytes: usize) {
        if bytes >= ELSEWHERE_BYTES_MIN {
            drop(self.hand_over(garbage, objects));
        }
    }

    /// Starts the thread if it does not run; returns whether it runs.
    fn has_thread(&self, queue: &mut Queue) -> bool {
        let process = process::id();
        if queue.thread.as_ref().is_some_and(|(_, started_in)| *started_in == process) {
            return true;
        }
        let shared = Arc::clone(&self.0);
        match threads::start("sleeve-free", move || shared.serve()) {
            Ok(thread) => {
                self.0.is_refused.store(false, Ordering::Relaxed);
                queue.thread = Some((thread, process));
                true
            }
            Err(error) => {
                if !self.0.is_refused.swap(true, Ordering::Relaxed) {
                    log::warning(&format!(
                        "No thread can be started that frees large values: {error}. Whoever drops one frees it, and \
                         takes longer; raise the limit of threads."
                    ));
                }
                false
            }
        }
    }
}

impl Shared {
    /// Runs the thread: frees garbage until the thread has to end.
    fn serve(&self) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            while let Some(piece) = self.next() {
                drop(piece.garbage);
                self.freed.fetch_add(piece.objects, Ordering::Relaxed);
            }
        }));
        if let Err(panic) = outcome {
            self.queue.lock().thread = None;
            (self.on_panic)(panics::message(&*panic));
        }
    }

    /// Returns the next garbage to free; None if the thread has to end.
    fn next(&self) -> Option<GarbageItem> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(piece) = queue.waiting.pop_front() {
                return Some(piece);
            }
            let is_late = !queue.is_over && self.changed.wait_for(&mut queue, self.idle_max).timed_out();
            if queue.waiting.is_empty() && (is_late || queue.is_over) {
                queue.thread = None;
                return None;
            }
        }
    }
}

impl Drop for LazyFree {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.is_over = true;
        let (waiting, thread) = (std::mem::take(&mut queue.waiting), queue.thread.take());
        drop(queue);
        self.0.changed.notify_one();
        drop(waiting);
        if let Some((thread, started_in)) = thread
            && started_in == process::id()
            && thread.thread().id() != thread::current().id()
        {
            _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::host::threads::refusal;

    fn lazy_free(idle_max: Duration) -> LazyFree {
        LazyFree::with_idle_max(idle_max, |why| panic!("{why}"))
    }

    fn has_thread(lazy_free: &LazyFree) -> bool {
        lazy_free.0.queue.lock().thread.is_some()
    }

    fn wait_until(condition: impl Fn() -> bool) {
        let ends = std::time::Instant::now() + Duration::from_secs(60);
        while !condition() {
            assert!(std::time::Instant::now() < ends, "it does not come");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Garbage that takes long to free: until the sender sends, or is dropped.
    struct Slow(mpsc::Receiver<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            _ = self.0.recv();
        }
    }

    #[test]
    fn the_thread_comes_with_the_first_piece_goes_when_idle_and_comes_again() {
        let lazy_free = lazy_free(Duration::from_millis(1));
        assert!(!has_thread(&lazy_free));
        for round in 1..=3 {
            let (freed, is_freed) = mpsc::channel::<()>();
            assert!(lazy_free.hand_over(freed, 2).is_ok());
            assert!(is_freed.recv().is_err(), "it is dropped");
            wait_until(|| lazy_free.done() == round * 2 && !has_thread(&lazy_free));
            assert_eq!(lazy_free.pending(), 0);
        }
        lazy_free.forget();
        assert_eq!(lazy_free.done(), 0);
    }

    #[test]
    fn one_thread_frees_one_after_the_other_and_what_is_too_many_comes_back() {
        let lazy_free = lazy_free(IDLE_MAX);
        let (go_on, slow) = mpsc::channel();
        assert!(lazy_free.hand_over(Slow(slow), 1).is_ok());
        wait_until(|| lazy_free.0.queue.lock().waiting.is_empty());
        for _ in 0..WAITING_MAX {
            assert!(lazy_free.hand_over(vec![0_u8; 9], 3).is_ok());
        }
        assert_eq!(lazy_free.hand_over("one too many", 1), Err("one too many"));
        assert_eq!((lazy_free.pending(), lazy_free.done()), (1 + 3 * WAITING_MAX as u64, 0));
        drop(go_on);
        wait_until(|| lazy_free.pending() == 0);
        assert_eq!(lazy_free.done(), 1 + 3 * WAITING_MAX as u64);
        assert!(lazy_free.hand_over("there is room again", 1).is_ok());
    }

    #[test]
    fn without_a_thread_the_caller_frees_and_the_next_call_tries_again() {
        let lazy_free = lazy_free(IDLE_MAX);
        refusal::after(0, || assert_eq!(lazy_free.hand_over("mine", 1), Err("mine")));
        assert_eq!((lazy_free.pending(), lazy_free.done()), (0, 0));
        assert!(lazy_free.hand_over("yours", 1).is_ok());
        wait_until(|| lazy_free.done() == 1);
    }

    #[test]
    fn when_the_engine_goes_everything_is_freed() {
        let lazy_free = lazy_free(IDLE_MAX);
        let (go_on, slow) = mpsc::channel();
        let all = Arc::new(());
        assert!(lazy_free.hand_over((Slow(slow), Arc::clone(&all)), 1).is_ok());
        wait_until(|| lazy_free.0.queue.lock().waiting.is_empty());
        for _ in 0..9 {
            assert!(lazy_free.hand_over(Arc::clone(&all), 1).is_ok());
        }
        let dropping = thread::spawn(move || drop(lazy_free));
        wait_until(|| Arc::strong_count(&all) == 2);
        drop(go_on);
        dropping.join().unwrap();
        assert_eq!(Arc::strong_count(&all), 1);
    }

    #[test]
    fn a_panic_while_something_is_freed_is_told() {
        struct Broken;
        impl Drop for Broken {
            fn drop(&mut self) {
                panic!("it cannot be freed");
            }
        }
        let (told, tell) = mpsc::channel();
        let lazy_free = LazyFree::new(move |why| _ = told.send(why.to_owned()));
        assert!(lazy_free.hand_over(Broken, 1).is_ok());
        assert_eq!(tell.recv().unwrap(), "it cannot be freed");
    }
}
