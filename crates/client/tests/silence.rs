//! Servers that misbehave: silent, late, talkative, gone. Nobody hangs, and each caller is told what is known.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, Config, Effect, Endpoint, ErrorKind, Frame, QueueFull};
use sleeve_wire::frame::{Scanner, decode};

/// What a scripted server does with one request: bytes to send back, or `None` to hang up.
type Script = Arc<dyn Fn(&[String]) -> Option<Vec<u8>> + Send + Sync>;

/// A server that greets well and then follows its script. Returns its port.
fn serve(script: impl Fn(&[String]) -> Option<Vec<u8>> + Send + Sync + 'static) -> u16 {
    let script: Script = Arc::new(script);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let script = script.clone();
            thread::spawn(move || converse(stream.unwrap(), &script));
        }
    });
    port
}

fn converse(mut stream: TcpStream, script: &Script) {
    let (mut received, mut scanner) = (Vec::new(), Scanner::new());
    let mut room = [0; 65536];
    while let Ok(count @ 1..) = stream.read(&mut room) {
        received.extend_from_slice(&room[..count]);
        while let Ok(Some(length)) = scanner.scan(&received) {
            let Ok((Frame::Array(items), _)) = decode(&received) else { return };
            let words: Vec<String> = items
                .map(|item| match item {
                    Ok(Frame::Bulk(word)) => String::from_utf8_lossy(word).into_owned(),
                    other => panic!("no word: {other:?}"),
                })
                .collect();
            received.drain(..length);
            let Some(reply) = greet(&words).or_else(|| script(&words)) else { return };
            if stream.write_all(&reply).is_err() {
                return;
            }
        }
    }
}

fn greet(words: &[String]) -> Option<Vec<u8>> {
    match words[0].as_str() {
        "HELLO" => Some(b"%1\r\n+mode\r\n+standalone\r\n".to_vec()),
        "CONFIG" => Some(b"%1\r\n$9\r\ndatabases\r\n$2\r\n16\r\n".to_vec()),
        "CLIENT" | "SELECT" => Some(b"+OK\r\n".to_vec()),
        _ => None,
    }
}

fn config(port: u16) -> Config {
    let endpoint = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port };
    Config::new(endpoint).backoff(Duration::from_millis(1), Duration::from_millis(10))
}

fn echo(words: &[String]) -> Option<Vec<u8>> {
    Some(format!("${}\r\n{}\r\n", words[1].len(), words[1]).into_bytes())
}

#[test]
fn a_command_that_is_not_answered_in_time_fails_with_an_unknown_effect() {
    let port = serve(|words| if words[0] == "GET" { Some(Vec::new()) } else { echo(words) });
    let client = Client::connect_with(config(port).command_timeout(Some(Duration::from_millis(80)))).unwrap();
    let (sender, receiver) = channel();
    client.get::<String>("k").then(move |result| sender.send(result).unwrap());
    let errors = [client.get::<String>("k").wait().unwrap_err(), receiver.recv().unwrap().unwrap_err()];
    for error in errors {
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown));
    }
    let error = client.echo::<String>("behind it").wait_for(Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[test]
fn a_late_reply_is_nobody_elses() {
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    let port = serve(move |words| {
        if words[1] == "slow" {
            // The answer comes when the client has given up, however long that takes.
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
fn what_waits_for_a_server_that_never_comes_is_told_that_it_was_never_sent() {
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
    let full = config(port).queue_bytes_max(10_000);
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
    // The first of two replies is the command's; the second is nobody's, and nothing behind it is believed.
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
    assert_eq!(receiver.recv().unwrap(), "c");
}
