//! Tests of client-side caching: the clients that get the invalidation of a change, for each mode of tracking at the time of
//! the read.

use std::sync::Arc;

use sleeve_server::{Config, Engine, Local};

fn ask(local: &mut Local, line: &str) -> String {
    let mut replies = Vec::new();
    local.exchange(format!("{line}\r\n").as_bytes(), &mut replies).expect("nothing here ends a session");
    String::from_utf8_lossy(&replies).into_owned()
}

/// Returns an engine, a client with RESP3, and another client that changes keys.
fn pair() -> (Arc<Engine>, Local, Local) {
    let engine = Engine::new(Config::default());
    let (mut reader, mut writer) = (Local::open(&engine, || ()), Local::open(&engine, || ()));
    ask(&mut reader, "HELLO 3");
    ask(&mut writer, "SET a 1");
    (engine, reader, writer)
}

/// Runs these lines, and then a change of `a`, by the same client if `by_itself` is true. Returns the number of invalidations
/// that the client has got with its reply to a PING.
fn heard(lines: &[&str], by_itself: bool) -> usize {
    let (_engine, mut reader, mut writer) = pair();
    lines.iter().for_each(|line| _ = ask(&mut reader, line));
    let own = if by_itself { ask(&mut reader, "SET a 2") } else { ask(&mut writer, "SET a 2") };
    (own + &ask(&mut reader, "PING")).matches(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n").count()
}

#[test]
fn what_was_read_in_another_mode_is_heard_of_once_at_most() {
    for by_itself in [false, true] {
        for (lines, expected) in [
            (&["CLIENT TRACKING ON", "GET a"][..], 1),
            (&["CLIENT TRACKING ON", "GET a", "CLIENT TRACKING OFF"], 0),
            (&["CLIENT TRACKING ON", "GET a", "CLIENT TRACKING OFF", "CLIENT TRACKING ON"], 1),
            (&["CLIENT TRACKING ON", "GET a", "CLIENT TRACKING OFF", "CLIENT TRACKING ON OPTIN"], 1),
            (&["CLIENT TRACKING ON", "GET a", "CLIENT TRACKING OFF", "CLIENT TRACKING ON BCAST"], 1),
            (&["CLIENT TRACKING ON", "GET a", "CLIENT TRACKING OFF", "CLIENT TRACKING ON BCAST PREFIX b"], 0),
            (
                &["CLIENT TRACKING ON", "GET a", "CLIENT TRACKING OFF", "CLIENT TRACKING ON BCAST NOLOOP"],
                !by_itself as usize,
            ),
            (&["CLIENT TRACKING ON", "GET a", "RESET", "HELLO 3", "CLIENT TRACKING ON BCAST"], 1),
            (&["CLIENT TRACKING ON OPTOUT", "GET a", "CLIENT TRACKING OFF", "CLIENT TRACKING ON BCAST PREFIX a"], 1),
            (&["CLIENT TRACKING ON BCAST", "GET a", "CLIENT TRACKING OFF", "CLIENT TRACKING ON"], 0),
        ] {
            assert_eq!(heard(lines, by_itself), expected, "{lines:?}, changed by itself: {by_itself}");
        }
    }
}
