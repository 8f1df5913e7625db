//! Lanes: large requests and replies use a second connection, small calls pass them, and calls on one key keep their order.

use std::collections::HashMap;
use std::fmt::Debug;
use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, Effect, ErrorKind, FromReply, LaneOptions, Reply, Role};

use crate::scripted::{Requests, config, greet, serve, until};

/// The number of bytes from which on a call is large in these tests.
const LARGE: usize = 1000;

fn large(letter: &str) -> String {
    letter.repeat(LARGE)
}

fn options() -> LaneOptions {
    LaneOptions::new().large_min(LARGE)
}

fn text(value: &str) -> Vec<u8> {
    format!("${}\r\n{value}\r\n", value.len()).into_bytes()
}

/// The values of a server.
#[derive(Default)]
struct Values(Mutex<HashMap<String, String>>);

impl Values {
    /// Executes the commands that these tests use.
    fn execute(&self, words: &[String]) -> Vec<u8> {
        let mut values = self.0.lock().unwrap();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let value = |values: &HashMap<String, String>, key: &str| values.get(key).cloned().unwrap_or_default();
        match words[..] {
            ["SET", key, value] => {
                values.insert(key.to_owned(), value.to_owned());
                b"+OK\r\n".to_vec()
            }
            ["GET", key] => text(&value(&values, key)),
            ["MGET", one, other] => {
                [b"*2\r\n".to_vec(), text(&value(&values, one)), text(&value(&values, other))].concat()
            }
            ["APPEND", key, more] => {
                let whole = values.entry(key.to_owned()).or_default();
                whole.push_str(more);
                format!(":{}\r\n", whole.len()).into_bytes()
            }
            ["FLUSHALL"] => {
                values.clear();
                b"+OK\r\n".to_vec()
            }
            _ => panic!("{words:?}"),
        }
    }
}

/// Starts a server that does not answer requests about the key `held` until the test tells it to, once for each request. It
/// records the commands that it executes.
fn holding() -> (u16, Sender<()>, Arc<Mutex<Vec<String>>>) {
    let (release, released) = channel::<()>();
    let (released, values, history) = (Mutex::new(released), Values::default(), Arc::<Mutex<Vec<String>>>::default());
    let noted = Arc::clone(&history);
    let port = serve(move |words| {
        let key = words.get(1).map_or("", String::as_str);
        if key == "held" {
            released.lock().unwrap().recv().ok()?;
        }
        noted.lock().unwrap().push(format!("{} {key}", words[0]));
        Some(values.execute(words))
    });
    (port, release, history)
}

#[test]
fn small_calls_pass_large_ones_except_on_the_same_key() {
    let (port, release, history) = holding();
    let client = Client::connect_with(config(port)).unwrap();
    let lanes = client.lanes_with(options()).unwrap();
    assert_eq!(lanes.set("small", 1).wait(), Ok(()));
    assert_eq!(client.metrics().len(), 1, "nobody has needed a second connection");
    let stored = lanes.set("held", large("x"));
    let read = lanes.get::<String>("held");
    for number in 0..100 {
        assert_eq!(lanes.set("other", number).wait(), Ok(()));
        assert_eq!(lanes.get::<u32>("other").wait(), Ok(number));
        lanes.ping().wait().unwrap();
    }
    // A command that may touch any key waits too, and so do the calls after it; a command without a key does not.
    let flushed = lanes.flushall();
    let after = lanes.get::<String>("other");
    lanes.ping().wait().unwrap();
    assert!(!stored.is_ready() && !read.is_ready() && !flushed.is_ready() && !after.is_ready());
    release.send(()).unwrap();
    release.send(()).unwrap();
    assert_eq!((stored.wait(), read.wait()), (Ok(()), Ok(large("x"))));
    assert_eq!((flushed.wait(), after.wait().as_deref()), (Ok(()), Ok("")));
    let metrics = client.metrics();
    assert_eq!((metrics.len(), metrics[1].connections, metrics[1].replies, metrics[1].in_flight), (2, 1, 4, 0));
    assert_eq!(history.lock().unwrap()[201..], ["SET held", "GET held", "FLUSHALL ", "GET other"].map(String::from));
}

