//! A server that refuses commands for the moment: they are sent again, in their order, for as long as their callers wait.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Client, Effect, ErrorKind, Resend};

use crate::scripted::{begins, config, greet, serve, serve_all, until};

const LOADING: &str = "-LOADING Redis is loading the dataset in memory\r\n";
const BUSY: &str = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n";
const MASTERDOWN: &str = "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n";

/// A server that refuses this many commands with this error, and then counts up for each request; it records the commands
/// that it has executed.
struct Refusing {
    port: u16,
    left: Arc<AtomicU32>,
    executed: Arc<Mutex<Vec<String>>>,
}

impl Refusing {
    fn start(error: &'static str, count: u32) -> Self {
        let (left, executed) = (Arc::new(AtomicU32::new(count)), Arc::<Mutex<Vec<String>>>::default());
        let (refusals, log) = (left.clone(), executed.clone());
        let port = serve(move |words| {
            if refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
                return Some(error.into());
            }
            let mut log = log.lock().unwrap();
            log.push(words.join(" "));
            Some(format!(":{}\r\n", log.len()).into_bytes())
        });
        Self { port, left, executed }
    }

    fn executed(&self) -> Vec<String> {
        self.executed.lock().unwrap().clone()
    }
}

#[test]
fn refused_commands_are_executed_once_after_recovery() {
    for error in [LOADING, BUSY, MASTERDOWN] {
        let server = Refusing::start(error, 4);
        let client = Client::connect_with(config(server.port)).unwrap();
        assert_eq!(client.incr("n").wait(), Ok(1), "{error}");
        let reply = client.get::<i64>("n");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(reply.into_future()), Ok(2), "{error}");
        client.incr("n").forget();
        until("what nobody waits for is executed", || server.executed().len() == 3);
        assert_eq!(server.executed(), ["INCR n", "GET n", "INCR n"], "{error}");
    }
}

#[test]
fn callers_on_threads_of_their_own_are_all_answered() {
    let server = Refusing::start(LOADING, 40);
    let client = Client::connect_with(config(server.port)).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..40).for_each(|_| assert!(client.incr("n").wait().is_ok())));
        }
    });
    assert_eq!(server.executed().len(), 320);
}

#[test]
fn a_callers_commands_keep_their_order_and_their_databases() {
    const CALLS: usize = 3000;
    // All commands are refused until the first has arrived for the fourth time.
    let (seen, database) = (AtomicU32::new(0), AtomicU32::new(0));
    let executed = Arc::<Mutex<Vec<String>>>::default();
    let log = executed.clone();
    let port = serve_all(move |words| match words[0].as_str() {
        "SELECT" => {
            database.store(words[1].parse().unwrap(), Ordering::SeqCst);
            Some(b"+OK\r\n".to_vec())
        }
        "SET" => {
            let times = seen.fetch_add(u32::from(words[2] == "0"), Ordering::SeqCst) + u32::from(words[2] == "0");
            if times < 4 {
                return Some(LOADING.into());
            }
            log.lock().unwrap().push(format!("{} in {}", words[2], database.load(Ordering::SeqCst)));
            Some(b"+OK\r\n".to_vec())
        }
        _ => greet(words),
    });
    let client = Client::connect_with(config(port)).unwrap();
    let replies: Vec<_> = (0..CALLS).map(|number| client.db(number as u32 % 3).set("k", number)).collect();
    replies.into_iter().for_each(|reply| reply.wait().unwrap());
    let wanted: Vec<String> = (0..CALLS).map(|number| format!("{number} in {}", number % 3)).collect();
    assert!(*executed.lock().unwrap() == wanted, "not in order, or elsewhere");
}

