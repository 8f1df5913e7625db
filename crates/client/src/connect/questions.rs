//! Questions whose answers block whoever looks for them, and nothing bounds for how long: a name, a file.
//!
//! They have threads of their own, one for each question that is asked at the moment and no more than a number, which end
//! when nobody asks. Who asks what is being looked for already hears the same answer; who does not want to wait any longer
//! leaves. An answer that comes when all have left is kept for a moment, for the one who asks again. Any thread may ask.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::attempt::Attempt;
use crate::reactor::TaskWaker;
use crate::reactor::task_context::TaskContext;

/// How long an answer is kept that nobody was left to hear: longer than the pause between two attempts to connect.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// What was found, or in words why there is nothing.
type Found<V> = Result<V, (io::ErrorKind, String)>;

/// An answer that comes when the task was woken.
pub(crate) struct Answer<V> {
    found: Arc<Mutex<Option<Found<V>>>>,
    task_waker: TaskWaker,
}

impl<V> Answer<V> {
    /// What was found, once it is.
    pub(crate) fn take(&self) -> Option<io::Result<V>> {
        let found = self.found.lock().take()?;
        Some(found.map_err(|(kind, why)| io::Error::new(kind, why)))
    }

    /// Waits for it.
    pub(super) async fn hear(self, post: &TaskContext, attempt: &mut Attempt<'_>) -> io::Result<V> {
        loop {
            if let Some(found) = self.take() {
                return found;
            }
            attempt.wait(post).await?;
        }
    }

    /// A handle for whoever answers.
    fn twin(&self) -> Self {
        Self { found: Arc::clone(&self.found), task_waker: self.task_waker }
    }

    /// Whether the one who asked still waits; for who answers.
    fn is_awaited(&self) -> bool {
        Arc::strong_count(&self.found) > 1
    }
}

/// Questions of one kind.
pub(crate) struct Questions<K, V> {
    /// What the threads are called.
    name: &'static str,
    threads_max: usize,
    find: fn(&K) -> io::Result<V>,
    asked: Mutex<Asked<K, V>>,
}

/// Who asks what.
struct Asked<K, V> {
    askers: HashMap<K, Vec<Answer<V>>>,
    /// What no thread has taken yet.
    waiting: VecDeque<K>,
    threads: usize,
    /// Answers that nobody has heard, and when they came.
    unheard: HashMap<K, (Found<V>, Instant)>,
}

impl<K: Clone + Eq + Hash + Send, V: Clone + Send> Questions<K, V> {
    /// Nothing is asked yet. `find` looks for an answer.
    pub(crate) fn new(name: &'static str, threads_max: usize, find: fn(&K) -> io::Result<V>) -> Self {
        let (askers, waiting, unheard) = Default::default();
        Self { name, threads_max, find, asked: Mutex::new(Asked { askers, waiting, threads: 0, unheard }) }
    }

    /// Begins to look for the answer.
    pub(crate) fn ask(&'static self, question: &K, task_waker: TaskWaker) -> io::Result<Answer<V>> {
        let answer = Answer { found: Arc::default(), task_waker };
        let mut asked = self.asked.lock();
        asked.unheard.retain(|_, (_, came)| came.elapsed() < KEPT_FOR);
        if let Some((found, _)) = asked.unheard.remove(question) {
            *answer.found.lock() = Some(found);
            return Ok(answer);
        }
        if let Some(askers) = asked.askers.get_mut(question) {
            askers.retain(Answer::is_awaited);
            askers.push(answer.twin());
            return Ok(answer);
        }
        if asked.threads < self.threads_max {
            match thread::Builder::new().name(self.name.to_owned()).spawn(move || self.answer_all()) {
                Ok(_) => asked.threads += 1,
                // Another thread takes this question when it has its own.
                Err(_) if asked.threads > 0 => {}
                Err(error) => return Err(error),
            }
        }
        asked.askers.insert(question.clone(), vec![answer.twin()]);
        asked.waiting.push_back(question.clone());
        Ok(answer)
    }

    /// Looks for answers until nothing more is asked.
    fn answer_all(&self) {
        loop {
            let mut asked = self.asked.lock();
            let Some(question) = asked.waiting.pop_front() else {
                asked.threads -= 1;
                return;
            };
            drop(asked);
            let found = catch_unwind(AssertUnwindSafe(|| (self.find)(&question)));
            let found = found.unwrap_or_else(|_| Err(io::Error::other("looking for it panicked")));
            let found = found.map_err(|error| (error.kind(), error.to_string()));
            let mut asked = self.asked.lock();
            let askers = asked.askers.remove(&question).unwrap_or_default();
            if !askers.iter().any(Answer::is_awaited) {
                asked.unheard.insert(question, (found.clone(), Instant::now()));
            }
            drop(asked);
            for answer in askers {
                *answer.found.lock() = Some(found.clone());
                answer.task_waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Condvar;

    use super::*;

    /// Questions that are answered when the test says so.
    static HELD: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    static CHANGED: Condvar = Condvar::new();

    fn find(question: &u32) -> io::Result<u32> {
        let mut held = HELD.lock();
        while held.contains(question) {
            CHANGED.wait(&mut held);
        }
        drop(held);
        if question.is_multiple_of(2) { Ok(question + 1) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn task_waker() -> TaskWaker {
        TaskWaker::new().expect("a reactor")
    }

    fn heard(answer: &Answer<u32>) -> io::Result<u32> {
        loop {
            match answer.take() {
                Some(found) => return found,
                None => thread::yield_now(),
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs an event descriptor")]
    fn one_answer_serves_all_who_wait_and_the_next_when_nobody_does() {
        let questions: &'static Questions<u32, u32> = Box::leak(Box::new(Questions::new("sleeve-test", 2, find)));
        HELD.lock().extend([10, 11]);
        let first = questions.ask(&10, task_waker()).expect("a thread");
        let second = questions.ask(&10, task_waker()).expect("a thread");
        let left = questions.ask(&11, task_waker()).expect("a thread");
        assert_eq!(questions.asked.lock().threads, 2);
        // Both threads are held up.
        let third = questions.ask(&12, task_waker()).expect("a thread");
        drop(left);
        HELD.lock().clear();
        CHANGED.notify_all();
        assert_eq!([first, second, third].map(|answer| heard(&answer).expect("it is found")), [11, 11, 13]);
        while questions.asked.lock().threads > 0 {
            thread::yield_now();
        }
        // What was found for who had left is there at once, and once.
        assert!(questions.asked.lock().unheard.contains_key(&11));
        let again = questions.ask(&11, task_waker()).expect("it is there");
        assert_eq!(again.take().expect("it is there").expect_err("nothing").kind(), io::ErrorKind::NotFound);
        assert!(questions.asked.lock().unheard.is_empty());
        let anew = questions.ask(&11, task_waker()).expect("a thread");
        assert_eq!(heard(&anew).expect_err("nothing").kind(), io::ErrorKind::NotFound);
    }
}
