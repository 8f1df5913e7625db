//! Coalescing as a server sees it: the requests that leave and when, the commands that are sent again alone, and the effects
//! of a lost connection, a close, a full queue and a silent server on gathered calls.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::scripted::{config, serve, until};
use sleeve::prelude::*;
use sleeve::{Client, CoalesceOptions, Coalescing, Config, Effect, ErrorKind, QueueFull, Reply, Value};

/// A server that records the requests that it gets, answers by its script, and stops at `GET gate` until the test lets it go
/// on.
struct Stage {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
    gate: Sender<()>,
}

/// The reply of a script to a request: bytes, or none to hang up.
type Answer = fn(&[String]) -> Option<Vec<u8>>;

impl Stage {
    fn new(script: Answer) -> Self {
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let (gate, gates): (_, Receiver<()>) = channel();
        let (noted, gates) = (Arc::clone(&heard), Mutex::new(gates));
        let port = serve(move |words| {
            noted.lock().unwrap().push(words.join(" "));
            if words.join(" ") == "GET gate" {
                gates.lock().unwrap().recv().ok()?;
                return Some(b"$4\r\nopen\r\n".to_vec());
            }
            script(words)
        });
        Self { port, heard, gate }
    }

    fn config(&self) -> Config {
        config(self.port)
    }

