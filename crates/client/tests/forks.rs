//! Forks: a child has its parent's memory and none of its threads, and must not touch its parent's connections.
//!
//! The test forks for real, in a process of its own, while threads of the parent are at work. Every use of an inherited
//! handle in the child fails with an error that says why; handles that the child makes for itself work fully; and no answer
//! goes to a wrong caller.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::nodes::{Nodes, always};
use crate::scripted::{config, echo, serve};
use sleeve::prelude::*;
use sleeve::{Client, CoalesceOptions, Coalescing, ErrorKind, Subscription};

/// The variable that makes this process the one that forks.
const FORKING: &str = "SLEEVE_TEST_FORKING";

/// The longest time that a child may take.
const PATIENCE: Duration = Duration::from_secs(120);

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn kill(process: i32, signal: i32) -> i32;
    fn _exit(status: i32) -> !;
}

/// Runs `work` in a forked child, and waits until the child has ended well.
fn in_child(work: impl FnOnce()) {
    // SAFETY: the child does only things that a child may do: it works in this thread and ends without a look back.
    let child = unsafe { fork() };
    if child == 0 {
        let outcome = catch_unwind(AssertUnwindSafe(work));
        // SAFETY: it ends the child at once, without running the handlers that the parent left to be run at its end.
        unsafe { _exit(if outcome.is_ok() { 0 } else { 1 }) };
    }
    assert!(child > 0, "no fork");
    let (mut status, since) = (0, Instant::now());
    // SAFETY: the child is our own, and the status is a number of ours; 1 is WNOHANG.
    while unsafe { waitpid(child, &mut status, 1) } == 0 {
        if since.elapsed() > PATIENCE {
            // SAFETY: as above, and the child has not been waited for, so its number is still its own.
            unsafe { kill(child, 9) };
            panic!("the child hangs");
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status, 0, "the child has failed");
}

/// Starts a server that answers ECHO, confirms subscriptions, and never answers GET.
fn serve_everything() -> u16 {
    serve(|words| match words[0].as_str() {
        "GET" => Some(Vec::new()),
        "SUBSCRIBE" => Some(b">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n".to_vec()),
        _ => echo(words),
    })
}

/// Uses, in a child, the handles that its parent has made, and checks the errors.
fn use_what_is_inherited(
    client: &Client,
    pending: sleeve::Reply<String>,
    subscription: &Subscription,
    coalescing: &Coalescing,
) {
    for error in [
        client.echo::<String>("child").wait().unwrap_err(),
        client.db(3).incr("child").wait().unwrap_err(),
        coalescing.set("child", 1).wait().unwrap_err(),
        client.coalescing().set("child", 1).wait().unwrap_err(),
        client.blpop::<(String, String)>("child", Duration::ZERO).wait().unwrap_err(),
        client.transaction().exec().wait().unwrap_err(),
        client.lease().map(drop).unwrap_err(),
        client.subscribe(["child"]).map(drop).unwrap_err(),
        client.close(Duration::from_secs(1)).unwrap_err(),
        subscription.recv().wait().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        assert!(error.message().contains("forked"), "{error}");
    }
    assert!(client.metrics().is_empty());
    coalescing.flush();
    drop(coalescing.clone());
    let batch = client.batch();
    let reply = batch.echo::<String>("child");
    batch.send();
    assert_eq!(reply.wait().unwrap_err().kind(), ErrorKind::Closed);
    let error = pending.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Disconnected, "{error}");
}

/// Checks that a fresh client in the child works fully.
fn use_a_fresh_one(port: u16) {
    let client = Client::connect_with(config(port)).unwrap();
    let replies: Vec<_> = (0..100_u64).map(|number| client.echo::<u64>(number)).collect();
    for (number, reply) in (0..).zip(replies) {
        assert_eq!(reply.wait(), Ok(number));
    }
    let (sender, called) = std::sync::mpsc::channel();
    client.echo::<u64>(7).then(move |answer| sender.send(answer).unwrap());
    assert_eq!(called.recv_timeout(PATIENCE), Ok(Ok(7)));
    let subscription = client.subscribe(["child"]).unwrap();
    drop(subscription);
    client.close(PATIENCE).unwrap();
}

/// Runs this test in a process of its own, unless this process is that one. Returns whether it did.
fn runs_elsewhere(test: &str) -> bool {
    if std::env::var_os(FORKING).is_some() {
        return false;
    }
    let program = std::env::current_exe().unwrap();
    let status = Command::new(program).args(["--exact", test, "--nocapture"]).env(FORKING, "yes").status().unwrap();
    assert!(status.success());
    true
}

