//! The workers that have not served clients for longer than `watchdog-period`, as the watchdog's thread (`thread`)
//! has seen them.
//!
//! The thread sends each worker a letter. The worker answers it when it reads its mail, which it does between two wake-ups. A
//! worker that is busy for long, or waits for a lock of another thread, answers late. Clients that are refused because data
//! is being loaded are not served either. Each delay is reported once, while it lasts. One thread.

pub(crate) mod thread;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::persistence::loading::LoadingStatus;
use crate::host::waiting::Condvar;
use crate::messaging::mail::{Letter, Mailbox};

/// The state of the watchdog's thread, and the means to wake it. Any thread.
#[derive(Debug, Default)]
pub struct Watchdog {
    /// The thread runs.
    pub has_thread: Mutex<bool>,
    /// The condition that wakes the thread when the option has changed.
    pub changed: Condvar,
}

/// The workers that were asked and have not answered, and the other conditions that keep clients from being served.
#[derive(Debug, Default)]
pub struct Watch {
    asked: Vec<Asked>,
    /// The delay by loading, if data was being loaded at the last check.
    loading: Option<Delay>,
}

#[derive(Debug)]
struct Asked {
    mailbox: Arc<Mailbox>,
    has_answered: Arc<AtomicBool>,
    delay: Delay,
}

/// A delay: since when clients are not served, and whether that was reported.
#[derive(Debug)]
struct Delay {
    since_ms: u64,
    is_told: bool,
}

impl Delay {
    fn new(since_ms: u64) -> Self {
        Self { since_ms, is_told: false }
    }

    /// Returns the length of the delay when it has become longer than the period; once.
    fn tell(&mut self, period_ms: u64, now_ms: u64) -> Option<u64> {
        let lasts_ms = now_ms.saturating_sub(self.since_ms);
        let is_due = lasts_ms > period_ms && !self.is_told;
        self.is_told |= is_due;
        is_due.then_some(lasts_ms)
    }
}

impl Watch {
    /// Sends letters to the workers among the owners of these mailboxes, and returns the delays that are longer than the
    /// period.
    pub fn look(
        &mut self,
        mailboxes: &[Arc<Mailbox>],
        loading: Option<LoadingStatus>,
        period_ms: u64,
        now_ms: u64,
    ) -> Vec<String> {
        self.asked.retain(|asked| !asked.has_answered.load(Ordering::Acquire) && !asked.mailbox.is_stopped());
        let mut delays = Vec::new();
        let workers = mailboxes.iter().filter_map(|mailbox| Some((mailbox.worker()?, mailbox)));
        for (number, mailbox) in workers.filter(|(_, mailbox)| !mailbox.is_stopped()) {
            match self.asked.iter_mut().find(|asked| Arc::ptr_eq(&asked.mailbox, mailbox)) {
                Some(asked) => delays.extend(
                    asked
                        .delay
                        .tell(period_ms, now_ms)
                        .map(|lasts_ms| format!("Worker {number} has not looked at its mail for {lasts_ms} ms.")),
                ),
                None => {
                    let has_answered = Arc::new(AtomicBool::new(false));
                    mailbox.post(Letter::Answer(Arc::clone(&has_answered)));
                    let delay = Delay::new(now_ms);
                    self.asked.push(Asked { mailbox: Arc::clone(mailbox), has_answered, delay });
                }
            }
        }
        match loading.filter(|loading| !loading.is_beside) {
            Some(LoadingStatus { loaded_bytes, .. }) => {
                let delay = self.loading.get_or_insert_with(|| Delay::new(now_ms));
                delays.extend(delay.tell(period_ms, now_ms).map(|lasts_ms| {
                    format!(
                        "Data has been loaded for {lasts_ms} ms, {loaded_bytes} bytes until now: clients are refused."
                    )
                }));
            }
            None => self.loading = None,
        }
        delays
    }
}

#[cfg(test)]
mod tests {
    use super::super::persistence::loading::Loading;
    use super::*;

    fn answer(mailbox: &Mailbox) {
        for letter in mailbox.collect() {
            let Letter::Answer(has_answered) = letter else { panic!("{letter:?}") };
            has_answered.store(true, Ordering::Release);
        }
    }

    #[test]
    fn a_worker_that_is_late_is_told_once_and_again_when_it_is_late_again() {
        // Workers 2 and 3 have retired.
        let mailboxes = [1, 4].map(|number| Arc::new(Mailbox::of_worker(number, || ())));
        let mut watch = Watch::default();
        let mut look = |now_ms| watch.look(&mailboxes, None, 100, now_ms);
        assert_eq!(look(0), Vec::<String>::new());
        answer(&mailboxes[0]);
        assert_eq!(look(100), Vec::<String>::new());
        let late = ["Worker 4 has not looked at its mail for 150 ms."];
        assert_eq!(look(150), late);
        answer(&mailboxes[0]);
        assert_eq!(look(300), Vec::<String>::new());
        mailboxes.iter().for_each(|mailbox| answer(mailbox));
        assert_eq!(look(400), Vec::<String>::new());
        answer(&mailboxes[0]);
        assert_eq!(look(550), late);
        mailboxes[0].post(Letter::Stop);
        mailboxes[1].post(Letter::Stop);
        assert_eq!(look(9_000), Vec::<String>::new());
        assert!(watch.asked.is_empty());
    }

    #[test]
    fn a_session_that_looks_when_its_program_calls_is_no_worker() {
        let mailbox = Arc::new(Mailbox::bounded(Arc::default(), || ()));
        let mut watch = Watch::default();
        watch.look(&[Arc::clone(&mailbox)], None, 100, 0);
        assert!(mailbox.collect().is_empty() && watch.asked.is_empty());
    }

    #[test]
    fn a_loading_is_reported_only_if_it_keeps_clients_out() {
        let (loading, mut watch) = (Loading::default(), Watch::default());
        let mut look = |now_ms| watch.look(&[], loading.status(), 100, now_ms);
        loading.begin(1, 0);
        assert_eq!(look(0), Vec::<String>::new());
        loading.add_bytes(77, 1);
        let told = |ms: u64| [format!("Data has been loaded for {ms} ms, 77 bytes until now: clients are refused.")];
        assert_eq!(look(101), told(101));
        assert_eq!(look(900), Vec::<String>::new());
        loading.end();
        loading.begin_beside(1, 0);
        assert_eq!((look(1_000), look(1_200)), (Vec::new(), Vec::new()));
    }
}
