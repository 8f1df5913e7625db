//! The message of a timeout: the command, the endpoint, the event that the command waited for and the reason why it did not
//! happen; never an argument.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::scripted::{SLACK, config, serve, until};
use sleeve::prelude::*;
use sleeve::{Client, Config, Effect, Endpoint, Error, ErrorKind};

const LIMIT: Duration = Duration::from_millis(100);

/// Asserts that an error is a timeout, contains all of these parts, and no secret.
fn says(error: &Error, effect: Effect, parts: &[&str]) {
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, effect), "{error}");
    for part in parts {
        assert!(error.message().contains(part), "{part:?} is missing: {error}");
    }
    assert!(!error.message().contains("secret"), "{error}");
}

/// Starts a server that greets and then sends nothing.
fn silent() -> u16 {
    serve(|_| Some(Vec::new()))
}

#[test]
fn a_sent_command_that_times_out_waited_for_its_reply() {
    let port = silent();
    let place = format!("127.0.0.1:{port}");
    let client = Client::connect_with(config(port).command_timeout(Some(LIMIT))).unwrap();
    let fails = |reply: sleeve::Reply<sleeve::Value>, name: &str| {
        let error = reply.wait().unwrap_err();
        says(
            &error,
            Effect::Unknown,
            &[name, &place, "waited for its reply", "command timeout of 100ms (Config::command_timeout)"],
        );
    };
    fails(client.get("secret"), "GET was");
    fails(client.config_get("secret"), "CONFIG GET was");
    fails(client.cmd("config").arg(("set", "requirepass", "secret")).send(), "CONFIG SET was");
    fails(client.cmd("MY.SECRET").arg("secret").send(), "a command that is not in the table was");
    let batch = client.batch();
    let reply = batch.lpush("secret", 1);
    batch.send();
    says(&reply.wait().unwrap_err(), Effect::Unknown, &["LPUSH was", &place]);
    let transaction = client.transaction();
    let reply = transaction.lpush("secret", 1);
    let outcome = transaction.exec();
    says(&reply.wait().unwrap_err(), Effect::Unknown, &["EXEC was", &place]);
    says(&outcome.wait().unwrap_err(), Effect::Unknown, &["EXEC was", &place]);
    let lease = client.lease().unwrap();
    says(&lease.watch("secret").wait().unwrap_err(), Effect::Unknown, &["WATCH was", &place]);
    let page = client.sscan_all::<String>("secret").into_iter().next().expect("a page").unwrap_err();
    says(&page, Effect::Unknown, &["SSCAN was", &place]);
}

#[test]
fn a_caller_after_timed_out_ones_times_out_in_time() {
    // With this setting the client takes the silent server for alive for a long time.
    let config = config(silent()).command_timeout(Some(LIMIT)).silence_max(Some(Duration::from_secs(600)));
    let client = Client::connect_with(config).unwrap();
    for _ in 0..3 {
        let error = client.get::<String>("secret").wait_for(SLACK).unwrap_err();
        says(&error, Effect::Unknown, &["waited for its reply", "command timeout of 100ms (Config::command_timeout)"]);
    }
}

#[test]
fn a_caller_that_gives_up_gets_the_matching_error() {
    let port = silent();
    let client = Client::connect_with(config(port)).unwrap();
    let error = client.get::<String>("secret").wait_for(LIMIT).unwrap_err();
    let place = format!("GET was not answered by 127.0.0.1:{port}");
    says(&error, Effect::Unknown, &[&place, "waited for its reply", "the time that its caller gave it"]);
    #[cfg(feature = "embedded")]
    {
        let client = Client::connect("embedded://shop").unwrap();
        let error = client.blpop::<(String, String)>("secret", Duration::ZERO).wait_for(LIMIT).unwrap_err();
        says(&error, Effect::Unknown, &["BLPOP was not answered by embedded://shop"]);
    }
}

#[test]
fn an_unsent_command_says_why_there_was_no_connection() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nameless = Endpoint::Tcp { host: "no..such..host".to_owned(), port: 7 };
    let pathless = Endpoint::Unix("/nonexistent/socket".into());
    for (endpoint, place, cause) in [
        (Endpoint::Tcp { host: "127.0.0.1".to_owned(), port }, format!("127.0.0.1:{port}"), "Connection refused"),
        (nameless, "no..such..host:7".to_owned(), "no..such..host is not found"),
        (pathless, "/nonexistent/socket".to_owned(), "No such file"),
    ] {
        let config = Config::new(endpoint).command_timeout(Some(LIMIT)).backoff(LIMIT / 100, LIMIT / 10);
        let client = Client::open_with(config.clone()).unwrap();
        let mut error = client.incr("secret").wait().unwrap_err();
        // On a busy machine the first attempt may not have been made yet.
        until("the cause is known", || {
            error = client.incr("secret").wait().unwrap_err();
            error.message().contains(cause)
        });
        says(&error, Effect::None, &["INCR was", &place, "waited for a connection: cannot connect", "never sent"]);
        let error = client.incr("secret").wait_for(LIMIT / 4).unwrap_err();
        says(&error, Effect::Unknown, &["INCR was", &place, cause]);
        let error = Client::connect_with(config).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect);
        assert!(error.message().starts_with(&place) && error.message().contains(cause), "{error}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = Client::open_with(config(port).command_timeout(Some(LIMIT))).unwrap();
    let error = client.incr("secret").wait().unwrap_err();
    says(&error, Effect::None, &["INCR was", "127.0.0.1", "a connection, which was still being made"]);
}

#[test]
fn a_queue_that_stays_full_is_named_with_the_command() {
    let port = silent();
    let config = config(port).command_timeout(Some(LIMIT)).queue_bytes_max(1000).silence_max(None);
    let client = Client::connect_with(config).unwrap();
    let value = "x".repeat(900);
    let mut replies: Vec<_> = (0..4).map(|_| client.set("secret", &value)).collect();
    let error = replies.pop().unwrap().wait().unwrap_err();
    let place = format!("SET was never sent to 127.0.0.1:{port}");
    says(&error, Effect::None, &[&place, "the queue of unanswered requests was full", "waited for its reply"]);
}

#[test]
fn a_partly_answered_transaction_times_out_in_time() {
    // The greeting selects the configured database; SELECT of another one is answered, and the command behind it is not.
    let port = serve(|_| Some(Vec::new()));
    let client = Client::connect_with(config(port).command_timeout(Some(LIMIT))).unwrap();
    let since = Instant::now();
    let error = client.db(3).get::<String>("k").wait().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown), "{error}");
    assert!(since.elapsed() < LIMIT + SLACK, "it was told after {:?}", since.elapsed());
}
