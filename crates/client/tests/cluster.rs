//! A cluster of two nodes that follow a test's scripts: the rare answers, and the node that is asked next.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Client, Config, Effect, Endpoint, Error, ErrorKind};

use crate::scripted::{self, SLACK, greet, serve_all, until};

/// A key in a slot of the first node, if the nodes share the slots half and half; and one in a slot of the second.
const FIRST: &str = "bar";
const SECOND: &str = "foo";

/// The reply of a node to a request: bytes to send back, or `None` to hang up.
type Script = dyn Fn(&Pair, &[String]) -> Option<Vec<u8>> + Send + Sync;

/// Two nodes, and the requests that each was sent.
struct Pair {
    ports: [OnceLock<u16>; 2],
    /// True if the second node owns all slots.
    is_moved: AtomicBool,
    /// True if the first node hangs up on every client that connects.
    is_gone: AtomicBool,
    told: [Mutex<Vec<String>>; 2],
}

impl Pair {
    fn start(first: Box<Script>, second: Box<Script>) -> Arc<Self> {
        let (ports, is_moved, is_gone, told) = Default::default();
        let pair = Arc::new(Self { ports, is_moved, is_gone, told });
        for (number, script) in [first, second].into_iter().enumerate() {
            let node = pair.clone();
            let port = serve_all(move |words| {
                if number == 0 && node.is_gone.load(Ordering::SeqCst) {
                    return None;
                }
                let answer = greet(words).or_else(|| node.slots(words));
                answer.or_else(|| {
                    node.told[number].lock().unwrap().push(words.join(" "));
                    script(&node, words)
                })
            });
            pair.ports[number].set(port).unwrap();
        }
        pair
    }

    fn port(&self, number: usize) -> u16 {
        *self.ports[number].get().unwrap()
    }

    /// Returns the answer to CLUSTER SLOTS.
    fn slots(&self, words: &[String]) -> Option<Vec<u8>> {
        if words[0] != "CLUSTER" {
            return None;
        }
        let range = |first: u16, last: u16, node: usize| {
            format!("*3\r\n:{first}\r\n:{last}\r\n*2\r\n$9\r\n127.0.0.1\r\n:{}\r\n", self.port(node))
        };
        Some(if self.is_moved.load(Ordering::SeqCst) {
            format!("*1\r\n{}", range(0, 16383, 1)).into_bytes()
        } else {
            format!("*2\r\n{}{}", range(0, 8191, 0), range(8192, 16383, 1)).into_bytes()
        })
    }

    fn redirection(&self, code: &str, slot: u16, node: usize) -> Option<Vec<u8>> {
        Some(format!("-{code} {slot} 127.0.0.1:{}\r\n", self.port(node)).into_bytes())
    }

    fn told(&self, number: usize) -> Vec<String> {
        self.told[number].lock().unwrap().clone()
    }

    fn config(&self) -> Config {
        let seeds = (0..2).map(|number| ("127.0.0.1".to_owned(), self.port(number))).collect();
        Config::new(Endpoint::Cluster(seeds)).backoff(Duration::from_millis(1), Duration::from_millis(20))
    }

    fn connect(&self) -> Client {
        Client::connect_with(self.config()).unwrap()
    }
}

fn ok() -> Option<Vec<u8>> {
    Some(b"+OK\r\n".to_vec())
}

fn error(text: &str) -> Option<Vec<u8>> {
    Some(format!("-{text}\r\n").into_bytes())
}

fn always(answer: &'static str) -> Box<Script> {
    Box::new(move |_, _| Some(answer.as_bytes().to_vec()))
}

