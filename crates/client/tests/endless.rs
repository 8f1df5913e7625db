//! Every wait ends: every time limit of a client holds in every phase of its life.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::scripted::{Requests, SLACK, begins, config, echo, greet, serve, serve_all, until};
use sleeve::prelude::*;
use sleeve::{Client, Config, Effect, Endpoint, Error, ErrorKind, SubscriptionEvent};

const LIMIT: Duration = Duration::from_millis(400);

/// Asserts that the time since then is within the limit, with tolerance for a busy machine.
pub fn in_time(since: Instant, limit: Duration) {
    let elapsed = since.elapsed();
    assert!(elapsed < limit.mul_f64(1.15) + SLACK, "{elapsed:?} instead of {limit:?}");
}

fn timed_out(error: &Error, effect: Effect) {
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, effect), "{error}");
}

/// Starts a server that greets and then sends nothing.
pub fn silent() -> u16 {
    serve(|_| Some(Vec::new()))
}

#[test]
fn a_full_queue_to_a_silent_server_blocks_for_at_most_the_timeout() {
    let config = config(silent()).command_timeout(Some(LIMIT)).queue_bytes_max(10_000).silence_max(None);
    let client = Client::connect_with(config).unwrap();
    let value = "x".repeat(1000);
    let since = Instant::now();
    let replies: Vec<_> = (0..15).map(|_| client.set("k", &value)).collect();
    client.set("k", &value).forget();
    drop(client.set("k", &value));
    in_time(since, LIMIT * 2);
    for reply in replies {
        timed_out(&reply.wait().unwrap_err(), Effect::Unknown);
    }
    // Callers that keep their replies wait in the call when they keep too many.
    let since = Instant::now();
    let mut replies: Vec<_> = (0..24).map(|_| client.set("k", &value)).collect();
    in_time(since, LIMIT * 24);
    timed_out(&replies.pop().unwrap().wait().unwrap_err(), Effect::None);
}

#[tokio::test]
async fn batches_on_a_thread_that_runs_tasks_are_bounded_as_well() {
    let config = config(silent()).command_timeout(Some(LIMIT)).queue_bytes_max(10_000).silence_max(None);
    let client = Client::connect_with(config).unwrap();
    let value = "x".repeat(1000);
    // Once a reply beyond the bound was awaited, the client knows that the thread runs async tasks.
    let mut replies: Vec<_> = (0..12).map(|_| client.set("k", &value)).collect();
    replies.pop().unwrap().await.unwrap_err();
    for _ in 0..100 {
        let batch = client.batch();
        batch.set("k", &value).forget();
        batch.send();
        let queued = client.metrics().remove(0).queued_bytes;
        assert!(queued <= 2 * 10_000 + 2_000, "{queued} bytes are queued");
    }
}

#[tokio::test]
async fn waiting_for_room_is_a_future_in_async_code() {
    let config = config(silent()).command_timeout(Some(LIMIT)).queue_bytes_max(10_000);
    let client = Client::connect_with(config).unwrap();
    let ticks = Arc::new(AtomicUsize::new(0));
    let counted = ticks.clone();
    let ticking = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let value = "x".repeat(1000);
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let (client, value) = (client.clone(), value.clone());
            tokio::spawn(async move { client.set("k", &value).await.unwrap_err() })
        })
        .collect();
    let since = Instant::now();
    // The first pass through all tasks ends before any timeout: if a task had blocked the thread, the runtime could not have
    // come back here.
    tokio::task::yield_now().await;
    for task in tasks {
        assert_eq!(task.await.unwrap().kind(), ErrorKind::Timeout);
    }
    in_time(since, LIMIT);
    assert!(ticks.load(Ordering::Relaxed) > 3, "the runtime's thread was held up");
    ticking.abort();
}

#[test]
fn requests_behind_a_full_socket_time_out_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (done, release) = std::sync::mpsc::channel::<()>();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let greeting =
            b"%1\r\n+mode\r\n+standalone\r\n+OK\r\n+OK\r\n-ERR\r\n%1\r\n$9\r\ndatabases\r\n$2\r\n16\r\n+OK\r\n+PONG\r\n";
        stream.write_all(greeting).unwrap();
        // The server reads the greeting and nothing more until the test is over.
        let _ = stream.read(&mut [0; 1000]);
        let _ = release.recv();
    });
    let client = Client::connect_with(config(port).command_timeout(Some(LIMIT)).silence_max(None)).unwrap();
    let value = "x".repeat(1 << 20);
    let since = Instant::now();
    let mut replies: Vec<_> = (0..40).map(|_| client.set("k", &value)).collect();
    let last = replies.pop().unwrap().wait_for(Duration::from_secs(60)).unwrap_err();
    in_time(since, LIMIT);
    timed_out(&last, Effect::None);
    drop(done);
}

