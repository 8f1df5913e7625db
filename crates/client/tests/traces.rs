//! The client's events for a collector of the program's traces.
#![cfg(feature = "tracing")]

use std::fmt;
use std::net::TcpListener;
use std::sync::Mutex;
use std::thread::{self, ThreadId};
use std::time::Duration;

use sleeve::Client;
use sleeve::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::scripted::{config, serve, until};

/// An event: its text with its fields, its level, and the thread that has reported it.
type Told = (String, Level, ThreadId);

/// The collected events that belong to the test below; other tests of this process cause events too.
static TOLD: Mutex<Vec<Told>> = Mutex::new(Vec::new());

/// The words by which these events are recognized; all others belong to other tests.
static MARKS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Collector;

#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sleeve"
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if MARKS.lock().unwrap().iter().any(|mark| fields.0.contains(mark.as_str())) {
            TOLD.lock().unwrap().push((fields.0, *event.metadata().level(), thread::current().id()));
        }
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// Waits for an event with these words.
fn told(words: &str) -> Told {
    let find = || TOLD.lock().unwrap().iter().find(|(text, ..)| text.contains(words)).cloned();
    until(words, || find().is_some());
    find().unwrap()
}

#[test]
fn connections_slow_replies_and_calls_that_fail_are_told_of() {
    let port = serve(|words| match words[0].as_str() {
        "GET" => Some(format!("-ERR traced: {}\r\n", words[1]).into_bytes()),
        _ => Some(b"+OK\r\n".to_vec()),
    });
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let [place, no_place] = [port, nowhere].map(|port| format!("127.0.0.1:{port}"));
    *MARKS.lock().unwrap() = vec!["traced".to_owned(), place.clone(), no_place.clone()];
    tracing::subscriber::set_global_default(Collector).unwrap();
    let own = thread::current().id();

    let client = Client::connect_with(config(port).slow_after(Some(Duration::ZERO))).unwrap();
    assert_eq!(told(&format!("connected to {place}")).1, Level::INFO);
    assert!(client.get::<String>("waited for").wait().is_err());
    let (text, level, thread) = told("waited for");
    assert_eq!((level, thread), (Level::DEBUG, own), "it belongs to the caller's span");
    assert!(text.contains("kind=Server") && text.contains("effect=answered"), "{text}");
    client.get::<String>("forgotten").forget();
    assert_ne!(told("forgotten").2, own);
    assert_eq!(told(&format!("GET at {place} took")).1, Level::WARN);

    let limits = config(nowhere).command_timeout(Some(Duration::from_millis(20)));
    let nobody = Client::open_with(limits).unwrap();
    assert_eq!(told(&format!("no connection to {no_place}")).1, Level::WARN);
    assert!(nobody.get::<String>("k").wait().is_err());
    let (text, level, thread) = told(&format!("GET was not answered by {no_place}"));
    assert_eq!((level, thread), (Level::WARN, own));
    assert!(text.contains("kind=Timeout") && text.contains("effect=not applied"), "{text}");
}
