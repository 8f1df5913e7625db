//! Waiting for sockets: a busy poll for a moment, or a sleep until the kernel wakes the worker.
//!
//! To sleep and to be woken costs a worker some microseconds of its processor's time, and on virtual machines, where the
//! processor itself falls asleep, ten or more; the peer waits longer still. A client that has its reply often asks again
//! sooner than that. So a worker busy polls for as long as three sleeps cost it, which it measures now and then, and only
//! where that is of use (`patience`); it yields between two polls, so that other threads that want its processor have it.

use std::io;
use std::thread;
use std::time::Duration;

use sleeve_rings::patience::Patience;

use super::socket_driver::{Kind, SocketDriver};
use crate::host::clock;

/// A worker never looks for longer, however dear its sleeps are.
const LOOK_MAX: Duration = Duration::from_micros(50);

/// A look is as long as so many sleeps cost: the peer may have to be woken first.
const SLEEPS_A_LOOK: u32 = 3;

/// The assumed cost of a sleep before one was measured.
const COST: Duration = Duration::from_micros(2);

/// Of so many sleeps one is measured.
const MEASURED_ONE_OF: u32 = 32;

/// How a worker waits for its sockets.
#[derive(Debug)]
pub struct Looking {
    patience: Patience,
    /// The average cost of a sleep in processor time.
    cost: Duration,
    sleeps: u32,
}

impl Default for Looking {
    fn default() -> Self {
        Self { patience: Patience::new(SLEEPS_A_LOOK * COST), cost: COST, sleeps: 0 }
    }
}

impl Looking {
    /// Waits until something happens or until the timeout; returns how many events there are.
    ///
    /// # Errors
    /// Those of the kernel; an interruption is no error.
    pub fn wait(&mut self, sockets: &mut SocketDriver, timeout_ms: u64) -> io::Result<usize> {
        if timeout_ms == 0 || sockets.kind() == Kind::Async {
            // Tokio has a way of its own.
            return sockets.wait(timeout_ms);
        }
        if let Some(mut watch) = self.patience.begin() {
            while watch.has_time() {
                let count = sockets.wait(0)?;
                if count > 0 {
                    self.patience.found();
                    return Ok(count);
                }
                thread::yield_now();
            }
        }
        self.sleeps = self.sleeps.wrapping_add(1);
        if self.sleeps.is_multiple_of(MEASURED_ONE_OF) {
            self.measure(|| sockets.wait(timeout_ms))
        } else {
            sockets.wait(timeout_ms)
        }
    }

    /// Sleeps, and measures the cost of that.
    #[cold]
    fn measure<T>(&mut self, sleep: impl FnOnce() -> T) -> T {
        let (began, worked) = (clock::monotonic_ns(), clock::thread_cpu_ns());
        let woken = sleep();
        let (passed, cost) = (clock::monotonic_ns() - began, clock::thread_cpu_ns() - worked);
        // Otherwise there was something to do already.
        if passed > 2 * cost {
            self.cost = (self.cost * 7 + Duration::from_nanos(cost).min(LOOK_MAX)) / 8;
            self.patience.set_max((self.cost * SLEEPS_A_LOOK).min(LOOK_MAX));
        }
        woken
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::driver::Event;
    use crate::driver::tests::unix_pair;

    fn kinds() -> impl Iterator<Item = SocketDriver> {
        let made = Kind::ALL.into_iter().map(|kind| SocketDriver::chosen(kind.name(), 1).expect("a driver"));
        made.flat_map(|(drivers, _)| drivers)
    }

    /// Answers that arrive during the busy poll and during the sleep are all received.
    #[test]
    fn whoever_answers_soon_or_late_is_heard() {
        for mut sockets in kinds() {
            let mut looking = Looking::default();
            let (socket, mut peer) = unix_pair();
            let token = sockets.adopt(socket).expect("it is open");
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
                for index in 0..looking.wait(&mut sockets, 1_000).expect("it waits") {
                    if let Event::Received(..) = sockets.event(index, &mut buffer) {
                        heard += 1;
                        sockets.send(token, &mut crate::driver::tests::output(b"!"));
                        sockets.flush(token);
                    }
                }
            }
            while !asking.is_finished() {
                looking.wait(&mut sockets, 1).expect("it waits");
            }
            asking.join().expect("it was answered");
        }
    }

    #[test]
    fn what_sleeps_cost_is_measured_and_a_look_is_never_too_long() {
        for mut sockets in kinds().filter(|sockets| sockets.kind() != Kind::Async) {
            let mut looking = Looking::default();
            while looking.cost == COST {
                assert_eq!(looking.wait(&mut sockets, 1).expect("it waits"), 0);
            }
            (0..64).for_each(|_| looking.measure(|| thread::sleep(Duration::from_micros(1))));
            assert!(looking.cost <= LOOK_MAX);
        }
    }
}
