//! Questions to a server that many tests ask, data to fill it with, and a second server that starts on its files.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::{Connection, Kind, Server};

/// Returns the reply to a request, as text.
pub fn ask(connection: &mut Connection, words: &[&str]) -> String {
    String::from_utf8_lossy(&connection.command(words).expect("a reply")).into_owned()
}

/// Returns the digest of all data of a server.
pub fn digest(server: &Server) -> String {
    ask(&mut server.connect(), &["DEBUG", "DIGEST"])
}

/// Returns the value of a line of INFO.
pub fn info(server: &Server, name: &str) -> String {
    let text = ask(&mut server.connect(), &["INFO", "everything"]);
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).map(str::to_owned);
    line.unwrap_or_else(|| panic!("{name} is not in {text}"))
}

/// Waits until a condition holds; the failure after 60 seconds names it.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Writes values of every type, small and large.
pub fn fill(server: &Server) {
    let mut connection = server.connect();
    for (index, value) in ["x", "12345", &"long ".repeat(100), &"z".repeat(100_000)].iter().enumerate() {
        ask(&mut connection, &["SET", &format!("string:{index}"), value]);
        ask(&mut connection, &["RPUSH", "list", value]);
        ask(&mut connection, &["SADD", "set", value]);
        ask(&mut connection, &["HSET", "hash", &format!("field:{index}"), value]);
        ask(&mut connection, &["ZADD", "sorted", &index.to_string(), value]);
        ask(&mut connection, &["XADD", "stream", &format!("{}-1", index + 1), "field", value]);
    }
    for index in 0..1_000 {
        let index = index.to_string();
        ask(&mut connection, &["SADD", "numbers", &index]);
        ask(&mut connection, &["SADD", "large:set", &format!("member:{index}")]);
        ask(&mut connection, &["HSET", "large:hash", &format!("field:{index}"), &index]);
        ask(&mut connection, &["ZADD", "large:sorted", &index, &format!("member:{index}")]);
        ask(&mut connection, &["RPUSH", "large:list", &format!("element:{index}")]);
        ask(&mut connection, &["XADD", "large:stream", "*", "field", &index]);
    }
    ask(&mut connection, &["XGROUP", "CREATE", "large:stream", "group", "0"]);
    ask(&mut connection, &["XREADGROUP", "GROUP", "group", "reader", "COUNT", "10", "STREAMS", "large:stream", ">"]);
    ask(&mut connection, &["SET", "deadline", "x", "EX", "10000"]);
    ask(&mut connection, &["PFADD", "sketch", "a", "b", "c"]);
    ask(&mut connection, &["SELECT", "3"]);
    ask(&mut connection, &["SET", "elsewhere", "y"]);
    ask(
        &mut connection,
        &["FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 7 end)"],
    );
}

/// Starts a server of this kind on the files that `from` has left in its folder.
pub fn heir(kind: Kind, from: &Server, arguments: &[&str]) -> Server {
    let mut server = Server::start_with(kind, &[&["--enable-debug-command", "yes"], arguments].concat());
    server.kill();
    for name in ["appendonlydir", "dump.rdb"] {
        let (source, target) = (from.folder().join(name), server.folder().join(name));
        let _ = std::fs::remove_dir_all(&target);
        if source.exists() {
            let copied = Command::new("cp").arg("-r").arg(&source).arg(&target).status();
            assert!(copied.is_ok_and(|status| status.success()));
        }
    }
    server.restart().unwrap_or_else(|reason| panic!("{} does not load it: {reason}", kind.name()));
    server
}
