//! A replica cannot load any part of a snapshot that its primary may still lose.

use std::io::Write;
use std::net::TcpStream;

use super::primary;
use super::words::say;
use sleeve_tests::probe::{ask, wait_until};

/// Returns the contents of the AOF's files.
fn logged(primary: &sleeve_tests::Server) -> String {
    let files = std::fs::read_dir(primary.folder().join("appendonlydir")).expect("a log");
    let bytes = files.flat_map(|entry| std::fs::read(entry.expect("a file").path()).expect("a file"));
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

/// Takes a snapshot before its effects have reached the AOF.
fn waits_for_the_log(is_streamed: &str) {
    let log = ["--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync", is_streamed];
    let primary = primary(&log);
    let mut ours = primary.connect();
    assert_eq!(ask(&mut ours, &["SET", "first", "1"]), "+OK\r\n");
    assert_eq!(ask(&mut ours, &["DEBUG", "AOF-FLUSH-SLEEP", "3000000"]), "+OK\r\n");
    // Commands that show keys would wait for the AOF.
    let before = ask(&mut ours, &["INFO", "replication"]);
    let mut writer = TcpStream::connect(primary.address()).expect("it is served");
    writer.write_all(b"SET shown 1\r\n").expect("it takes them");
    wait_until("the change", || ask(&mut ours, &["INFO", "replication"]) != before);
    let mut stream = TcpStream::connect(primary.address()).expect("it is served");
    say(&mut stream, "REPLCONF capa eof capa psync2\r\n", "\r\n");
    say(&mut stream, "PSYNC ? -1\r\n", "\r\n");
    let head = say(&mut stream, "", "\r\n");
    if let Some(mark) = head.trim().strip_prefix("$EOF:") {
        say(&mut stream, "", mark);
    }
    assert!(logged(&primary).contains("shown"), "it can be loaded before it is in the log");
}

#[test]
fn a_snapshot_ends_when_its_instant_is_in_the_log() {
    waits_for_the_log("yes");
}

#[test]
fn a_file_for_replicas_is_sent_when_its_instant_is_in_the_log() {
    waits_for_the_log("no");
}
