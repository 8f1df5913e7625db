//! All troubles at once: a server that stops and continues again and again while callers and tasks go on sending, some of
//! them with wakers that panic, and clients and subscriptions begin and end. Every caller gets a result in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Client, ErrorKind};

use crate::endless::stoppable;
use crate::scripted::{config, until};

/// The longest time that a caller may wait for a result: the longest of the times below, on a very busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Panicking;

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        // This is as a panic, but without the hook's message for each of thousands.
        std::panic::resume_unwind(Box::new("on purpose"));
    }
}

/// Makes calls that it waits for, forgets, drops, or leaves a waker with, until the test ends; counts the answers.
fn ask(client: &Client, ended: &AtomicBool, answered: &AtomicUsize) {
    let waker = Waker::from(Arc::new(Panicking));
    while !ended.load(Ordering::Relaxed) {
        client.echo::<String>("x").forget();
        drop(client.echo::<String>("x"));
        let mut left_behind = client.echo::<String>("x");
        // The first poll may wake its task at once, to be polled again.
        let look = || std::pin::pin!(&mut left_behind).poll(&mut Context::from_waker(&waker)).is_ready();
        _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(look));
        let since = Instant::now();
        match client.echo::<String>("x").wait() {
            Ok(answer) => {
                assert_eq!(answer, "x");
                answered.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Disconnected), "{error:?}"),
        }
        assert!(since.elapsed() < PATIENCE, "it was told after {:?}", since.elapsed());
    }
}

#[test]
fn a_server_that_stops_again_and_again_leaves_no_call_unanswered() {
    let stops: usize = std::env::var("SLEEVE_SOAK_COUNT").map_or(3, |count| count.parse().unwrap());
    let (port, stopped, lost) = stoppable();
    let config = config(port)
        .command_timeout(Some(Duration::from_millis(800)))
        .connect_timeout(Duration::from_millis(300))
        .silence_max(Some(Duration::from_millis(400)))
        .queue_bytes_max(20_000);
    let client = Client::connect_with(config.clone()).unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let answered: [Arc<AtomicUsize>; 4] = Default::default();
    let callers = answered.clone().map(|answered| {
        let (client, ended) = (client.clone(), ended.clone());
        thread::spawn(move || ask(&client, &ended, &answered))
    });
    let everybody_is_answered = || {
        let before = answered.each_ref().map(|count| count.load(Ordering::SeqCst));
        let is_answered = |(count, before): (&Arc<AtomicUsize>, usize)| count.load(Ordering::SeqCst) > before;
        until("every caller is answered", || answered.iter().zip(before).all(is_answered));
    };
    everybody_is_answered();
    for stop in 0..stops {
        let before = lost.load(Ordering::SeqCst);
        stopped.store(true, Ordering::SeqCst);
        // This client begins while the server is stopped, and ends with a request in flight.
        let another = Client::open_with(config.clone()).unwrap();
        another.echo::<String>("x").forget();
        if stop % 2 == 0 {
            until("connections are given up", || lost.load(Ordering::SeqCst) > before + 1);
        } else {
            // The server continues before the client suspects it, and owes the answers to all requests of that time.
            client.echo::<String>("x").wait_for(Duration::from_millis(100)).unwrap_err();
        }
        drop(another);
        stopped.store(false, Ordering::SeqCst);
        everybody_is_answered();
    }
    ended.store(true, Ordering::Relaxed);
    callers.into_iter().for_each(|caller| caller.join().unwrap());
}
