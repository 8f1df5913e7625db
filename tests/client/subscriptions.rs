//! Subscriptions of the client: over TCP to Sleeve and to Redis, and to the embedded engine.
//!
//! A message published after a subscription is confirmed arrives once and in each publisher's order; a lost connection is
//! replaced and reported; a dropped subscription is gone on the server too.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::time::Duration;

use futures_core::Stream;
use sleeve::prelude::*;
use sleeve::{Client, Message, Subscription, SubscriptionEvent};
use sleeve_tests::{Kind, Server};

const PATIENCE: Duration = Duration::from_secs(60);

fn message(subscription: &Subscription) -> Message {
    let event = subscription.recv().wait_for(PATIENCE).expect("the subscription lives").expect("something comes");
    event.into_message().expect("the connection holds")
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
fn messages_arrive_in_order() {
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
            let event = subscription.recv().wait_for(PATIENCE).expect("the subscription lives");
            assert_eq!(event, Some(SubscriptionEvent::Resumed));
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
                let event = subscription.recv().await.expect("the subscription lives");
                assert_eq!(event.into_message().expect("a message").payload_as(), Ok(number));
            }
            publish.await.expect("all were published");
        });
    });
}

/// Returns the next item of a stream, as the combinators of any library would ask for it.
async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}

#[test]
fn a_subscription_is_a_stream_and_an_iterator() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    everywhere(|client| {
        let mut subscription = client.subscribe(["a"]).expect("subscribed");
        (0..10).for_each(|number| client.publish("a", number).forget());
        let payload = |event: SubscriptionEvent| event.into_message().expect("a message").payload_as::<i64>();
        for (number, event) in (0..5).zip(&subscription) {
            assert_eq!(payload(event.expect("the subscription lives")), Ok(number));
        }
        runtime.block_on(async {
            for number in 5..10 {
                let event = next(&mut subscription).await.expect("it goes on").expect("the subscription lives");
                assert_eq!(payload(event), Ok(number));
            }
        });
    });
}

#[test]
fn a_user_without_permission_to_subscribe_gets_an_error() {
    let error = Client::embedded().subscribe(Vec::<String>::new()).expect_err("no names");
    assert_eq!(error.kind(), sleeve::ErrorKind::Usage);
}

/// Returns the channels that the server knows of, in order.
fn channels(client: &Client) -> Vec<String> {
    let mut channels = client.pubsub_channels::<Vec<String>>().wait().expect("an answer");
    channels.sort();
    channels
}

#[test]
fn a_subscription_gains_and_loses_channels_while_it_lives() {
    everywhere(|client| {
        let subscription = client.subscribe(["a"]).expect("subscribed");
        subscription.subscribe(["b", "c"]).expect("added");
        subscription.subscribe(["a", "b"]).expect("they are there already");
        subscription.psubscribe("p*").expect("added");
        subscription.ssubscribe("s").expect("added");
        assert_eq!(channels(client), ["a", "b", "c"]);
        client.publish("c", 1).forget();
        client.publish("pq", 2).forget();
        client.spublish("s", 3).forget();
        for number in 1..=3_i64 {
            assert_eq!(message(&subscription).payload_as(), Ok(number));
        }
        subscription.unsubscribe(["a", "unheard of"]).expect("taken away");
        assert_eq!((client.publish("a", 4).wait(), channels(client)), (Ok(0), vec!["b".to_owned(), "c".to_owned()]));
        subscription.unsubscribe(()).expect("all are taken away");
        subscription.unsubscribe(()).expect("there is none");
        assert_eq!(channels(client), Vec::<String>::new());
        client.publish("pq", 5).forget();
        assert_eq!(message(&subscription).payload_as(), Ok(5));
        subscription.punsubscribe("p*").expect("taken away");
        subscription.sunsubscribe("s").expect("the last one is taken away");
        assert_eq!((client.publish("pq", 6).wait(), client.spublish("s", 6).wait()), (Ok(0), Ok(0)));
        assert_eq!(subscription.recv_timeout(Duration::ZERO), Ok(None));
        subscription.subscribe("d").expect("it lives all the same");
        client.publish("d", 7).forget();
        assert_eq!(message(&subscription).payload_as(), Ok(7));
        let error = subscription.subscribe(Vec::<String>::new()).expect_err("no names");
        assert_eq!(error.kind(), sleeve::ErrorKind::Usage);
        // The server hears of a dropped subscription a little later, and the next client sees all channels of the server.
        subscription.unsubscribe("d").expect("taken away");
    });
}

