//! Rust values sent and read back, and the conversions of replies before the caller gets them.
#![cfg(feature = "embedded")]

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZero;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, Config, Effect, Endpoint, Error, ErrorKind, FromReply, Text, ToArg, each};

/// Checks that a value is read as it was written.
fn comes_back<T: ToArg + FromReply + PartialEq + std::fmt::Debug>(client: &Client, value: T) {
    client.set("value", &value).wait().expect("SET");
    assert_eq!(client.get::<T>("value").wait().as_ref(), Ok(&value));
    assert_eq!(client.get::<Option<T>>("value").wait(), Ok(Some(value)));
    assert_eq!(client.get::<Option<T>>("missing").wait(), Ok(None));
}

#[test]
fn a_value_comes_back_as_it_went() {
    let client = Client::embedded();
    comes_back(&client, Arc::<str>::from("shared"));
    comes_back(&client, Box::<str>::from("own"));
    comes_back(&client, Arc::<[u8]>::from([0, 255]));
    comes_back(&client, Box::<[u8]>::from([0, 255]));
    comes_back(&client, std::borrow::Cow::Borrowed("either"));
    comes_back(&client, 'é');
    comes_back(&client, true);
    comes_back(&client, u128::MAX);
    comes_back(&client, i128::MIN);
    comes_back(&client, f64::MIN_POSITIVE);
    comes_back(&client, 0.1f32);
    comes_back(&client, NonZero::<i16>::MIN);
    comes_back(&client, IpAddr::from(Ipv6Addr::LOCALHOST));
    comes_back(&client, SocketAddr::from(([127, 0, 0, 1], 6379)));
    comes_back(&client, Text(SocketAddr::from(([127, 0, 0, 1], 6379))));
}

#[test]
fn several_values_come_back_in_their_order() {
    let client = Client::embedded();
    client.rpush("list", VecDeque::from([1, 2, 3])).wait().unwrap();
    client.rpush("list", each((4..=9).filter(|number| number % 2 == 0))).wait().unwrap();
    let list: VecDeque<NonZero<u8>> = client.lrange("list", 0, -1).wait().unwrap();
    assert_eq!(list.into_iter().map(NonZero::get).collect::<Vec<_>>(), [1, 2, 3, 4, 6, 8]);
    type Twelve = (u8, u8, u8, u8, u8, u8, Option<u8>, u8, u8, u8, u8, u8);
    let keys = ("a", "a", "a", "a", "a", "a", "none", "a", "a", "a", "a", "a");
    client.set("a", 7).wait().unwrap();
    let twelve: Twelve = client.mget(keys).wait().unwrap();
    assert_eq!((twelve.0, twelve.6, twelve.11), (7, None, 7));
}

#[test]
fn an_error_among_values_can_be_asked_for() {
    let client = Client::embedded();
    client.set("name", "Ann").wait().unwrap();
    let transaction = client.transaction();
    let (one, wrong) = (transaction.incr("n"), transaction.incr("name"));
    assert!(transaction.exec().wait().unwrap());
    assert_eq!((one.wait(), wrong.wait().unwrap_err().kind()), (Ok(1), ErrorKind::Server));
    let script = "return {1, {err = 'ERR no'}, 3}";
    let values: Vec<Result<i64, Error>> = client.eval(script, (), ()).wait().unwrap();
    assert_eq!((&values[0], &values[2]), (&Ok(1), &Ok(3)));
    assert_eq!(values[1].as_ref().unwrap_err().message(), "ERR no");
}

#[test]
fn a_mapped_reply_is_awaited_like_the_reply() {
    let client = Client::embedded();
    assert_eq!(client.incr("n").map(|n| n * 10).wait(), Ok(10));
    assert_eq!(client.incr("n").map(|n| n * 10).map(|n| format!("{n}!")).wait(), Ok("20!".to_owned()));
    assert_eq!(client.incr("n").map(|n| n + 1).wait_for(Duration::from_secs(60)), Ok(4));
    let (told, hears) = mpsc::channel();
    client.incr("n").map(|n| n + 1).then(move |result| told.send(result).expect("somebody listens"));
    assert_eq!(hears.recv_timeout(Duration::from_secs(60)), Ok(Ok(5)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let mapped = client.incr("n").map(|n| n + 1);
    assert_eq!(runtime.block_on(async { tokio::spawn(mapped).await.unwrap() }), Ok(6));
    drop(client.incr("n").map(|_| -> i64 { panic!("nobody takes it") }));
    assert_eq!(client.get("n").wait(), Ok(6));
}

#[test]
fn an_error_skips_the_mapping_function() {
    let client = Client::embedded();
    client.set("name", "Ann").wait().unwrap();
    let error = client.incr("name").map(|_| -> i64 { panic!("there is no number") }).wait().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Server, Effect::Answered));
    let refused = client.get::<String>("name").and_then(|name| Err::<(), _>(Error::conversion(name)));
    let refused = refused.map(|()| panic!("it was refused"));
    assert_eq!(refused.wait().unwrap_err().message(), "Ann");
}

#[test]
fn forgotten_it_reports_the_command_and_runs_nothing() {
    let (told, hears) = mpsc::channel();
    let config = Config::new(Endpoint::Embedded(None)).on_error(move |error| {
        told.send(error.clone()).expect("somebody listens");
    });
    let client = Client::connect_with(config).unwrap();
    client.set("name", "Ann").map(|()| panic!("nobody takes it")).forget();
    client.incr("name").map(|_| panic!("nobody takes it")).forget();
    assert_eq!(hears.recv_timeout(Duration::from_secs(60)).unwrap().code(), Some("ERR"));
}