#[test]
fn later_commands_wait_behind_a_refused_one() {
    let (asked, may_recover, is_well) = (AtomicU32::new(0), Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    let (seen, executed) = (Arc::new(asked), Arc::<Mutex<Vec<String>>>::default());
    let (count, recovers, log) = (seen.clone(), may_recover.clone(), executed.clone());
    let port = serve(move |words| {
        // Requests that have left before the refusal are in flight and may overtake, so the server recovers only when the
        // first arrives again.
        if words[2] == "1" && recovers.load(Ordering::SeqCst) {
            is_well.store(true, Ordering::SeqCst);
        }
        count.fetch_add(1, Ordering::SeqCst);
        if !is_well.load(Ordering::SeqCst) {
            return Some(LOADING.into());
        }
        log.lock().unwrap().push(words[2].clone());
        Some(b"+OK\r\n".to_vec())
    });
    let client = Client::connect_with(config(port)).unwrap();
    let first = client.set("k", 1);
    until("it was turned away often", || seen.load(Ordering::SeqCst) > 3);
    let others: Vec<_> = (2..100).map(|number| client.set("k", number)).collect();
    may_recover.store(true, Ordering::SeqCst);
    first.wait().unwrap();
    others.into_iter().for_each(|reply| reply.wait().unwrap());
    let wanted: Vec<String> = (1..100).map(|number| number.to_string()).collect();
    assert_eq!(*executed.lock().unwrap(), wanted);
}

/// Checks a fault of the past: other commands had left with the first when the pause ended, and were executed before it.
#[test]
fn later_commands_overtake_none_whenever_the_server_recovers() {
    let server = Refusing::start(LOADING, 10);
    let client = Client::connect_with(config(server.port)).unwrap();
    let first = client.append("k", 1);
    until("it was turned away often", || server.left.load(Ordering::SeqCst) <= 7);
    let others: Vec<_> = (2..100).map(|number| client.append("k", number)).collect();
    assert_eq!(first.wait(), Ok(1));
    others.into_iter().zip(2..).for_each(|(reply, number)| assert_eq!(reply.wait(), Ok(number)));
    let wanted: Vec<String> = (1..100).map(|number| format!("APPEND k {number}")).collect();
    assert_eq!(server.executed(), wanted);
}

/// Checks a fault of the past: each attempt broke the connection.
#[test]
fn a_select_that_is_turned_away_is_sent_again_on_the_same_connection() {
    let (is_busy, connections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (asked, databases) = (Arc::new(AtomicU32::new(0)), Arc::<Mutex<Vec<String>>>::default());
    let (busy, greeted, count, log) = (is_busy.clone(), connections.clone(), asked.clone(), databases.clone());
    let port = serve_all(move |words| match words[0].as_str() {
        "SCRIPT" => {
            busy.store(false, Ordering::SeqCst);
            Some(b"+OK\r\n".to_vec())
        }
        "SELECT" | "INCR" if busy.load(Ordering::SeqCst) => {
            count.fetch_add(1, Ordering::SeqCst);
            Some(BUSY.into())
        }
        "SELECT" | "INCR" => {
            log.lock().unwrap().push(words[1].clone());
            Some(if words[0] == "INCR" { b":1\r\n".to_vec() } else { b"+OK\r\n".to_vec() })
        }
        _ => {
            greeted.fetch_add(u32::from(begins(words)), Ordering::SeqCst);
            greet(words)
        }
    });
    let client = Client::connect_with(config(port)).unwrap();
    is_busy.store(true, Ordering::SeqCst);
    let (first, second) = (client.db(3).incr("n"), client.db(5).incr("m"));
    until("it was turned away often", || asked.load(Ordering::SeqCst) > 6);
    client.script_kill().wait().unwrap();
    assert_eq!((first.wait(), second.wait()), (Ok(1), Ok(1)));
    assert_eq!(connections.load(Ordering::SeqCst), 1);
    assert_eq!(*databases.lock().unwrap(), ["0", "3", "n", "5", "m"]);
    // If nothing is sent again, the error is the caller's, and the connection stays.
    let nothing = Client::connect_with(config(port).resend(Resend::Nothing)).unwrap();
    is_busy.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        assert_eq!(nothing.db(3).incr("n").wait().unwrap_err().effect(), Effect::Refused);
    }
    is_busy.store(false, Ordering::SeqCst);
    assert_eq!(nothing.db(3).incr("n").wait(), Ok(1));
    assert_eq!(connections.load(Ordering::SeqCst), 2);
    assert!(databases.lock().unwrap().ends_with(&["3".to_owned(), "n".to_owned()]));
}

/// Checks a fault of the past: a client without handles sent refused commands again for ever.
#[test]
fn a_dropped_client_does_not_retry_abandoned_commands_for_ever() {
    let server = Refusing::start(LOADING, u32::MAX);
    let told = Arc::new(AtomicU32::new(0));
    let count = told.clone();
    let endless = config(server.port).command_timeout(None).on_error(move |error| {
        assert!(matches!(error.kind(), ErrorKind::Closed | ErrorKind::Disconnected), "{error}");
        count.fetch_add(1, Ordering::SeqCst);
    });
    let client = Client::connect_with(endless).unwrap();
    client.incr("n").forget();
    until("it is turned away often", || server.left.load(Ordering::SeqCst) < u32::MAX - 2);
    client.incr("m").forget();
    drop(client);
    until("whoever forgot them hears that they were given up", || told.load(Ordering::SeqCst) == 2);
    assert!(server.executed().is_empty());
}

#[test]
fn a_script_that_holds_the_server_can_be_ended_on_the_same_connection() {
    let is_busy = Arc::new(AtomicBool::new(true));
    let (asked, busy) = (Arc::new(AtomicU32::new(0)), is_busy.clone());
    let count = asked.clone();
    let port = serve(move |words| match words[0].as_str() {
        "SCRIPT" => {
            busy.store(false, Ordering::SeqCst);
            Some(b"+OK\r\n".to_vec())
        }
        _ if busy.load(Ordering::SeqCst) => {
            count.fetch_add(1, Ordering::SeqCst);
            Some(BUSY.into())
        }
        _ => Some(b"$1\r\nv\r\n".to_vec()),
    });
    let client = Client::connect_with(config(port)).unwrap();
    let waiting = client.get::<String>("k");
    until("it was turned away", || asked.load(Ordering::SeqCst) > 2);
    client.script_kill().wait().unwrap();
    assert_eq!(waiting.wait().as_deref(), Ok("v"));
}

#[test]
fn a_retried_call_times_out_at_its_deadline_with_the_servers_error() {
    let server = Refusing::start(LOADING, u32::MAX);
    let limited = config(server.port).command_timeout(Some(Duration::from_millis(300)));
    let client = Client::connect_with(limited).unwrap();
    let since = Instant::now();
    let own = client.at(since + Duration::from_millis(100)).incr("n");
    let general = client.incr("n");
    let error = own.wait().unwrap_err();
    assert!(since.elapsed() >= Duration::from_millis(100), "{:?}", since.elapsed());
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    let error = general.wait().unwrap_err();
    assert!(since.elapsed() >= Duration::from_millis(300), "{:?}", since.elapsed());
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(server.executed().is_empty());
    // If there are no requests, the client sends the server nothing.
    client.close(Duration::from_secs(60)).unwrap();
    let limited = config(server.port).command_timeout(None);
    let client = Client::connect_with(limited).unwrap();
    let before = server.left.load(Ordering::SeqCst);
    client.incr("n").forget();
    until("it goes on", || server.left.load(Ordering::SeqCst) < before - 1);
    let error = client.at(Instant::now() + Duration::from_millis(50)).incr("n").wait().unwrap_err();
    let told = error.message();
    assert!(told.contains("LOADING Redis is loading") || error.effect() == Effect::Unknown, "{told}");
}

#[test]
fn an_ambiguous_refusal_is_returned_at_once() {
    let told = |error: &'static str, resend: Resend, ask: &dyn Fn(&Client) -> Result<i64, sleeve::Error>| {
        let server = Refusing::start(error, 1);
        let client = Client::connect_with(config(server.port).resend(resend)).unwrap();
        let error = ask(&client).unwrap_err();
        assert!(server.executed().is_empty());
        (error.code().unwrap_or_default().to_owned(), error.effect())
    };
    let incr = |client: &Client| client.incr("n").wait();
    assert_eq!(told(LOADING, Resend::Nothing, &incr), ("LOADING".to_owned(), Effect::Refused));
    assert_eq!(told("-BUSYKEY Target key name already exists.\r\n", Resend::Reads, &incr).0, "BUSYKEY");
    assert_eq!(told("-READONLY You can't write against a read only replica.\r\n", Resend::Reads, &incr).0, "READONLY");
    let script = |client: &Client| client.cmd("EVAL").arg(("x", 0)).send::<i64>().wait();
    assert_eq!(told(LOADING, Resend::Reads, &script).0, "LOADING");
    let leased = |client: &Client| client.lease().unwrap().incr("n").wait();
    assert_eq!(told(LOADING, Resend::Reads, &leased).0, "LOADING");
}

