//! The cost of a call, by the ways in which its caller can wait for it: the micro-benchmark of the document about
//! asynchronous servers. Nothing travels; the work is an addition that is not inlined.

use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Instant;

/// The number of calls of each kind but the most expensive.
const CALLS: u64 = 2_000_000;

/// The number of calls that go to another thread.
const CALLS_AWAY: u64 = 20_000;

/// A way to call, and the nanoseconds that a call takes.
pub type Cost = (String, f64);

/// Measures all ways to call, in half a second or so.
pub fn measure() -> Vec<Cost> {
    vec![
        ("a function".to_owned(), each(CALLS, || (0..CALLS).fold(0, add))),
        (
            "an async function that is ready".to_owned(),
            each(CALLS, || {
                run(async {
                    let mut sum = 0;
                    for number in 0..CALLS {
                        sum = ready(sum, number).await;
                    }
                    sum
                })
            }),
        ),
        (
            "the same in a box of its own".to_owned(),
            each(CALLS, || {
                run(async {
                    let mut sum = 0;
                    for number in 0..CALLS {
                        let future: Pin<Box<dyn Future<Output = u64>>> = Box::pin(ready(sum, number));
                        sum = future.await;
                    }
                    sum
                })
            }),
        ),
        (
            "one that is not ready at first".to_owned(),
            each(CALLS, || {
                run(async {
                    let mut sum = 0;
                    for number in 0..CALLS {
                        Once::default().await;
                        sum = add(sum, number);
                    }
                    sum
                })
            }),
        ),
        ("a thread that is asked and waited for".to_owned(), each(CALLS_AWAY, away)),
    ]
}

fn each(calls: u64, work: impl FnOnce() -> u64) -> f64 {
    let begun = Instant::now();
    black_box(work());
    begun.elapsed().as_nanos() as f64 / calls as f64
}

#[inline(never)]
fn add(sum: u64, number: u64) -> u64 {
    black_box(sum.wrapping_add(number))
}

async fn ready(sum: u64, number: u64) -> u64 {
    add(sum, number)
}

/// A future that is ready at the second poll.
#[derive(Default)]
struct Once(bool);

impl Future for Once {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Asks a future until it is ready.
fn run(future: impl Future<Output = u64>) -> u64 {
    let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

/// Sends each number to a thread that returns its sum.
fn away() -> u64 {
    let ((ask, asked), (answer, answers)) = (channel::<(u64, u64)>(), channel());
    thread::scope(|threads| {
        threads.spawn(move || {
            for (sum, number) in asked {
                if answer.send(add(sum, number)).is_err() {
                    return;
                }
            }
        });
        let sum = (0..CALLS_AWAY).try_fold(0, |sum, number| {
            ask.send((sum, number)).ok()?;
            answers.recv().ok()
        });
        drop(ask);
        sum.unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_gives_the_same_sum() {
        let expected = (0..CALLS_AWAY).sum::<u64>();
        assert_eq!(away(), expected);
        let sum = run(async {
            let mut sum = 0;
            for number in 0..CALLS_AWAY {
                Once::default().await;
                sum = ready(sum, number).await;
            }
            sum
        });
        assert_eq!(sum, expected);
        assert!(measure().iter().all(|(_, nanoseconds)| *nanoseconds > 0.0));
    }
}
