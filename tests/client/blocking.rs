//! Blocking commands of the client: over TCP to Sleeve and to Redis, and in the embedded engine.
//!
//! Other callers do not wait with them; each is answered once, in the order in which they began; an abandoned call leaves
//! nothing behind that takes an element; and a lost connection is reported and replaced.

use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Client, Config, Effect, ErrorKind, GroupStart, ListEnd, RankEnd, ReadOptions, Value};
use sleeve_tests::{Kind, Server};

const PATIENCE: Duration = Duration::from_secs(60);
const FOR_EVER: Duration = Duration::ZERO;

type Popped = Option<(String, String)>;

/// Runs `check` with clients of every place where a command can wait.
fn everywhere(check: impl Fn(&Client)) {
    for (kind, arguments) in [(Kind::Sleeve, ["--workers", "2"].as_slice()), (Kind::Redis, &[])] {
        let server = Server::start_with(kind, arguments);
        check(&Client::connect(&format!("redis://{}", server.address())).expect("a connection"));
    }
    check(&Client::embedded());
}

/// Returns the number of clients that wait on the server.
fn waiting(client: &Client) -> usize {
    let info = client.info("clients").wait().expect("INFO");
    let line = info.lines().find_map(|line| line.strip_prefix("blocked_clients:"));
    line.expect("blocked_clients").trim().parse().expect("a number")
}

/// Waits until so many clients are blocked.
fn until_waiting(client: &Client, count: usize) {
    let deadline = Instant::now() + PATIENCE;
    while waiting(client) != count {
        assert!(Instant::now() < deadline, "{} wait instead of {count}", waiting(client));
        std::thread::yield_now();
    }
}

#[test]
fn a_blocking_command_holds_up_no_other_call() {
    everywhere(|client| {
        let job = client.blpop::<Popped>(["urgent", "jobs"], FOR_EVER);
        until_waiting(client, 1);
        for number in 1..=1_000 {
            assert_eq!(client.incr("free").wait(), Ok(number));
        }
        assert!(!job.is_ready());
        client.rpush("jobs", "sweep").wait().unwrap();
        assert_eq!(job.wait(), Ok(Some(("jobs".into(), "sweep".into()))));
        assert_eq!(client.exists("jobs").wait(), Ok(0));
    });
}

#[test]
fn waiting_callers_are_served_in_their_order() {
    everywhere(|client| {
        let jobs: Vec<_> = (0..40)
            .map(|count| {
                let job = client.db(3).brpop::<Popped>("jobs", FOR_EVER);
                until_waiting(client, count + 1);
                job
            })
            .collect();
        client.db(3).lpush("jobs", (0..40).rev().collect::<Vec<i64>>()).wait().unwrap();
        let mut popped: Vec<i64> =
            jobs.into_iter().map(|job| job.wait().unwrap().unwrap().1.parse().unwrap()).collect();
        // All at once came from the back, so the first to wait has the last.
        popped.reverse();
        assert_eq!(popped, (0..40).collect::<Vec<i64>>());
    });
}

#[test]
fn every_kind_of_waiting_ends_with_its_answer_or_its_time() {
    everywhere(|client| {
        let soon = Duration::from_millis(20);
        assert_eq!(client.blpop::<Popped>("no", soon).wait(), Ok(None));
        assert_eq!(client.blmove::<Option<String>>("no", "to", ListEnd::Left, ListEnd::Right, soon).wait(), Ok(None));
        assert_eq!(client.brpoplpush::<Option<String>>("no", "to", soon).wait(), Ok(None));
        assert_eq!(client.blmpop::<Value>(soon, ["no", "none"], ListEnd::Right, 2).wait(), Ok(Value::Nil));
        assert_eq!(client.bzpopmin::<Value>("no", soon).wait(), Ok(Value::Nil));
        assert_eq!(client.bzmpop::<Value>(soon, "no", RankEnd::Min, 1).wait(), Ok(Value::Nil));
        let options = ReadOptions::new().block(soon);
        assert_eq!(client.xread_with::<Value>("no", "$", options).wait(), Ok(Value::Nil));

        let moved = client.blmove::<String>("from", "to", ListEnd::Left, ListEnd::Right, PATIENCE);
        let several = client.blmpop::<(String, Vec<i64>)>(PATIENCE, ["none", "many"], ListEnd::Right, 2);
        let most = client.bzpopmax::<(String, String, f64)>("scores", PATIENCE);
        let named = client.cmd("brpop").arg("named").arg(0).send::<Popped>();
        let read = client.xread_with::<Value>("stream", "$", ReadOptions::new().block(FOR_EVER));
        until_waiting(client, 5);
        client.rpush("from", "a").wait().unwrap();
        client.rpush("many", [1, 2, 3]).wait().unwrap();
        client.zadd("scores", [(1.5, "low"), (2.5, "high")]).wait().unwrap();
        client.rpush("named", "x").wait().unwrap();
        client.cmd("XADD").arg(("stream", "*", "field", "value")).send::<String>().wait().unwrap();
        assert_eq!(moved.wait(), Ok("a".into()));
        assert_eq!(several.wait(), Ok(("many".into(), vec![3, 2])));
        assert_eq!(most.wait(), Ok(("scores".into(), "high".into(), 2.5)));
        assert_eq!(named.wait(), Ok(Some(("named".into(), "x".into()))));
        assert_ne!(read.wait(), Ok(Value::Nil));
    });
}

