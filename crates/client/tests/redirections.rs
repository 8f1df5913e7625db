//! The reaction of a cluster's client to redirects that arrive during others, and to nodes that are not ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Client, Config, Effect, Endpoint, ErrorKind};

use crate::nodes::{Nodes, Script, always, error, ok};
use crate::scripted::until;

/// Waits for a moment for a state that a correct client never brings about.
fn until_or_briefly(mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() && since.elapsed() < Duration::from_millis(100) {
        thread::yield_now();
    }
}

#[test]
fn a_slot_that_moves_on_is_held_until_both_owners_have_answered() {
    let first: Script = Box::new(|nodes, _| nodes.redirection("MOVED", 5061, 1));
    let second: Script = Box::new(|nodes, words| {
        // The second call is answered late: without the hold of its slot, the third would arrive at the next owner before.
        if words[2] == "1" {
            until_or_briefly(|| nodes.told(2).len() > 1);
        }
        *nodes.ranges.lock().unwrap() = vec![(0, 16383, vec![2])];
        nodes.redirection("MOVED", 5061, 2)
    });
    let nodes = Nodes::start(vec![first, second, always("+OK\r\n")]);
    let client = nodes.connect();
    // When the slot is reported to have moved on, the first owner has not answered all requests yet.
    *nodes.before_ping.lock().unwrap() = Some(Arc::new(|nodes: &Nodes, number| {
        if number == 0 {
            until_or_briefly(|| !nodes.told(2).is_empty());
        }
    }));
    let [one, two] = [0, 1].map(|value| client.set("bar", value));
    one.wait().unwrap();
    let three = client.set("bar", 2);
    two.wait().unwrap();
    three.wait().unwrap();
    assert_eq!(nodes.told(2), ["SET bar 0", "SET bar 1", "SET bar 2"]);
}

#[test]
fn a_key_on_the_move_is_followed_however_often_it_is_not_there_yet() {
    const TIMES: usize = 12;
    let second: Script = Box::new(|nodes, words| match words[0].as_str() {
        "ASKING" => ok(),
        _ if nodes.count(1, "MGET {bar}1 {bar}2") <= TIMES => {
            error("TRYAGAIN Multiple keys request during rehashing of slot")
        }
        _ => Some(b"*2\r\n$1\r\na\r\n$1\r\nb\r\n".to_vec()),
    });
    let nodes = Nodes::start(vec![Box::new(|nodes, _| nodes.redirection("ASK", 5061, 1)), second]);
    let client = nodes.connect();
    let values = client.mget::<Vec<String>>(["{bar}1", "{bar}2"]);
    until("it is answered", || values.is_ready());
    assert_eq!(values.wait().unwrap(), ["a", "b"]);
    assert_eq!(nodes.count(1, "ASKING"), TIMES + 1);
}

#[test]
fn redirections_that_go_round_end_with_the_time() {
    let ask = |to: usize| -> Script {
        Box::new(move |nodes, words| match words[0].as_str() {
            "ASKING" => ok(),
            _ => nodes.redirection("ASK", 5061, to),
        })
    };
    let nodes = Nodes::start(vec![ask(1), ask(0)]);
    let config = nodes.config().command_timeout(Some(Duration::from_millis(300)));
    let client = Client::connect_with(config).unwrap();
    let error = client.set("bar", 1).wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    // After several redirects the client pauses, so there are fewer requests than the nodes could answer.
    assert!(nodes.told(0).len() < 200, "{}", nodes.told(0).len());
}

#[test]
fn a_node_that_gets_a_slot_keeps_its_connection_during_a_map_refresh() {
    let turns = AtomicUsize::new(0);
    let first: Script = Box::new(move |nodes, words| match words[0].as_str() {
        "INCR" => nodes.redirection("ASK", 5061, 1),
        // A client that gets this error asks for the map again.
        _ if turns.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) => error("CLUSTERDOWN Hash slot not served"),
        _ => ok(),
    });
    let second: Script = Box::new(|_, words| if words[0] == "ASKING" { ok() } else { Some(b":1\r\n".to_vec()) });
    let nodes = Nodes::start(vec![first, second]);
    let client = nodes.connect();
    for _ in 0..5 {
        assert_eq!(client.incr("bar").wait(), Ok(1));
        let asked = nodes.asked();
        client.set("bar", 1).wait().unwrap();
        until("it was asked who owns what", || nodes.asked() > asked);
    }
    assert_eq!(nodes.greeted(1), 1);
}