#[test]
fn large_calls_overtake_none() {
    let (port, release, history) = holding();
    let client = Client::connect_with(config(port)).unwrap();
    let lanes = client.lanes_with(options()).unwrap();
    let before = lanes.get::<String>("held");
    let calls = [lanes.set("a", large("x")), lanes.set("b", large("x")), lanes.set("a", 1)];
    until("the second connection is there", || client.metrics().get(1).is_some_and(|lane| lane.is_connected));
    assert_eq!((client.metrics()[1].requests, before.is_ready()), (0, false));
    release.send(()).unwrap();
    assert_eq!(calls.map(|call| call.wait()), [Ok(()), Ok(()), Ok(())]);
    assert_eq!(*history.lock().unwrap(), ["GET held", "SET a", "SET b", "SET a"]);
    assert_eq!(client.metrics()[1].requests, 3);
}

#[test]
fn replies_teach_which_calls_are_large() {
    let size = Arc::new(AtomicUsize::new(LARGE));
    let length = Arc::clone(&size);
    let port = serve(move |words| {
        let is_page = words[1].starts_with("page");
        Some(text(&"x".repeat(if is_page { length.load(Ordering::SeqCst) } else { 1 })))
    });
    let client = Client::connect_with(config(port)).unwrap();
    let lanes = client.lanes_with(options()).unwrap();
    let on_lane = || client.metrics().get(1).map_or(0, |lane| lane.replies);
    let get = |key: &str| lanes.get::<String>(key).wait().map(|value| value.len());
    assert_eq!((get("page:1"), on_lane()), (Ok(LARGE), 0), "nobody can know");
    assert_eq!((get("page:2"), on_lane()), (Ok(LARGE), 1));
    assert_eq!((get("name:2"), get("page:text"), on_lane()), (Ok(1), Ok(LARGE), 1), "they are of another kind");
    assert_eq!((lanes.db(1).get::<String>("page:3").wait().is_ok(), on_lane()), (true, 1));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(runtime.block_on(lanes.db(1).get::<String>("page:3")).map(|value| value.len()), Ok(LARGE));
    assert_eq!((runtime.block_on(lanes.db(2).get::<String>("page:3")).is_ok(), on_lane()), (true, 2));
    assert_eq!((lanes.db(2).get::<String>("page:4").wait().is_ok(), on_lane()), (true, 3), "awaiting teaches too");
    size.store(1, Ordering::SeqCst);
    for taken in [4, 5, 5, 5] {
        assert_eq!((get("page:5"), on_lane()), (Ok(1), taken), "they are small by now");
    }
}

#[test]
fn the_second_connection_is_closed_when_it_is_idle_and_opened_again() {
    let values = Values::default();
    let port = serve(move |words| Some(values.execute(words)));
    let client = Client::connect_with(config(port)).unwrap();
    let lanes = client.lanes_with(options().idle_after(Duration::from_millis(20))).unwrap();
    for _ in 0..3 {
        assert_eq!(lanes.set("k", large("x")).wait(), Ok(()));
        assert_eq!(client.metrics()[1].replies, 1);
        until("it is closed", || !client.metrics()[1].is_connected);
        assert_eq!(lanes.append("k", "y").wait(), Ok(LARGE + 1));
    }
}