#[test]
fn each_slot_has_its_node() {
    let pair = Pair::start(always("$5\r\nfirst\r\n"), always("$6\r\nsecond\r\n"));
    let client = pair.connect();
    let (one, two) = (client.get::<String>(FIRST), client.get::<String>(SECOND));
    assert_eq!((one.wait().unwrap(), two.wait().unwrap()), ("first".to_owned(), "second".to_owned()));
    client.close(SLACK).unwrap();
    assert_eq!(client.get::<String>(FIRST).wait().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_slot_that_has_moved_is_asked_for_at_its_new_owner_from_then_on() {
    let first: Box<Script> = Box::new(|pair, _| {
        pair.is_moved.store(true, Ordering::SeqCst);
        pair.redirection("MOVED", 5061, 1)
    });
    let pair = Pair::start(first, always("+OK\r\n"));
    let client = pair.connect();
    for value in 0..3 {
        client.set(FIRST, value).wait().unwrap();
    }
    assert_eq!(pair.told(0), ["SET bar 0"], "the map was mended");
    assert_eq!(pair.told(1), ["SET bar 0", "SET bar 1", "SET bar 2"]);
}

#[test]
fn no_request_overtakes_those_sent_to_the_last_owner() {
    const CALLS: usize = 4000;
    let first: Box<Script> = Box::new(|pair, _| {
        pair.is_moved.store(true, Ordering::SeqCst);
        pair.redirection("MOVED", 5061, 1)
    });
    let pair = Pair::start(first, always("+OK\r\n"));
    let client = pair.connect();
    for chunk in (0..CALLS).collect::<Vec<_>>().chunks(100) {
        let replies: Vec<_> = chunk.iter().map(|value| client.set(FIRST, value)).collect();
        // From time to time the client has time to correct its map.
        if chunk[0] % 1000 == 0 {
            replies.into_iter().next().unwrap().wait().unwrap();
        }
    }
    client.close(SLACK).unwrap();
    let wanted: Vec<String> = (0..CALLS).map(|value| format!("SET bar {value}")).collect();
    assert!(pair.told(1) == wanted, "{} of {CALLS}, or not in order", pair.told(1).len());
    let redirected = pair.told(0).len();
    assert!(redirected > 0 && redirected < CALLS, "{redirected} of {CALLS} were redirected");
}

#[test]
fn a_slot_that_has_moved_is_held_until_its_last_owner_has_answered_all() {
    let first: Box<Script> = Box::new(|pair, words| {
        pair.is_moved.store(true, Ordering::SeqCst);
        // The second call is answered late: without the hold, the third would arrive at the new owner before.
        let since = Instant::now();
        while words[2] == "1" && pair.told(1).len() < 2 && since.elapsed() < Duration::from_millis(100) {
            thread::yield_now();
        }
        pair.redirection("MOVED", 5061, 1)
    });
    let pair = Pair::start(first, always("+OK\r\n"));
    let client = pair.connect();
    let [one, two] = [0, 1].map(|value| client.set(FIRST, value));
    one.wait().unwrap();
    let three = client.set(FIRST, 2);
    two.wait().unwrap();
    three.wait().unwrap();
    assert_eq!(pair.told(1), ["SET bar 0", "SET bar 1", "SET bar 2"]);
}

#[test]
fn a_key_on_the_move_is_asked_for_and_its_slot_stays() {
    let second: Box<Script> = Box::new(|pair, words| match words[0].as_str() {
        "ASKING" => ok(),
        _ => match pair.told(1) {
            told if told.len() > 1 && told[told.len() - 2] == "ASKING" => Some(b":7\r\n".to_vec()),
            _ => error("ERR nobody said ASKING"),
        },
    });
    let pair = Pair::start(Box::new(|pair, _| pair.redirection("ASK", 5061, 1)), second);
    let client = pair.connect();
    for _ in 0..2 {
        assert_eq!(client.incr(FIRST).wait(), Ok(7));
    }
    assert_eq!(pair.told(0), ["INCR bar", "INCR bar"]);
    assert_eq!(pair.told(1), ["ASKING", "INCR bar", "ASKING", "INCR bar"]);
}

#[test]
fn requests_that_may_succeed_later_are_retried() {
    for refusal in [
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CLUSTERDOWN The cluster is down",
        "LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a read only replica.",
    ] {
        let left = AtomicUsize::new(3);
        let first: Box<Script> = Box::new(move |_, _| {
            match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
                Ok(_) => error(refusal),
                Err(_) => ok(),
            }
        });
        let pair = Pair::start(first, always("+OK\r\n"));
        pair.connect().set(FIRST, 1).wait().unwrap();
        assert_eq!(pair.told(0).len(), 4, "{refusal}");
    }
}

#[test]
fn requests_that_never_succeed_time_out() {
    let pair = Pair::start(always("-CLUSTERDOWN Hash slot not served\r\n"), always("+OK\r\n"));
    let client = Client::connect_with(pair.config().command_timeout(Some(Duration::from_millis(200)))).unwrap();
    let error = client.set(FIRST, 1).wait().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::None), "{error}");
    assert!(error.message().contains("CLUSTERDOWN Hash slot not served"), "{error}");
    client.set(SECOND, 1).wait().unwrap();
}

