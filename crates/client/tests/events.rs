//! The events of a client's connections, and its counters.

use std::net::TcpListener;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::scripted::{config, echo, serve, until};
use sleeve::prelude::*;
use sleeve::{Client, Config, Effect, Event, Resend, SlowCause};

/// Opens a client of this configuration; returns it and its events.
fn told(config: Config) -> (Client, mpsc::Receiver<Event>) {
    let (sender, events) = mpsc::channel();
    // The receiver no longer exists when the test has ended.
    let config = config.on_event(move |event| _ = sender.send(event.clone()));
    (Client::open_with(config).expect("a client"), events)
}

#[test]
fn connections_that_are_made_lost_and_refused_are_told_of() {
    // The server answers nothing, and hangs up at GET of `silence`.
    let port = serve(|words| (words[0] == "GET").then(Vec::new).filter(|_| words[1] == "silence"));
    let (client, events) = told(config(port).resend(Resend::Nothing));
    let place = format!("127.0.0.1:{port}");
    assert_eq!(
        events.recv_timeout(Duration::from_secs(60)).expect("an event").to_string(),
        format!("connected to {place}")
    );
    let silence = client.get::<String>("silence");
    assert_eq!(client.get::<String>("end").wait().unwrap_err().effect(), Effect::Unknown);
    assert!(silence.wait().is_err());
    let Event::Lost { unanswered, why, .. } = events.recv_timeout(Duration::from_secs(60)).expect("an event") else {
        panic!("it was lost")
    };
    assert!(!why.is_empty());
    // The second command may have left on the next connection, after the first was lost.
    assert!((1..=2).contains(&unanswered), "{unanswered} commands");
    assert!(matches!(events.recv_timeout(Duration::from_secs(60)), Ok(Event::Connected { .. })));

    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (client, events) = told(config(port));
    let Event::Refused { error, .. } = events.recv_timeout(Duration::from_secs(60)).expect("an event") else {
        panic!("nobody is there")
    };
    assert!(error.message().contains("Connection refused"), "{error}");
    let metrics = client.metrics().remove(0);
    assert!(!metrics.is_connected && metrics.connections == 0 && metrics.refused >= 1);
}

#[test]
fn slow_reply_events_name_command_and_cause_but_no_arguments() {
    let port = serve(echo);
    let (client, events) = told(config(port).slow_after(Some(Duration::ZERO)));
    assert!(matches!(events.recv_timeout(Duration::from_secs(60)), Ok(Event::Connected { .. })));
    assert_eq!(client.get::<String>("secret").wait().as_deref(), Ok("secret"));
    let event = events.recv_timeout(Duration::from_secs(60)).expect("an event");
    let Event::Slow { command, travelled, cause, .. } = &event else { panic!("{event}") };
    assert_eq!(command, "GET");
    assert!(!travelled.is_zero() && !event.to_string().contains("secret"), "{event}");
    // The reactor of a busy machine may be late.
    assert!(matches!(cause, SlowCause::Silence | SlowCause::Queue), "{event}");

    let (client, events) = told(config(port).slow_after(Some(Duration::from_secs(3600))));
    assert!(matches!(events.recv_timeout(Duration::from_secs(60)), Ok(Event::Connected { .. })));
    client.get::<String>("k").wait().expect("an answer");
    drop(client);
    assert_eq!(events.recv().ok(), None, "nothing was slow");
}

#[test]
fn traffic_over_the_connection_is_counted() {
    let port = serve(|words| if words[0] == "APPEND" { Some(Vec::new()) } else { echo(words) });
    let client = Client::connect_with(config(port).silence_max(None)).unwrap();
    let replies: Vec<_> = (0..50).map(|number| client.get::<String>(format!("key:{number:02}"))).collect();
    replies.into_iter().for_each(|reply| assert!(reply.wait().is_ok()));
    let metrics = client.metrics().remove(0);
    assert_eq!((metrics.requests, metrics.replies, metrics.in_flight, metrics.queued_bytes), (50, 50, 0, 0));
    assert_eq!(metrics.bytes_received, 50 * "$6\r\nkey:00\r\n".len() as u64);
    assert_eq!(metrics.bytes_sent, 50 * "*2\r\n$3\r\nGET\r\n$6\r\nkey:00\r\n".len() as u64);
    let latency = &metrics.latency;
    assert_eq!(latency.count(), 50);
    assert!(!latency.max().is_zero() && latency.quantile(0.5) <= latency.max());

    // This command has a short deadline; a busy machine may need longer for the answers above.
    let soon = Instant::now() + Duration::from_millis(100);
    let error = client.at(soon).append("k", "v").wait().unwrap_err();
    assert!(error.message().contains("the oldest unanswered request left"), "{error}");
    assert!(error.message().contains("ago, and since then nothing has come"), "{error}");
    let metrics = client.metrics().remove(0);
    assert_eq!((metrics.timeouts, metrics.in_flight, metrics.lost), (1, 1, 0));
    let page = metrics.prometheus(&[("service", "a \"shop\"")]);
    let labels = format!(r#"{{service="a \"shop\"",endpoint="127.0.0.1:{port}"}}"#);
    for line in ["sleeve_replies_total", "sleeve_reply_seconds_count"] {
        assert!(page.contains(&format!("{line}{labels} 50\n")), "{page}");
    }
    assert!(page.contains(&format!("sleeve_timeouts_total{labels} 1\n")), "{page}");
    #[cfg(feature = "embedded")]
    assert!(Client::embedded().metrics().is_empty());
}

#[test]
fn requests_that_are_lost_with_their_connection_are_counted() {
    let port = serve(|words| (words[0] != "DEL").then(|| echo(words)).flatten());
    let client = Client::connect_with(config(port)).unwrap();
    client.get::<String>("k").wait().expect("an answer");
    assert!(client.del("k").wait().is_err());
    until("the connection is there again", || client.metrics()[0].is_connected);
    let metrics = client.metrics().remove(0);
    assert_eq!((metrics.connections, metrics.lost, metrics.unanswered), (2, 1, 1));
}

#[test]
fn a_request_that_leaves_in_pieces_is_counted_once() {
    let port = serve(echo);
    let client = Client::connect_with(config(port)).unwrap();
    let long = "k".repeat(8 << 20);
    assert_eq!(client.get::<String>(&long).wait(), Ok(long.clone()));
    let head = format!("*2\r\n$3\r\nGET\r\n${}\r\n\r\n", long.len());
    assert_eq!(client.metrics()[0].bytes_sent, (head.len() + long.len()) as u64);
}