#[test]
fn a_group_waits_for_new_entries() {
    everywhere(|client| {
        client.xgroup_create("stream", "group", GroupStart::new_entries().make_stream()).wait().unwrap();
        let options = ReadOptions::new().block(FOR_EVER).count(1);
        let first = client.xreadgroup_with::<Value>("group", "ann", "stream", ">", options);
        until_waiting(client, 1);
        client.cmd("XADD").arg(("stream", "1-1", "field", "value")).send::<String>().wait().unwrap();
        assert_ne!(first.wait(), Ok(Value::Nil));
        assert_eq!(client.xack("stream", "group", "1-1").wait(), Ok(1));
    });
}

#[test]
fn a_cancelled_wait_leaves_the_element_to_others() {
    everywhere(|client| {
        drop(client.db(2).blpop::<Popped>("jobs", FOR_EVER));
        drop(client.blpop::<Popped>("jobs", FOR_EVER));
        let given_up = client.blpop::<Popped>("jobs", FOR_EVER).wait_for(Duration::from_millis(20)).unwrap_err();
        assert_eq!(given_up.kind(), ErrorKind::Timeout);
        until_waiting(client, 0);
        client.rpush("jobs", "sweep").wait().unwrap();
        assert_eq!(client.blpop::<Popped>("jobs", PATIENCE).wait(), Ok(Some(("jobs".into(), "sweep".into()))));

        let lease = client.lease().unwrap();
        drop(lease.blpop::<Popped>("jobs", FOR_EVER));
        until_waiting(client, 1);
        drop(lease);
        until_waiting(client, 0);
    });
}

#[test]
fn a_forgotten_reply_is_waited_for_all_the_same() {
    everywhere(|client| {
        client.blmove::<String>("from", "to", ListEnd::Left, ListEnd::Left, FOR_EVER).forget();
        until_waiting(client, 1);
        client.rpush("from", "a").wait().unwrap();
        assert_eq!(client.blpop::<Popped>("to", PATIENCE).wait(), Ok(Some(("to".into(), "a".into()))));
        let (tell, told) = std::sync::mpsc::channel();
        client.blpop::<Popped>("called", FOR_EVER).then(move |result| tell.send(result).unwrap());
        until_waiting(client, 1);
        client.rpush("called", "b").wait().unwrap();
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), Ok(Some(("called".into(), "b".into()))));
    });
}

#[test]
fn tasks_wait_too() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    everywhere(|client| {
        runtime.block_on(async {
            let tasks: Vec<_> = (0..20)
                .map(|_| {
                    let client = client.clone();
                    tokio::spawn(async move { client.blpop::<(String, i64)>("jobs", PATIENCE).await })
                })
                .collect();
            let gone = tokio::time::timeout(Duration::from_millis(20), client.blpop::<Popped>("none", FOR_EVER)).await;
            assert!(gone.is_err());
            client.rpush("jobs", (0..20).collect::<Vec<i64>>()).await.unwrap();
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap().unwrap().1;
            }
            assert_eq!(sum, 190);
        });
        until_waiting(client, 0);
    });
}