/// Returns the script of a node that sends nothing until this holds; then it answers.
fn silent_until(holds: impl Fn(&Nodes) -> bool + Send + Sync + 'static) -> Script {
    Box::new(move |nodes, _| {
        while !holds(nodes) {
            thread::sleep(Duration::from_millis(1));
        }
        Some(b":1\r\n".to_vec())
    })
}

/// Connects a client of two nodes that waits for a silent server for longer than any test takes.
fn patient(nodes: &Nodes) -> Client {
    let seeds = [0, 1].map(|number| ("127.0.0.1".to_owned(), nodes.port(number)));
    let config = Config::new(Endpoint::Cluster(seeds.to_vec())).command_timeout(None);
    Client::connect_with(config.silence_max(Some(Duration::from_secs(3600)))).unwrap()
}

#[test]
fn a_silent_node_without_slots_is_given_up() {
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    let nodes = Nodes::start(vec![silent_until(move |_| ends.load(Ordering::SeqCst)), always(":7\r\n")]);
    let client = patient(&nodes);
    let lost = client.incr("bar");
    until("it is on its way", || !lost.is_ready() && !nodes.told(0).is_empty());
    *nodes.ranges.lock().unwrap() = vec![(0, 16383, vec![1])];
    let error = lost.wait().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Disconnected, Effect::Unknown), "{error}");
    assert!(error.message().contains("the cluster has others where its slots are"), "{error}");
    assert_eq!(client.incr("bar").wait(), Ok(7));
    assert_eq!((nodes.told(0).len(), nodes.told(1).len()), (1, 1));
    is_over.store(true, Ordering::SeqCst);
}

#[test]
fn a_silent_node_with_slots_is_waited_for() {
    let nodes = Nodes::start(vec![silent_until(|nodes| nodes.asked() > 3), always(":7\r\n")]);
    let client = patient(&nodes);
    assert_eq!(client.incr("bar").wait(), Ok(1));
    assert_eq!((nodes.greeted(0), nodes.told(1).len()), (1, 0), "others were asked, and nothing was given up");
}

#[test]
fn a_command_that_waits_gives_up_where_no_node_lets_it_wait() {
    for refusal in ["CLUSTERDOWN The cluster is down", "LOADING Redis is loading the dataset in memory"] {
        let nodes = Nodes::start(vec![Box::new(move |_, _| error(refusal))]);
        let config = nodes.config().command_timeout(Some(Duration::from_millis(300)));
        let client = Client::connect_with(config).unwrap();
        let waiting = client.blpop::<(String, String)>("bar", Duration::ZERO);
        until("it has given up", || waiting.is_ready());
        let error = waiting.wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(error.message().contains(refusal), "{error}");
    }
}

#[test]
fn a_command_that_waits_may_wait_for_longer_than_others_wherever_it_is() {
    const TIMEOUT: Duration = Duration::from_millis(200);
    let turns = AtomicUsize::new(0);
    let first: Script = Box::new(move |_, _| {
        let turn = turns.fetch_add(1, Ordering::SeqCst);
        thread::sleep(TIMEOUT * 2);
        match turn {
            0 => error("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"),
            1 => error("CLUSTERDOWN The cluster is down"),
            _ => Some(b"*2\r\n$3\r\nbar\r\n$1\r\nx\r\n".to_vec()),
        }
    });
    let nodes = Nodes::start(vec![first]);
    let client = Client::connect_with(nodes.config().command_timeout(Some(TIMEOUT))).unwrap();
    let job: (String, String) = client.blpop("bar", Duration::ZERO).wait().unwrap();
    assert_eq!(job.1, "x");
}

