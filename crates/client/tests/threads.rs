//! The threads and sockets of dropped clients: none is left, however silent the server is.
//!
//! They are counted in a process of its own, in which no other test has any.

use std::future::{Future, poll_fn};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use crate::changes::serve_once;
use crate::scripted::{config, echo, serve, until};
use sleeve::Client;
use sleeve::prelude::*;

/// The variable that makes this process the one that counts.
const COUNTING: &str = "SLEEVE_TEST_COUNTING_THREADS";

/// Returns the number of the client's threads in this process, without the callback thread, which stays for the next client.
fn threads() -> usize {
    thread_names().len()
}

fn thread_names() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("sleeve-") && !name.starts_with("sleeve-callback")).collect()
}

/// Returns the number of this process's open descriptors, and the number of sockets among them.
fn descriptors() -> (usize, usize) {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets: Vec<_> = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok()).collect();
    (targets.len(), targets.iter().filter(|target| target.to_string_lossy().starts_with("socket:")).count())
}

/// Returns the number of this process's open sockets.
fn sockets() -> usize {
    descriptors().1
}

/// Returns whether this process is the one that counts. If not, that process is started, and has ended when this returns.
fn is_counting(test: &str) -> bool {
    if std::env::var_os(COUNTING).is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    // The counting process has both ends of each connection, more descriptors than the usual limit.
    let status = Command::new("sh")
        .args(["-c", r#"ulimit -n 4096 && exec "$0" "$@""#])
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .env(COUNTING, "yes")
        .status();
    let status = status.unwrap();
    assert!(status.success());
    false
}

#[test]
fn nothing_is_left_of_dropped_clients() {
    if !is_counting("threads::nothing_is_left_of_dropped_clients") {
        return;
    }
    let port = serve(|_| Some(Vec::new()));
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let once = serve_once(Arc::clone(&told));
    // Only the two listeners are open.
    let before = sockets();
    a_client_of_a_silent_server(port);
    a_subscription_whose_change_is_under_way(once, &told);
    until("no thread is left", || threads() == 0);
    // The server closes its end of each connection when it has noticed that the client's is closed.
    until("no socket is left", || sockets() <= before);
}

/// Drops a client with unanswered calls: commands in flight, a command that waits, a forgotten one, and a lease.
fn a_client_of_a_silent_server(port: u16) {
    let before = sockets();
    let config = config(port).silence_max(Some(Duration::from_millis(500)));
    let client = Client::connect_with(config).unwrap();
    let (reply, waiting) = (client.get::<String>("k"), client.blpop::<(String, String)>("k", Duration::ZERO));
    client.set("k", 1).forget();
    let lease = client.lease().unwrap();
    let watching = lease.watch("k");
    // Both ends of each connection are in this process; the connections share a thread.
    until("all are on their way", || sockets() == before + 6);
    assert_eq!(threads(), 1);
    drop((reply, waiting, watching, lease, client));
}

fn a_subscription_whose_change_is_under_way(port: u16, told: &Mutex<Vec<String>>) {
    let patient = config(port).connect_timeout(Duration::MAX);
    let client = Client::connect_with(patient).unwrap();
    let subscription = client.subscribe("a").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut adding = Box::pin(subscription.subscribe_async("b"));
        let ready = poll_fn(|context| Poll::Ready(adding.as_mut().poll(context).is_ready())).await;
        assert!(!ready);
    });
    until("the change is under way", || told.lock().unwrap().len() == 2);
}

#[test]
fn waiting_in_async_code_takes_no_thread() {
    if !is_counting("threads::waiting_in_async_code_takes_no_thread") {
        return;
    }
    // The listener does not accept the connections that the kernel has made.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let unheard = config(listener.local_addr().unwrap().port()).connect_timeout(Duration::MAX);
    let is_under_way = |future: std::pin::Pin<&mut dyn Future<Output = bool>>| {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(future.poll(&mut context).is_pending());
        until("a thread is there", || threads() > 0);
        assert_eq!(thread_names(), ["sleeve-io\n"]);
    };
    let connecting = Client::connect_with_async(unheard);
    is_under_way(std::pin::pin!(async { connecting.await.is_ok() }).as_mut());
    until("nothing is left of it", || threads() == 0);
    let silent = config(serve(|_| Some(Vec::new())));
    let client = Client::connect_with(silent.silence_max(None)).unwrap();
    is_under_way(std::pin::pin!(async { client.subscribe_async("a").await.is_ok() }).as_mut());
    let reply = client.get::<String>("k");
    is_under_way(std::pin::pin!(async { client.close_async(Duration::MAX).await.is_ok() }).as_mut());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let closing = runtime.block_on(client.close_async(Duration::from_millis(100)));
    assert_eq!(closing.unwrap_err().kind(), sleeve::ErrorKind::Timeout);
    drop((reply, client));
    until("nothing is left", || threads() == 0);
}

/// Returns the number of times that the reactor's thread has slept.
fn sleeps() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let is_reactor = |task: &std::path::PathBuf| std::fs::read_to_string(task.join("comm")).unwrap() == "sleeve-io\n";
    let status = std::fs::read_to_string(tasks.into_iter().find(is_reactor).unwrap().join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn a_lone_caller_reads_its_replies_and_wakes_no_other_thread() {
    if !is_counting("threads::a_lone_caller_reads_its_replies_and_wakes_no_other_thread") {
        return;
    }
    let client = Client::connect_with(config(serve(echo))).unwrap();
    let call = |number: u64| assert_eq!(client.echo::<u64>(number).wait(), Ok(number));
    (0..200).for_each(call);
    let before = sleeps();
    (0..1000).for_each(call);
    let slept = sleeps() - before;
    assert!(slept < 300, "the reactor slept {slept} times while a thread made a thousand calls");
}

/// The number of commands that wait at the same time.
#[cfg(feature = "embedded")]
const WAITING: usize = 1000;

#[test]
#[cfg(feature = "embedded")]
fn commands_that_wait_share_a_thread_and_cost_a_descriptor_each() {
    if !is_counting("threads::commands_that_wait_share_a_thread_and_cost_a_descriptor_each") {
        return;
    }
    let engine = Client::embedded();
    let address = engine.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    // The client connects by a host name, so that each connection looks it up.
    let client = Client::connect(&format!("redis://localhost:{}", address.port())).unwrap();
    let (before, before_sockets) = descriptors();
    let jobs: Vec<_> = (0..WAITING).map(|_| client.blpop::<(String, usize)>("jobs", Duration::ZERO)).collect();
    let blocked = format!("blocked_clients:{WAITING}\r\n");
    until("all of them wait", || engine.cmd("INFO").arg("clients").send::<String>().wait().unwrap().contains(&blocked));
    assert!(threads() <= 2, "{} threads", threads());
    // Both ends of each connection are in this process.
    let (after, after_sockets) = descriptors();
    assert_eq!(after_sockets - before_sockets, 2 * WAITING);
    assert!(after - before <= 2 * WAITING + 10, "{} descriptors", after - before);
    engine.rpush("jobs", (0..WAITING).collect::<Vec<_>>()).wait().unwrap();
    let mut done: Vec<usize> = jobs.into_iter().map(|job| job.wait().unwrap().1).collect();
    done.sort_unstable();
    assert_eq!(done, (0..WAITING).collect::<Vec<_>>());
}