#[test]
fn the_command_timeout_counts_on_top() {
    let server = Server::start(Kind::Sleeve);
    let config = Config::from_url(&format!("redis://{}", server.address())).unwrap();
    let client = Client::connect_with(config.command_timeout(Some(Duration::from_millis(400)))).unwrap();
    assert_eq!(client.blpop::<Popped>("no", Duration::from_millis(600)).wait(), Ok(None));
    let endless = client.blpop::<Popped>("jobs", FOR_EVER);
    assert_eq!(client.blpop::<Popped>("no", Duration::from_millis(600)).wait(), Ok(None));
    client.rpush("jobs", "sweep").wait().unwrap();
    assert_eq!(endless.wait(), Ok(Some(("jobs".into(), "sweep".into()))));
    // A call that has reached its timeout is not waited for, even on a lease. (CLIENT PAUSE delays BLPOP's own timeout.)
    let lease = client.lease().unwrap();
    lease.cmd("CLIENT").arg(("PAUSE", 4_000, "ALL")).send::<()>().wait().unwrap();
    let late = client.blpop::<Popped>("no", Duration::from_millis(50)).wait().unwrap_err();
    assert_eq!((late.kind(), late.effect()), (ErrorKind::Timeout, Effect::Unknown));
}

#[test]
fn a_lost_connection_is_said_and_replaced() {
    everywhere(|client| {
        let lost = client.blpop::<Popped>("jobs", FOR_EVER);
        until_waiting(client, 1);
        let list = client.client_list().wait().unwrap();
        let line = list.lines().find(|line| line.contains("cmd=blpop")).expect("who waits");
        let id: u64 = line.split(' ').find_map(|word| word.strip_prefix("id=")).unwrap().parse().unwrap();
        client.cmd("CLIENT").arg(("KILL", "ID", id)).send::<i64>().wait().unwrap();
        // From the moment at which a blocked client is killed, it takes no element.
        client.rpush("jobs", "sweep").wait().unwrap();
        assert_eq!(lost.wait().unwrap_err().effect(), Effect::Unknown);
        assert_eq!(client.blpop::<Popped>("jobs", PATIENCE).wait(), Ok(Some(("jobs".into(), "sweep".into()))));
    });
}

#[test]
fn connections_are_used_again() {
    everywhere(|client| {
        for number in 0..100 {
            client.rpush("jobs", number).wait().unwrap();
            assert_eq!(client.blpop::<(String, i64)>("jobs", PATIENCE).wait(), Ok(("jobs".into(), number)));
        }
        let list = client.client_list().wait().unwrap();
        assert!(list.lines().count() <= 3, "{list}");
    });
}

#[test]
fn where_nothing_may_wait_nothing_does() {
    everywhere(|client| {
        let transaction = client.transaction();
        let nothing = transaction.blpop::<Popped>("no", FOR_EVER);
        assert_eq!(transaction.exec().wait(), Ok(true));
        assert_eq!(nothing.wait(), Ok(None));
        let batch = client.batch();
        let (refused, allowed) = (batch.blpop::<Popped>("no", FOR_EVER), batch.incr("n"));
        batch.send();
        assert_eq!(refused.wait().unwrap_err().kind(), ErrorKind::Usage);
        assert_eq!(allowed.wait(), Ok(1));
        let read = batch.xread::<Value>("no", "0");
        batch.send();
        assert_eq!(read.wait(), Ok(Value::Nil));
        client.close(PATIENCE).unwrap();
        assert_eq!(client.blpop::<Popped>("no", FOR_EVER).wait().unwrap_err().kind(), ErrorKind::Closed);
    });
}

#[test]
fn a_restarted_server_serves_callers_that_still_wait() {
    for kind in [Kind::Sleeve, Kind::Redis] {
        let mut server = Server::start(kind);
        let url = format!("redis://{}", server.address());
        let client = Client::connect(&url).unwrap();
        let lost = client.blpop::<Popped>("jobs", FOR_EVER);
        until_waiting(&client, 1);
        server.kill();
        let error = lost.wait().unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Disconnected, Effect::Unknown));
        // There is no client yet to take these calls; the first one waits for a client, the second is given up.
        let kept = client.blpop::<Popped>("jobs", FOR_EVER);
        drop(client.blpop::<Popped>("jobs", FOR_EVER));
        server.restart().unwrap();
        let other = Client::connect(&url).unwrap();
        until_waiting(&other, 1);
        other.rpush("jobs", ["sweep", "cook"]).wait().unwrap();
        assert_eq!(kept.wait(), Ok(Some(("jobs".into(), "sweep".into()))));
        assert_eq!(other.llen("jobs").wait(), Ok(1));
    }
}
