//! Deadlines of single calls: each holds in every phase of the call, and its error states the call's effect.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{At, Client, Effect, Error, ErrorKind, Reply};

use crate::endless::{in_time, silent};
use crate::scripted::{Requests, config, echo, greet, serve, until};

const LIMIT: Duration = Duration::from_millis(200);

/// Returns a handle with a deadline soon, for calls that begin now.
fn soon(client: &Client) -> (At, Instant) {
    let now = Instant::now();
    (client.at(now + LIMIT), now)
}

/// Checks that the caller got the error with this effect in time.
fn told(error: &Error, since: Instant, effect: Effect, parts: &[&str]) {
    in_time(since, LIMIT);
    assert!(since.elapsed() >= LIMIT, "{:?} is too early", since.elapsed());
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, effect), "{error}");
    for part in parts.iter().chain(&["the time that its caller gave it"]) {
        assert!(error.message().contains(part), "{part:?} is missing: {error}");
    }
}

#[test]
fn while_it_waits_for_a_connection() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let client = Client::open_with(config(port)).unwrap();
    let (at, since) = soon(&client);
    let (first, second) = (at.incr("n"), at.db(2).cmd("INCR").arg("n").send::<i64>());
    let parts = ["INCR was", "waited for a connection", "never sent"];
    told(&first.wait().unwrap_err(), since, Effect::None, &parts);
    told(&second.wait().unwrap_err(), since, Effect::None, &parts);
    // This connection is being made, and never succeeds.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::open_with(config(listener.local_addr().unwrap().port())).unwrap();
    let (at, since) = soon(&client);
    told(&at.incr("n").wait().unwrap_err(), since, Effect::None, &parts);
}

#[test]
fn a_deadline_ends_the_wait_for_a_reply_in_flight() {
    let client = Client::connect_with(config(silent())).unwrap();
    let parts = ["GET was", "waited for its reply", "effect is unknown"];
    let (at, since) = soon(&client);
    told(&at.get::<String>("k").wait().unwrap_err(), since, Effect::Unknown, &parts);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (at, since) = soon(&client);
    told(&runtime.block_on(at.get::<String>("k").into_future()).unwrap_err(), since, Effect::Unknown, &parts);
    let (sender, receiver) = channel();
    let (at, since) = soon(&client);
    at.get::<String>("k").then(move |result| sender.send(result).unwrap());
    told(&receiver.recv_timeout(Duration::from_secs(60)).unwrap().unwrap_err(), since, Effect::Unknown, &parts);
    // Calls with a later deadline, or without one, wait on.
    let (at, since) = soon(&client);
    let (endless, later) = (client.get::<String>("k"), client.at(since + LIMIT * 100).get::<String>("k"));
    told(&at.get::<String>("k").wait().unwrap_err(), since, Effect::Unknown, &parts);
    assert!(!endless.is_ready() && !later.is_ready());
}

#[test]
fn a_deadline_holds_for_a_lone_caller_that_reads_its_replies() {
    let port = serve(|words| if words[1] == "held" { Some(Vec::new()) } else { echo(words) });
    let client = Client::connect_with(config(port)).unwrap();
    for number in 0..100 {
        let (at, _) = (client.at(Instant::now() + LIMIT * 100), number);
        assert_eq!(at.echo::<u64>(number).wait(), Ok(number));
    }
    let (at, since) = soon(&client);
    let error = at.echo::<String>("held").wait().unwrap_err();
    told(&error, since, Effect::Unknown, &["ECHO was", "waited for its reply"]);
}

#[test]
fn behind_a_queue_that_is_full() {
    let config = config(silent()).command_timeout(Some(LIMIT * 5)).queue_bytes_max(1000);
    let client = Client::connect_with(config.silence_max(None)).unwrap();
    let value = "x".repeat(900);
    let _kept: Vec<_> = (0..3).map(|_| client.set("k", &value)).collect();
    let (at, since) = soon(&client);
    let error = at.set("k", &value).wait().unwrap_err();
    told(&error, since, Effect::None, &["SET was never sent", "the queue of unanswered requests was full"]);
}

#[test]
fn a_deadline_holds_behind_a_full_socket_and_nothing_is_sent_later() {
    let (release, released) = channel::<()>();
    let heard: Arc<Mutex<Vec<Vec<String>>>> = Arc::default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let hears = heard.clone();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut requests = Requests::default();
        // After the greeting the server reads nothing until the test tells it to.
        let mut is_greeted = false;
        while requests.receive(&mut stream) {
            while let Some(words) = requests.next() {
                is_greeted |= words[0] == "PING";
                let reply = greet(&words).unwrap_or_else(|| b"+OK\r\n".to_vec());
                hears.lock().unwrap().push(words);
                stream.write_all(&reply).unwrap();
            }
            if std::mem::take(&mut is_greeted) {
                released.recv().unwrap();
            }
        }
        let _ = stream.read(&mut [0]);
    });
    let client = Client::connect_with(config(port).silence_max(None).queue_bytes_max(usize::MAX)).unwrap();
    // The value is larger than the kernel's buffers.
    let large = client.set("large", "x".repeat(32 * 1024 * 1024));
    let before = client.db(3).incr("before");
    let (at, since) = soon(&client);
    let (late, behind) = (at.db(5).incr("late"), client.db(5).incr("behind"));
    told(&late.wait().unwrap_err(), since, Effect::None, &["INCR was", "waited to be sent", "never sent"]);
    release.send(()).unwrap();
    let answered = |reply: Reply<i64>| assert_eq!(reply.wait().unwrap_err().kind(), ErrorKind::Conversion);
    large.wait().unwrap();
    answered(before);
    answered(behind);
    let heard = heard.lock().unwrap();
    let shown: Vec<String> = heard.iter().map(|words| words[..2.min(words.len())].join(" ")).collect();
    let after = shown.iter().position(|words| words == "SET large").unwrap();
    assert_eq!(shown[after + 1..], ["SELECT 3", "INCR before", "SELECT 5", "INCR behind"]);
}

