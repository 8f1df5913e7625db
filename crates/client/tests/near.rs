//! The near cache against servers with scripted replies.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, Effect, ErrorKind};

use crate::scripted::{config, greet, serve, serve_all};

/// Returns the reply of a server that tracks keys, and has the same text under each key.
fn tracks(words: &[String]) -> Option<Vec<u8>> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Some(match words[..] {
        ["CLIENT", "TRACKING" | "CACHING", ..] => b"+OK\r\n".to_vec(),
        ["GET", _] => b"$4\r\ntext\r\n".to_vec(),
        ["PTTL", _] => b":-1\r\n".to_vec(),
        _ => b"+OK\r\n".to_vec(),
    })
}

/// Returns the invalidation of a key.
fn changed(key: &str) -> Vec<u8> {
    format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{key}\r\n", key.len()).into_bytes()
}

#[test]
fn an_invalidation_ahead_of_the_reply_keeps_it_out() {
    for (ahead, behind, is_kept) in [
        (Vec::new(), Vec::new(), true),
        (changed("other"), changed("other"), true),
        (changed("k"), Vec::new(), false),
        (Vec::new(), changed("k"), false),
        (b">2\r\n$10\r\ninvalidate\r\n_\r\n".to_vec(), Vec::new(), false),
        (Vec::new(), [b"|1\r\n+a\r\n+b\r\n".to_vec(), changed("k")].concat(), false),
        (b">2\r\n+some\r\n+thing else\r\n".to_vec(), Vec::new(), true),
    ] {
        let reads = Arc::new(AtomicUsize::new(0));
        let (count, shown) = (Arc::clone(&reads), (ahead.clone(), behind.clone()));
        let port = serve(move |words| {
            let reply = tracks(words)?;
            if words[0] != "GET" {
                return Some(reply);
            }
            count.fetch_add(1, Ordering::SeqCst);
            Some([ahead.clone(), reply, behind.clone()].concat())
        });
        let client = Client::connect_with(config(port)).unwrap();
        let cached = client.cached().unwrap();
        for _ in 0..5 {
            assert_eq!(cached.get::<String>("k").wait(), Ok("text".to_owned()));
        }
        assert_eq!(reads.load(Ordering::SeqCst), if is_kept { 1 } else { 5 }, "{shown:?}");
    }
}

#[test]
fn the_requests_of_a_cached_read_travel_together() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let port = serve_all(move |words| {
        log.lock().unwrap().push(words.join(" "));
        greet(words).or_else(|| tracks(words))
    });
    let client = Client::connect_with(config(port)).unwrap();
    let cached = client.cached().unwrap();
    thread::scope(|scope| {
        for number in 0..4 {
            let (client, cached) = (&client, cached.db(number % 2));
            scope.spawn(move || {
                for round in 0..200 {
                    client.echo::<()>("noise").forget();
                    cached.get::<String>(format!("{number}:{round}")).wait().unwrap();
                }
            });
        }
    });
    let seen = seen.lock().unwrap();
    let mut reads = 0;
    for (at, words) in seen.iter().enumerate() {
        if let Some(key) = words.strip_prefix("GET ") {
            assert_eq!((seen[at - 1].as_str(), &seen[at + 1]), ("CLIENT CACHING YES", &format!("PTTL {key}")));
            reads += 1;
        }
    }
    assert_eq!(reads, 800);
}

#[test]
fn a_server_without_messages_is_named() {
    // The server does not know HELLO, but CLIENT TRACKING: the client would never get an invalidation.
    let port = serve_all(|words| match words[0].as_str() {
        "HELLO" => Some(b"-ERR unknown command `HELLO`\r\n".to_vec()),
        _ => greet(words).or_else(|| tracks(words)),
    });
    let client = Client::connect_with(config(port)).unwrap();
    let cached = client.cached().unwrap();
    for _ in 0..3 {
        let error = cached.get::<String>("k").wait().unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Usage, Effect::None));
        assert!(error.message().contains("RESP2 only") && error.message().contains("the client itself"), "{error}");
    }
    assert_eq!(client.get::<String>("k").wait(), Ok("text".to_owned()));

    // The server knows RESP3 and no tracking. The first caller gets that error, too.
    let port = serve_all(|words| match words.get(1).map(String::as_str) {
        Some("TRACKING") => Some(b"-ERR Unknown subcommand\r\n".to_vec()),
        _ => greet(words).or_else(|| tracks(words)),
    });
    let cached = Client::connect_with(config(port)).unwrap().cached().unwrap();
    let error = cached.get::<String>("k").wait().unwrap_err();
    assert!(error.message().contains("Unknown subcommand"), "{error}");
}

#[test]
fn nobody_waits_for_ever_for_anothers_read() {
    let port = serve(|words| match words[0].as_str() {
        "GET" | "PTTL" => Some(Vec::new()),
        _ => tracks(words),
    });
    let client = Client::connect_with(config(port).command_timeout(Some(Duration::from_millis(200)))).unwrap();
    let cached = client.cached().unwrap();
    let replies: Vec<_> = (0..10).map(|_| cached.get::<String>("k")).collect();
    for reply in replies {
        assert_eq!(reply.wait().map_err(|error| error.kind()), Err(ErrorKind::Timeout));
    }
    assert_eq!((cached.stats().misses, cached.stats().shared), (1, 9));
    let waiting: Vec<_> = (0..10).map(|_| cached.get::<String>("k")).collect();
    assert!(client.close(Duration::ZERO).is_err(), "some are not answered");
    drop((client, cached));
    for reply in waiting {
        assert!(reply.wait().is_err());
    }
}
