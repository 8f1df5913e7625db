//! The runtime of the waiting tasks as the reader of their connection: a call that is awaited alone wakes no other thread, and
//! no other caller depends on the runtime.
#![cfg(feature = "tokio")]

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Client, Reply};
use tokio::runtime::{Builder, Runtime};

use crate::scripted::{config, echo, serve, until};

const PATIENCE: Duration = Duration::from_secs(60);

/// The number of awaited calls after which a runtime certainly reads.
const HABIT: u64 = 100;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn runtime_of_two() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Awaits calls, one after the other.
async fn ask(client: &Client, calls: u64) {
    for number in 0..calls {
        assert_eq!(client.echo::<u64>(number).await, Ok(number));
    }
}

/// Returns how often the reactor's threads of this process have gone to sleep. Other tests have clients too, so this process
/// is one of its own.
#[cfg(target_os = "linux")]
fn sleeps_of_reactor() -> u64 {
    let of_thread = |folder: std::fs::DirEntry| {
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        let status = if read("comm").starts_with("sleeve-io") { read("status") } else { String::new() };
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    std::fs::read_dir("/proc/self/task").unwrap().flatten().filter_map(of_thread).sum()
}

/// The variable that makes this process the one that counts the reactor's sleeps.
const COUNTING: &str = "SLEEVE_TEST_COUNTING";

#[test]
#[cfg(target_os = "linux")]
fn a_call_that_is_awaited_alone_does_not_wake_the_reactor() {
    const NAME: &str = "runtime::a_call_that_is_awaited_alone_does_not_wake_the_reactor";
    if std::env::var_os(COUNTING).is_none() {
        let mut own = std::process::Command::new(std::env::current_exe().unwrap());
        let child = own.args(["--exact", NAME, "--nocapture"]).env(COUNTING, "1").status().unwrap();
        return assert!(child.success());
    }
    for runtime in [runtime(), runtime_of_two()] {
        let client = Client::connect_with(config(serve(echo))).unwrap();
        let sleeps = runtime.block_on(async move {
            let task = tokio::spawn(async move {
                ask(&client, HABIT).await;
                let before = sleeps_of_reactor();
                ask(&client, 2_000).await;
                sleeps_of_reactor() - before
            });
            task.await.unwrap()
        });
        // The reactor checks now and then, at least every 20 ms; without the runtime it sleeps once for each call.
        assert!(sleeps < 1_000, "the reactor has slept {sleeps} times during 2,000 calls");
    }
}

#[test]
fn a_runtime_that_stands_still_holds_up_no_thread() {
    let client = Client::connect_with(config(serve(echo))).unwrap();
    runtime().block_on(async {
        ask(&client, HABIT).await;
        let beside = client.clone();
        // The runtime's only thread stands still until the other thread was answered.
        let caller = thread::spawn(move || {
            (0..100).for_each(|number| assert_eq!(beside.echo::<u64>(number).wait_for(PATIENCE), Ok(number)));
        });
        caller.join().unwrap();
        ask(&client, HABIT).await;
    });
}

#[test]
fn a_reply_arrives_while_its_own_runtime_stands_still() {
    let client = Client::connect_with(config(serve(echo))).unwrap();
    runtime().block_on(async {
        ask(&client, HABIT).await;
        let reply: Reply<u64> = client.echo(7);
        until("the reactor reads in place of the runtime", || reply.is_ready());
        assert_eq!(reply.await, Ok(7));
        // A deadline that passes while the runtime stands still does not take the answer that has arrived.
        ask(&client, 10 * HABIT).await;
        let limited = client.at(Instant::now() + Duration::from_millis(50)).echo::<u64>(8);
        thread::sleep(Duration::from_millis(100));
        assert_eq!(limited.await, Ok(8));
    });
}

#[test]
fn a_runtime_that_nobody_drives_reads_nothing_and_delays_little() {
    let client = Client::connect_with(config(serve(echo))).unwrap();
    let runtime = runtime();
    let _inside = runtime.enter();
    // The calls look like those of the runtime's tasks, but another executor polls them.
    for number in 0..3 * HABIT {
        let (sender, woken) = channel();
        let waker = Waker::from(Arc::new(Told(sender)));
        let mut reply = pin!(client.echo::<u64>(number));
        let echoed = loop {
            match reply.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(echoed) => break echoed,
                Poll::Pending => woken.recv_timeout(PATIENCE).unwrap(),
            }
        };
        assert_eq!(echoed, Ok(number));
    }
}

/// A waker that sends a message.
struct Told(Sender<()>);

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        _ = self.0.send(());
    }
}

