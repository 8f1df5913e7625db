//! Servers that misbehave: silent, late, talkative, gone. No caller hangs, and each gets an error with the known facts.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::scripted::{begins, config, echo, greet, serve, serve_all};
use sleeve::prelude::*;
use sleeve::{Client, Effect, ErrorKind, QueueFull};

#[test]
fn a_command_that_is_not_answered_in_time_fails_with_an_unknown_effect() {
    let port = serve(|words| if words[0] == "GET" { Some(Vec::new()) } else { echo(words) });
    let client = Client::connect_with(config(port).command_timeout(Some(Duration::from_millis(80)))).unwrap();
    let (sender, receiver) = channel();
    client.get::<String>("k").then(move |result| sender.send(result).unwrap());
    let errors = [
        client.get::<String>("k").wait().unwrap_err(),
        receiver.recv_timeout(Duration::from_secs(60)).unwrap().unwrap_err(),
    ];
    for error in errors {
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown));
    }
    let error = client.echo::<String>("behind it").wait_for(Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[test]
fn a_late_reply_goes_to_no_other_caller() {
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    let port = serve(move |words| {
        if words[1] == "slow" {
            // The answer is sent when the client has given up, however long that takes.
            receiver.lock().unwrap().recv().unwrap();
        }
        echo(words)
    });
    let client = Client::connect_with(config(port).command_timeout(Some(Duration::from_millis(60)))).unwrap();
    assert_eq!(client.echo::<String>("slow").wait().unwrap_err().kind(), ErrorKind::Timeout);
    sender.send(()).unwrap();
    let answer = loop {
        match client.echo::<String>("quick").wait() {
            Ok(answer) => break answer,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout),
        }
    };
    assert_eq!(answer, "quick");
}

#[test]
fn a_command_for_a_server_that_never_comes_times_out_unsent() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let client = Client::open_with(config(port).command_timeout(Some(Duration::from_millis(50)))).unwrap();
    let error = client.db(3).incr("n").wait().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::None));
}

#[test]
fn a_server_that_accepts_and_says_nothing_fails_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let error = Client::connect_with(config(port).connect_timeout(Duration::from_millis(50))).map(drop).unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Connect, Effect::None));
}

#[test]
fn a_full_queue_fails_or_waits() {
    let port = serve(|words| if words[0] == "SET" { Some(Vec::new()) } else { echo(words) });
    // Nine commands fit, with the bytes that are counted for each.
    let full = config(port).queue_bytes_max(11_000);
    let client = Client::connect_with(full.clone().queue_full(QueueFull::Fail)).unwrap();
    let value = "x".repeat(1000);
    let replies: Vec<_> = (0..12).map(|_| client.set("k", &value)).collect();
    let refused = replies.into_iter().filter(|reply| reply.is_ready()).map(|reply| reply.wait().unwrap_err());
    let refused: Vec<_> = refused.map(|error| (error.kind(), error.effect())).collect();
    assert_eq!(refused, [(ErrorKind::QueueFull, Effect::None); 3]);

    let port = serve(echo);
    let client = Client::connect_with(config(port).queue_bytes_max(10_000)).unwrap();
    let replies: Vec<_> = (0..200).map(|_| client.echo::<String>(&value)).collect();
    assert!(replies.into_iter().all(|reply| reply.wait().unwrap() == value));
    let longer_than_the_queue = "y".repeat(30_000);
    assert_eq!(client.echo::<String>(&longer_than_the_queue).wait().unwrap(), longer_than_the_queue);
}

#[test]
fn bytes_that_are_no_reply_end_the_connection_and_the_next_one_works() {
    let port = serve(|words| match words[1].as_str() {
        "nonsense" => Some(b"?what\r\n".to_vec()),
        "twice" => Some(b"+one\r\n+two\r\n".to_vec()),
        "hang up" => None,
        _ => echo(words),
    });
    let client = Client::connect_with(config(port)).unwrap();
    for bad in ["nonsense", "hang up", "nonsense"] {
        let error = client.echo::<String>(bad).wait().unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Disconnected, Effect::Unknown));
        assert_eq!(client.echo::<String>("fine").wait().unwrap(), "fine");
    }
    // The first of two replies is the command's; the second belongs to no command, and no byte behind it is trusted.
    let _ = client.echo::<String>("twice").wait();
    let answer = loop {
        match client.echo::<String>("fine").wait() {
            Ok(answer) => break answer,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Disconnected),
        }
    };
    assert!(answer == "fine" || answer == "two", "{answer}");
}

