//! Waiting for sockets: a busy poll for a moment, or a sleep until the kernel wakes the worker.
//!
//! To sleep and to be woken costs a worker some microseconds of its processor's time, and on virtual machines, where the
//! processor itself falls asleep, ten or more; the client waits even longer. A client that has its reply often sends the next
//! request sooner than that. So a worker busy polls for as long as three sleeps cost it, which it measures now and then, and
//! only as long as that pays (`patience`). It yields between two polls, so that other threads can use its processor.
//!
//! A poll pays if it finds a client that was just answered, and if few clients send at present: that client would have waited
//! for the worker to wake. Requests of clients that come at their own time pay for no poll: at a steady rate of 50 clients the
//! polls between their requests took a third of the worker's processor time. If many clients send, one of them that comes
//! back pays for no poll either: of 50 clients at 1,500,000 requests a second, the polls took a sixth of the worker's processor
//! time, and brought replies in 17 us instead of 19. One thread.

use std::io;
use std::thread;
use std::time::Duration;

use sleeve_rings::patience::Patience;

use super::event::{Event, Token};
use crate::host::clock;

/// The longest busy poll, no matter how much a sleep costs.
const POLL_MAX: Duration = Duration::from_micros(50);

/// The length of a busy poll, in sleeps: the client may have to be woken first.
const SLEEPS_A_POLL: u32 = 3;

/// The assumed cost of a sleep before one was measured.
const COST: Duration = Duration::from_micros(2);

/// The sampling of sleeps: one in so many is measured.
const MEASURED_ONE_OF: u32 = 32;

/// The number of requests whose connections a worker remembers. With more, clients that come at their own
/// time look as if they came back: of 50 clients, a third are among the last 16.
const RECENT: usize = 4;

/// The most strangers among the last 32 requests with which polls pay. Four clients that take turns are strangers once each.
const STRANGERS_MAX: u32 = 4;

/// The state of a worker's waits, which decides whether the next one begins with a poll.
#[derive(Debug)]
pub(super) struct BusyPoll {
    patience: Patience,
    /// The connections of the last requests, in a ring.
    recent: [Token; RECENT],
    requests: usize,
    /// A bit for each of the last 32 requests, the newest lowest: set if its connection was not among the recent ones.
    strangers: u32,
    /// True if the present events were found by a poll, and none of them has shown yet that it pays.
    is_in_question: bool,
    /// The average cost of a sleep in processor time.
    cost: Duration,
    sleeps: u32,
}

impl Default for BusyPoll {
    fn default() -> Self {
        let patience = Patience::new(SLEEPS_A_POLL * COST);
        Self {
            patience,
            recent: [Token::MAX; RECENT],
            requests: 0,
            strangers: 0,
            is_in_question: false,
            cost: COST,
            sleeps: 0,
        }
    }
}

impl BusyPoll {
    /// Waits by calls of `wait`, until there is an event or until the timeout; returns the number of events.
    ///
    /// # Errors
    /// The errors of the kernel; an interruption is no error.
    pub(super) fn wait(
        &mut self,
        mut wait: impl FnMut(u64) -> io::Result<usize>,
        timeout_ms: u64,
    ) -> io::Result<usize> {
        self.is_in_question = false;
        if timeout_ms == 0 {
            return wait(timeout_ms);
        }
        if let Some(mut watch) = self.patience.begin() {
            while watch.has_time() {
                let count = wait(0)?;
                if count > 0 {
                    self.is_in_question = true;
                    return Ok(count);
                }
                thread::yield_now();
            }
        }
        self.sleeps = self.sleeps.wrapping_add(1);
        if self.sleeps.is_multiple_of(MEASURED_ONE_OF) { self.measure(|| wait(timeout_ms)) } else { wait(timeout_ms) }
    }