#[test]
fn waiting_for_an_unsent_request_is_an_error_at_once() {
    let client = Client::connect_with(config(serve(echo))).unwrap();
    let batch = client.batch();
    let (reply, other) = (batch.echo::<String>("a"), batch.echo::<String>("b"));
    let error = reply.wait().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Usage, Effect::None), "{error}");
    let (sender, called) = std::sync::mpsc::channel();
    batch.echo::<String>("c").then(move |result| sender.send(result).unwrap());
    batch.send();
    assert_eq!(
        (other.wait(), called.recv_timeout(Duration::from_secs(60)).unwrap()),
        (Ok("b".to_owned()), Ok("c".to_owned()))
    );
    let again = batch.echo::<String>("d");
    assert_eq!(again.wait().unwrap_err().kind(), ErrorKind::Usage);
    batch.send();
    let transaction = client.transaction();
    let reply = transaction.echo::<String>("a");
    assert_eq!(reply.wait().unwrap_err().kind(), ErrorKind::Usage);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let reply = transaction.echo::<String>("a");
    assert_eq!(runtime.block_on(reply).unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn a_subscription_that_is_never_confirmed_fails() {
    let client = Client::connect_with(config(silent()).connect_timeout(LIMIT)).unwrap();
    let since = Instant::now();
    let error = client.subscribe(["news"]).map(drop).unwrap_err();
    in_time(since, LIMIT);
    assert_eq!(error.kind(), ErrorKind::Connect);
}

#[test]
fn a_unix_socket_whose_queue_is_full_fails_in_time() {
    let folder = std::env::temp_dir().join(format!("sleeve-full-queue-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("socket");
    let listener =
        rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &rustix::net::SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _waiting = UnixStream::connect(&path).unwrap();
    let client = Config::new(Endpoint::Unix(path)).connect_timeout(LIMIT);
    let since = Instant::now();
    let connecting = thread::spawn(move || Client::connect_with(client).map(drop).unwrap_err());
    until("the attempt ends", || connecting.is_finished());
    in_time(since, LIMIT);
    assert_eq!(connecting.join().unwrap().kind(), ErrorKind::Connect);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn commands_have_their_own_time_while_a_connection_is_being_made() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = config(port).connect_timeout(Duration::from_secs(30)).command_timeout(Some(LIMIT));
    let client = Client::open_with(config).unwrap();
    let since = Instant::now();
    let error = client.db(3).incr("n").wait().unwrap_err();
    in_time(since, LIMIT);
    timed_out(&error, Effect::None);
}

#[test]
fn times_beyond_all_counting_are_as_good_as_none() {
    let endless = config(serve(echo))
        .connect_timeout(Duration::MAX)
        .command_timeout(Some(Duration::MAX))
        .silence_max(Some(Duration::MAX))
        .backoff(Duration::from_millis(1), Duration::MAX)
        .queue_bytes_max(usize::MAX);
    let client = Client::connect_with(endless).unwrap();
    assert_eq!(client.echo::<String>("a").wait_for(Duration::MAX).unwrap(), "a");
    let idle = client.lease().unwrap();
    assert_eq!(idle.echo::<String>("b").wait().unwrap(), "b");
    client.close(Duration::MAX).unwrap();
    let url =
        "connect_timeout=18446744073709551615s&command_timeout=18446744073709551615m&backoff_max=18446744073709551615s";
    let url = format!("redis://127.0.0.1:{}?{url}", serve(echo));
    assert_eq!(Client::connect(&url).unwrap().echo::<String>("c").wait().unwrap(), "c");
    // After a failed attempt there is a pause of half that time, and the thread lives on.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let pausing = config(nobody).backoff(Duration::MAX, Duration::MAX).command_timeout(Some(LIMIT));
    timed_out(&Client::open_with(pausing).unwrap().incr("n").wait().unwrap_err(), Effect::None);
}

/// A waker that panics when it wakes a task.
struct Panicking(AtomicBool);

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
        panic!("this waker panics on purpose");
    }
}

#[test]
fn a_waker_that_panics_leaves_no_caller_hanging() {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let receiver = Mutex::new(receiver);
    let port = serve(move |words| {
        if words[1] == "held" {
            receiver.lock().unwrap().recv().unwrap();
        }
        echo(words)
    });
    let client = Client::connect_with(config(port)).unwrap();
    let panicking = Arc::new(Panicking(AtomicBool::new(false)));
    let waker = Waker::from(panicking.clone());
    let mut held = pin!(client.echo::<String>("held"));
    // The second poll registers the waker, even if the first one does not.
    let poll = |reply: &mut std::pin::Pin<&mut sleeve::Reply<String>>| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            reply.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()
        }))
    };
    assert!(poll(&mut held).unwrap_or(true) && poll(&mut held).unwrap_or(true));
    let behind = client.echo::<String>("behind");
    sender.send(()).unwrap();
    assert_eq!(behind.wait_for(Duration::from_secs(60)).unwrap(), "behind");
    until("the waker is called", || panicking.0.load(Ordering::SeqCst));
    assert_eq!(client.echo::<String>("after").wait_for(Duration::from_secs(60)).unwrap(), "after");
}

