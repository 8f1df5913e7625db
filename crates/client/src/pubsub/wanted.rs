//! The names that a subscription over a connection is to have, and the callers that wait until it has them.
//!
//! A change takes effect at once: the next connection begins with all names that are wanted then. So a change is done when
//! the server has confirmed it, or when a fresh connection has confirmed all names. A change that the server refuses is taken
//! back. Callers ask for changes from any thread; the subscription's own task sends them and takes the confirmations.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::time::Instant;

use super::names::{Change, Names, SubscriptionVerb};
use crate::error::{Effect, Error, ErrorKind};
use crate::reactor::TaskWaker;
use crate::sys::lock::{Condvar, Mutex};

/// The channels that a subscription is to have, and the callers that wait for their confirmation.
pub(crate) struct WantedNames {
    state: Mutex<PendingChanges>,
    changed: Condvar,
}

#[derive(Default)]
struct PendingChanges {
    names: Names,
    /// Changes that are not sent yet.
    unsent: VecDeque<PendingChange>,
    /// Changes that are sent and not confirmed yet, the oldest first.
    sent: VecDeque<PendingChange>,
    /// Changes that a fresh connection makes with its first request.
    carried: Vec<PendingChange>,
    /// The waiting callers, and the outcomes of their changes.
    waiting: HashMap<u64, Option<Result<(), Error>>>,
    next: u64,
    /// The tasks to wake at the next change of this state, for waiting async code.
    task_wakers: Vec<TaskWaker>,
    /// The reason why nothing is confirmed any more, if there is one.
    ended: Option<Error>,
}

/// A change that a caller asked for, or that begins a connection.
struct PendingChange {
    /// The number of the waiting caller; none if no caller waits.
    number: Option<u64>,
    change: Change,
    /// The names that the change adds, which are removed if it is refused.
    added: Vec<Vec<u8>>,
    /// The number of confirmations that have not arrived.
    left: usize,
}

/// The subject of a confirmation or a refusal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// A change that no caller asked for.
    None,
    /// The confirmation of one of the first names of a connection.
    Beginning,
    /// The last confirmation of the first names of a connection: all are confirmed.
    Begun,
    /// A change on a connection that had begun.
    Change,
}

impl PendingChanges {
    fn settle(&mut self, number: Option<u64>, result: &Result<(), Error>) {
        if let Some(place) = number.and_then(|number| self.waiting.get_mut(&number)) {
            *place = Some(result.clone());
        }
    }

    fn is_beginning(&self) -> bool {
        self.sent.front().is_some_and(|asked| asked.number.is_none())
    }

    /// Returns the outcome of the change of this number, once that is known.
    fn outcome(&mut self, number: u64) -> Option<Result<(), Error>> {
        let known = self.waiting.get(&number).cloned().flatten().or_else(|| self.ended.clone().map(Err));
        if known.is_some() {
            self.waiting.remove(&number);
        }
        known
    }

    /// Notes that all names of a fresh connection are confirmed.
    fn begin(&mut self) {
        for asked in mem::take(&mut self.carried) {
            self.settle(asked.number, &Ok(()));
        }
    }
}

