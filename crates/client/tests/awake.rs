//! Tasks that read for one another: each caller gets its own answer, and a runtime that stands still delays no other caller.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sleeve::Client;
use sleeve::prelude::*;
use tokio::runtime::{Builder, Runtime};

use crate::scripted::{config, echo, serve};

const PATIENCE: Duration = Duration::from_secs(60);

fn runtimes() -> [Runtime; 2] {
    [
        Builder::new_current_thread().enable_all().build().unwrap(),
        Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
    ]
}

/// Asks again and again, each time for another value; from time to time it polls a reply once and drops it.
async fn ask(client: Client, task: u64) {
    for number in 0..40 {
        let number = task << 32 | number;
        if number % 7 == task % 7 {
            let mut left = pin!(client.echo::<u64>(number));
            assert!(left.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() || left.is_ready());
        }
        let together = (client.echo::<u64>(number), client.db(3).echo::<u64>(number + 1));
        assert_eq!((together.1.await, together.0.await), (Ok(number + 1), Ok(number)));
    }
}

#[test]
fn each_task_gets_its_own_reply_whichever_task_reads() {
    let client = Client::connect_with(config(serve(echo))).unwrap();
    for runtime in runtimes() {
        runtime.block_on(async {
            let tasks: Vec<_> = (0..64).map(|task| tokio::spawn(ask(client.clone(), task))).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    }
    // This is one future that waits for many replies at once.
    let [runtime, _] = runtimes();
    runtime.block_on(async {
        let mut waiting: Vec<_> = (0..1000_u64).map(|number| Some(client.echo::<u64>(number))).collect();
        poll_fn(|context| {
            for (number, place) in (0..).zip(&mut waiting) {
                let Some(reply) = place else { continue };
                if let Poll::Ready(answer) = pin!(reply).poll(context) {
                    assert_eq!(answer, Ok(number));
                    *place = None;
                }
            }
            if waiting.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    });
}

#[test]
fn a_runtime_that_stands_still_holds_up_no_other_caller() {
    let client = Client::connect_with(config(serve(echo))).unwrap();
    for (runtime, threads) in runtimes().into_iter().zip([1, 2]) {
        let (beside, others) = (client.clone(), client.clone());
        let (standing, stands) = channel();
        let (release, released) = channel::<()>();
        // A caller on a thread, behind tasks of a runtime with threads that all stand still until the caller has been
        // answered.
        let caller = std::thread::spawn(move || {
            for _ in 0..threads {
                stands.recv_timeout(PATIENCE).unwrap();
            }
            for number in 0..100 {
                assert_eq!(beside.echo::<u64>(number).wait_for(PATIENCE), Ok(number));
            }
            drop(release);
        });
        let released = std::sync::Arc::new(std::sync::Mutex::new(released));
        runtime.block_on(async move {
            let waiting: Vec<_> = (0..20)
                .map(|number| {
                    let client = others.clone();
                    tokio::spawn(async move { assert_eq!(client.echo::<u64>(number).await, Ok(number)) })
                })
                .collect();
            tokio::task::yield_now().await;
            let still = |_| {
                let (standing, released) = (standing.clone(), released.clone());
                tokio::spawn(async move {
                    // On a runtime of one thread, the second task runs only when the test is over.
                    let _ = standing.send(());
                    let _ = released.lock().unwrap().recv_timeout(PATIENCE);
                })
            };
            let still: Vec<_> = (0..2).map(still).collect();
            for task in waiting.into_iter().chain(still) {
                task.await.unwrap();
            }
        });
        caller.join().unwrap();
    }
}
