//! Waiting for sockets: a busy poll for a moment, or a sleep until the kernel wakes the worker.
//!
//! To sleep and to be woken costs a worker some microseconds of its processor's time, and on virtual machines, where the
//! processor itself falls asleep, ten or more; the client waits even longer. A client that has its reply often sends the next
//! request sooner than that. So a worker busy polls for as long as three sleeps cost it, which it measures now and then, and
//! only as long as that finds events (`patience`). It yields between two polls, so that other threads can use its processor.

use std::io;
use std::thread;
use std::time::Duration;

use sleeve_rings::patience::Patience;

use crate::host::clock;

/// The longest busy poll, no matter how much a sleep costs.
const POLL_MAX: Duration = Duration::from_micros(50);

/// The length of a busy poll, in sleeps: the client may have to be woken first.
const SLEEPS_A_POLL: u32 = 3;

/// The assumed cost of a sleep before one was measured.
const COST: Duration = Duration::from_micros(2);

/// The sampling of sleeps: one in so many is measured.
const MEASURED_ONE_OF: u32 = 32;

/// The way in which a worker waits for its sockets.
#[derive(Debug)]
pub struct BusyPoll {
    patience: Patience,
    /// The average cost of a sleep in processor time.
    cost: Duration,
    sleeps: u32,
}

impl Default for BusyPoll {
    fn default() -> Self {
        Self { patience: Patience::new(SLEEPS_A_POLL * COST), cost: COST, sleeps: 0 }
    }
}

impl BusyPoll {
    /// Waits by calls of `wait`, until there is an event or until the timeout; returns the number of events.
    ///
    /// # Errors
    /// The errors of the kernel; an interruption is no error.
    pub fn wait(&mut self, mut wait: impl FnMut(u64) -> io::Result<usize>, timeout_ms: u64) -> io::Result<usize> {
        if timeout_ms == 0 {
            return wait(timeout_ms);
        }
        if let Some(mut watch) = self.patience.begin() {
            while watch.has_time() {
                let count = wait(0)?;
                if count > 0 {
                    self.patience.found();
                    return Ok(count);
                }
                thread::yield_now();
            }
        }
        self.sleeps = self.sleeps.wrapping_add(1);
        if self.sleeps.is_multiple_of(MEASURED_ONE_OF) { self.measure(|| wait(timeout_ms)) } else { wait(timeout_ms) }
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
    use std::io::{Read, Write};

    use super::*;
    use crate::net::tests::{drivers, output, unix_pair};
    use crate::net::{Driver, DriverKind, Event};

    /// Answers of a peer that arrive during the busy poll and during the sleep are all received.
    #[test]
    fn whoever_answers_soon_or_late_is_heard() {
        for mut driver in drivers() {
            let (socket, mut peer) = unix_pair();
            let token = driver.adopt(socket).expect("it is open");
            let asking = thread::spawn(move || {
                for round in 0..300_u32 {
                    if round % 3 == 0 {
                        thread::sleep(Duration::from_micros(round.into()));
                    }
                    peer.write_all(b"?").expect("it is open");
                    peer.read_exact(&mut [0]).expect("it is answered");
                }
            });
            let (mut buffer, mut heard) = ([0; 16], 0);
            while heard < 300 {
                for index in 0..driver.wait(1_000).expect("it waits") {
                    if let Event::Received(..) = driver.event(index, &mut buffer) {
                        heard += 1;
                        driver.send(token, &mut output(b"!"));
                        driver.flush(token);
                    }
                }
            }
            while !asking.is_finished() {
                driver.wait(1).expect("it waits");
            }
            asking.join().expect("it was answered");
        }
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
