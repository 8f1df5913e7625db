//! `sleeve cli --intrinsic-latency`: for how long this machine stops a program that only computes.
//!
//! A piece of work of about a microsecond is done over and over. The longest time that one took is the time that the kernel,
//! the hypervisor or a neighbour took away: no server on this machine answers faster than that in its worst moment.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::interrupt::Interrupt;
use crate::output;

/// The number of steps of one piece of work.
const STEPS: u64 = 300;

/// Works for a while, or until Ctrl-C, and prints the measured times.
pub fn run(seconds: u32, interrupt: &Interrupt) {
    let start = Instant::now();
    let end = start + Duration::from_secs(seconds.into());
    let (mut before, mut worst, mut runs) = (start, Duration::ZERO, 0_u64);
    let mut shown_us = 0;
    while before < end && !interrupt.is_heard() {
        work(runs);
        let now = Instant::now();
        worst = worst.max(now - before);
        runs += 1;
        let worst_us = (worst.as_micros() as u64).max(1);
        before = now;
        if worst_us > shown_us {
            shown_us = worst_us;
            output::line(format_args!("Max latency so far: {shown_us} microseconds."));
            output::flush();
            // The time of the print is this program's own, so it does not count.
            before = Instant::now();
        }
    }
    let average_ns = (before - start).as_nanos() as f64 / runs.max(1) as f64;
    let average_us = average_ns / 1000.0;
    output::line(format_args!(
        "\n{runs} total runs (avg latency: {average_us:.4} microseconds / {average_ns:.2} nanoseconds per run)."
    ));
    let factor = worst.as_nanos() as f64 / average_ns.max(1.0);
    output::line(format_args!("Worst run took {factor:.0}x longer than the average latency."));
}

/// Does some arithmetic in which each step needs the result of the one before it.
fn work(seed: u64) {
    let mut state = seed | 1;
    for _ in 0..STEPS {
        state = state.wrapping_mul(0xd134_2543_de82_ef95).rotate_left(17) ^ seed;
    }
    black_box(state);
}
