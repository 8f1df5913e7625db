//! Questions with answers that take a blocking search of unbounded time: the look-up of a name, the reading of a file, the
//! call of a provider.
//!
//! They have threads of their own, one for each question that is being searched for, up to a maximum; a thread ends when
//! there is no question. A caller that asks a question that is already being searched for gets the same answer; a caller may
//! stop waiting at any time. An answer that arrives when all its callers have stopped waiting is kept for a moment, for a
//! caller that asks again, and then forgotten, together with the question: it may be a secret, or data that an application
//! has captured.
//!
//! A thread that searches for too long is given up: for the next caller that asks, another thread searches, and the answer
//! that arrives first counts. A thread that was given up no longer counts against the maximum; otherwise a few that hang
//! would keep all other callers from their answers. Each new thread for a question gets twice the time of the one before, so
//! that few pile up, even if the trouble lasts long. Any thread may ask.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::attempt::Attempt;
use crate::reactor::TaskWaker;
use crate::reactor::task_context::TaskContext;
use crate::sys::lock::{Condvar, Mutex, MutexGuard};
use crate::sys::{elapsed, now};

/// The time for which an answer is kept if no caller was left to take it: longer than the pause between two attempts to
/// connect.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// The result of a search: the answer, or the reason in words why there is none.
type Found<V> = Result<V, (io::ErrorKind, String)>;

/// The answer to a question, for a task that is woken when the answer is found.
pub(crate) struct Answer<V> {
    found: Arc<Mutex<Option<Found<V>>>>,
    task_waker: TaskWaker,
}

impl<V> Answer<V> {
    /// Takes the answer, once it is found.
    pub(crate) fn take(&self) -> Option<io::Result<V>> {
        let found = self.found.lock().take()?;
        Some(found.map_err(|(kind, why)| io::Error::new(kind, why)))
    }

    /// Waits for the answer, within the time of the attempt.
    pub(super) async fn hear(self, post: &TaskContext, attempt: &mut Attempt<'_>) -> io::Result<V> {
        loop {
            if let Some(found) = self.take() {
                return found;
            }
            attempt.wait(post).await?;
        }
    }

    /// Stores the answer, and wakes the asker.
    fn tell(&self, found: &Found<V>)
    where
        V: Clone,
    {
        *self.found.lock() = Some(found.clone());
        self.task_waker.wake();
    }

    /// Returns a second handle, for the answering thread.
    fn twin(&self) -> Self {
        Self { found: Arc::clone(&self.found), task_waker: self.task_waker }
    }

    /// Returns whether the asker still waits; called by the answering thread.
    fn is_awaited(&self) -> bool {
        Arc::strong_count(&self.found) > 1
    }
}

/// The questions of one kind, and the threads that search for their answers.
pub(crate) struct Questions<K, V> {
    /// The name of the threads.
    name: &'static str,
    threads_max: usize,
    find: fn(&K) -> io::Result<V>,
    kept_for: Duration,
    asked: Mutex<Asked<K, V>>,
    /// The condition variable that is notified when the idle thread has a question to search for.
    came: Condvar,
}

/// The open questions and their askers.
struct Asked<K, V> {
    searches: HashMap<K, Search<V>>,
    /// The questions that no thread has taken yet.
    waiting: VecDeque<K>,
    /// The number of threads, without those that were given up.
    threads: usize,
    /// True if one of the threads waits until the untaken answers are to be forgotten.
    is_idle: bool,
    /// The number of searches that were begun.
    taken: u64,
    /// The numbers of the searches with threads that were given up.
    given_up: HashSet<u64>,
    /// The answers that no caller has taken, with the times until which they are kept.
    unheard: HashMap<K, (Found<V>, Instant)>,
}

/// A question that is not answered yet.
struct Search<V> {
    askers: Vec<Answer<V>>,
    /// The number of the last search, and the time at which it began; none while no thread has taken the question.
    taken: Option<(u64, Instant)>,
    /// The number of threads that were given up over this question.
    given_up: u32,
}

impl<V> Search<V> {
    /// Returns whether the searching thread has had its time; the first thread gets `time`.
    fn is_overdue(&self, time: Duration) -> bool {
        let time = time.saturating_mul(1 << self.given_up.min(20));
        self.taken.is_some_and(|(_, since)| elapsed(since) > time)
    }
}

