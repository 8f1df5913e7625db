//! Callers that are threads: each waits for its reply before it calls again.

use std::thread;
use std::time::{Duration, Instant};

use crate::workload::{Done, Measured, Watch, Workload};

/// The divisor of the number of calls: a thread that sleeps and wakes for each call takes many times as long as a task.
const DIVISOR: u64 = 4;

/// Runs a workload of callers, each of which is a thread. `open` returns a thread's own call, and is not measured.
///
/// # Errors
/// When a call fails, or the workload is no workload of callers.
pub fn measure<C: FnMut() -> Done + Send>(
    workload: Workload,
    mut open: impl FnMut() -> Result<C, String>,
) -> Result<Measured, String> {
    let Workload::Callers(threads) = workload else { return Err("threads only run callers".to_owned()) };
    let mut calls = (0..threads).map(|_| open()).collect::<Result<Vec<C>, String>>()?;
    calls.iter_mut().try_for_each(|call| call())?;
    let each = workload.calls() / threads / DIVISOR;
    let watch = Watch::start();
    let latencies = thread::scope(|scope| {
        let started: Vec<_> = calls.into_iter().map(|call| scope.spawn(move || repeat(call, each))).collect();
        let ended = started.into_iter().map(|thread| thread.join().map_err(|_| "a caller panicked".to_owned())?);
        ended.collect::<Result<Vec<_>, String>>()
    })?;
    Ok(watch.stop(each * threads, latencies.concat()))
}

/// Makes a call so many times; returns the duration of each.
fn repeat(mut call: impl FnMut() -> Done, times: u64) -> Result<Vec<Duration>, String> {
    let mut latencies = Vec::with_capacity(times as usize);
    for _ in 0..times {
        let begun = Instant::now();
        call()?;
        latencies.push(begun.elapsed());
    }
    Ok(latencies)
}