#[test]
fn a_transaction_is_never_sent_again() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    let port = serve(move |words| {
        log.lock().unwrap().push(words[0].clone());
        Some(match words[0].as_str() {
            "MULTI" => b"+OK\r\n".to_vec(),
            "EXEC" => b"-EXECABORT Transaction discarded because of previous errors.\r\n".to_vec(),
            _ => LOADING.into(),
        })
    });
    let client = Client::connect_with(config(port)).unwrap();
    let transaction = client.transaction();
    let reply = transaction.incr("n");
    transaction.exec().wait().unwrap_err();
    assert_eq!(reply.wait().unwrap_err().effect(), Effect::Refused);
    assert_eq!(*asked.lock().unwrap(), ["MULTI", "INCR", "EXEC"]);
}

#[test]
fn one_that_waits_on_the_server_goes_again_too() {
    let refused = Arc::new(AtomicU32::new(3));
    let port = serve(move |_| {
        let is_refused = refused.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        Some(if is_refused { LOADING.into() } else { b"*2\r\n$1\r\nk\r\n$1\r\nv\r\n".to_vec() })
    });
    let client = Client::connect_with(config(port)).unwrap();
    let job = client.blpop::<(String, String)>("k", Duration::ZERO).wait();
    assert_eq!(job, Ok(("k".to_owned(), "v".to_owned())));
}

#[test]
fn a_script_is_not_sent_by_its_text_for_an_error_of_its_own() {
    let own = "NOSCRIPT is what my script calls it";
    let (asked, count) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (by_digest, by_text) = (asked.clone(), count.clone());
    let port = serve(move |words| {
        if words[0] == "EVAL" {
            by_text.fetch_add(1, Ordering::SeqCst);
            return Some(b":7\r\n".to_vec());
        }
        match by_digest.fetch_add(1, Ordering::SeqCst) {
            0 => Some(b"-NOSCRIPT No matching script. Please use EVAL.\r\n".to_vec()),
            _ => Some(format!("-{own}\r\n").into_bytes()),
        }
    });
    let client = Client::connect_with(config(port)).unwrap();
    let script = sleeve::Script::new("return 7");
    assert_eq!(script.run(&client, "k", ()).wait(), Ok(7));
    let error = script.run::<i64>(&client, "k", ()).wait().unwrap_err();
    assert_eq!((error.message(), count.load(Ordering::SeqCst)), (own, 1));
}