impl<K: Clone + Eq + Hash + Send, V: Clone + Send> Questions<K, V> {
    /// Creates the state without any question. `find` searches for an answer.
    pub(crate) fn new(name: &'static str, threads_max: usize, find: fn(&K) -> io::Result<V>) -> Self {
        let (searches, waiting, given_up, unheard) = Default::default();
        let (threads, is_idle, taken) = (0, false, 0);
        let asked = Mutex::new(Asked { searches, waiting, threads, is_idle, taken, given_up, unheard });
        Self { name, threads_max, find, kept_for: KEPT_FOR, asked, came: Condvar::new() }
    }

    /// Begins to search for the answer. A thread that has searched for it for longer than `time` is given up.
    pub(crate) fn ask(&'static self, question: &K, task_waker: TaskWaker, time: Duration) -> io::Result<Answer<V>> {
        let answer = Answer { found: Arc::default(), task_waker };
        let mut guard = self.asked.lock();
        let asked = &mut *guard;
        if let Some((found, until)) = asked.unheard.remove(question)
            && until > now()
        {
            *answer.found.lock() = Some(found);
            return Ok(answer);
        }
        let overdue = match asked.searches.get_mut(question) {
            None => None,
            Some(search) => {
                search.askers.retain(Answer::is_awaited);
                search.askers.push(answer.twin());
                if !search.is_overdue(time) {
                    return Ok(answer);
                }
                search.taken
            }
        };
        asked.threads -= usize::from(overdue.is_some());
        if let Err(error) = self.engage(asked) {
            asked.threads += usize::from(overdue.is_some());
            return Err(error);
        }
        let fresh = || Search { askers: vec![answer.twin()], taken: None, given_up: 0 };
        let search = asked.searches.entry(question.clone()).or_insert_with(fresh);
        if let Some((number, _)) = overdue {
            (search.taken, search.given_up) = (None, search.given_up + 1);
            asked.given_up.insert(number);
        }
        asked.waiting.push_back(question.clone());
        Ok(answer)
    }

