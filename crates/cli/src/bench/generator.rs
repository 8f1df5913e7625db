//! Runs one test: splits it over threads, lets all begin at once, and adds up their measurements.
//!
//! The clock and both CPU meters start once every connection is open and stop when the last reply has arrived. In between,
//! the calling thread only calls `tick` ten times a second, and ends the test when its time has passed or on Ctrl-C.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::halt::Halt;
use super::lane::{Lane, Measured, Share, histogram};
use super::meter::{Reading, own_nanoseconds};
use super::template::Numbers;
use crate::interrupt::Interrupt;

/// The interval at which the caller gets the progress.
const TICK: Duration = Duration::from_millis(100);

/// The result of one test, over all threads.
#[derive(Debug)]
pub struct Outcome {
    /// The time from the first request to the last reply.
    pub elapsed: Duration,
    /// The number of requests that were answered.
    pub answered: u64,
    /// The latencies, in microseconds.
    pub latencies: Histogram<u64>,
    /// The resources that the server used; `None` if it is not on this machine.
    pub server: Option<Reading>,
    /// The CPU time that the generator used, in nanoseconds.
    pub generator_ns: u64,
}

/// Runs the whole test on `threads` threads. `read` returns the resources that the server has used; `tick` receives the
/// number of requests that are done.
pub fn run(
    whole: &Share,
    threads: usize,
    read: impl Fn() -> Option<Reading>,
    interrupt: &Interrupt,
    mut tick: impl FnMut(u64),
) -> io::Result<Outcome> {
    let halt = Halt::new()?;
    let shares = split(whole, threads);
    let connected = Barrier::new(shares.len() + 1);
    let started = Barrier::new(shares.len() + 1);
    let done = AtomicU64::new(0);
    let running = AtomicU64::new(shares.len() as u64);
    let caller = thread::current();
    thread::scope(|scope| {
        let lane_threads: Vec<_> = shares
            .into_iter()
            .map(|share| {
                let (connected, started, done, running, caller) = (&connected, &started, &done, &running, &caller);
                let halt = &halt;
                scope.spawn(move || {
                    let lane = Lane::connect(share, halt);
                    connected.wait();
                    started.wait();
                    let result = lane.and_then(|lane| lane.run(done));
                    running.fetch_sub(1, Ordering::Release);
                    caller.unpark();
                    result
                })
            })
            .collect();
        connected.wait();
        let (server_before, generator_before) = (read(), own_nanoseconds());
        let start = Instant::now();
        started.wait();
        while running.load(Ordering::Acquire) > 0 {
            let left = whole.duration.map_or(TICK, |time| time.saturating_sub(start.elapsed()));
            // Once the time is over, a tick is enough to wait for the last replies.
            thread::park_timeout(if left.is_zero() { TICK } else { left.min(TICK) });
            tick(done.load(Ordering::Relaxed));
            if interrupt.is_heard() {
                halt.now();
            } else if whole.duration.is_some_and(|time| start.elapsed() >= time) {
                halt.soon();
            }
        }
        let server_after = read();
        let generator_ns = own_nanoseconds() - generator_before;
        let mut outcome =
            Outcome { elapsed: Duration::ZERO, answered: 0, latencies: histogram(), server: None, generator_ns };
        outcome.server = server_before.zip(server_after).map(|(before, after)| after.since(before));
        for lane in lane_threads {
            let Measured { finished, latencies } =
                lane.join().map_err(|_| io::Error::other("a generator thread panicked"))??;
            outcome.elapsed = outcome.elapsed.max(finished.duration_since(start));
            outcome.answered += latencies.len();
            outcome.latencies.add(&latencies).map_err(io::Error::other)?;
        }
        Ok(outcome)
    })
}

/// Divides connections and requests over the threads, so that every thread has at least one connection.
fn split(whole: &Share, threads: usize) -> Vec<Share> {
    let threads = threads.clamp(1, whole.clients);
    let part = |total: u64, index: usize| {
        let (threads, index) = (threads as u64, index as u64);
        total / threads + u64::from(index < total % threads)
    };
    (0..threads)
        .map(|index| Share {
            clients: part(whole.clients as u64, index) as usize,
            requests: part(whole.requests, index),
            rate: whole.rate.map(|rate| rate / threads as f64),
            numbers: numbers_of(&whole.numbers, index as u64, threads as u64, whole.requests),
            ..whole.clone()
        })
        .collect()
}

/// Returns a thread's own numbers: another seed, or another stretch of the sequence.
fn numbers_of(numbers: &Numbers, index: u64, threads: u64, requests: u64) -> Numbers {
    match numbers {
        Numbers::Literal => Numbers::Literal,
        Numbers::Random { state, bound } => {
            Numbers::Random { state: state.wrapping_add(index.wrapping_mul(0xd1b5_4a32_d192_ed03)), bound: *bound }
        }
        Numbers::Sequence { next } => {
            let before = (requests / threads) * index + index.min(requests % threads);
            Numbers::Sequence { next: next + before }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{Endpoint, Login};

    fn share(clients: usize, requests: u64) -> Share {
        Share {
            endpoint: Endpoint::Tcp { host: "127.0.0.1".into(), port: 1 },
            login: Login::default(),
            clients,
            requests,
            duration: None,
            rate: None,
            pipeline: 1,
            keep_alive: true,
            request: b"PING\r\n".to_vec(),
            numbers: Numbers::Sequence { next: 0 },
        }
    }

    #[test]
    fn shares_add_up_and_sequences_do_not_overlap() {
        let parts = split(&share(10, 1001), 4);
        assert_eq!(parts.iter().map(|part| part.clients).sum::<usize>(), 10);
        let mut expected = 0;
        for part in &parts {
            let Numbers::Sequence { next } = part.numbers else { panic!("a sequence stays one") };
            assert_eq!(next, expected);
            expected += part.requests;
        }
        assert_eq!(expected, 1001);
        assert_eq!(split(&share(2, 5), 8).len(), 2);
    }
}