/// Starts a server with a second connection that takes this many bytes behind the greeting and ends. Returns its port, the
/// number of whole SETs that have arrived, and the number of connections.
fn cutting(after: usize) -> (u16, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (writes, connections) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (counted, made) = (Arc::clone(&writes), Arc::clone(&connections));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut left = if made.fetch_add(1, Ordering::SeqCst) == 1 { after } else { usize::MAX };
            let (mut stream, counted) = (stream.unwrap(), Arc::clone(&counted));
            thread::spawn(move || {
                let (mut requests, mut is_greeted) = (Requests::default(), false);
                while left > 0 && requests.receive_at_most(&mut stream, if is_greeted { left } else { 1 }) {
                    left = if is_greeted && left < usize::MAX { left.saturating_sub(65536) } else { left };
                    while let Some(words) = requests.next() {
                        is_greeted |= words[0] == "PING";
                        let reply = greet(&words).unwrap_or_else(|| {
                            counted.fetch_add(1, Ordering::SeqCst);
                            b"+OK\r\n".to_vec()
                        });
                        if left == 0 || stream.write_all(&reply).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    (port, writes, connections)
}

#[test]
fn a_cut_amid_a_large_request_sends_it_again_and_one_behind_it_never_does() {
    // The value is larger than the buffers of a connection, so that it has not left whole.
    let value = vec![b'x'; 32 << 20];
    let (port, writes, connections) = cutting(65536);
    let client = Client::connect_with(config(port)).unwrap();
    let lanes = client.lanes_with(options()).unwrap();
    let (stored, behind) = (lanes.set("k", &value), lanes.set("k", 1));
    assert_eq!(lanes.set("other", 1).wait(), Ok(()));
    assert_eq!((stored.wait(), behind.wait()), (Ok(()), Ok(())));
    assert_eq!((writes.load(Ordering::SeqCst), connections.load(Ordering::SeqCst)), (3, 3));
    assert_eq!((client.metrics()[0].lost, client.metrics()[1].lost), (0, 1));

    let request = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${LARGE}\r\n{}\r\n", large("x"));
    let (port, writes, _) = cutting(request.len());
    let client = Client::connect_with(config(port)).unwrap();
    let lanes = client.lanes_with(options()).unwrap();
    let error = lanes.set("k", large("x")).wait().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Disconnected, Effect::Unknown));
    assert_eq!(lanes.set("k", 1).wait(), Ok(()));
    assert_eq!(writes.load(Ordering::SeqCst), 2, "it was not sent twice");
}

#[test]
fn calls_that_wait_for_others_time_out_in_time() {
    let (port, release, history) = holding();
    let client = Client::connect_with(config(port).command_timeout(Some(Duration::from_millis(200)))).unwrap();
    let lanes = client.lanes_with(options()).unwrap();
    let (before, stored) = (lanes.get::<String>("held"), lanes.set("k", large("x")));
    let error = stored.wait().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::None));
    assert!(error.message().starts_with("SET is large and was not sent"), "{error}");
    assert_eq!(before.wait().unwrap_err().kind(), ErrorKind::Timeout);
    release.send(()).unwrap();
    until("the server goes on", || lanes.set("k", large("y")).wait().is_ok());
    assert_eq!(lanes.get::<String>("k").wait(), Ok(large("y")));
    assert!(history.lock().unwrap().contains(&"SET k".to_owned()));
}

#[test]
fn closing_waits_for_unsent_calls_and_lanes_end_with_their_client() {
    let (port, release, history) = holding();
    let client = Client::connect_with(config(port)).unwrap();
    let lanes = client.lanes_with(options()).unwrap();
    let (before, stored) = (lanes.get::<String>("held"), lanes.set("k", large("x")));
    let closing = thread::spawn(move || client.close(Duration::from_secs(60)));
    release.send(()).unwrap();
    assert_eq!((before.wait().as_deref(), stored.wait()), (Ok(""), Ok(())));
    assert_eq!(closing.join().unwrap(), Ok(()));
    assert_eq!(history.lock().unwrap().len(), 2);
    for reply in [lanes.set("k", large("x")), lanes.set("k", 1)] {
        assert_eq!(reply.wait().unwrap_err().kind(), ErrorKind::Closed);
    }

    // The last handle may be dropped before its calls are answered.
    let client = Client::connect_with(config(port)).unwrap();
    let before = client.get::<String>("held");
    let stored = client.lanes_with(options()).unwrap().set("k", large("x"));
    drop(client);
    release.send(()).unwrap();
    assert_eq!((before.wait().as_deref(), stored.wait()), (Ok(""), Ok(())));
}