/// Answers BLPOP of `done`, and sends no other reply.
fn one_job(words: &[String]) -> Option<Vec<u8>> {
    Some(if words[1] == "done" { b"*2\r\n$4\r\ndone\r\n$3\r\njob\r\n".to_vec() } else { Vec::new() })
}

#[test]
fn of_a_command_that_waits_on_the_server() {
    let client = Client::connect_with(config(serve(one_job))).unwrap();
    // The command waits on a connection of its own, which exists from now on.
    client.blpop::<(String, String)>("done", Duration::ZERO).wait().unwrap();
    let (at, since) = soon(&client);
    let error = at.blpop::<(String, String)>("jobs", Duration::ZERO).wait().unwrap_err();
    told(&error, since, Effect::Unknown, &["BLPOP was", "waited for its reply"]);
}

#[test]
fn a_deadline_holds_behind_partial_replies() {
    // The server answers SELECT and queued commands, and nothing else.
    let port = serve(|words| match words[0].as_str() {
        "MULTI" => Some(b"+OK\r\n".to_vec()),
        "DECR" => Some(b"+QUEUED\r\n".to_vec()),
        "BLPOP" => one_job(words),
        _ => Some(Vec::new()),
    });
    let parts = ["waited for its reply", "effect is unknown"];
    let client = Client::connect_with(config(port)).unwrap();
    client.blpop::<(String, String)>("done", Duration::ZERO).wait().unwrap();
    let (at, since) = soon(&client);
    let (get, blpop) = (at.db(3).get::<String>("k"), at.db(4).blpop::<(String, String)>("jobs", Duration::ZERO));
    told(&get.wait_for(LIMIT * 40).unwrap_err(), since, Effect::Unknown, &parts);
    told(&blpop.wait_for(LIMIT * 40).unwrap_err(), since, Effect::Unknown, &parts);
    let limited = config(port).command_timeout(Some(LIMIT)).silence_max(None);
    let client = Client::connect_with(limited.clone()).unwrap();
    let is_told = |reply: Reply<i64>, since: Instant| {
        let error = reply.wait_for(LIMIT * 40).unwrap_err();
        in_time(since, LIMIT);
        assert!(error.message().contains("the command timeout"), "{error}");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown), "{error}");
    };
    is_told(client.db(3).incr("n"), Instant::now());
    let client = Client::connect_with(limited).unwrap();
    let (transaction, since) = (client.db(5).transaction(), Instant::now());
    let reply = transaction.decr("n");
    let _outcome = transaction.exec();
    is_told(reply, since);
}

#[test]
#[cfg(feature = "embedded")]
fn in_an_engine_of_this_process() {
    let client = Client::embedded();
    let (at, since) = soon(&client);
    assert_eq!(at.incr("n").wait(), Ok(1));
    let error = at.blpop::<(String, String)>("jobs", Duration::ZERO).wait().unwrap_err();
    told(&error, since, Effect::Unknown, &["BLPOP was"]);
    client.cmd("CLIENT").arg(("PAUSE", 60_000)).send::<()>().wait().unwrap();
    let (at, since) = soon(&client);
    told(&at.incr("n").wait().unwrap_err(), since, Effect::Unknown, &["INCR was"]);
    // The engine answers SELECT, and not the command behind it.
    let client = Client::embedded();
    let (at, since) = soon(&client);
    let error = at.db(3).blpop::<(String, String)>("jobs", Duration::ZERO).wait_for(LIMIT * 40).unwrap_err();
    told(&error, since, Effect::Unknown, &["BLPOP was"]);
    let client = Client::embedded();
    client.cmd("CLIENT").arg(("PAUSE", 60_000, "WRITE")).send::<()>().wait().unwrap();
    let (at, since) = soon(&client);
    told(&at.db(3).incr("n").wait_for(LIMIT * 40).unwrap_err(), since, Effect::Unknown, &["INCR was"]);
}

#[test]
fn closing_does_not_wait_for_timed_out_calls() {
    let clients = [
        Client::connect_with(config(silent()).silence_max(None).command_timeout(None)).unwrap(),
        #[cfg(feature = "embedded")]
        Client::embedded(),
    ];
    for client in clients {
        // This holds up the embedded engine; the silent server answers nothing anyway.
        let pause = client.cmd("CLIENT").arg(("PAUSE", 60_000, "ALL")).send::<()>();
        drop(pause.wait());
        let (at, _) = soon(&client);
        assert_eq!(at.get::<String>("k").wait().unwrap_err().kind(), ErrorKind::Timeout);
        let since = Instant::now();
        client.close(LIMIT * 100).unwrap();
        in_time(since, Duration::ZERO);
    }
}

#[test]
fn a_passed_deadline_sends_nothing_and_the_command_timeout_holds_too() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let hears = heard.clone();
    let port = serve(move |words| {
        hears.lock().unwrap().push(words[0].clone());
        Some(Vec::new())
    });
    let client = Client::connect_with(config(port).command_timeout(Some(LIMIT))).unwrap();
    let error = client.at(Instant::now()).incr("n").wait().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::None), "{error}");
    let since = Instant::now();
    let error = client.at(since + LIMIT * 100).get::<String>("k").wait().unwrap_err();
    in_time(since, LIMIT);
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown), "{error}");
    until("the other was sent", || heard.lock().unwrap().contains(&"GET".to_owned()));
    assert!(!heard.lock().unwrap().contains(&"INCR".to_owned()));
}
