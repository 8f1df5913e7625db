//! Calls with priority: they never wait for what others have asked for, and end with their client.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, ErrorKind};

use crate::scripted::{config, echo, serve};

#[test]
fn they_are_answered_while_what_others_have_asked_for_is_not() {
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
    // All of a client's share one connection.
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
fn a_handle_keeps_its_client_there() {
    let client = Client::connect_with(config(serve(echo))).unwrap();
    let priority = client.priority().unwrap();
    drop(client);
    assert_eq!(priority.echo::<u32>(1).wait(), Ok(1));
}