#[test]
fn changes_hold_over_reconnects() {
    for kind in [Kind::Sleeve, Kind::Redis] {
        for options in ["", "?protocol=2"] {
            let server = Server::start(kind);
            let client = Client::connect(&format!("redis://{}{options}", server.address())).expect("a connection");
            let subscription = client.subscribe(["a", "b"]).expect("subscribed");
            let lose = || {
                assert_eq!(client.cmd("CLIENT").arg(("KILL", "TYPE", "pubsub")).send().wait(), Ok(1));
                let event = subscription.recv().wait_for(PATIENCE).expect("the subscription lives");
                assert_eq!(event, Some(SubscriptionEvent::Resumed));
            };
            subscription.subscribe("c").expect("added");
            subscription.unsubscribe("a").expect("taken away");
            lose();
            while channels(&client) != ["b", "c"] {}
            // A change that is asked for while there is no connection is made by the next one.
            assert_eq!(client.cmd("CLIENT").arg(("KILL", "TYPE", "pubsub")).send().wait(), Ok(1));
            subscription.subscribe("d").expect("added");
            subscription.unsubscribe(["b", "c"]).expect("taken away");
            assert_eq!(subscription.recv().wait_for(PATIENCE), Ok(Some(SubscriptionEvent::Resumed)));
            assert_eq!(channels(&client), ["d"]);
            subscription.unsubscribe("d").expect("the last one is taken away");
            // Redis kills a client of RESP2 without channels as a normal one, so it is told by its number of channels.
            let listening = || {
                let list: String = client.cmd("CLIENT").arg("LIST").send().wait().expect("an answer");
                let line = list.lines().find(|line| line.contains("cmd=unsubscribe"));
                line.and_then(|line| line.split(' ').next()?.strip_prefix("id=")?.parse::<i64>().ok())
            };
            let id = listening().expect("it is still connected");
            assert_eq!(client.cmd("CLIENT").arg(("KILL", "ID", id)).send().wait(), Ok(1));
            assert_eq!(subscription.recv().wait_for(PATIENCE), Ok(Some(SubscriptionEvent::Resumed)));
            subscription.subscribe("e").expect("added");
            client.publish("e", 5).forget();
            assert_eq!((message(&subscription).payload_as(), channels(&client)), (Ok(5), vec!["e".to_owned()]));
        }
    }
}

#[test]
fn a_refused_subscription_is_dropped_and_disturbs_no_other() {
    for kind in [Kind::Sleeve, Kind::Redis] {
        let server = Server::start(kind);
        let admin = Client::connect(&format!("redis://{}", server.address())).expect("a connection");
        let rule = admin
            .cmd("ACL")
            .arg(("SETUSER", "ann", "on", ">secret", "+@all", "~*", "resetchannels", "&a", "&c"))
            .send::<()>();
        rule.wait().expect("a user");
        let client = Client::connect(&format!("redis://ann:secret@{}", server.address())).expect("a connection");
        let subscription = client.subscribe("a").expect("subscribed");
        let error = subscription.subscribe(["c", "b"]).expect_err("not allowed");
        assert_eq!(error.code(), Some("NOPERM"));
        assert_eq!(channels(&admin), ["a"]);
        subscription.subscribe("c").expect("added");
        assert_eq!(admin.cmd("CLIENT").arg(("KILL", "TYPE", "pubsub")).send().wait(), Ok(1));
        assert_eq!(subscription.recv().wait_for(PATIENCE), Ok(Some(SubscriptionEvent::Resumed)));
        while channels(&admin) != ["a", "c"] {}
        admin.publish("c", 1).forget();
        assert_eq!(message(&subscription).payload_as(), Ok(1));
    }
}

#[test]
fn changes_of_subscriptions_are_made_without_a_waiting_caller() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    everywhere(|client| {
        let mut subscription = client.subscribe(["a"]).expect("subscribed");
        runtime.block_on(async {
            subscription.subscribe_async("b").await.expect("added");
            client.publish("b", 1).await.expect("published");
            let event = next(&mut subscription).await.expect("it goes on").expect("the subscription lives");
            assert_eq!(event.into_message().expect("a message").payload_as(), Ok(1));
            subscription.unsubscribe_async("a").await.expect("taken away");
            let mut adding = Box::pin(subscription.psubscribe_async("c*"));
            // The future is polled once and dropped.
            poll_fn(|context| std::task::Poll::Ready(adding.as_mut().poll(context).is_ready())).await;
            drop(adding);
            while client.publish("cd", 2).await != Ok(1) {}
        });
        // A reader that waits for long, on its thread, does not hold up a thread that changes the subscription.
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                loop {
                    let message = message(&subscription);
                    if message.channel == b"d" {
                        return message.payload_as();
                    }
                }
            });
            subscription.subscribe("d").expect("added");
            client.publish("d", 3).forget();
            assert_eq!(reader.join().expect("it ends"), Ok(3));
        });
    });
}