    /// Ensures that a thread takes the next question.
    fn engage(&'static self, asked: &mut Asked<K, V>) -> io::Result<()> {
        if mem::take(&mut asked.is_idle) {
            self.came.notify_one();
        } else if asked.threads < self.threads_max {
            match thread::Builder::new().name(self.name.to_owned()).spawn(move || self.answer_all()) {
                Ok(_) => asked.threads += 1,
                // Another thread takes the question when it has found its own answer.
                Err(_) if asked.threads > 0 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Searches for answers until there is no question.
    fn answer_all(&self) {
        let mut asked = self.asked.lock();
        while let Some(question) = self.next(&mut asked) {
            let number = asked.taken;
            asked.taken += 1;
            // If there is no such question, a thread that was given up has answered it.
            let Some(search) = asked.searches.get_mut(&question) else { continue };
            search.taken = Some((number, now()));
            let found = MutexGuard::unlocked(&mut asked, || self.find(&question));
            if asked.given_up.remove(&number) {
                asked.threads += 1;
            }
            let Some(search) = asked.searches.remove(&question) else { continue };
            if !search.askers.iter().any(Answer::is_awaited) {
                asked.unheard.insert(question, (found.clone(), now() + self.kept_for));
            }
            MutexGuard::unlocked(&mut asked, || search.askers.into_iter().for_each(|answer| answer.tell(&found)));
        }
    }

    /// Returns the next question, for a thread that ends if there is none. One thread stays for as long as an answer is kept.
    fn next(&self, asked: &mut MutexGuard<'_, Asked<K, V>>) -> Option<K> {
        loop {
            if let Some(question) = asked.waiting.pop_front() {
                return Some(question);
            }
            let now = now();
            asked.unheard.retain(|_, (_, until)| *until > now);
            let until = asked.unheard.values().map(|(_, until)| *until).min();
            let Some(until) = until.filter(|_| !asked.is_idle) else {
                asked.threads -= 1;
                return None;
            };
            asked.is_idle = true;
            self.came.wait_until(asked, until);
            asked.is_idle = false;
        }
    }

    /// Searches for one answer; a panic counts as an error.
    fn find(&self, question: &K) -> Found<V> {
        match catch_unwind(AssertUnwindSafe(|| (self.find)(question))) {
            Ok(found) => found.map_err(|error| (error.kind(), error.to_string())),
            Err(payload) => {
                // The panic hook has already reported the panic. Its payload may panic again when it is dropped.
                mem::forget(payload);
                Err((io::ErrorKind::Other, "looking for it panicked".to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The questions of the test that are not answered until the test releases them.
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

    fn leaked(threads_max: usize, kept_for: Duration) -> &'static Questions<u32, u32> {
        Box::leak(Box::new(Questions { kept_for, ..Questions::new("sleeve-test", threads_max, find) }))
    }

    /// Releases a question of the test, so that it is answered from now on.
    fn release(question: u32) {
        HELD.lock().retain(|held| *held != question);
        CHANGED.notify_all();
    }

    fn until(mut is_so: impl FnMut() -> bool) {
        while !is_so() {
            thread::yield_now();
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs an event descriptor")]
    fn one_answer_serves_all_waiting_callers_or_the_next_one() {
        let questions = leaked(2, Duration::from_secs(3600));
        let ask = |question| questions.ask(&question, task_waker(), Duration::MAX).expect("a thread");
        HELD.lock().extend([10, 11]);
        let (first, second, left) = (ask(10), ask(10), ask(11));
        assert_eq!(questions.asked.lock().threads, 2);
        // Both threads are held up.
        let third = ask(12);
        drop(left);
        release(10);
        release(11);
        assert_eq!([first, second, third].map(|answer| heard(&answer).expect("it is found")), [11, 11, 13]);
        until(|| questions.asked.lock().is_idle);
        // The answer to a question with no waiting asker is kept, and given once.
        assert!(questions.asked.lock().unheard.contains_key(&11));
        let again = ask(11);
        assert_eq!(again.take().expect("it is there").expect_err("nothing").kind(), io::ErrorKind::NotFound);
        assert!(questions.asked.lock().unheard.is_empty());
        assert_eq!(heard(&ask(11)).expect_err("nothing").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs an event descriptor")]
    fn an_unclaimed_answer_is_forgotten_without_further_questions() {
        let questions = leaked(2, Duration::from_millis(1));
        HELD.lock().push(20);
        drop(questions.ask(&20, task_waker(), Duration::MAX).expect("a thread"));
        release(20);
        until(|| {
            let asked = questions.asked.lock();
            asked.searches.is_empty() && asked.unheard.is_empty() && asked.threads == 0
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs an event descriptor")]
    fn a_search_that_takes_too_long_is_given_up_and_another_thread_searches() {
        let questions = leaked(1, Duration::ZERO);
        let ask = |question, time| questions.ask(&question, task_waker(), time).expect("a thread");
        HELD.lock().push(30);
        let first = ask(30, Duration::ZERO);
        until(|| questions.asked.lock().searches.get(&30).is_some_and(|search| search.taken.is_some()));
        // Another asker without a time limit waits for the same search.
        let patient = ask(30, Duration::MAX);
        assert!(questions.asked.lock().given_up.is_empty());
        until(|| {
            drop(ask(30, Duration::from_nanos(1)));
            questions.asked.lock().given_up.len() == 1
        });
        // Another thread has its place among the threads.
        until(|| questions.asked.lock().taken == 2);
        let other = ask(32, Duration::MAX);
        assert!(other.take().is_none() && first.take().is_none());
        release(30);
        assert_eq!([first, patient, other].map(|answer| heard(&answer).expect("it is found")), [31, 31, 33]);
        until(|| {
            let asked = questions.asked.lock();
            asked.threads == 0 && asked.given_up.is_empty()
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs an event descriptor")]
    fn a_panic_value_that_panics_when_dropped_is_an_ordinary_error() {
        struct Grenade;
        impl Drop for Grenade {
            fn drop(&mut self) {
                panic!("on purpose, again");
            }
        }
        let find = |_: &u32| -> io::Result<u32> { std::panic::panic_any(Grenade) };
        let questions: &'static Questions<u32, u32> = Box::leak(Box::new(Questions::new("sleeve-test", 1, find)));
        let answer = questions.ask(&1, task_waker(), Duration::MAX).expect("a thread");
        assert!(heard(&answer).expect_err("it panicked").to_string().contains("panicked"));
        until(|| questions.asked.lock().threads == 0);
    }
}
