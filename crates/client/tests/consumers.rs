//! A consumer of a group on a link that breaks at the worst moment, and in tasks.
#![cfg(feature = "embedded")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use sleeve::prelude::*;
use sleeve::testing::{Engine, Fault};
use sleeve::{Client, Consumer, ConsumerOptions, Delivery, Entry};

const PATIENCE: Duration = Duration::from_secs(60);

fn add(client: &Client, numbers: impl IntoIterator<Item = u64>) {
    numbers.into_iter().for_each(|number| _ = client.xadd("events", ("number", number)).wait().expect("XADD"));
}

fn number(entry: &Entry) -> u64 {
    let [(name, number)]: [(String, u64); 1] = entry.read().expect("one field");
    assert_eq!(name, "number");
    number
}

/// Takes and acknowledges this many entries; fewer if they do not arrive.
fn take(consumer: &mut Consumer, count: usize) -> Vec<(u64, Delivery)> {
    let (handle, (_done, is_done)) = (consumer.handle(), mpsc::channel::<()>());
    std::thread::spawn(move || {
        if is_done.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            handle.stop();
        }
    });
    let acknowledged = |entry: Result<Entry, sleeve::Error>| {
        let entry = entry.expect("an entry");
        let taken = (number(&entry), entry.delivery());
        assert_eq!(entry.ack().wait(), Ok(true));
        taken
    };
    consumer.iter().take(count).map(acknowledged).collect()
}

fn pending(client: &Client) -> u64 {
    client.xpending::<(u64, Option<String>, Option<String>, sleeve::Value)>("events", "g").wait().expect("XPENDING").0
}

#[test]
fn only_entries_lost_with_a_connection_are_delivered_again() {
    for fault in [Fault::cut_after(), Fault::cut_amid(), Fault::cut_before()] {
        let engine = Engine::new();
        let (client, inside) = (engine.connect().unwrap(), engine.client());
        let mut consumer = client.group_with("events", "g", "c", ConsumerOptions::new().count(2));
        add(&inside, 0..2);
        assert_eq!(take(&mut consumer, 2), [(0, Delivery::New), (1, Delivery::New)]);
        // The fault happens to two reads, because the first may have been sent already.
        engine.fault(fault.on("XREADGROUP").times(2));
        add(&inside, 2..8);
        let taken = take(&mut consumer, 6);
        assert_eq!(taken.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 3, 4, 5, 6, 7]);
        assert_eq!(pending(&inside), 0);
    }
}

#[test]
fn a_wait_outlives_its_connection() {
    let engine = Engine::new();
    let (client, inside) = (engine.connect().unwrap(), engine.client());
    let mut consumer = client.group("events", "g", "c");
    let reads = std::thread::spawn(move || take(&mut consumer, 3));
    for number in 0..3 {
        let deadline = Instant::now() + PATIENCE;
        while !inside.info("clients").wait().unwrap().contains("blocked_clients:1") {
            assert!(Instant::now() < deadline, "it waits for nothing");
            std::thread::yield_now();
        }
        engine.cut();
        add(&inside, [number]);
    }
    let taken = reads.join().unwrap();
    assert_eq!(taken.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(pending(&inside), 0);
}

#[test]
fn it_is_a_stream_in_tasks_that_stops_gracefully() {
    let engine = Engine::new();
    let client = engine.client();
    add(&client, 0..100);
    let consumer = client.group("events", "g", "c");
    let handle = consumer.handle();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (sum, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let all = Arc::clone(&sum);
    runtime.block_on(async move {
        let mut consumer = consumer;
        while let Some(entry) = StreamExt::next(&mut consumer).await {
            let (entry, handle) = (entry.unwrap(), handle.clone());
            let (sum, done) = (Arc::clone(&all), Arc::clone(&done));
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                sum.fetch_add(number(&entry), Ordering::Relaxed);
                assert_eq!(entry.ack().await, Ok(true));
                if done.fetch_add(1, Ordering::Relaxed) == 99 {
                    handle.stop();
                }
            });
        }
        handle.finish_async().await;
        assert_eq!(handle.unfinished(), 0);
    });
    let sum = sum.load(Ordering::Relaxed);
    assert_eq!((sum, pending(&client)), (4950, 0));
}

#[tokio::test]
async fn entries_messages_and_keys_are_awaited_without_another_crate() {
    let engine = Engine::new();
    let client = engine.client();
    add(&client, 0..3);
    let mut consumer = client.group("events", "g", "c");
    let (one, two) = (consumer.next().await.unwrap().unwrap(), consumer.recv().await.unwrap().unwrap());
    assert_eq!((number(&one), number(&two)), (0, 1));
    consumer.handle().stop();
    // The entry that arrived with the others is still returned, and then the end.
    assert_eq!(number(&consumer.next().await.unwrap().unwrap()), 2);
    assert!(consumer.next().await.is_none() && consumer.recv().await.is_none());
    let subscription = client.subscribe_async("news").await.unwrap();
    client.publish("news", "here").await.unwrap();
    let message = subscription.next().await.unwrap().unwrap().into_message().unwrap();
    assert_eq!(message.payload, b"here");
    let mut keys = client.scan_all::<String>();
    assert_eq!(keys.next().await, Some(Ok("events".to_owned())));
    assert_eq!(keys.next().await, None);
    assert_eq!(client.sscan_all::<String>("events").next().await.unwrap().unwrap_err().code(), Some("WRONGTYPE"));
}

#[test]
fn stopping_waits_for_entries_that_were_handed_out() {
    let engine = Engine::new();
    let client = engine.client();
    add(&client, 0..2);
    let mut consumer = client.group("events", "g", "c");
    let handle = consumer.handle();
    let (one, two) = (consumer.iter().next().unwrap().unwrap(), consumer.iter().next().unwrap().unwrap());
    handle.stop();
    assert!(consumer.iter().next().is_none());
    assert_eq!(handle.unfinished(), 2);
    let error = handle.finish(Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.message(), "2 entries are still neither acknowledged nor dropped");
    let works = std::thread::spawn(move || {
        drop(two);
        one.ack().forget();
    });
    assert_eq!(handle.finish(PATIENCE), Ok(()));
    works.join().unwrap();
    assert_eq!(pending(&client), 1, "what was dropped stays");
}
