//! All connections share a thread: if one of them gets a fault from its server or from the application, the others go on.

use std::io::Write;
use std::net::TcpListener;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use crate::scripted::{config, echo, greet, serve, serve_all, until};
use sleeve::prelude::*;
use sleeve::{Client, Config, Endpoint, ErrorKind};

/// Checks that another client connects and is answered.
fn another_goes_on() {
    let port = serve(echo);
    let asking = thread::spawn(move || {
        let client = Client::connect_with(config(port)).unwrap();
        assert_eq!(client.echo::<String>("x").wait().unwrap(), "x");
    });
    until("another client is answered", || asking.is_finished());
    asking.join().unwrap();
}

#[test]
fn a_pause_of_nothing_between_attempts() {
    let endpoint = Endpoint::Unix("/nonexistent/socket".into());
    let config = Config::new(endpoint).backoff(Duration::ZERO, Duration::ZERO).command_timeout(Some(Duration::MAX));
    let client = Client::open_with(config).unwrap();
    let waiting = client.echo::<String>("x");
    another_goes_on();
    assert!(!waiting.is_ready());
    drop(client);
}

#[test]
fn a_zero_silence_limit_without_ping_harms_no_other_client() {
    let port = serve_all(|words| match words[0].as_str() {
        "PING" => Some(b"-NOPERM not for you\r\n".to_vec()),
        _ => greet(words).or_else(|| echo(words)),
    });
    let client = Client::connect_with(config(port).silence_max(Some(Duration::ZERO))).unwrap();
    another_goes_on();
    drop(client);
}

/// Starts a server that answers every connection with these bytes, again and again, until the client stops reading.
fn flood(bytes: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = move || {
        let (mut stream, _) = listener.accept().unwrap();
        while stream.write_all(&bytes).is_ok() {}
    };
    thread::spawn(answer);
    port
}

#[test]
fn greetings_without_an_end() {
    // The attacks are messages that answer no request, and one reply without an end.
    for (bytes, why) in [(">1\r\n+x\r\n", "did not answer in time"), ("$500000000\r\n", "is longer than 1048576 bytes")]
    {
        let port = flood(bytes.repeat(4096).into_bytes());
        let connecting = thread::spawn(move || {
            let config = config(port).connect_timeout(Duration::from_secs(2));
            Client::connect_with(config).map(drop).unwrap_err()
        });
        another_goes_on();
        until("it is given up", || connecting.is_finished());
        let error = connecting.join().unwrap();
        assert_eq!(error.kind(), ErrorKind::Connect);
        assert!(error.to_string().contains(why), "{error}");
    }
}

/// A value that reports the thread on which it is dropped, and panics then.
struct Captured(Sender<Option<String>>);

impl Drop for Captured {
    fn drop(&mut self) {
        _ = self.0.send(thread::current().name().map(str::to_owned));
        std::panic::resume_unwind(Box::new("on purpose"));
    }
}

#[test]
fn captures_of_a_hook_are_dropped_on_the_callback_thread() {
    let (sender, receiver) = channel();
    let captured = Captured(sender);
    let hook = move |_: &sleeve::Error| _ = &captured;
    let client = Client::connect_with(config(serve(echo)).on_error(hook)).unwrap();
    drop(client);
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)).unwrap().as_deref(), Some("sleeve-callbacks"));
    another_goes_on();
}
