//! Tests of MIGRATE from an embedded engine to a target with scripted replies: the sent keys, the contents of the journal,
//! and the handling of unexpected replies. Tests with two real servers are among the tests from outside.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use sleeve_server::{Config, Engine, Local};

/// A session that sends requests given as words; `""` stands for the empty word.
struct Session(Local);

impl Session {
    fn new(engine: &Arc<Engine>) -> Self {
        Self(Local::open(engine, || {}))
    }

    fn ask(&mut self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').map(|word| if word == "\"\"" { "" } else { word }).collect();
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        let mut reply = Vec::new();
        self.0.exchange(request.as_bytes(), &mut reply).expect("nothing here ends a session");
        String::from_utf8(reply).expect("all values here are text")
    }
}

/// Starts a target that answers the first bytes of each connection with one of these texts, and then closes it. Returns its
/// port; the thread returns the bytes received on each connection.
fn target(texts: &'static [&'static str]) -> (u16, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let serve = move || {
        let one = |text: &&str| {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut chunk = [0; 4_096];
            let count = stream.read(&mut chunk).unwrap_or(0);
            _ = stream.write_all(text.as_bytes());
            String::from_utf8_lossy(&chunk[..count]).into_owned()
        };
        texts.iter().map(one).collect()
    };
    (port, thread::spawn(serve))
}

#[test]
fn only_what_the_target_has_taken_goes_and_the_journal_hears_of_that() {
    let engine = Engine::new(Config::default());
    let mut session = Session::new(&engine);
    session.ask("MSET a 1 b 2 c 3");
    let mut reader = engine.journal.subscribe();
    let (port, other) = target(&["+OK\r\n-BUSYKEY there\r\n+OK\r\n"]);
    let reply = session.ask(&format!("MIGRATE 127.0.0.1 {port} \"\" 0 5000 KEYS a b none c"));
    assert_eq!(reply, "-ERR Target instance replied with error: BUSYKEY there\r\n");
    assert_eq!(session.ask("EXISTS a b c"), ":1\r\n");
    let mut journal = Vec::new();
    reader.read(&mut journal);
    assert!(String::from_utf8_lossy(&journal).ends_with("*3\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nc\r\n"));
    let sent = other.join().expect("it has ended").concat();
    assert_eq!(sent.matches("$7\r\nRESTORE\r\n").count(), 3);
    assert!(!sent.contains("SELECT") && !sent.contains("AUTH") && !sent.contains("REPLACE"), "{sent}");
}

#[test]
fn a_copy_leaves_everything_as_it_is() {
    let engine = Engine::new(Config::default());
    let mut session = Session::new(&engine);
    session.ask("SET a 1");
    let end = engine.journal.end();
    let (port, other) = target(&["+OK\r\n"]);
    assert_eq!(session.ask(&format!("MIGRATE 127.0.0.1 {port} a 0 5000 COPY REPLACE")), "+OK\r\n");
    assert_eq!((session.ask("EXISTS a"), engine.journal.end()), (":1\r\n".to_owned(), end));
    assert!(other.join().expect("it has ended").concat().ends_with("$7\r\nREPLACE\r\n"));
}

#[test]
fn nothing_is_sent_to_who_does_not_know_us_or_has_no_such_database() {
    for (line, text, reason) in [
        ("a 0 5000 AUTH2 u p", "-WRONGPASS no\r\n", "WRONGPASS no"),
        ("a 9 5000", "-ERR DB index is out of range\r\n", "ERR DB index is out of range"),
    ] {
        let engine = Engine::new(Config::default());
        let mut session = Session::new(&engine);
        session.ask("SET a 1");
        let (port, other) = target(Box::leak(Box::new([text])));
        let reply = session.ask(&format!("MIGRATE 127.0.0.1 {port} {line}"));
        assert_eq!(reply, format!("-ERR Target instance replied with error: {reason}\r\n"));
        assert_eq!(session.ask("EXISTS a"), ":1\r\n");
        assert!(!other.join().expect("it has ended").concat().contains("RESTORE"));
    }
}

#[test]
fn what_is_no_answer_takes_no_key() {
    for text in ["$5\r\nhello\r\n", "HTTP/1.1 200 OK\r\n", "+O", ""] {
        let engine = Engine::new(Config::default());
        let mut session = Session::new(&engine);
        session.ask("SET a 1");
        let (port, other) = target(Box::leak(Box::new([text])));
        let reply = session.ask(&format!("MIGRATE 127.0.0.1 {port} a 0 5000"));
        assert_eq!(reply, "-IOERR error or timeout reading to target instance\r\n", "{text:?}");
        assert_eq!(session.ask("EXISTS a"), ":1\r\n");
        drop(other.join());
    }
}

#[test]
fn who_hangs_up_after_a_while_is_called_again() {
    let engine = Engine::new(Config::default());
    let mut session = Session::new(&engine);
    session.ask("MSET a 1 b 2");
    let (port, other) = target(&["+OK\r\n", "+OK\r\n"]);
    for key in ["a", "b"] {
        assert_eq!(session.ask(&format!("MIGRATE 127.0.0.1 {port} {key} 0 5000")), "+OK\r\n");
        assert!(session.ask("INFO stats").contains("migrate_cached_sockets:1\r\n"));
    }
    assert_eq!(session.ask("DBSIZE"), ":0\r\n");
    assert_eq!(other.join().expect("it has ended").len(), 2);
}