#[test]
fn a_child_leaves_its_parents_cluster_alone() {
    if runs_elsewhere("forks::a_child_leaves_its_parents_cluster_alone") {
        return;
    }
    let nodes = Nodes::start(vec![always("$1\r\nx\r\n")]);
    let client = nodes.connect();
    assert_eq!(client.get::<String>("k").wait().as_deref(), Ok("x"));
    assert_eq!(client.metrics().len(), 1);
    in_child(|| {
        assert!(client.metrics().is_empty());
        let error = client.get::<String>("k").wait().unwrap_err();
        assert!(error.message().contains("forked"), "{error}");
        let fresh = nodes.connect();
        assert_eq!(fresh.get::<String>("k").wait().as_deref(), Ok("x"));
    });
    assert_eq!(client.get::<String>("k").wait().as_deref(), Ok("x"));
}

#[test]
#[cfg(feature = "tokio")]
fn a_child_leaves_a_connection_alone_that_its_parents_runtime_reads() {
    if runs_elsewhere("forks::a_child_leaves_a_connection_alone_that_its_parents_runtime_reads") {
        return;
    }
    async fn ask(client: &Client) {
        for number in 0..100 {
            assert_eq!(client.echo::<u64>(number).await, Ok(number));
        }
    }
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let port = serve_everything();
    let client = Client::connect_with(config(port)).unwrap();
    let own = runtime();
    for _ in 0..5 {
        own.block_on(ask(&client));
        in_child(|| {
            runtime().block_on(async {
                let error = client.echo::<u64>(1).await.unwrap_err();
                assert!(error.message().contains("forked"), "{error}");
                ask(&Client::connect_with(config(port)).unwrap()).await;
            });
            drop(client.clone());
        });
        own.block_on(ask(&client));
    }
}

#[test]
fn a_child_leaves_its_parents_connections_alone() {
    if runs_elsewhere("forks::a_child_leaves_its_parents_connections_alone") {
        return;
    }
    let forks: u64 = std::env::var("SLEEVE_SOAK_COUNT").map_or(50, |count| count.parse().unwrap());
    let port = serve_everything();
    let client = Client::connect_with(config(port)).unwrap();
    let subscription = client.subscribe(["a"]).unwrap();
    // The callback thread is started first, as in a program that forks.
    let (sender, called) = std::sync::mpsc::channel();
    client.echo::<u64>(1).then(move |answer| sender.send(answer).unwrap());
    assert_eq!(called.recv_timeout(PATIENCE), Ok(Ok(1)));
    let (ended, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let callers: Vec<_> = (0..3_u64)
        .map(|caller| {
            let (client, ended, answered) = (client.clone(), ended.clone(), answered.clone());
            thread::spawn(move || {
                let mut number = caller << 40;
                while !ended.load(Ordering::Relaxed) {
                    number += 1;
                    assert_eq!(client.echo::<u64>(number).wait(), Ok(number), "another's answer");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let silent = Client::connect_with(config(port)).unwrap();
    for _ in 0..forks {
        let pending = silent.get::<String>("k");
        let coalescing = client.coalescing_with(CoalesceOptions::new().delay(Duration::from_secs(3600)));
        let gathered = coalescing.hget::<String>("gathered", "f");
        // No output may be in progress in a process that forks: the lock on it would stay taken in the child.
        in_child(|| {
            use_what_is_inherited(&client, pending, &subscription, &coalescing);
            drop((client.clone(), coalescing));
            use_a_fresh_one(port);
        });
        assert_eq!(gathered.wait().as_deref(), Ok("gathered"));
        let before = answered.load(Ordering::Relaxed);
        crate::scripted::until("the parent goes on", || answered.load(Ordering::Relaxed) > before + 10);
    }
    ended.store(true, Ordering::Relaxed);
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    // The parent of a grandchild is a child itself, and the same rules hold.
    in_child(|| {
        let client = Client::connect_with(config(port)).unwrap();
        let subscription = client.subscribe(["a"]).unwrap();
        // This client has a connection of its own, because the server never answers on it.
        let silent = Client::connect_with(config(port)).unwrap();
        let pending = silent.get::<String>("k");
        in_child(|| {
            use_what_is_inherited(&client, pending, &subscription, &client.coalescing());
            use_a_fresh_one(port);
        });
        assert_eq!(client.echo::<u64>(3).wait(), Ok(3));
    });
}