#[test]
fn a_callback_may_use_the_client_and_may_panic() {
    let port = serve(echo);
    let client = Client::connect_with(config(port)).unwrap();
    let (sender, receiver): (Sender<String>, _) = channel();
    client.echo::<String>("a").then(|_| panic!("this callback panics on purpose"));
    let again = client.clone();
    client.echo::<String>("b").then(move |_| sender.send(again.echo::<String>("c").wait().unwrap()).unwrap());
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)).unwrap(), "c");
}

#[test]
fn attributes_in_front_of_anything_are_passed_over() {
    const ATTRIBUTE: &str = "|1\r\n+key-popularity\r\n*1\r\n,0.5\r\n";
    let port = serve(|words| {
        let answer = match words[0].as_str() {
            "EXEC" => "*2\r\n:1\r\n-ERR no\r\n",
            "INCR" | "DECR" => "+QUEUED\r\n",
            "GET" => "$1\r\n7\r\n",
            _ => "+OK\r\n",
        };
        let push = format!("{ATTRIBUTE}>2\r\n+invalidate\r\n*1\r\n$1\r\na\r\n");
        Some(format!("{push}{ATTRIBUTE}{answer}").into_bytes())
    });
    let client = Client::connect_with(config(port)).unwrap();
    assert_eq!(client.get::<i64>("a").wait(), Ok(7));
    assert_eq!(client.db(1).get::<i64>("a").wait(), Ok(7));
    let transaction = client.transaction();
    let (one, two) = (transaction.incr("a"), transaction.decr("a"));
    assert_eq!(transaction.exec().wait(), Ok(true));
    assert_eq!((one.wait(), two.wait().unwrap_err().code()), (Ok(1), Some("ERR")));
    assert_eq!(client.get::<i64>("a").wait(), Ok(7));
}

#[test]
fn one_large_command_passes_an_empty_queue_under_any_policy() {
    let port = serve(|_| Some(b"+OK\r\n".to_vec()));
    let full = config(port).queue_bytes_max(1000).queue_full(QueueFull::Fail);
    let client = Client::connect_with(full).unwrap();
    let large = "x".repeat(1 << 20);
    for _ in 0..3 {
        assert_eq!(client.set("large", &large).wait(), Ok(()));
        let batch = client.batch();
        let set = batch.set("large", &large);
        batch.send();
        assert_eq!(set.wait(), Ok(()));
    }
}

#[test]
fn leases_and_commands_that_wait_share_their_connections() {
    let greetings = Arc::new(AtomicUsize::new(0));
    let greeted = Arc::clone(&greetings);
    let port = serve_all(move |words| match words[0].as_str() {
        _ if begins(words) => {
            greeted.fetch_add(1, Ordering::SeqCst);
            greet(words)
        }
        "BLPOP" => Some(b"*2\r\n$4\r\njobs\r\n$5\r\nsweep\r\n".to_vec()),
        "WATCH" | "UNWATCH" => Some(b"+OK\r\n".to_vec()),
        _ => greet(words).or_else(|| echo(words)),
    });
    let client = Client::connect_with(config(port)).unwrap();
    for _ in 0..3 {
        let job = client.blpop::<(String, String)>("jobs", Duration::ZERO).wait().unwrap();
        assert_eq!(job.1, "sweep");
        let lease = client.lease().unwrap();
        lease.watch("k").wait().unwrap();
        assert_eq!(lease.echo::<String>("leased").wait().unwrap(), "leased");
    }
    assert_eq!(greetings.load(Ordering::SeqCst), 2, "one for all, and one for each in turn");
}