#[test]
fn a_server_that_loads_its_data_is_not_there_yet() {
    let loads = AtomicUsize::new(20);
    let port = serve_all(move |words| {
        let is_loading = loads.load(Ordering::SeqCst) > 0;
        match words[0].as_str() {
            "PING" if is_loading => {
                loads.fetch_sub(1, Ordering::SeqCst);
                Some(b"-LOADING Redis is loading the dataset in memory\r\n".to_vec())
            }
            "ECHO" if is_loading => Some(b"-LOADING Redis is loading the dataset in memory\r\n".to_vec()),
            _ => greet(words).or_else(|| echo(words)),
        }
    });
    let client = Client::open_with(config(port)).unwrap();
    for number in 0..100 {
        assert_eq!(client.echo::<u32>(number).wait(), Ok(number));
    }
}

#[test]
fn a_subscription_survives_a_password_that_is_refused_for_a_while() {
    let (cut, refusals) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (cutting, refusing) = (cut.clone(), refusals.clone());
    let port = serve_all(move |words| match words[0].as_str() {
        "HELLO" if refusing.load(Ordering::SeqCst) > 0 => {
            refusing.fetch_sub(1, Ordering::SeqCst);
            Some(b"-WRONGPASS invalid username-password pair or user is disabled.\r\n".to_vec())
        }
        "PING" if cutting.swap(false, Ordering::SeqCst) => None,
        "SUBSCRIBE" => {
            Some(b">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n>3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n".to_vec())
        }
        _ => greet(words),
    });
    // An idle subscription asks whether the server is still there, and so it is cut here.
    let client = Client::connect_with(config(port).silence_max(Some(Duration::from_millis(100)))).unwrap();
    let subscription = client.subscribe(["a"]).unwrap();
    let next = || subscription.recv().wait_for(Duration::from_secs(60)).unwrap().expect("it comes");
    assert!(matches!(next(), SubscriptionEvent::Message(_)));
    drop(client);
    refusals.store(5, Ordering::SeqCst);
    cut.store(true, Ordering::SeqCst);
    assert_eq!(next(), SubscriptionEvent::Resumed);
    assert!(matches!(next(), SubscriptionEvent::Message(_)));
    assert_eq!(refusals.load(Ordering::SeqCst), 0);
}

/// Starts a server that can be stopped, as by a signal, and continued: while it is stopped, connections are made, and
/// requests are kept to be answered later.
pub fn stoppable() -> (u16, Arc<AtomicBool>, Arc<AtomicUsize>) {
    let (stopped, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (is_stopped, ends) = (stopped.clone(), ended.clone());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, is_stopped, ends) = (stream.unwrap(), is_stopped.clone(), ends.clone());
            thread::spawn(move || {
                answer_unless(stream, &is_stopped);
                ends.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    (port, stopped, ended)
}

/// Answers requests in their order until the client hangs up. Requests that arrive while the server is stopped are answered
/// when it continues.
fn answer_unless(mut stream: TcpStream, is_stopped: &AtomicBool) {
    let mut requests = Requests::default();
    loop {
        while !is_stopped.load(Ordering::SeqCst)
            && let Some(words) = requests.next()
        {
            let reply = greet(&words).or_else(|| echo(&words)).unwrap();
            if stream.write_all(&reply).is_err() {
                return;
            }
        }
        // The server is not notified when it is to continue, so it checks at intervals.
        let look = requests.is_waiting().then_some(Duration::from_millis(1));
        stream.set_read_timeout(look).unwrap();
        if !requests.receive(&mut stream) {
            return;
        }
    }
}

#[test]
fn a_server_that_has_stopped_is_noticed_with_a_command_in_flight() {
    let (port, stopped, _) = stoppable();
    let client = Client::connect_with(config(port).silence_max(Some(LIMIT))).unwrap();
    assert_eq!(client.echo::<String>("x").wait().unwrap(), "x");
    stopped.store(true, Ordering::SeqCst);
    let since = Instant::now();
    let error = client.echo::<String>("x").wait_for(Duration::from_secs(60)).unwrap_err();
    in_time(since, LIMIT);
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Disconnected, Effect::Unknown), "{error}");
    assert!(error.message().contains("another connection"), "{error}");
    stopped.store(false, Ordering::SeqCst);
    assert_eq!(client.echo::<String>("x").wait().unwrap(), "x");
}

