//! Async code: what is gathered or listened to in a task that awaits, and that moves between threads meanwhile.
#![cfg(feature = "embedded")]

use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, Condition, Error};

/// A runtime of two threads, so that what is spawned must be able to move.
fn run<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async { tokio::spawn(task).await.unwrap() })
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[test]
fn a_batch_and_a_transaction_cross_an_await() {
    let client = Client::embedded();
    let sums: Result<(i64, i64), Error> = run(async move {
        let batch = client.batch();
        let one = batch.incr("a");
        pause().await;
        let borrowed = &batch;
        let two = borrowed.incr("a");
        pause().await;
        borrowed.send();
        let transaction = client.transaction();
        transaction.require(Condition::equals("a", 2));
        pause().await;
        let three = transaction.incrby("a", 10);
        pause().await;
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