#[test]
fn a_write_that_has_left_is_never_sent_again() {
    let pair = Pair::start(Box::new(|_, _| None), always("+OK\r\n"));
    let client = pair.connect();
    let error = client.incr(FIRST).wait().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Disconnected, Effect::Unknown), "{error}");
    client.set(SECOND, 1).wait().unwrap();
    assert_eq!((pair.told(0).len(), pair.told(1).len()), (1, 1));
}

#[test]
fn an_unsent_request_goes_to_the_present_owner_of_its_slot() {
    let first: Box<Script> = Box::new(|pair, _| {
        pair.is_gone.store(true, Ordering::SeqCst);
        None
    });
    let pair = Pair::start(first, always("+OK\r\n"));
    let client = pair.connect();
    let lost = client.set(FIRST, 0).wait().unwrap_err();
    assert_eq!(lost.effect(), Effect::Unknown);
    // The slot has no other owner at this point.
    let replies: Vec<_> = (1..50).map(|value| client.set(FIRST, value)).collect();
    assert!(replies.iter().all(|reply| !reply.is_ready()));
    pair.is_moved.store(true, Ordering::SeqCst);
    for reply in replies {
        reply.wait().unwrap();
    }
    let wanted: Vec<String> = (1..50).map(|value| format!("SET bar {value}")).collect();
    assert_eq!(pair.told(1), wanted);
}

#[test]
fn commands_with_many_keys_are_split_and_put_together() {
    let first: Box<Script> = Box::new(|_, words| match words[0].as_str() {
        "MGET" => Some(format!("*{}\r\n{}", words.len() - 1, "$1\r\nA\r\n".repeat(words.len() - 1)).into_bytes()),
        "DEL" => Some(format!(":{}\r\n", words.len() - 1).into_bytes()),
        "DBSIZE" => Some(b":40\r\n".to_vec()),
        "KEYS" => Some(b"*1\r\n$3\r\nbar\r\n".to_vec()),
        _ => ok(),
    });
    let second: Box<Script> = Box::new(|_, words| match words[0].as_str() {
        "MGET" if words.contains(&"{foo}secret".to_owned()) => error("NOPERM no"),
        "MGET" => Some(format!("*{}\r\n{}", words.len() - 1, "$1\r\nB\r\n".repeat(words.len() - 1)).into_bytes()),
        "DEL" => Some(format!(":{}\r\n", words.len() - 1).into_bytes()),
        "DBSIZE" => Some(b":2\r\n".to_vec()),
        "KEYS" => Some(b"*1\r\n$3\r\nfoo\r\n".to_vec()),
        _ => ok(),
    });
    let pair = Pair::start(first, second);
    let client = pair.connect();
    let values: Vec<String> = client.mget([SECOND, FIRST, "{foo}2", "{bar}2"]).wait().unwrap();
    assert_eq!(values, ["B", "A", "B", "A"]);
    let values: Vec<Result<String, Error>> = client.mget(["{foo}secret", FIRST]).wait().unwrap();
    assert_eq!(values[0].as_ref().unwrap_err().code(), Some("NOPERM"));
    assert_eq!(values[1].as_deref(), Ok("A"));
    assert_eq!(client.del([FIRST, SECOND, "{foo}2"]).wait(), Ok(3));
    client.mset([(FIRST, 1), (SECOND, 2)]).wait().unwrap();
    assert_eq!(pair.told(0).last().unwrap(), "MSET bar 1");
    assert_eq!(pair.told(1).last().unwrap(), "MSET foo 2");
    assert_eq!(client.dbsize().wait(), Ok(42));
    let mut keys: Vec<String> = client.keys("*").wait().unwrap();
    keys.sort();
    assert_eq!(keys, ["bar", "foo"]);
}