#[test]
fn a_client_has_one_kind_of_lanes_and_a_cluster_none() {
    let client = Client::open("redis://127.0.0.1:1").unwrap();
    _ = client.lanes_with(options()).unwrap();
    _ = (client.lanes().unwrap(), client.db(1).lanes_with(options()).unwrap());
    let others = client.lanes_with(options().idle_after(Duration::ZERO));
    assert_eq!(others.unwrap_err().kind(), ErrorKind::Usage);
    let cluster = Client::open("redis+cluster://127.0.0.1:1").unwrap();
    assert_eq!(cluster.lanes().unwrap_err().kind(), ErrorKind::Usage);
}

/// A function that returns the reply, and the expected reply.
type Outcome = (Box<dyn FnOnce() -> String>, String);

fn outcome<T: FromReply + Debug + 'static>(reply: Reply<T>, expected: T) -> Outcome {
    (Box::new(move || format!("{:?}", reply.wait())), format!("{:?}", Ok::<T, ErrorKind>(expected)))
}

/// Makes calls without waiting for any before the last, and returns the number of answers that differ from those of the calls
/// one by one. Large calls use the second handle.
fn differences(small: &impl Ask, others: &impl Ask, seed: u64) -> usize {
    let (mut random, mut model) = (seed, HashMap::<String, String>::new());
    let mut roll = |sides: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % sides
    };
    let mut outcomes = Vec::new();
    for number in 0..200 {
        let (key, other) = (format!("{seed}:{}", roll(5)), format!("{seed}:{}", roll(5)));
        let is_large = roll(4) == 0;
        let value = format!("{number}{}", if is_large { large("-") } else { String::new() });
        outcomes.push(match roll(5) {
            0 | 1 => {
                let reply = if is_large { others.set(&key, &value) } else { small.set(&key, &value) };
                model.insert(key, value);
                outcome(reply, ())
            }
            2 => {
                let reply = if is_large { others.append(&key, &value) } else { small.append(&key, &value) };
                let whole = model.entry(key).or_default();
                whole.push_str(&value);
                outcome(reply, whole.len())
            }
            3 => outcome(small.get::<String>(&key), model.get(&key).cloned().unwrap_or_default()),
            _ => {
                let expected = [&key, &other].map(|key| model.get(key).cloned().unwrap_or_default());
                outcome(small.mget::<Vec<String>>([&key, &other]), expected.to_vec())
            }
        });
    }
    outcomes.into_iter().filter_map(|(answer, expected)| (answer() != expected).then_some(())).count()
}

#[test]
fn lanes_reply_as_one_connection_does_and_two_bare_connections_do_not() {
    let values = Values::default();
    let port = serve(move |words| {
        // A large request takes a while, so that small calls pass it if they may.
        if words.iter().any(|word| word.len() >= LARGE) {
            thread::sleep(Duration::from_millis(1));
        }
        Some(values.execute(words))
    });
    let client = Client::connect_with(config(port)).unwrap();
    let (lanes, priority) = (client.lanes_with(options()).unwrap(), client.priority().unwrap());
    let mut naive = 0;
    for seed in 0..10 {
        assert_eq!(differences(&lanes, &lanes, 2 * seed), 0, "seed {seed}");
        naive += differences(&priority, &client, 2 * seed + 1);
    }
    assert!(naive > 0, "nothing passes by anything, so the order is not tested");
    assert!(client.metrics()[2].replies > 0);
}

#[test]
fn each_connection_has_series_of_its_own() {
    let client = Client::connect_with(config(serve(|_| Some(b"+OK\r\n".to_vec())))).unwrap();
    client.priority().unwrap().ping().wait().unwrap();
    client.lanes_with(options()).unwrap().set("k", large("x")).wait().unwrap();
    let metrics = client.metrics();
    assert_eq!(metrics.iter().map(|of| of.role).collect::<Vec<_>>(), [Role::Shared, Role::Priority, Role::Large]);
    let page: String = metrics.iter().map(|of| of.prometheus(&[])).collect();
    let series = page.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    let mut names: Vec<&str> = series.map(|(name, _)| name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "two connections have the same names");
    assert!(page.contains("role=\"large\"} 1") && page.contains("role=\"priority\"} 1"));
}