    fn client(&self) -> Client {
        Client::connect_with(self.config()).unwrap()
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    fn wait_for(&self, count: usize) {
        until("the server hears all of it", || self.heard.lock().unwrap().len() >= count);
    }

    /// Makes calls while the connection is busy, and then lets the server answer.
    fn behind_the_gate<R>(&self, coalescing: &Coalescing, calls: impl FnOnce(&Coalescing) -> R) -> R {
        let gate = coalescing.get::<String>("gate");
        self.wait_for(1);
        let result = calls(coalescing);
        self.gate.send(()).unwrap();
        assert_eq!(gate.wait().unwrap(), "open");
        result
    }
}

/// Answers as a server without faults: it knows the merged commands, and the string at a key is the key's number.
fn well(words: &[String]) -> Option<Vec<u8>> {
    let answer = match words[0].as_str() {
        "SET" | "MSET" => "+OK\r\n".to_owned(),
        "GET" => format!("${}\r\n{}\r\n", words[1].len(), words[1]),
        "MGET" => {
            let values: String = words[1..].iter().map(|key| format!("${}\r\n{key}\r\n", key.len())).collect();
            format!("*{}\r\n{values}", words.len() - 1)
        }
        "INCRBY" => ":10\r\n".to_owned(),
        _ => ":1\r\n".to_owned(),
    };
    Some(answer.into_bytes())
}

fn all_is_well(replies: impl IntoIterator<Item = Reply<()>>) {
    for reply in replies {
        reply.wait().unwrap();
    }
}

/// Returns options with a delay that never ends.
fn long() -> CoalesceOptions {
    CoalesceOptions::new().delay(Duration::from_secs(3600))
}

#[test]
fn while_nothing_is_on_its_way_a_call_leaves_at_once_and_as_it_is() {
    let stage = Stage::new(well);
    let coalescing = stage.client().coalescing();
    for key in ["a", "b"] {
        coalescing.set(key, 1).wait().unwrap();
    }
    coalescing.expire("a", 5).wait().unwrap();
    assert_eq!(stage.heard(), ["SET a 1", "SET b 1", "EXPIRE a 5"]);
}

#[test]
fn while_something_is_on_its_way_calls_are_gathered() {
    let stage = Stage::new(well);
    let coalescing = stage.client().coalescing();
    let (sets, gets, sums) = stage.behind_the_gate(&coalescing, |coalescing| {
        let sets = ["a", "b", "c"].map(|key| coalescing.set(key, 1));
        let gets = ["d", "e", "d"].map(|key| coalescing.get::<String>(key));
        let sums = [1, 2, 3].map(|by| coalescing.incrby("n", by));
        coalescing.db(1).set("a", 2).forget();
        (sets, gets, sums)
    });
    all_is_well(sets);
    assert_eq!(gets.map(|reply| reply.wait().unwrap()), ["d", "e", "d"]);
    assert_eq!(sums.map(|reply| reply.wait().unwrap()), [5, 7, 10]);
    stage.wait_for(5);
    assert_eq!(stage.heard(), ["GET gate", "MSET a 1 b 1 c 1", "MGET d e", "INCRBY n 6", "SET a 2"]);
}

#[test]
fn with_a_delay_calls_leave_at_its_end_without_a_waiting_caller() {
    let stage = Stage::new(well);
    let client = stage.client();
    let coalescing = client.coalescing_with(CoalesceOptions::new().delay(Duration::from_millis(50)));
    for round in 1..=3 {
        // No caller waits for the call, and it leaves all the same.
        coalescing.set("a", round).forget();
        stage.wait_for(round);
    }
    assert_eq!(stage.heard(), ["SET a 1", "SET a 2", "SET a 3"]);
    assert_eq!(coalescing.get::<String>("c").wait().unwrap(), "c");
}

#[test]
fn calls_leave_when_they_are_many_or_long_or_told_to() {
    let stage = Stage::new(well);
    let client = stage.client();
    let few = client.coalescing_with(long().calls_max(3));
    all_is_well(["a", "b", "c"].map(|key| few.set(key, 1)));
    let short = client.coalescing_with(long().bytes_max(200));
    let text = "x".repeat(90);
    all_is_well(["d", "e"].map(|key| short.set(key, &text)));
    let told = client.coalescing_with(long());
    let replies = ["f", "g"].map(|key| told.set(key, 1));
    told.flush();
    all_is_well(replies);
    let left = client.coalescing_with(long());
    let replies = ["h", "i"].map(|key| left.clone().set(key, 1));
    drop(left);
    all_is_well(replies);
    let mset = |line: &str| line.replace("TEXT", &text);
    assert_eq!(stage.heard(), ["MSET a 1 b 1 c 1", &mset("MSET d TEXT e TEXT"), "MSET f 1 g 1", "MSET h 1 i 1"]);
}

#[test]
fn a_refused_merge_is_sent_one_by_one_and_not_merged_again() {
    for refusal in [
        "NOPERM User default has no permissions to run the 'mset' command",
        "CROSSSLOT Keys in request don't hash to the same slot",
        "ERR unknown command 'MSET', with args beginning with: 'a' ",
    ] {
        static REFUSAL: Mutex<String> = Mutex::new(String::new());
        *REFUSAL.lock().unwrap() = refusal.to_owned();
        let stage = Stage::new(|words| match words[0].as_str() {
            "MSET" => Some(format!("-{}\r\n", REFUSAL.lock().unwrap()).into_bytes()),
            "SET" if words[1] == "b" => Some(b"-OOM command not allowed when used memory > 'maxmemory'.\r\n".to_vec()),
            _ => well(words),
        });
        let coalescing = stage.client().coalescing();
        let replies =
            stage.behind_the_gate(&coalescing, |coalescing| ["a", "b", "c"].map(|key| coalescing.set(key, 1)));
        let [a, b, c] = replies.map(Reply::wait);
        assert!(a.is_ok() && c.is_ok());
        assert_eq!(b.unwrap_err().code(), Some("OOM"));
        let replies = {
            let gate = coalescing.get::<String>("gate");
            stage.wait_for(6);
            let replies = ["a", "c"].map(|key| coalescing.set(key, 2));
            stage.gate.send(()).unwrap();
            gate.wait().unwrap();
            replies
        };
        all_is_well(replies);
        assert_eq!(
            stage.heard(),
            ["GET gate", "MSET a 1 b 1 c 1", "SET a 1", "SET b 1", "SET c 1", "GET gate", "SET a 2", "SET c 2"]
        );
    }
}

#[test]
fn a_call_that_may_be_repeated_holds_back_only_later_calls_on_its_keys() {
    let stage = Stage::new(|words| match words.join(" ").as_str() {
        "MGET a b" => Some(b"*2\r\n$-1\r\n$-1\r\n".to_vec()),
        "GET a" => Some(b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n".to_vec()),
        "GET b" => Some(b"_\r\n".to_vec()),
        "GET gate2" => Some(Vec::new()),
        _ => well(words),
    });
    let coalescing = stage.client().coalescing_with(long());
    let gets = ["a", "b"].map(|key| coalescing.get::<Option<String>>(key));
    coalescing.flush();
    // The merged command has left; later calls on its keys must not be executed before the GET of `a` is sent again.
    let removed = coalescing.del("a");
    let other = coalescing.expire("c", 5);
    coalescing.flush();
    let [a, b] = gets.map(Reply::wait);
    assert_eq!(a.unwrap_err().code(), Some("WRONGTYPE"));
    assert_eq!(b, Ok(None));
    assert_eq!(removed.wait(), Ok(1));
    assert!(other.wait().unwrap());
    let mut heard = stage.heard();
    heard.retain(|line| line != "EXPIRE c 5");
    assert_eq!(heard, ["MGET a b", "GET a", "GET b", "DEL a"]);
}

#[test]
fn a_connection_lost_during_a_merged_command_fails_all_its_calls() {
    let stage = Stage::new(|words| if words[0] == "MSET" { None } else { well(words) });
    let coalescing = stage.client().coalescing_with(long());
    let replies = ["a", "b"].map(|key| coalescing.set(key, 1));
    coalescing.flush();
    for reply in replies {
        let error = reply.wait().unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Disconnected, Effect::Unknown));
    }
    // Later calls go out on the next connection.
    let get = coalescing.get::<String>("c");
    coalescing.flush();
    assert_eq!(get.wait().unwrap(), "c");
    assert_eq!(stage.heard(), ["MSET a 1 b 1", "GET c"]);
}