#[test]
fn a_blocking_command_keeps_its_timeout_after_its_first_connection_fails() {
    const TIMEOUT: Duration = Duration::from_millis(500);
    let first: Script = Box::new(|nodes, words| match words[0].as_str() {
        "BLPOP" => {
            thread::sleep(TIMEOUT * 2);
            Some(b"*2\r\n$3\r\nbar\r\n$1\r\nx\r\n".to_vec())
        }
        // From now on new connections are not greeted.
        _ => {
            nodes.set_refusing(0, true);
            ok()
        }
    });
    let nodes = Nodes::start(vec![first]);
    let client = Client::connect_with(nodes.config().command_timeout(Some(TIMEOUT))).unwrap();
    client.set("bar", 1).wait().unwrap();
    let greeted = nodes.greeted(0);
    let waiting = client.blpop::<(String, String)>("bar", Duration::ZERO);
    until("its connection has failed", || nodes.greeted(0) > greeted);
    nodes.set_refusing(0, false);
    assert_eq!(waiting.wait().unwrap().1, "x");
}

#[test]
fn a_discarded_transaction_says_why_and_is_retried_only_if_that_helps() {
    let first: Script = Box::new(|nodes, words| match words[0].as_str() {
        "EXEC" => error("EXECABORT Transaction discarded because of previous errors."),
        "INCR" if nodes.count(0, "INCR bar") <= 3 => error("TRYAGAIN Multiple keys request during rehashing of slot"),
        "INCR" => error("ERR unknown command 'INCR'"),
        _ => ok(),
    });
    let nodes = Nodes::start(vec![first]);
    let client = nodes.connect();
    let transaction = client.transaction();
    let count = transaction.incr("bar");
    let error = transaction.exec().wait().unwrap_err();
    assert_eq!((error.code(), count.wait().unwrap_err().code()), (Some("TRYAGAIN"), Some("TRYAGAIN")));
    let result = client.watch("bar", |_, transaction| {
        transaction.incr("bar").forget();
        Ok(())
    });
    assert_eq!(result.unwrap_err().code(), Some("EXECABORT"));
    // The transaction made one attempt. `watch` made another after each of two errors that allow it, and one more.
    assert_eq!(nodes.count(0, "INCR bar"), 1 + 2 + 1);
}

#[test]
fn a_script_is_not_resent_for_an_error_that_it_may_have_made_itself() {
    for said in [
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CLUSTERDOWN The cluster is down",
        "LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a read only replica.",
        // This redirect names another slot than that of the keys.
        "MOVED 5062 127.0.0.1:1",
    ] {
        let nodes = Nodes::start(vec![Box::new(move |_, _| error(said))]);
        let client = nodes.connect();
        for name in ["EVAL", "EVALSHA", "FCALL", "NEVER.HEARD"] {
            if name == "NEVER.HEARD" && said.starts_with("MOVED") {
                // The client does not know the positions of this command's keys.
                continue;
            }
            let error = client.cmd(name).arg(("x", 2, "{bar}1", "{bar}2")).send::<()>().wait().unwrap_err();
            assert_eq!(error.message(), said, "{name}");
            assert_eq!(nodes.count(0, &format!("{name} x 2 {{bar}}1 {{bar}}2")), 1, "{name}: {said}");
        }
    }
}

#[test]
fn a_script_that_was_certainly_turned_away_is_redirected_or_retried() {
    let first: Script = Box::new(|nodes, words| match words[0].as_str() {
        "EVAL" => nodes.redirection("MOVED", 5061, 1),
        "FCALL" => nodes.redirection("ASK", 5061, 1),
        // These scripts only read.
        _ if nodes.count(0, &words.join(" ")) < 3 => error("TRYAGAIN Multiple keys request during rehashing of slot"),
        _ => ok(),
    });
    let nodes = Nodes::start(vec![first, always("+OK\r\n")]);
    let client = nodes.connect();
    // EVAL is last, because its MOVED changes the client's map.
    for name in ["FCALL", "EVAL_RO", "EVALSHA_RO", "FCALL_RO", "EVAL"] {
        client.cmd(name).arg(("x", 2, "{bar}1", "{bar}2")).send::<()>().wait().unwrap();
    }
    assert_eq!(nodes.told(1), ["ASKING", "FCALL x 2 {bar}1 {bar}2", "EVAL x 2 {bar}1 {bar}2"]);
    assert_eq!(nodes.count(0, "EVAL_RO x 2 {bar}1 {bar}2"), 3);
}