#[test]
fn commands_over_several_nodes_are_refused_before_any_leaves() {
    let pair = Pair::start(always("+OK\r\n"), always("+OK\r\n"));
    let client = pair.connect();
    let refused = |error: Error| {
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Usage, Effect::None), "{error}");
        assert!(error.message().contains("CROSSSLOT") && error.message().contains("in braces"), "{error}");
    };
    refused(client.msetnx([(FIRST, 1), (SECOND, 2)]).wait().unwrap_err());
    refused(client.rename(FIRST, SECOND).wait().unwrap_err());
    let batch = client.batch();
    let (one, two) = (batch.set(FIRST, 1), batch.set(SECOND, 2));
    batch.send();
    refused(one.wait().unwrap_err());
    refused(two.wait().unwrap_err());
    let transaction = client.transaction();
    let (one, two) = (transaction.set(FIRST, 1), transaction.set(SECOND, 2));
    refused(transaction.exec().wait().unwrap_err());
    refused(one.wait().unwrap_err());
    refused(two.wait().unwrap_err());
    let error = client.info(()).wait().unwrap_err();
    assert!(error.message().contains("redis://"), "{error}");
    assert_eq!((pair.told(0), pair.told(1)), (vec![], vec![]));
}

#[test]
fn a_batch_of_one_slot_goes_out_in_one_piece() {
    let pair = Pair::start(Box::new(|pair, _| pair.redirection("MOVED", 5061, 1)), always("+OK\r\n"));
    let client = pair.connect();
    let batch = client.batch();
    let replies: Vec<_> = (0..5).map(|value| batch.set(FIRST, value)).collect();
    batch.send();
    for reply in replies {
        reply.wait().unwrap();
    }
    let wanted: Vec<String> = (0..5).map(|value| format!("SET bar {value}")).collect();
    assert_eq!(pair.told(1), wanted);
}

#[test]
fn an_unknown_command_finds_its_node() {
    let second: Box<Script> = Box::new(|pair, _| pair.redirection("MOVED", 5061, 0));
    let pair = Pair::start(always("+first\r\n"), second);
    for _ in 0..4 {
        assert_eq!(pair.connect().cmd("MY.OWN").arg(FIRST).send::<String>().wait().unwrap(), "first");
    }
}

#[test]
fn a_command_that_waits_goes_with_its_slot() {
    let first: Box<Script> = Box::new(|pair, words| match (words[0].as_str(), pair.told(0).len()) {
        ("BLPOP", 1) => {
            error("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)")
        }
        ("BLPOP", _) => pair.redirection("MOVED", 5061, 1),
        _ => ok(),
    });
    let second: Box<Script> = Box::new(|_, words| match words[0].as_str() {
        "BLPOP" => Some(b"*2\r\n$3\r\nbar\r\n$1\r\nx\r\n".to_vec()),
        _ => ok(),
    });
    let pair = Pair::start(first, second);
    let client = pair.connect();
    for _ in 0..3 {
        let job: (String, String) = client.blpop(FIRST, Duration::ZERO).wait().unwrap();
        assert_eq!(job, ("bar".to_owned(), "x".to_owned()));
    }
    let error = client.blpop::<(String, String)>([FIRST, SECOND], Duration::ZERO).wait().unwrap_err();
    assert!(error.message().contains("CROSSSLOT"), "{error}");
    client.close(SLACK).unwrap();
}

#[test]
fn a_subscription_to_shard_channels_is_of_one_slot() {
    let pair = Pair::start(always("+OK\r\n"), always("+OK\r\n"));
    let client = pair.connect();
    let error = client.ssubscribe([FIRST, SECOND]).unwrap_err();
    assert!(error.message().contains("CROSSSLOT"), "{error}");
    let error = client.lease_for([FIRST, SECOND]).err().unwrap();
    assert!(error.message().contains("CROSSSLOT"), "{error}");
    let error = client.cmd("SCAN").arg(0).send::<()>().wait().unwrap_err();
    assert!(error.message().contains("scan_all"), "{error}");
}