#[test]
fn a_runtime_without_io_lets_the_reactor_read() {
    let client = Client::connect_with(config(serve(echo))).unwrap();
    for runtime in [Builder::new_current_thread(), Builder::new_multi_thread()].iter_mut().map(Builder::build) {
        runtime.unwrap().block_on(ask(&client, 2 * HABIT));
    }
}

#[test]
fn a_runtime_that_ends_while_calls_wait_leaves_their_replies_to_others() {
    // The server answers nothing while the test has the gate.
    let gate = Arc::new(Mutex::new(()));
    let own = Arc::clone(&gate);
    let held = move |words: &[String]| {
        drop(own.lock().unwrap());
        echo(words)
    };
    let client = Client::connect_with(config(serve(held))).unwrap();
    for runtime in [runtime(), runtime_of_two()] {
        runtime.block_on(ask(&client, HABIT));
        let shut = gate.lock().unwrap();
        let kept: Option<Reply<u64>> = runtime.block_on(async {
            for number in 0..20 {
                let client = client.clone();
                tokio::spawn(async move { client.echo::<u64>(number).await });
            }
            tokio::task::yield_now().await;
            let mut kept = client.echo::<u64>(20);
            poll_fn(|context| Poll::Ready(pin!(&mut kept).poll(context).is_pending())).await;
            Some(kept)
        });
        runtime.shutdown_background();
        drop(shut);
        assert_eq!(kept.map(|reply| reply.wait_for(PATIENCE)), Some(Ok(20)));
        assert_eq!(client.echo::<u64>(21).wait_for(PATIENCE), Ok(21));
    }
}

#[test]
fn two_runtimes_and_a_thread_share_a_connection() {
    let client = Client::connect_with(config(serve(echo))).unwrap();
    thread::scope(|scope| {
        for runtime in [runtime(), runtime_of_two()] {
            let client = &client;
            scope.spawn(move || {
                runtime.block_on(async {
                    for _ in 0..5 {
                        ask(client, 2 * HABIT).await;
                        // The other runtime is alone for a while, and may read then.
                        tokio::time::sleep(Duration::from_millis(3)).await;
                    }
                });
            });
        }
        for number in 0..500_u64 {
            assert_eq!(client.echo::<u64>(number).wait_for(PATIENCE), Ok(number));
        }
    });
}

#[test]
fn a_lost_connection_is_made_again_while_a_runtime_reads() {
    let calls = AtomicU64::new(0);
    // The server hangs up amid the calls, again and again.
    let client = Client::connect_with(config(serve(move |words| {
        (!calls.fetch_add(1, Ordering::SeqCst).is_multiple_of(97)).then(|| echo(words))?
    })));
    let client = client.unwrap();
    runtime().block_on(async {
        let mut answered = 0;
        for number in 0..20 * HABIT {
            match client.echo::<u64>(number).await {
                Ok(echoed) => answered += u64::from(echoed == number),
                Err(error) => assert_eq!(error.kind(), sleeve::ErrorKind::Disconnected),
            }
        }
        assert!(answered > 19 * HABIT, "{answered} calls were answered");
    });
}

/// Makes calls and leaves their replies in one of several ways.
async fn ask_and_leave(client: Client, task: u64, calls: u64) {
    for number in 0..calls {
        let own = task << 32 | number;
        let mut reply = pin!(client.echo::<u64>(own));
        match own.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61 {
            0 => _ = poll_fn(|context| Poll::Ready(reply.as_mut().poll(context).is_ready())).await,
            1 => _ = tokio::time::timeout(Duration::ZERO, reply).await,
            2 => {
                tokio::select! {
                    biased;
                    echoed = &mut reply => assert_eq!(echoed, Ok(own)),
                    () = tokio::task::yield_now() => {}
                }
            }
            _ => assert_eq!(reply.await, Ok(own)),
        }
    }
}

#[test]
fn tasks_that_are_cancelled_lose_no_reply_of_others() {
    let calls: u64 = std::env::var("SLEEVE_SOAK_COUNT").map_or(20_000, |count| count.parse().unwrap());
    for runtime in [runtime(), runtime_of_two()] {
        let client = Client::connect_with(config(serve(echo))).unwrap();
        runtime.block_on(async {
            let mut tasks: Vec<_> =
                (0..64).map(|task| tokio::spawn(ask_and_leave(client.clone(), task, calls / 128))).collect();
            // A quarter of the tasks is cancelled amid their calls.
            for task in tasks.drain(..16) {
                tokio::task::yield_now().await;
                task.abort();
            }
            for task in tasks {
                task.await.unwrap();
            }
            ask(&client, HABIT).await;
        });
        let metrics = client.metrics();
        assert!(metrics.iter().all(|metrics| metrics.in_flight == 0 && metrics.queued_bytes == 0), "{metrics:?}");
    }
}
