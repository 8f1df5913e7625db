//! Requests of an AOF that cannot be applied. If a request answers an error, the server reports it and loads the rest; if the
//! server does not know a request, it refuses the AOF.

use std::path::PathBuf;

use sleeve_tests::Server;
use sleeve_tests::probe::ask;

use super::start;

/// Returns a server that was killed behind `SET text x`, and the path of its AOF's first increment.
fn killed_with_log() -> (Server, PathBuf) {
    let mut server = start(&["--appendonly", "yes"]);
    assert_eq!(ask(&mut server.connect(), &["SET", "text", "x"]), "+OK\r\n");
    server.kill();
    let path = server.folder().join("appendonlydir/appendonly.aof.1.incr.aof");
    (server, path)
}

/// Returns an AOF as another server writes it: without checksums.
fn plain_log(requests: &[&[&str]]) -> Vec<u8> {
    let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    let request = |words: &&[&str]| format!("*{}\r\n{}", words.len(), words.iter().map(word).collect::<String>());
    requests.iter().map(request).collect::<String>().into_bytes()
}

#[test]
fn an_aof_with_an_unknown_request_is_refused_with_a_remedy() {
    let (mut server, path) = killed_with_log();
    let good = plain_log(&[&["SELECT", "0"], &["SET", "text", "y"]]);
    for (bad, reason) in [
        (plain_log(&[&["NOSUCH", "text"]]), "Unknown command 'NOSUCH'"),
        (plain_log(&[&["SET", "text"]]), "\"SET\" cannot be applied: ERR wrong number of arguments"),
    ] {
        std::fs::write(&path, [&good[..], &bad].concat()).expect("a file");
        let told = server.restart().expect_err("it does not start");
        let place = format!("appendonly.aof.1.incr.aof, byte {}: ", good.len());
        assert!(told.contains(reason) && told.contains(place.as_str()), "{reason} and {place} are not both in {told}");
    }
    // The remedy that the message names is applied, and works.
    std::fs::write(&path, good).expect("a file");
    server.restart().expect("it starts");
    assert_eq!(ask(&mut server.connect(), &["GET", "text"]), "$1\r\ny\r\n");
}

#[test]
fn a_request_of_an_aof_that_fails_is_logged_and_the_rest_is_loaded() {
    let (mut server, path) = killed_with_log();
    let requests: [&[&str]; 9] = [
        &["SELECT", "0"],
        &["SET", "a", "b"],
        &["INCR", "a"],
        &["SET", "c", "d"],
        &["MULTI"],
        &["SET", "e", "f"],
        &["LPUSH", "a", "x"],
        &["SET", "g", "h"],
        &["EXEC"],
    ];
    std::fs::write(&path, plain_log(&requests)).expect("a file");
    server.restart().expect("it starts");
    let mut connection = server.connect();
    assert_eq!(
        ask(&mut connection, &["MGET", "a", "c", "e", "g"]),
        "*4\r\n$1\r\nb\r\n$1\r\nd\r\n$1\r\nf\r\n$1\r\nh\r\n"
    );
    for (error, name) in [("value is not an integer or out of range", "incr"), ("WRONGTYPE Operation", "lpush")] {
        let is_told = |line: &str| line.contains("== CRITICAL ==") && line.contains(error) && line.contains(name);
        assert!(server.log().lines().any(is_told), "{error} in {}", server.log());
    }
    // With `propagation-error-behavior panic` the server refuses an AOF with such a request.
    server.kill();
    let mut strict = start(&["--appendonly", "yes", "--propagation-error-behavior", "panic"]);
    strict.kill();
    std::fs::write(strict.folder().join("appendonlydir/appendonly.aof.1.incr.aof"), plain_log(&requests))
        .expect("a file");
    let told = strict.restart().expect_err("it does not start");
    assert!(told.contains("cannot be applied: ERR value is not an integer"), "{told}");
}