#[test]
fn the_first_command_of_a_lease_says_which_node_it_goes_to() {
    let pair = Pair::start(always("$5\r\nfirst\r\n"), always("$6\r\nsecond\r\n"));
    let client = pair.connect();
    let lease = client.lease().unwrap();
    let error = lease.cmd("MGET").arg((FIRST, SECOND)).send::<()>().wait().unwrap_err();
    assert!(error.message().contains("CROSSSLOT"), "{error}");
    assert_eq!(lease.get::<String>(SECOND).wait().as_deref(), Ok("second"));
    assert_eq!(lease.get::<String>(FIRST).wait().as_deref(), Ok("second"), "it stays there");
    let other = client.lease().unwrap();
    other.watch(FIRST).wait().unwrap();
    assert_eq!(other.get::<String>(SECOND).wait().as_deref(), Ok("first"));
    drop((lease, other, client.lease().unwrap()));
    assert_eq!(pair.told(0)[..2], ["WATCH bar", "GET foo"]);
    assert_eq!(client.lease().unwrap().get::<String>(FIRST).wait().as_deref(), Ok("first"), "it comes from the pool");
    client.close(SLACK).unwrap();
    assert_eq!(client.lease().err().map(|error| error.kind()), Some(ErrorKind::Closed));
}

#[test]
fn a_redirected_transaction_finds_its_slot_when_sent_again() {
    let first: Box<Script> = Box::new(|pair, words| {
        pair.is_moved.store(true, Ordering::SeqCst);
        match words[0].as_str() {
            "MULTI" => ok(),
            "EXEC" => error("EXECABORT Transaction discarded because of previous errors."),
            _ => pair.redirection("MOVED", 5061, 1),
        }
    });
    let second: Box<Script> = Box::new(|_, words| match words[0].as_str() {
        "INCR" => Some(b"+QUEUED\r\n".to_vec()),
        "EXEC" => Some(b"*1\r\n:1\r\n".to_vec()),
        _ => ok(),
    });
    let pair = Pair::start(first, second);
    let client = pair.connect();
    let mut refused = 0;
    until("it is executed", || {
        let transaction = client.transaction();
        let count = transaction.incr(FIRST);
        match transaction.exec().wait() {
            Ok(is_executed) => is_executed && count.wait() == Ok(1),
            Err(error) => {
                assert!(matches!(error.effect(), Effect::None | Effect::Refused), "{error}");
                refused += 1;
                false
            }
        }
    });
    // The client refreshes the map at once, and not only when the next regular refresh is due.
    assert!((1..300).contains(&refused), "refused {refused} times");
}

#[test]
fn calls_that_are_gathered_go_each_to_its_node() {
    let pair = Pair::start(always("+OK\r\n"), always("+OK\r\n"));
    let client = pair.connect();
    let coalescing = client.coalescing();
    let replies: Vec<_> = (0..200).map(|value| coalescing.set([FIRST, SECOND][value % 2], value)).collect();
    for reply in replies {
        reply.wait().unwrap();
    }
    client.close(SLACK).unwrap();
    assert!(pair.told(0).iter().all(|line| !line.contains(SECOND)));
    assert!(pair.told(1).iter().all(|line| !line.contains(FIRST)));
}

#[test]
fn a_server_that_is_no_node_says_so() {
    let port = scripted::serve(|_| error("ERR This instance has cluster support disabled"));
    let config = Config::from_url(&format!("redis+cluster://127.0.0.1:{port}")).unwrap();
    let error = Client::connect_with(config).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert!(error.message().contains("begins with redis://"), "{error}");
    let error = Client::connect("redis+cluster://127.0.0.1:1").unwrap_err();
    assert!(error.message().contains("127.0.0.1:1"), "{error}");
}

#[test]
fn a_cluster_that_comes_later_is_waited_for() {
    let pair = Pair::start(always("+OK\r\n"), always("+OK\r\n"));
    let is_there = Arc::new(AtomicBool::new(false));
    let (seen, seeds) = (is_there.clone(), pair.clone());
    let port = serve_all(move |words| {
        if !seen.load(Ordering::SeqCst) {
            return None;
        }
        greet(words).or_else(|| seeds.slots(words))
    });
    let endpoint = Endpoint::Cluster(vec![("127.0.0.1".to_owned(), port)]);
    let config = Config::new(endpoint).backoff(Duration::from_millis(1), Duration::from_millis(20));
    let client = Client::open_with(config).unwrap();
    let replies = [FIRST, SECOND, "{foo}1"].map(|key| client.set(key, 1));
    is_there.store(true, Ordering::SeqCst);
    for reply in replies {
        reply.wait().unwrap();
    }
    drop(client);
    until("all is told", || pair.told(0).len() + pair.told(1).len() == 3);
}
