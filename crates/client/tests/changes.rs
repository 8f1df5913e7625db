//! Changes of a subscription that its server does not confirm.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::scripted::{SLACK, config, serve};
use sleeve::{Client, Effect, ErrorKind, SubscriptionEvent};

const LIMIT: Duration = Duration::from_millis(200);

/// Starts a server that confirms the first request of each connection and none after that, hangs up when a request asks for
/// it, and records the requests.
pub fn serve_once(told: Arc<Mutex<Vec<String>>>) -> u16 {
    serve(move |words| {
        let mut told = told.lock().unwrap();
        let begins = told.last().is_none_or(|last| last == "HANG UP");
        told.push(words.join(" "));
        if words[1..].contains(&"hang up".to_owned()) && !begins {
            told.push("HANG UP".to_owned());
            return None;
        }
        if !begins {
            return Some(Vec::new());
        }
        let confirm = |word: &String| format!(">3\r\n$9\r\nsubscribe\r\n${}\r\n{word}\r\n:1\r\n", word.len());
        Some(words[1..].iter().map(confirm).collect::<String>().into_bytes())
    })
}

#[test]
fn a_name_that_is_not_confirmed_in_time_stays_wanted() {
    let told = Arc::default();
    let client = Client::connect_with(config(serve_once(Arc::clone(&told))).connect_timeout(LIMIT)).unwrap();
    let subscription = client.subscribe("a").unwrap();
    let since = Instant::now();
    let error = subscription.subscribe("b").unwrap_err();
    assert!(since.elapsed() < LIMIT.mul_f64(1.15) + SLACK);
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown), "{error}");
    // The connection is not given up for the missing confirmation; when it is lost, the next one begins with both names. A
    // busy machine may need longer than the limit to confirm it.
    _ = subscription.subscribe("hang up");
    assert_eq!(subscription.recv().wait(), Ok(SubscriptionEvent::Resumed));
    let told = told.lock().unwrap().clone();
    assert_eq!(told, ["SUBSCRIBE a", "SUBSCRIBE b", "SUBSCRIBE hang up", "HANG UP", "SUBSCRIBE a b hang up"]);
}
