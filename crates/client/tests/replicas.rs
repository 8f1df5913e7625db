//! Reads from the replicas of a cluster with nodes that follow a test's scripts: the replica that has its turn, and those
//! that are passed over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, Effect, ErrorKind, ReadFrom, Resend};

use crate::nodes::{Nodes, Script, error, ok};
use crate::scripted::{SLACK, until};

/// Returns a string as an answer.
fn text(text: &str) -> Option<Vec<u8>> {
    Some(format!("${}\r\n{text}\r\n", text.len()).into_bytes())
}

/// Returns the reply to ROLE of a primary that has written up to this offset.
fn primary_role(written: i64) -> Option<Vec<u8>> {
    Some(format!("*3\r\n$6\r\nmaster\r\n:{written}\r\n*0\r\n").into_bytes())
}

/// Returns the reply to ROLE of a replica that has read up to this offset.
fn replica_role(state: &str, read: i64) -> Option<Vec<u8>> {
    let place = "$9\r\n127.0.0.1\r\n:1\r\n";
    Some(format!("*5\r\n$5\r\nslave\r\n{place}${}\r\n{state}\r\n:{read}\r\n", state.len()).into_bytes())
}

/// Returns the script of a primary, which answers a GET with its name.
fn primary() -> Script {
    Box::new(|_, words| match words[0].as_str() {
        "ROLE" => primary_role(7),
        "INFO" => text("# Server\r\navailability_zone:b\r\n"),
        "GET" => text("primary"),
        _ => ok(),
    })
}

/// Returns the script of a replica in a zone, which answers a GET with its name.
fn replica(name: &'static str, zone: &'static str) -> Script {
    Box::new(move |_, words| match words[0].as_str() {
        "ROLE" => replica_role("connected", 7),
        "INFO" => text(&format!("# Server\r\navailability_zone:{zone}\r\n")),
        "GET" => text(name),
        _ => ok(),
    })
}

/// Starts a primary and these replicas.
fn start(replicas: Vec<Script>) -> Arc<Nodes> {
    let all = (0..=replicas.len()).collect();
    let nodes = Nodes::start([primary()].into_iter().chain(replicas).collect());
    *nodes.ranges.lock().unwrap() = vec![(0, 16383, all)];
    nodes
}

fn connect(nodes: &Nodes, policy: ReadFrom) -> Client {
    Client::connect_with(nodes.config().read_from(policy)).unwrap()
}

fn get(client: &Client) -> String {
    client.get("bar").wait().unwrap()
}

/// Waits until as many reads in a row are answered by these nodes, in order of their names. On a busy machine a node may be
/// passed over for a while.
fn until_answered_by(client: &Client, wanted: &[&str]) {
    until("reads are answered as they should be", || {
        let mut names: Vec<String> = wanted.iter().map(|_| get(client)).collect();
        names.sort();
        names == wanted
    });
}

fn until_asked(client: &Client, name: &str) {
    until(name, || get(client) == name);
}

/// Waits until the client has processed replies that these nodes send from now on, which shows in their being asked again.
fn until_heard(nodes: &Nodes, numbers: &[usize]) {
    let before: Vec<usize> = numbers.iter().map(|&number| nodes.count(number, "ROLE")).collect();
    for (&number, before) in numbers.iter().zip(before) {
        until("it is asked twice", || nodes.count(number, "ROLE") >= before + 2);
    }
}

#[test]
fn reads_take_turns_among_replicas_and_the_rest_goes_to_the_primary() {
    let nodes = start(vec![replica("a", ""), replica("b", "")]);
    let client = connect(&nodes, ReadFrom::Replica);
    until_asked(&client, "a");
    until_asked(&client, "b");
    until_answered_by(&client, &["a", "a", "a", "b", "b", "b"]);
    let before = nodes.count(0, "GET bar");
    client.set("bar", 1).wait().unwrap();
    client.touch("bar").forget();
    client.cmd("EVAL_RO").arg(("return 1", 1, "bar")).send::<()>().wait().unwrap();
    let batch = client.batch();
    let batched = batch.get::<String>("bar");
    batch.send();
    assert_eq!(batched.wait().as_deref(), Ok("primary"));
    assert_eq!(client.coalescing().get::<String>("bar").wait().as_deref(), Ok("primary"));
    assert_eq!(client.lease_for("bar").unwrap().get::<String>("bar").wait().as_deref(), Ok("primary"));
    assert_eq!(nodes.count(0, "GET bar"), before + 3);
    for replica in [1, 2] {
        let told = nodes.told(replica);
        assert_eq!(told[0], "READONLY");
        assert!(told[1..].iter().all(|line| line == "ROLE" || line == "GET bar"), "{told:?}");
        assert_eq!(nodes.greeted(replica), 1);
    }
}

