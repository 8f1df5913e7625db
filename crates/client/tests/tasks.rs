//! Async code: calls that are gathered and messages that arrive in a task that awaits, and that moves between threads at the
//! same time.
#![cfg(feature = "embedded")]

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt;
use sleeve::prelude::*;
use sleeve::{Client, Condition, Error, ErrorKind, MembersScan, ScanOptions};

/// Runs a task on a runtime of two threads, so that spawned tasks must be able to move.
fn run<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async { tokio::spawn(task).await.unwrap() })
}

#[test]
fn a_batch_and_a_transaction_cross_an_await() {
    let client = Client::embedded();
    let sums: Result<(i64, i64), Error> = run(async move {
        let batch = client.batch();
        let one = batch.incr("a");
        tokio::task::yield_now().await;
        let borrowed = &batch;
        let two = borrowed.incr("a");
        tokio::task::yield_now().await;
        borrowed.send();
        let transaction = client.transaction();
        transaction.require(Condition::equals("a", 2));
        tokio::task::yield_now().await;
        let three = transaction.incrby("a", 10);
        tokio::task::yield_now().await;
        assert!(transaction.exec().await?);
        assert_eq!(one.await?, 1);
        Ok((two.await?, three.await?))
    });
    assert_eq!(sums, Ok((2, 12)));
}

#[test]
fn a_watched_attempt_awaits_in_a_task() {
    let client = Client::embedded();
    let sum: Result<i64, Error> = run(async move {
        client.set("n", 20).await?;
        let attempt = async |lease: &sleeve::Lease, transaction: &sleeve::Transaction| {
            let n: i64 = lease.get("n").await?;
            transaction.set("n", n + 1).forget();
            Ok(n + 1)
        };
        client.watch_async("n", attempt).await
    });
    assert_eq!(sum, Ok(21));
}

#[test]
fn a_subscription_is_read_by_the_combinators_of_streams() {
    let client = Client::embedded();
    let payloads = run(async move {
        let subscription = client.subscribe("news").unwrap();
        client.publish("news", 1).await.unwrap();
        client.publish("news", 2).await.unwrap();
        let first = subscription.next().await.unwrap().unwrap();
        let second = (&subscription).map(Result::unwrap).next().await.unwrap();
        [first, second].map(|event| event.into_message().unwrap().payload_as::<i64>())
    });
    assert_eq!(payloads, [Ok(1), Ok(2)]);
}

#[test]
fn scans_bring_all_there_is_to_threads_and_tasks() {
    let client = Client::embedded();
    let names: BTreeSet<String> = (0..500).map(|number| format!("k:{number}")).collect();
    client.mset(names.iter().map(|name| (name, 1)).collect::<Vec<_>>()).wait().unwrap();
    client.sadd("set", &names).wait().unwrap();
    client.hset("hash", names.iter().map(|name| (name, 7)).collect::<Vec<_>>()).wait().unwrap();
    client.zadd("sorted", names.iter().map(|name| (1.5, name)).collect::<Vec<_>>()).wait().unwrap();

    let some = ScanOptions::new().pattern("k:*").count(7);
    let keys: Result<BTreeSet<String>, Error> = client.scan_all_with(some).into_iter().collect();
    assert_eq!(keys.as_ref(), Ok(&names));
    let lease = client.lease().unwrap();
    assert_eq!(lease.sscan_all::<String>("set").into_iter().collect::<Result<_, _>>(), Ok(names.clone()));
    assert_eq!(client.scan_all::<String>().into_iter().count(), 503);

    let wanted = names.clone();
    run(async move {
        let fields: Vec<_> = client.hscan_all::<(String, i64)>("hash").collect().await;
        let fields: Result<BTreeSet<_>, Error> = fields.into_iter().map(|pair| pair.map(|(name, _)| name)).collect();
        assert_eq!(fields.as_ref(), Ok(&wanted));
        let mut scan = client.zscan_all_with::<(String, f64)>("sorted", MembersScan::new().pattern("k:1*").count(5));
        let mut count = 0;
        while let Some(pair) = StreamExt::next(&mut scan).await {
            assert!(wanted.contains(&pair.unwrap().0));
            count += 1;
        }
        assert_eq!(count, 111);
    });
}

#[test]
fn a_scan_ends_after_an_error() {
    let client = Client::embedded();
    client.set("text", "no set").wait().unwrap();
    let mut members = client.sscan_all::<String>("text").into_iter();
    assert_eq!(members.next().unwrap().unwrap_err().code(), Some("WRONGTYPE"));
    assert!(members.next().is_none());
    let mut members = client.sscan_all::<String>(f64::NAN).into_iter();
    assert_eq!(members.next().unwrap().unwrap_err().kind(), ErrorKind::Usage);
    assert!(members.next().is_none());
}

/// Returns a client of an engine, and one of the same engine over TCP.
fn everywhere() -> [Client; 2] {
    let engine = Client::embedded();
    let address = engine.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let remote = Client::connect(&format!("valkey://{address}")).unwrap();
    [remote, engine]
}

#[test]
fn connecting_subscribing_and_closing_let_the_runtime_go_on() {
    let [remote, engine] = everywhere();
    let info: String = remote.cmd("CLIENT").arg("INFO").send().wait().unwrap();
    let address = info.split("laddr=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
    // The runtime has one thread, so that a call that blocked it would block the other task as well.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async move {
        let client = Client::connect_async(&format!("redis://{address}")).await.unwrap();
        let mut news = client.subscribe_async(["news"]).await.unwrap();
        let mut all = engine.psubscribe_async("n*").await.unwrap();
        assert_eq!(client.publish("news", 7).await, Ok(2));
        for subscription in [&mut news, &mut all] {
            let message = subscription.next().await.unwrap().unwrap().into_message().unwrap();
            assert_eq!(message.payload_as::<i64>(), Ok(7));
        }
        let job = client.blpop::<(String, String)>("jobs", Duration::ZERO);
        let closing = async { client.close_async(Duration::MAX).await };
        let pushing = async {
            // The blocking command must have left before the connection is closed, or it would not be answered.
            while engine.cmd("INFO").arg("clients").send::<String>().await.unwrap().contains("blocked_clients:0") {}
            tokio::task::yield_now().await;
            engine.rpush("jobs", "sweep").await
        };
        let (closed, pushed) = tokio::join!(closing, pushing);
        assert_eq!((closed, pushed), (Ok(()), Ok(1)));
        assert_eq!(job.await, Ok(("jobs".to_owned(), "sweep".to_owned())));
        assert_eq!(client.ping().await.unwrap_err().kind(), ErrorKind::Closed);
        let error = Client::connect_async("redis://127.0.0.1:1").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect);
    });
}

#[test]
fn closing_waits_for_commands_that_wait_and_no_longer_than_it_is_told() {
    for client in everywhere() {
        let other = client.clone();
        let job = client.blpop::<(String, String)>("jobs", Duration::ZERO);
        let error = client.close(Duration::from_millis(30)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(!job.is_ready());
        drop(job);
        assert_eq!(other.close(Duration::MAX), Ok(()));
    }
}