impl WantedNames {
    /// Creates the state with the names of this change.
    pub(crate) fn new(mut first: Change) -> Self {
        let mut state = PendingChanges::default();
        state.names.apply(&mut first);
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Returns one of the shard channels, if there are any. In a cluster all lie in one slot.
    pub(crate) fn shard_channel(&self) -> Option<Vec<u8>> {
        self.state.lock().names.shard_channels().next().cloned()
    }

    /// Makes a change, and returns its number for [`wait`](WantedNames::wait); none if there is no confirmation to wait for.
    pub(crate) fn change(&self, mut change: Change) -> Option<u64> {
        let mut state = self.state.lock();
        let added = state.names.apply(&mut change);
        if change.names.is_empty() {
            return None;
        }
        let number = state.next;
        state.next += 1;
        state.waiting.insert(number, None);
        let left = change.names.len();
        state.unsent.push_back(PendingChange { number: Some(number), change, added, left });
        Some(number)
    }

    /// Waits until the server has confirmed the change of this number.
    pub(crate) fn wait(&self, number: u64, deadline: Option<Instant>) -> Result<(), Error> {
        let mut state = self.state.lock();
        loop {
            if let Some(outcome) = state.outcome(number) {
                return outcome;
            }
            match deadline {
                None => self.changed.wait(&mut state),
                Some(deadline) if self.changed.wait_until(&mut state, deadline).timed_out() => {
                    return state.outcome(number).unwrap_or_else(|| {
                        state.waiting.remove(&number);
                        Err(unconfirmed())
                    });
                }
                Some(_) => {}
            }
        }
    }

    /// Returns the outcome of the change of this number, once it is known; until then the task is woken at the next change of
    /// the state.
    pub(crate) fn look(&self, number: u64, task_waker: TaskWaker, is_late: bool) -> Option<Result<(), Error>> {
        let mut state = self.state.lock();
        let outcome = state.outcome(number).or_else(|| is_late.then(|| Err(unconfirmed())));
        if outcome.is_none() {
            state.task_wakers.push(task_waker);
        }
        outcome
    }

    /// Notes that no caller waits for the change of this number any more.
    pub(crate) fn leave(&self, number: u64) {
        self.state.lock().waiting.remove(&number);
    }

    /// Notifies the waiting callers that the state has changed.
    fn announce(&self, state: &mut PendingChanges) {
        self.changed.notify_all();
        state.task_wakers.drain(..).for_each(TaskWaker::wake);
    }

    /// Begins a fresh connection. Returns the bytes to send first; if there are none, the connection has begun.
    pub(crate) fn restart(&self) -> Result<Vec<u8>, Error> {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.carried.extend(mem::take(&mut state.sent).into_iter().chain(mem::take(&mut state.unsent)));
        state.carried.retain(|asked| asked.number.is_some());
        let mut request = Vec::new();
        for change in state.names.all() {
            request.extend_from_slice(&change.verb.request(&change.names)?);
            let left = change.names.len();
            state.sent.push_back(PendingChange { number: None, change, added: Vec::new(), left });
        }
        if state.sent.is_empty() {
            state.begin();
            self.announce(state);
        }
        Ok(request)
    }

    /// Returns whether the first names of the connection are all confirmed.
    pub(crate) fn has_begun(&self) -> bool {
        !self.state.lock().is_beginning()
    }

    /// Returns the bytes that are to be sent now.
    pub(crate) fn take_unsent(&self) -> Result<Vec<u8>, Error> {
        let mut state = self.state.lock();
        let mut request = Vec::new();
        while let Some(asked) = state.unsent.pop_front() {
            request.extend_from_slice(&asked.change.verb.request(&asked.change.names)?);
            state.sent.push_back(asked);
        }
        Ok(request)
    }

    /// Takes the server's confirmation of one name.
    pub(crate) fn confirm(&self, verb: SubscriptionVerb) -> Progress {
        let mut state = self.state.lock();
        let beginning = state.is_beginning();
        let Some(asked) = state.sent.front_mut().filter(|asked| asked.change.verb == verb) else {
            return Progress::None;
        };
        asked.left -= 1;
        if asked.left == 0
            && let Some(asked) = state.sent.pop_front()
        {
            state.settle(asked.number, &Ok(()));
            if beginning && !state.is_beginning() {
                state.begin();
                self.announce(&mut state);
                return Progress::Begun;
            }
            self.announce(&mut state);
        }
        if beginning { Progress::Beginning } else { Progress::Change }
    }

    /// Takes the server's refusal of the oldest unconfirmed change. The names that it has added are removed.
    pub(crate) fn refuse(&self, error: &Error) -> Progress {
        let mut state = self.state.lock();
        if state.sent.is_empty() {
            return Progress::None;
        }
        let beginning = state.is_beginning();
        // The first request of a connection contains the changes that were asked for while there was none: one of those was
        // refused.
        let refused =
            if beginning { mem::take(&mut state.carried) } else { state.sent.pop_front().into_iter().collect() };
        let has_blame = !refused.is_empty();
        for asked in refused {
            state.names.take_back(asked.change.verb, &asked.added);
            state.settle(asked.number, &Err(error.clone()));
        }
        self.announce(&mut state);
        if beginning && !has_blame { Progress::Beginning } else { Progress::Change }
    }

    /// Ends the confirmations: nothing is confirmed any more.
    pub(crate) fn end(&self, error: Error) {
        let mut state = self.state.lock();
        state.ended.get_or_insert(error);
        self.announce(&mut state);
    }
}

fn unconfirmed() -> Error {
    let message = "the server did not confirm it in time, or nobody reads what comes; it is done when it can be";
    Error::new(ErrorKind::Timeout, Effect::Unknown, message)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn change(verb: SubscriptionVerb, names: &[&str]) -> Change {
        Change { verb, names: names.iter().map(|name| name.as_bytes().to_vec()).collect() }
    }

    fn told(request: Result<Vec<u8>, Error>) -> String {
        String::from_utf8(request.unwrap()).unwrap()
    }

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_millis(1))
    }

    #[test]
    fn a_fresh_connection_subscribes_to_the_names_wanted_then() {
        let wanted = WantedNames::new(change(SubscriptionVerb::Subscribe, &["a"]));
        assert_eq!(told(wanted.restart()), "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n");
        assert!(!wanted.has_begun());
        assert_eq!(wanted.confirm(SubscriptionVerb::Unsubscribe), Progress::None);
        assert_eq!(wanted.confirm(SubscriptionVerb::Subscribe), Progress::Begun);
        let added = wanted.change(change(SubscriptionVerb::PSubscribe, &["b*"])).unwrap();
        let removed = wanted.change(change(SubscriptionVerb::Unsubscribe, &[])).unwrap();
        assert_eq!(wanted.wait(added, soon()).unwrap_err().kind(), ErrorKind::Timeout);
        assert!(told(wanted.take_unsent()).contains("UNSUBSCRIBE"));
        // The connection is lost before either is confirmed.
        assert_eq!(told(wanted.restart()), "*2\r\n$10\r\nPSUBSCRIBE\r\n$2\r\nb*\r\n");
        assert_eq!(wanted.wait(removed, soon()).unwrap_err().kind(), ErrorKind::Timeout);
        let again = wanted.change(change(SubscriptionVerb::PSubscribe, &["b*"])).unwrap();
        assert_eq!(wanted.confirm(SubscriptionVerb::PSubscribe), Progress::Begun);
        assert!(told(wanted.take_unsent()).starts_with("*2\r\n$10\r\nPSUBSCRIBE"));
        assert_eq!(wanted.confirm(SubscriptionVerb::PSubscribe), Progress::Change);
        assert_eq!(wanted.wait(again, soon()), Ok(()));
        assert_eq!(wanted.change(change(SubscriptionVerb::SUnsubscribe, &[])), None);
    }

    #[test]
    fn a_refused_change_is_taken_back() {
        let wanted = WantedNames::new(change(SubscriptionVerb::Subscribe, &["a"]));
        let no = Error::server(b"NOPERM no");
        wanted.restart().unwrap();
        assert_eq!(wanted.refuse(&no), Progress::Beginning);
        wanted.restart().unwrap();
        assert_eq!(wanted.confirm(SubscriptionVerb::Subscribe), Progress::Begun);
        let added = wanted.change(change(SubscriptionVerb::Subscribe, &["a", "b"])).unwrap();
        wanted.take_unsent().unwrap();
        assert_eq!((wanted.refuse(&no), wanted.wait(added, soon())), (Progress::Change, Err(no.clone())));
        assert_eq!(wanted.refuse(&no), Progress::None);
        // Without a connection, the change is refused with the first request of the next one, which holds other changes as
        // well.
        let added = wanted.change(change(SubscriptionVerb::Subscribe, &["c"])).unwrap();
        assert!(told(wanted.restart()).contains('c'));
        assert_eq!((wanted.refuse(&no), wanted.wait(added, soon())), (Progress::Change, Err(no.clone())));
        assert_eq!(told(wanted.restart()), "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n");
        wanted.end(no.clone());
        let added = wanted.change(change(SubscriptionVerb::Subscribe, &["d"])).unwrap();
        assert_eq!(wanted.wait(added, None), Err(no));
    }
}
