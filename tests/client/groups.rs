//! Consumers of a stream's group: over TCP to Sleeve, Redis and Valkey, and in the engine inside.
//!
//! Each entry comes to one consumer, comes again until it is acknowledged, and is claimed from those that have gone.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Client, Consumer, ConsumerOptions, Delivery, Entry, Error, ErrorKind, GroupStart};
use sleeve_tests::{Kind, Server};

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `check` with clients of every place where a group can be.
fn everywhere(check: impl Fn(&Client)) {
    for kind in [Kind::Sleeve, Kind::Redis, Kind::Valkey] {
        let server = Server::start(kind);
        check(&Client::connect(&server.url()).expect("a connection"));
    }
    check(&Client::embedded());
}

fn add(client: &Client, texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| client.xadd("jobs", ("do", text)).wait().expect("XADD")).collect()
}

fn text(entry: &Entry) -> String {
    let mut fields: HashMap<String, String> = entry.read().expect("fields");
    fields.remove("do").expect("a field")
}

/// Returns the next entry.
fn next(consumer: &mut Consumer) -> Entry {
    consumer.iter().next().expect("more").expect("an entry")
}

/// Returns the number of entries that are not acknowledged.
fn pending(client: &Client) -> usize {
    client.xpending_range::<Vec<sleeve::Value>>("jobs", "g", "-", "+", 100).wait().expect("XPENDING").len()
}

#[test]
fn each_entry_comes_to_one_consumer_until_it_is_acknowledged() {
    everywhere(|client| {
        let ids = add(client, &["a", "b", "c"]);
        let one = ConsumerOptions::new().count(1);
        let mut left = client.group_with("jobs", "g", "left", one.clone());
        let mut right = client.group_with("jobs", "g", "right", one);
        let (a, b) = (next(&mut left), next(&mut right));
        assert_eq!((a.id(), b.id()), (ids[0].as_str(), ids[1].as_str()));
        assert_eq!((text(&a).as_str(), b.field("do"), b.field("none")), ("a", Some(b"b".as_slice()), None));
        assert_eq!(a.ack().wait(), Ok(true));
        let c = next(&mut left);
        assert_eq!((text(&c).as_str(), c.delivery()), ("c", Delivery::New));
        assert_eq!(pending(client), 2);
        assert_eq!(left.handle().ack([b, c]).wait(), Ok(2));
        assert_eq!(left.handle().ack([]).wait(), Ok(0));
        assert_eq!(pending(client), 0);
    });
}

#[test]
fn a_consumer_begins_with_its_pending_entries() {
    everywhere(|client| {
        let ids = add(client, &["a", "b", "deleted", "c"]);
        let mut consumer = client.group("jobs", "g", "worker");
        let (a, b) = (next(&mut consumer), next(&mut consumer));
        a.ack().wait().unwrap();
        drop((b, consumer));
        client.xdel("jobs", &ids[2]).wait().unwrap();
        add(client, &["d"]);
        let mut consumer = client.group_with("jobs", "g", "worker", ConsumerOptions::new().count(1));
        for (wanted, delivery) in [("b", Delivery::Pending), ("c", Delivery::Pending), ("d", Delivery::New)] {
            let entry = next(&mut consumer);
            assert_eq!((text(&entry).as_str(), entry.delivery()), (wanted, delivery));
            assert_eq!(entry.ack().wait(), Ok(true));
        }
        assert_eq!(pending(client), 0, "what is deleted is acknowledged unseen");
    });
}

#[test]
fn abandoned_entries_are_claimed() {
    everywhere(|client| {
        add(client, &["a", "b", "c"]);
        let mut gone = client.group("jobs", "g", "gone");
        let lost = next(&mut gone);
        let options = ConsumerOptions::new().count(2).claim_after(Duration::from_millis(20));
        let mut consumer = client.group_with("jobs", "g", "here", options);
        let mut claimed = Vec::new();
        for _ in 0..3 {
            let entry = next(&mut consumer);
            assert_eq!(entry.delivery(), Delivery::Claimed);
            claimed.push(text(&entry));
            // An entry that is dropped without an acknowledgement comes again.
            if claimed.len() > 1 {
                assert_eq!(entry.ack().wait(), Ok(true));
            }
        }
        let again = next(&mut consumer);
        assert_eq!((claimed, text(&again).as_str()), (vec!["a".into(), "b".into(), "c".into()], "a"));
        assert_eq!(again.ack().wait(), Ok(true));
        assert_eq!(lost.ack().wait(), Ok(false), "somebody else has done it");
    });
}

#[test]
fn a_consumer_that_waits_is_stopped() {
    everywhere(|client| {
        let start = ConsumerOptions::new().start(GroupStart::new_entries());
        let mut consumer = client.group_with("jobs", "g", "worker", start);
        let handle = consumer.handle();
        let reads = std::thread::spawn(move || consumer.iter().map(|entry| text(&entry.unwrap())).collect::<Vec<_>>());
        until_blocked(client, 1);
        add(client, &["a"]);
        until_blocked(client, 1);
        handle.stop();
        assert_eq!(reads.join().unwrap(), ["a"]);
        handle.finish(PATIENCE).unwrap();
        until_blocked(client, 0);
        add(client, &["b"]);
        assert_eq!(pending(client), 1, "nobody waits any more");
    });
}

/// Waits until so many clients wait for entries.
fn until_blocked(client: &Client, count: usize) {
    let deadline = Instant::now() + PATIENCE;
    while !client.info("clients").wait().expect("INFO").contains(&format!("blocked_clients:{count}")) {
        assert!(Instant::now() < deadline, "no {count} clients wait");
        std::thread::yield_now();
    }
}

#[test]
fn a_stream_that_was_removed_is_made_again() {
    everywhere(|client| {
        let mut consumer = client.group("jobs", "g", "worker");
        let reads = std::thread::spawn(move || text(&next(&mut consumer)));
        until_blocked(client, 1);
        client.del("jobs").wait().unwrap();
        // A server may answer the blocked client, or only its next request.
        let deadline = Instant::now() + PATIENCE;
        while !reads.is_finished() && Instant::now() < deadline {
            add(client, &["after"]);
        }
        assert_eq!(reads.join().unwrap(), "after");
    });
}

#[test]
fn an_unreadable_stream_is_reported_once() {
    everywhere(|client| {
        client.set("jobs", "a text").wait().unwrap();
        let mut consumer = client.group("jobs", "g", "worker");
        let errors: Vec<Error> = consumer.iter().map(|entry| entry.unwrap_err()).collect();
        assert_eq!(errors.iter().map(Error::code).collect::<Vec<_>>(), [Some("WRONGTYPE")]);
        let nameless: Vec<Error> =
            client.group("jobs", f64::NAN, "worker").iter().map(|entry| entry.unwrap_err()).collect();
        assert_eq!(nameless.iter().map(Error::kind).collect::<Vec<_>>(), [ErrorKind::Usage]);
        client.del("jobs").wait().unwrap();
        add(client, &["seven"]);
        let entry = next(&mut client.group("jobs", "g", "worker"));
        let error = entry.read::<[(String, u64); 1]>().unwrap_err();
        assert_eq!(error.message(), format!("entry {}: expected an integer, got the string \"seven\"", entry.id()));
    });
}