#[test]
fn a_server_that_has_stopped_is_noticed_with_nothing_in_flight() {
    let (port, stopped, ended) = stoppable();
    let client = Client::connect_with(config(port).silence_max(Some(LIMIT))).unwrap();
    assert_eq!(client.echo::<String>("x").wait().unwrap(), "x");
    let before = ended.load(Ordering::SeqCst);
    stopped.store(true, Ordering::SeqCst);
    let since = Instant::now();
    until("the connection is given up", || ended.load(Ordering::SeqCst) > before);
    in_time(since, LIMIT * 2);
}

#[test]
fn a_server_that_is_busy_for_long_is_left_alone() {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let receiver = Mutex::new(receiver);
    let (asked, greetings) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (asks, greets) = (asked.clone(), greetings.clone());
    let port = serve_all(move |words| match words[0].as_str() {
        "EVAL" => {
            receiver.lock().unwrap().recv().unwrap();
            echo(words)
        }
        "ECHO" => {
            asks.fetch_add(1, Ordering::SeqCst);
            Some(b"-BUSY Redis is busy running a script.\r\n".to_vec())
        }
        _ if begins(words) => {
            greets.fetch_add(1, Ordering::SeqCst);
            greet(words)
        }
        _ => greet(words).or_else(|| echo(words)),
    });
    let client = Client::connect_with(config(port).silence_max(Some(Duration::from_secs(2)))).unwrap();
    let long = client.cmd("EVAL").arg("long").send::<String>();
    until("the server is asked again and again", || asked.load(Ordering::SeqCst) > 2);
    assert!(!long.is_ready());
    sender.send(()).unwrap();
    assert_eq!(long.wait().unwrap(), "long");
    assert_eq!(greetings.load(Ordering::SeqCst), 1, "its connection was kept");
}

#[test]
fn a_dropped_client_of_a_silent_server_leaves_its_socket() {
    let (port, stopped, ended) = stoppable();
    let client = Client::connect_with(config(port).command_timeout(Some(LIMIT)).silence_max(None)).unwrap();
    stopped.store(true, Ordering::SeqCst);
    client.echo::<String>("x").forget();
    drop(client);
    until("the socket is closed", || ended.load(Ordering::SeqCst) == 1);
    // This client's commands have no timeout, and no caller waits for their answers.
    stopped.store(false, Ordering::SeqCst);
    let client = Client::connect_with(config(port).command_timeout(None).silence_max(None)).unwrap();
    stopped.store(true, Ordering::SeqCst);
    client.echo::<String>("x").forget();
    drop(client);
    until("the socket is closed", || ended.load(Ordering::SeqCst) == 2);
    // This client is still being greeted.
    let client = Client::open_with(config(port).connect_timeout(Duration::MAX)).unwrap();
    drop(client);
    until("the socket is closed", || ended.load(Ordering::SeqCst) == 3);
}

#[tokio::test]
async fn a_task_that_polls_once_more_hears_its_answer() {
    let client = Client::connect_with(config(serve(echo))).unwrap();
    let mut first = client.echo::<String>("1");
    let mut second = client.echo::<String>("2");
    let (mut one, mut two) = (None, None);
    poll_fn(|context| {
        if one.is_none()
            && let Poll::Ready(answer) = pin!(&mut first).poll(context)
        {
            one = Some(answer.unwrap());
        }
        if two.is_none()
            && let Poll::Ready(answer) = pin!(&mut second).poll(context)
        {
            two = Some(answer.unwrap());
        }
        if one.is_some() && two.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    assert_eq!((one.as_deref(), two.as_deref()), (Some("1"), Some("2")));
}