    /// Notes an event of the present wake-up. A poll has paid if it has found a letter, or a request of a client that was just
    /// answered while few clients send.
    #[inline]
    pub(super) fn note(&mut self, event: &Event) {
        let has_paid = match *event {
            Event::Received(token, _) | Event::Receivable(token) => {
                let is_recent = self.recent.contains(&token);
                self.recent[self.requests % RECENT] = token;
                self.requests = self.requests.wrapping_add(1);
                self.strangers = self.strangers << 1 | u32::from(!is_recent);
                self.is_in_question && is_recent && self.strangers.count_ones() <= STRANGERS_MAX
            }
            Event::Woken => self.is_in_question,
            _ => false,
        };
        if has_paid {
            self.is_in_question = false;
            self.patience.found();
        }
    }

    /// Sleeps, and measures the processor time of that.
    #[cold]
    fn measure<T>(&mut self, sleep: impl FnOnce() -> T) -> T {
        let (began, worked) = (clock::monotonic_ns(), clock::thread_cpu_ns());
        let woken = sleep();
        let (passed, cost) = (clock::monotonic_ns() - began, clock::thread_cpu_ns() - worked);
        // If less time has passed, there was an event already, and this was no sleep.
        if passed > 2 * cost {
            self.cost = (self.cost * 7 + Duration::from_nanos(cost).min(POLL_MAX)) / 8;
            self.patience.set_max((self.cost * SLEEPS_A_POLL).min(POLL_MAX));
        }
        woken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::driver::{Driver, DriverKind};

    /// Returns whether the next wait begins with a poll, after one that has found a request of this connection.
    fn polls_after(busy_poll: &mut BusyPoll, token: Token) -> bool {
        let mut found = 0;
        busy_poll.wait(|timeout_ms| Ok(usize::from(timeout_ms == 0)), 1_000).expect("it waits");
        busy_poll.note(&Event::Received(token, 1));
        busy_poll
            .wait(
                |timeout_ms| {
                    found += usize::from(timeout_ms == 0);
                    Ok(1)
                },
                1_000,
            )
            .expect("it waits");
        found == 1
    }

    #[test]
    fn polls_go_on_for_a_client_that_comes_back_and_not_for_others() {
        let mut busy_poll = BusyPoll::default();
        busy_poll.note(&Event::Received(7, 1));
        assert!(polls_after(&mut busy_poll, 7));
        busy_poll.note(&Event::Received(7, 1));
        assert!(!polls_after(&mut busy_poll, 8), "nobody waited for this poll");
    }

    #[test]
    fn a_client_that_was_answered_long_ago_is_forgotten() {
        let mut busy_poll = BusyPoll::default();
        (0..=RECENT).for_each(|token| busy_poll.note(&Event::Received(token, 1)));
        assert!(!polls_after(&mut busy_poll, 0));
    }

    #[test]
    fn a_client_that_comes_back_among_many_pays_for_no_poll() {
        let mut busy_poll = BusyPoll::default();
        (0..=STRANGERS_MAX as usize).for_each(|token| busy_poll.note(&Event::Received(token, 1)));
        let last = STRANGERS_MAX as usize;
        assert!(!polls_after(&mut busy_poll, last), "five clients have just sent");
        (0..32).for_each(|_| busy_poll.note(&Event::Received(last, 1)));
        while !polls_after(&mut busy_poll, last) {}
    }

    #[test]
    fn what_sleeps_cost_is_measured_and_a_look_is_never_too_long() {
        for kind in [DriverKind::Epoll, DriverKind::Uring] {
            let (mut drivers, _) = Driver::create(kind, 1).expect("a driver");
            drivers[0].set_busy_polling(false);
            let mut busy_poll = BusyPoll::default();
            while busy_poll.cost == COST {
                assert_eq!(busy_poll.wait(|timeout_ms| drivers[0].wait(timeout_ms), 1).expect("it waits"), 0);
            }
            (0..64).for_each(|_| busy_poll.measure(|| thread::sleep(Duration::from_micros(1))));
            assert!(busy_poll.cost <= POLL_MAX);
        }
    }
}
