//! Calls with replies that report their times: each part counts where it was spent.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use sleeve::prelude::*;
use sleeve::{Client, Effect, ErrorKind, Timing};

use crate::nodes::{Nodes, always, error};
use crate::scripted::{config, echo, greet, serve, serve_all, until};

/// The least length of a wait that a test has to see.
const LONG: Duration = Duration::from_millis(30);

/// The least of that time that must be measured: a scheduler and a clock may take a part of it.
const LEAST: Duration = Duration::from_millis(25);

/// Returns the parts of the time, all of which must be known.
fn parts(timing: Timing) -> [Duration; 3] {
    let parts = [timing.queued, timing.travelled, timing.ready].map(|part| part.expect("it is known"));
    assert!(parts.iter().sum::<Duration>() + timing.decoded <= timing.total, "{timing:?}");
    parts
}

#[test]
fn each_part_is_where_the_time_was_spent() {
    // The connection takes long, and so does the first answer.
    let port = serve_all(|words| {
        if words[0] == "HELLO" || words.get(1).is_some_and(|word| word == "slow") {
            thread::sleep(LONG);
        }
        greet(words).or_else(|| echo(words))
    });
    let client = Client::open_with(config(port)).unwrap();
    let (value, timing) = client.timed(|client| client.echo::<String>("early")).wait();
    assert_eq!(value.as_deref(), Ok("early"));
    assert!(parts(timing)[0] >= LEAST, "{timing}");
    let (value, timing) = client.timed(|client| client.echo::<String>("slow")).wait();
    assert_eq!(value.as_deref(), Ok("slow"));
    assert!(parts(timing)[1] >= LEAST, "{timing}");
    let reply = client.db(2).timed(|client| client.cmd("ECHO").arg("quick").send::<String>());
    until("it is answered", || reply.is_ready());
    let since = Instant::now();
    until("it has lain there", || since.elapsed() >= LONG);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (value, timing) = runtime.block_on(reply);
    assert_eq!(value.as_deref(), Ok("quick"));
    assert!(parts(timing)[2] >= LEAST, "{timing}");
    assert!(timing.to_string().contains("taken after"), "{timing}");
}

#[test]
fn only_calls_within_timed_are_timed() {
    let client = Client::connect_with(config(serve(echo))).unwrap();
    let mut others = Vec::new();
    let (value, timing) = client
        .timed(|timed| {
            others.extend((0..500).map(|number| client.echo::<u32>(number)));
            timed.echo::<u32>(500)
        })
        .wait();
    assert_eq!(value, Ok(500));
    parts(timing);
    assert!(others.into_iter().enumerate().all(|(number, reply)| reply.wait() == Ok(number as u32)));
    // For a call of another handle only the total is known.
    let (value, timing) = client.timed(|_| client.echo::<u32>(1)).wait();
    assert_eq!((value, timing.queued, timing.travelled, timing.ready), (Ok(1), None, None, None));
    assert!(!timing.total.is_zero() && !timing.to_string().contains("queued"));
}

#[test]
fn of_a_failure_it_is_told_as_well() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let port = serve(move |words| match words[1].as_str() {
        "wrong" => Some(b"-ERR wrong\r\n".to_vec()),
        _ => {
            _ = released.lock().unwrap().recv();
            echo(words)
        }
    });
    let client = Client::connect_with(config(port)).unwrap();
    let (value, timing) = client.timed(|client| client.echo::<String>("wrong")).wait();
    assert_eq!(value.unwrap_err().effect(), Effect::Answered);
    parts(timing);
    let (value, timing) = client.timed(|client| client.echo::<String>("held")).wait_for(LONG);
    assert_eq!((value.unwrap_err().kind(), timing.travelled), (ErrorKind::Timeout, None));
    assert!(timing.total >= LEAST, "{timing}");
    release.send(()).unwrap();
    client.close(Duration::from_secs(60)).unwrap();
    let (value, timing) = client.timed(|client| client.echo::<String>("late")).wait();
    assert_eq!((value.unwrap_err().kind(), timing.queued), (ErrorKind::Closed, None));
}

#[test]
fn of_one_that_is_redirected_or_waits_it_is_the_last_way() {
    let first: crate::nodes::Script = Box::new(|nodes, words| match words[0].as_str() {
        "BLPOP" => {
            thread::sleep(LONG);
            Some(b"*2\r\n$3\r\nfoo\r\n$1\r\nx\r\n".to_vec())
        }
        "SET" => nodes.redirection("MOVED", 5061, 1),
        _ => error("ERR no"),
    });
    let nodes = Nodes::start(vec![first, always("+OK\r\n")]);
    let client = nodes.connect();
    let job = client.timed(|client| client.blpop::<(String, String)>("foo", Duration::ZERO)).wait();
    assert_eq!(job.0.unwrap().1, "x");
    assert!(parts(job.1)[1] >= LEAST, "{}", job.1);
    let (result, timing) = client.timed(|client| client.set("bar", 1)).wait();
    result.unwrap();
    parts(timing);
}

#[cfg(feature = "embedded")]
#[test]
fn an_engine_inside_has_answered_when_the_call_returns() {
    let client = Client::embedded();
    let (value, timing) = client.timed(|client| client.incr("n")).wait();
    assert_eq!(value, Ok(1));
    assert_eq!(parts(timing)[0], Duration::ZERO);
}