#[test]
fn without_a_policy_only_primaries_are_asked() {
    let nodes = start(vec![replica("a", "")]);
    let client = nodes.connect();
    until_answered_by(&client, &["primary"; 20]);
    assert_eq!(nodes.greeted(1), 0);
}

#[test]
fn the_primary_takes_its_turn_where_all_are_alike() {
    let nodes = start(vec![replica("a", ""), replica("b", "")]);
    let client = connect(&nodes, ReadFrom::Any);
    until_asked(&client, "a");
    until_asked(&client, "b");
    until_answered_by(&client, &["a", "a", "b", "b", "primary", "primary"]);
}

#[test]
fn the_own_zone_is_asked_first() {
    let nodes = start(vec![replica("far", "c"), replica("near", "a")]);
    let client = connect(&nodes, ReadFrom::Zone("a".to_owned()));
    until_asked(&client, "near");
    until_answered_by(&client, &["near"; 6]);
    // The primary is in zone "b".
    client.close(SLACK).unwrap();
    let client = connect(&nodes, ReadFrom::Zone("b".to_owned()));
    until_heard(&nodes, &[0, 1, 2]);
    until_answered_by(&client, &["primary"; 6]);
    let client = connect(&nodes, ReadFrom::Zone("elsewhere".to_owned()));
    until_asked(&client, "far");
    until_asked(&client, "near");
    until_answered_by(&client, &["far", "far", "near", "near"]);
}

#[test]
fn a_replica_that_turns_a_read_away_leaves_it_to_the_primary() {
    for refusal in [
        "LOADING Redis is loading the dataset in memory",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "MOVED 5061 127.0.0.1:1",
        "CLUSTERDOWN The cluster is down",
    ] {
        let turning_away: Script = Box::new(move |_, words| match words[0].as_str() {
            "ROLE" => replica_role("connected", 7),
            "GET" => error(refusal),
            _ => ok(),
        });
        let nodes = start(vec![turning_away]);
        let client = connect(&nodes, ReadFrom::Replica);
        until("the replica is asked", || {
            assert_eq!(get(&client), "primary");
            nodes.count(1, "GET bar") > 0
        });
        // The client believes the map, and not the replica's error.
        client.set("bar", 1).wait().unwrap();
        assert_eq!(nodes.count(0, "SET bar 1"), 1);
    }
}

#[test]
fn a_read_that_was_lost_with_a_replica_is_answered_by_the_primary() {
    let hanging_up = || -> Script {
        Box::new(|_, words| match words[0].as_str() {
            "ROLE" => replica_role("connected", 7),
            "GET" => None,
            _ => ok(),
        })
    };
    let nodes = start(vec![hanging_up(), hanging_up()]);
    let client = connect(&nodes, ReadFrom::Replica);
    until("both are asked", || {
        assert_eq!(get(&client), "primary");
        nodes.count(1, "GET bar") > 0 && nodes.count(2, "GET bar") > 0
    });
    let client = Client::connect_with(nodes.config().read_from(ReadFrom::Replica).resend(Resend::Nothing)).unwrap();
    until("a read is lost", || match client.get::<String>("bar").wait() {
        Ok(answer) => {
            assert_eq!(answer, "primary");
            false
        }
        Err(error) => {
            assert_eq!((error.kind(), error.effect()), (ErrorKind::Disconnected, Effect::Unknown), "{error}");
            true
        }
    });
}

#[test]
fn a_replica_that_does_not_keep_up_is_passed_over() {
    let written = Arc::new(AtomicI64::new(100));
    let grows = Arc::clone(&written);
    let primary: Script = Box::new(move |_, words| match words[0].as_str() {
        "ROLE" => primary_role(grows.fetch_add(100, Ordering::SeqCst)),
        "GET" => text("primary"),
        _ => ok(),
    });
    let behind: Script = Box::new(|_, words| match words[0].as_str() {
        "ROLE" => replica_role("connected", 50),
        "GET" => text("behind"),
        _ => ok(),
    });
    let severed: Script = Box::new(|_, words| match words[0].as_str() {
        "ROLE" => replica_role("connect", 1_000_000),
        "GET" => text("severed"),
        _ => ok(),
    });
    let well: Script = Box::new(|_, words| match words[0].as_str() {
        "ROLE" => replica_role("connected", 1_000_000),
        "GET" => text("well"),
        _ => ok(),
    });
    let nodes = Nodes::start(vec![primary, behind, severed, well]);
    *nodes.ranges.lock().unwrap() = vec![(0, 16383, vec![0, 1, 2, 3])];
    let client = connect(&nodes, ReadFrom::Replica);
    // The lag of a replica is known only after two checks of the primary.
    until("the primary was looked at", || nodes.count(0, "ROLE") >= 3);
    until_heard(&nodes, &[1, 2, 3]);
    until_answered_by(&client, &["well"; 10]);
    assert!(nodes.told(2).iter().all(|line| line != "GET bar"));
}