#[test]
fn gathered_calls_are_sent_and_answered_when_the_client_is_closed() {
    closing_sends_gathered_calls(|client| client.close(Duration::from_secs(20)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    closing_sends_gathered_calls(|client| runtime.block_on(client.close_async(Duration::from_secs(20))));
}

fn closing_sends_gathered_calls(close: impl Fn(&Client) -> Result<(), sleeve::Error>) {
    let stage = Stage::new(|words| match words.join(" ").as_str() {
        "MGET a b" => Some(b"*2\r\n$1\r\nx\r\n$-1\r\n".to_vec()),
        "GET b" => Some(b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n".to_vec()),
        _ => well(words),
    });
    let client = stage.client();
    let coalescing = client.coalescing_with(long());
    let [a, b] = ["a", "b"].map(|key| coalescing.get::<String>(key));
    close(&client).unwrap();
    assert!(a.is_ready() && b.is_ready());
    assert_eq!(a.wait().unwrap(), "x");
    assert_eq!(b.wait().unwrap_err().code(), Some("WRONGTYPE"));
    for error in [coalescing.get::<String>("c").wait().unwrap_err(), coalescing.ping().wait().unwrap_err()] {
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Closed, Effect::None));
    }
    assert_eq!(stage.heard(), ["MGET a b", "GET b"]);
}

#[test]
fn gathered_calls_time_out_too() {
    let stage = Stage::new(|_| Some(Vec::new()));
    let limit = Duration::from_millis(100);
    let client = Client::connect_with(stage.config().command_timeout(Some(limit))).unwrap();
    let coalescing = client.coalescing();
    let first = coalescing.set("a", 1);
    stage.wait_for(1);
    let gathered = ["b", "c", "a"].map(|key| coalescing.set(key, 1));
    for reply in std::iter::once(first).chain(gathered) {
        let error = reply.wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    }
}

#[test]
fn a_queue_that_is_full_refuses_calls_or_has_them_wait() {
    let stage = Stage::new(|_| Some(Vec::new()));
    let small = stage.config().queue_bytes_max(1000);
    let client = Client::connect_with(small.clone().queue_full(QueueFull::Fail)).unwrap();
    let coalescing = client.coalescing_with(long().calls_max(10));
    let replies: Vec<Reply<()>> = (0..1000).map(|number| coalescing.set(number, "some value")).collect();
    let refused = replies.into_iter().filter(Reply::is_ready).map(|reply| reply.wait().unwrap_err());
    let refused: Vec<_> = refused.map(|error| (error.kind(), error.effect())).collect();
    assert!(refused.len() > 800, "only {} were refused", refused.len());
    assert!(refused.iter().all(|error| *error == (ErrorKind::QueueFull, Effect::None)));

    let client = Client::connect_with(small.command_timeout(Some(Duration::from_millis(100)))).unwrap();
    let coalescing = client.coalescing_with(long().calls_max(10));
    // The wait for room ends because the commands ahead time out, one after the other: the caller waited, and no call was
    // lost.
    for number in 0..60 {
        coalescing.set(number, "some value").forget();
    }
    let error = coalescing.set(60, 1);
    coalescing.flush();
    assert_eq!(error.wait().unwrap_err().kind(), ErrorKind::Timeout);
}

#[test]
fn dropped_replies_harm_no_other_caller() {
    let stage = Stage::new(well);
    let coalescing = stage.client().coalescing();
    let kept = stage.behind_the_gate(&coalescing, |coalescing| {
        drop(coalescing.get::<String>("a"));
        let kept = coalescing.get::<String>("b");
        drop(coalescing.incr("n"));
        drop(coalescing.del(["x", "y"]));
        coalescing.del("z").forget();
        kept
    });
    assert_eq!(kept.wait().unwrap(), "b");
    stage.wait_for(4);
    assert_eq!(stage.heard(), ["GET gate", "MGET a b", "INCR n", "DEL x y z"]);
}

#[test]
fn errors_of_forgotten_calls_reach_the_hook() {
    let stage = Stage::new(|words| match words[0].as_str() {
        "SADD" => Some(b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n".to_vec()),
        _ => well(words),
    });
    let (sender, errors) = channel();
    let sender = Mutex::new(sender);
    let hook = move |error: &sleeve::Error| _ = sender.lock().unwrap().send(error.message().to_owned());
    let client = Client::connect_with(stage.config().on_error(hook)).unwrap();
    let coalescing = client.coalescing_with(long());
    coalescing.sadd("s", "a").forget();
    coalescing.sadd("s", "b").forget();
    coalescing.flush();
    for _ in 0..2 {
        assert!(errors.recv_timeout(Duration::from_secs(60)).unwrap().starts_with("WRONGTYPE"));
    }
    assert_eq!(stage.heard(), ["SADD s a b", "SADD s a", "SADD s b"]);
}

#[test]
fn tasks_that_wait_are_gathered_too() {
    let stage = Stage::new(well);
    let coalescing = stage.client().coalescing();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..64)
            .map(|number| {
                let coalescing = coalescing.clone();
                tokio::spawn(async move {
                    for round in 0..50 {
                        let key = format!("{number}:{round}");
                        assert_eq!(coalescing.get::<String>(&key).await.unwrap(), key);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let heard = stage.heard();
    assert!(heard.len() < 64 * 50 / 2, "{} requests for 3200 calls", heard.len());
}

#[test]
fn blocking_commands_go_on_their_own_behind_gathered_calls() {
    let stage = Stage::new(|words| match words[0].as_str() {
        "BLPOP" => Some(b"*2\r\n$1\r\nl\r\n$1\r\nx\r\n".to_vec()),
        _ => well(words),
    });
    let coalescing = stage.client().coalescing_with(long());
    let pushed = coalescing.rpush("l", "x");
    let popped: Value = coalescing.blpop("l", Duration::from_secs(1)).wait().unwrap();
    assert!(matches!(popped, Value::Array(_)));
    assert_eq!(pushed.wait(), Ok(1));
}

#[test]
fn a_second_close_waits_for_held_back_calls_too() {
    let stage = Stage::new(|words| match words[0].as_str() {
        "MSET" => None,
        _ => well(words),
    });
    let client = stage.client();
    let coalescing = client.coalescing();
    let gate = coalescing.get::<String>("gate");
    stage.wait_for(1);
    let sums = [1, 2].map(|by| coalescing.incrby("n", by));
    coalescing.flush();
    // Calls that are gathered now are held back: a merged command on their key is in flight.
    let held = coalescing.rpush("n", 1);
    assert_eq!(client.close(Duration::from_millis(20)).unwrap_err().kind(), ErrorKind::Timeout);
    stage.gate.send(()).unwrap();
    client.close(Duration::MAX).unwrap();
    assert_eq!(gate.wait().unwrap(), "open");
    assert_eq!(sums.map(|reply| reply.wait().unwrap()), [8, 10]);
    assert_eq!(held.wait().unwrap(), 1);
}

#[test]
fn a_delay_leaves_time_for_the_answer() {
    let stage = Stage::new(well);
    let client = Client::connect_with(stage.config().command_timeout(Some(Duration::from_secs(1)))).unwrap();
    all_is_well([client.coalescing_with(long()).set("a", 1)]);
}
