//! Subscriptions of the client: over TCP to Sleeve and to Redis, and to the engine inside.
//!
//! What was published after a subscription is there comes, once and in each publisher's order; a lost connection is made
//! again and said so; a dropped subscription is gone on the server too.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use futures_core::Stream;
use sleeve::prelude::*;
use sleeve::{Client, Message, News, Subscription};
use sleeve_tests::{Kind, Server};

const PATIENCE: Duration = Duration::from_secs(60);

fn message(subscription: &Subscription) -> Message {
    let news = subscription.recv().wait_for(PATIENCE).expect("the subscription lives").expect("something comes");
    news.into_message().expect("the connection holds")
}

/// Runs `check` with clients of every place that messages can come from.
fn everywhere(check: impl Fn(&Client)) {
    for kind in [Kind::Sleeve, Kind::Redis] {
        let server = Server::start_with(kind, if kind == Kind::Sleeve { &["--workers", "3"] } else { &[] });
        check(&Client::connect(&format!("redis://{}", server.address())).expect("a connection"));
        check(&Client::connect(&format!("redis://{}?protocol=2", server.address())).expect("a connection"));
    }
    check(&Client::embedded());
}

#[test]
fn what_is_published_comes_in_order() {
    everywhere(|client| {
        let news = client.subscribe(["news", "weather"]).expect("subscribed");
        let all = client.psubscribe(["n?ws"]).expect("subscribed");
        let shard = client.ssubscribe(["news"]).expect("subscribed");
        for number in 0..1_000 {
            client.publish("news", number).forget();
        }
        client.publish("weather", "sunny").forget();
        client.spublish("news", "apart").forget();
        for number in 0..1_000_i64 {
            let (one, other) = (message(&news), message(&all));
            assert_eq!((one.payload_as(), other.payload_as()), (Ok(number), Ok(number)));
            assert_eq!((one.pattern, other.pattern), (None, Some(b"n?ws".to_vec())));
        }
        let last = message(&news);
        assert_eq!((last.channel_text().as_str(), last.payload.as_slice()), ("weather", b"sunny".as_slice()));
        assert_eq!(message(&shard).payload, b"apart");
        assert_eq!(news.recv_timeout(Duration::ZERO), Ok(None));
    });
}

#[test]
fn a_dropped_subscription_is_gone_on_the_server_too() {
    everywhere(|client| {
        let subscription = client.subscribe(["a"]).expect("subscribed");
        assert_eq!(client.publish("a", "1").wait(), Ok(1));
        assert_eq!(
            client.pubsub_numsub::<Vec<(String, u64)>>(["a", "b"]).wait(),
            Ok(vec![("a".into(), 1), ("b".into(), 0)])
        );
        drop(subscription);
        while client.pubsub_channels::<Vec<String>>().wait().expect("an answer") != Vec::<String>::new() {}
        assert_eq!(client.publish("a", "2").wait(), Ok(0));
    });
}

#[test]
fn a_lost_connection_is_made_again_and_said_so() {
    for kind in [Kind::Sleeve, Kind::Redis] {
        let server = Server::start(kind);
        let client = Client::connect(&format!("redis://{}", server.address())).expect("a connection");
        let subscription = client.subscribe(["a", "b"]).expect("subscribed");
        for round in 0..5_i64 {
            assert_eq!(client.cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub").send().wait(), Ok(1));
            let news = subscription.recv().wait_for(PATIENCE).expect("the subscription lives");
            assert_eq!(news, Some(News::Resumed));
            while client.publish("b", round).wait() != Ok(1) {}
            assert_eq!(message(&subscription).payload_as(), Ok(round));
        }
    }
}

#[test]
fn messages_are_awaited_in_any_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    everywhere(|client| {
        let subscription = client.subscribe(["a"]).expect("subscribed");
        let publisher = client.clone();
        let publish = runtime.spawn(async move {
            for number in 0..100 {
                publisher.publish("a", number).await.expect("published");
            }
        });
        runtime.block_on(async {
            for number in 0..100_i64 {
                let news = subscription.recv().await.expect("the subscription lives");
                assert_eq!(news.into_message().expect("a message").payload_as(), Ok(number));
            }
            publish.await.expect("all were published");
        });
    });
}

/// The next of a stream, as the combinators of any library would ask for it.
async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}

#[test]
fn a_subscription_is_a_stream_and_an_iterator() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    everywhere(|client| {
        let mut subscription = client.subscribe(["a"]).expect("subscribed");
        (0..10).for_each(|number| client.publish("a", number).forget());
        let payload = |news: News| news.into_message().expect("a message").payload_as::<i64>();
        for (number, news) in (0..5).zip(&subscription) {
            assert_eq!(payload(news.expect("the subscription lives")), Ok(number));
        }
        runtime.block_on(async {
            for number in 5..10 {
                let news = next(&mut subscription).await.expect("it goes on").expect("the subscription lives");
                assert_eq!(payload(news), Ok(number));
            }
        });
    });
}

#[test]
fn who_may_not_subscribe_is_told() {
    let error = Client::embedded().subscribe(Vec::<String>::new()).expect_err("no names");
    assert_eq!(error.kind(), sleeve::ErrorKind::Usage);
}