#[test]
fn a_silent_replica_makes_no_caller_wait() {
    let turns = AtomicUsize::new(0);
    let silent: Script = Box::new(move |_, words| match words[0].as_str() {
        // The replica answers one check, and then hangs as a stopped process.
        "ROLE" if turns.fetch_add(1, Ordering::SeqCst) == 0 => replica_role("connected", 7),
        "ROLE" => loop {
            thread::sleep(Duration::from_secs(1));
        },
        "GET" => text("silent"),
        _ => ok(),
    });
    let nodes = start(vec![silent]);
    let client = connect(&nodes, ReadFrom::Replica);
    until_asked(&client, "silent");
    until("it is asked again", || nodes.count(1, "ROLE") > 1);
    // Reads that are sent before the client notices wait for the replica, at most for its timeout.
    until("it is passed over", || {
        let answer = client.get::<String>("bar");
        thread::sleep(Duration::from_millis(20));
        answer.is_ready()
    });
    until_answered_by(&client, &["primary"; 10]);
}

/// Checks that a read that is sent while neither the primary nor a replica is connected waits for the first node that can
/// answer it.
#[test]
fn a_read_without_a_server_is_answered_by_a_replica_that_returns() {
    let is_loading = Arc::new(AtomicBool::new(true));
    let loads = Arc::clone(&is_loading);
    let primary: Script = Box::new(|nodes, words| match words[0].as_str() {
        "ROLE" => primary_role(7),
        "GET" => text("primary"),
        "SET" => {
            nodes.set_refusing(0, true);
            None
        }
        _ => ok(),
    });
    let replica: Script = Box::new(move |_, words| match words[0].as_str() {
        "ROLE" if loads.load(Ordering::SeqCst) => error("LOADING Redis is loading the dataset in memory"),
        "ROLE" => replica_role("connect", 7),
        "GET" => text("replica"),
        _ => ok(),
    });
    let nodes = Nodes::start(vec![primary, replica]);
    *nodes.ranges.lock().unwrap() = vec![(0, 16383, vec![0, 1])];
    let client = connect(&nodes, ReadFrom::Replica);
    assert_eq!(get(&client), "primary");
    let greeted = nodes.greeted(0);
    client.set("bar", 1).wait().unwrap_err();
    // Some reads are sent while the connection is being made again, others between two attempts.
    let mut reads = Vec::new();
    until("the primary is tried again and again", || {
        reads.push(client.get::<String>("bar"));
        nodes.greeted(0) > greeted + 5
    });
    until_heard(&nodes, &[1]);
    assert!(reads.iter().all(|read| !read.is_ready()), "nobody is there");
    is_loading.store(false, Ordering::SeqCst);
    for read in reads {
        assert_eq!(read.wait().as_deref(), Ok("replica"));
    }
}

#[test]
fn keys_in_several_slots_are_read_from_the_copies_of_each() {
    let of = |name: &'static str| -> Script {
        Box::new(move |_, words| match words[0].as_str() {
            "ROLE" => replica_role("connected", 7),
            "MGET" => Some(format!("*1\r\n${}\r\n{name}\r\n", name.len()).into_bytes()),
            _ => ok(),
        })
    };
    let nodes = Nodes::start(vec![primary(), primary(), of("one"), of("two")]);
    *nodes.ranges.lock().unwrap() = vec![(0, 8191, vec![0, 2]), (8192, 16383, vec![1, 3])];
    let client = connect(&nodes, ReadFrom::Replica);
    until("both are asked", || {
        // A primary of this test does not know MGET.
        client.mget::<Vec<String>>(["foo", "bar"]).wait().is_ok_and(|values| values == ["two", "one"])
    });
}

#[test]
fn a_missing_database_does_not_take_the_replicas_from_other_calls() {
    let nodes = start(vec![replica("a", "")]);
    let client = connect(&nodes, ReadFrom::Replica);
    until("the replica answers, whatever others ask for", || {
        (0..20).all(|_| {
            assert!(client.db(99).get::<String>("bar").wait().is_err());
            get(&client) == "a"
        })
    });
}
