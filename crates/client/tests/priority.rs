//! Calls with priority: they never wait for the calls of others, and end with their client.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, ErrorKind};

use crate::scripted::{config, echo, serve};

#[test]
fn priority_calls_are_answered_while_others_wait() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let port = serve(move |words| {
        if words[1] == "large" {
            released.lock().unwrap().recv().unwrap();
        }
        echo(words)
    });
    let client = Client::connect_with(config(port)).unwrap();
    let large = client.echo::<String>("large");
    let behind = client.echo::<u32>(0);
    let priority = client.priority().unwrap();
    for number in 0..100 {
        assert_eq!(priority.db(number % 2).echo::<u32>(number).wait(), Ok(number));
    }
    // All priority handles of a client share one connection.
    assert_eq!(client.db(1).priority().unwrap().echo::<u32>(7).wait(), Ok(7));
    let metrics = client.metrics();
    assert_eq!(metrics.len(), 2);
    assert_eq!((metrics[0].replies, metrics[1].connections), (0, 1));
    assert!(!large.is_ready() && !behind.is_ready());
    release.send(()).unwrap();
    assert_eq!((large.wait().as_deref(), behind.wait()), (Ok("large"), Ok(0)));
    client.close(Duration::from_secs(60)).unwrap();
    assert_eq!(priority.echo::<u32>(1).wait().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(client.priority().map(|_| ()).map_err(|error| error.kind()), Ok(()));
}

#[test]
fn an_unfinished_call_keeps_nothing_else_open() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let port = serve(move |words| {
        if words[1] == "held" {
            // The server holds the reply until the test releases it.
            _ = released.lock().unwrap().recv();
        }
        echo(words)
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for is_async in [false, true] {
        let client = Client::connect_with(config(port)).unwrap();
        let priority = client.priority().unwrap();
        let held = client.echo::<String>("held");
        let other = Client::connect_with(config(port)).unwrap();
        let held_too = other.echo::<String>("held");
        let short = Duration::from_millis(50);
        for client in [&client, &other] {
            let closed = if is_async { runtime.block_on(client.close_async(short)) } else { client.close(short) };
            assert_eq!(closed.unwrap_err().kind(), ErrorKind::Timeout);
        }
        assert_eq!(priority.echo::<u32>(1).wait().unwrap_err().kind(), ErrorKind::Closed);
        // After the close no further connection is made either.
        assert_eq!(other.priority().unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(other.lease().err().map(|error| error.kind()), Some(ErrorKind::Closed));
        let waiting = other.blpop::<(String, String)>("jobs", Duration::from_secs(60));
        assert_eq!(waiting.wait().unwrap_err().kind(), ErrorKind::Closed);
        release.send(()).unwrap();
        release.send(()).unwrap();
        assert_eq!((held.wait().as_deref(), held_too.wait().as_deref()), (Ok("held"), Ok("held")));
        assert_eq!(client.close(Duration::from_secs(60)), Ok(()));
    }
}

#[test]
fn priority_takes_non_blocking_reads_and_blocking_ones_go_on_their_own() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let port = serve(move |words| match words[0].as_str() {
        "XREAD" => Some(b"_\r\n".to_vec()),
        _ => {
            released.lock().unwrap().recv().unwrap();
            echo(words)
        }
    });
    let client = Client::connect_with(config(port)).unwrap();
    let priority = client.priority().unwrap();
    let held = client.echo::<u32>(1);
    let replies = || client.metrics()[1].replies;
    let read = |options| priority.cmd("XREAD").arg(options).arg(("STREAMS", "s", "0")).send::<Option<String>>().wait();
    assert_eq!(read(("COUNT", "1")), Ok(None));
    assert_eq!(replies(), 1);
    let held_too = priority.echo::<u32>(2);
    assert_eq!(read(("BLOCK", "1")), Ok(None));
    assert!(!held.is_ready() && !held_too.is_ready());
    release.send(()).unwrap();
    release.send(()).unwrap();
    assert_eq!((held.wait(), held_too.wait()), (Ok(1), Ok(2)));
    assert_eq!(replies(), 2);
}

#[test]
fn a_handle_keeps_its_client_there() {
    let client = Client::connect_with(config(serve(echo))).unwrap();
    let priority = client.priority().unwrap();
    drop(client);
    assert_eq!(priority.echo::<u32>(1).wait(), Ok(1));
}
