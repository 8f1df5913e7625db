//! The data loaded once more while a server runs: DEBUG RELOAD and DEBUG LOADAOF, beside redis-server 7.0.

use std::fs;
use std::path::PathBuf;

use sleeve_tests::{Connection, Kind, Server};

use sleeve_tests::probe::{ask, digest, fill, info, wait_until};

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

fn start(kind: Kind, arguments: &[&str]) -> Server {
    Server::start_with(kind, &[&DEBUG, arguments].concat())
}

fn say(connection: &mut Connection, line: &str) -> String {
    ask(connection, &line.split(' ').collect::<Vec<_>>())
}

/// Sends each command of the list to both servers and compares the replies.
fn play(arguments: &[&str], lines: &[&str]) {
    let answers = |kind| {
        let server = start(kind, arguments);
        fill(&server);
        // The stream is deleted, because each server gives it ids of its own.
        say(&mut server.connect(), "DEL large:stream");
        let (mut one, mut other) = (server.connect(), server.connect());
        let answer = |line: &&str| match line.split_once(": ") {
            Some(("other", line)) => say(&mut other, line),
            Some(("until", line)) => {
                wait_until(line, || say(&mut other, "INFO persistence").contains(&format!("{line}\r\n")));
                String::new()
            }
            _ => say(&mut one, line),
        };
        lines.iter().map(answer).collect::<Vec<_>>()
    };
    for ((ours, theirs), line) in answers(Kind::Sleeve).iter().zip(answers(Kind::Redis)).zip(lines) {
        assert_eq!(*ours, theirs, "{line}");
    }
}

#[test]
fn reloading_answers_and_leaves_the_data_as_redis_does() {
    let lines = [
        "DEBUG DIGEST",
        "WATCH set nothing",
        "other: DEBUG RELOAD",
        "DEBUG DIGEST",
        "MULTI",
        "SET set gone",
        "EXEC",
        "WATCH nothing",
        "other: DEBUG RELOAD",
        "MULTI",
        "PING",
        "EXEC",
        "FCALL f 0",
        "SET later 1",
        "DEBUG RELOAD nosave noflush merge",
        "GET later",
        "SET list other",
        "DEBUG RELOAD NOSAVE NOFLUSH MERGE",
        "TYPE list",
        "FUNCTION FLUSH",
        "DEBUG RELOAD NOSAVE",
        "EXISTS later",
        "FCALL f 0",
        "DEBUG DIGEST",
        "DEBUG RELOAD nothing",
        "DEBUG RELOAD NOSAVE SAVE",
        "EVAL return{redis.call('debug','reload')} 0",
        "CONFIG SET dbfilename missing.rdb",
        "DEBUG RELOAD NOSAVE",
    ];
    for workers in ["1", "3"] {
        let arguments: &[&str] = if workers == "1" { &[] } else { &["--save", "3600 1"] };
        play(arguments, &lines);
    }
}

#[test]
fn loading_the_log_again_answers_and_leaves_the_data_as_redis_does() {
    let lines = [
        "DEBUG DIGEST",
        "DEBUG LOADAOF",
        "DEBUG DIGEST",
        "FCALL f 0",
        "INCR counter",
        "SELECT 3",
        "INCR counter",
        "DEBUG LOADAOF",
        "GET counter",
        "DBSIZE",
        "CONFIG SET appendonly no",
        "until: aof_enabled:0",
        "INCR counter",
        "DEBUG LOADAOF",
        "GET counter",
        "SELECT 0",
        "DEBUG DIGEST",
    ];
    play(&["--appendonly", "yes"], &lines);
    play(&["--appendonly", "yes", "--appendfsync", "always"], &lines);
}

#[test]
fn keys_loaded_from_the_aof_count_as_saved_and_keep_their_deadlines() {
    let server = start(Kind::Sleeve, &["--appendonly", "yes", "--save", "3600 1000000"]);
    let mut connection = server.connect();
    assert_eq!(say(&mut connection, "SET soon 1 PX 1"), "+OK\r\n");
    assert_eq!(say(&mut connection, "SET stays 1"), "+OK\r\n");
    wait_until("the deadline", || say(&mut connection, "EXISTS soon") == ":0\r\n");
    assert_eq!(say(&mut connection, "DEBUG LOADAOF"), "+OK\r\n");
    assert_eq!(info(&server, "rdb_changes_since_last_save"), "0");
    assert_eq!(say(&mut connection, "MGET soon stays"), "*2\r\n$-1\r\n$1\r\n1\r\n");
}

/// Returns the files of a server's AOF with this ending.
fn log_files(server: &Server, end: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(server.folder().join("appendonlydir")).expect("it has a log");
    let paths = files.map(|file| file.expect("a file").path());
    paths.filter(|path| path.to_string_lossy().ends_with(end)).collect()
}

fn spoil(path: &PathBuf) {
    let mut bytes = fs::read(path).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(path, bytes).expect("the disk has room");
}

#[test]
fn a_failed_reload_leaves_the_data_unchanged() {
    let failed = |what: &str| format!("-ERR Error trying to load the {what}, check server logs.\r\n");
    // Damage behind the last sync would pass for a torn end.
    let options = ["--workers", "2", "--appendonly", "yes", "--appendfsync", "always"];
    let server = start(Kind::Sleeve, &options);
    fill(&server);
    let mut connection = server.connect();
    assert_eq!(say(&mut connection, "SAVE"), "+OK\r\n");
    let before = digest(&server);
    spoil(&server.folder().join("dump.rdb"));
    for line in ["DEBUG RELOAD NOSAVE", "DEBUG RELOAD NOSAVE NOFLUSH MERGE"] {
        assert_eq!(say(&mut connection, line), failed("RDB dump"), "{line}");
        assert_eq!(digest(&server), before, "{line}");
        assert_eq!(say(&mut connection, "FCALL f 0"), ":7\r\n");
    }
    assert_eq!(say(&mut connection, "SAVE"), "+OK\r\n");
    // Redis exits here; a duplicate key is reported, and stays.
    assert_eq!(say(&mut connection, "DEBUG RELOAD NOSAVE NOFLUSH"), failed("RDB dump"));
    assert_eq!(say(&mut connection, "FUNCTION DELETE lib"), "+OK\r\n");
    assert_eq!(say(&mut connection, "DEBUG RELOAD NOSAVE NOFLUSH"), failed("RDB dump"));
    assert!(server.log().contains("is there already. The data is what it was"), "{}", server.log());
    assert_eq!(digest(&server), before);
    log_files(&server, ".incr.aof").iter().for_each(spoil);
    assert_eq!(say(&mut connection, "DEBUG LOADAOF"), failed("append only file"));
    assert_eq!(digest(&server), before);
    // The server goes on as if nothing had been asked.
    assert_eq!(say(&mut connection, "SET later 1"), "+OK\r\n");
    assert_eq!(info(&server, "loading"), "0");
}

#[test]
fn the_aof_continues_from_data_that_was_loaded_without_a_save() {
    let mut server = start(Kind::Sleeve, &["--appendonly", "yes"]);
    let mut connection = server.connect();
    say(&mut connection, "SET counter 1");
    assert_eq!(say(&mut connection, "SAVE"), "+OK\r\n");
    say(&mut connection, "SET counter 100");
    assert_eq!(say(&mut connection, "DEBUG RELOAD NOSAVE"), "+OK\r\n");
    wait_until("the new base", || {
        info(&server, "aof_rewrite_in_progress") == "0" && info(&server, "aof_rewrite_scheduled") == "0"
    });
    assert_eq!(say(&mut connection, "INCR counter"), ":2\r\n");
    server.restart().expect("it starts again");
    assert_eq!(say(&mut server.connect(), "GET counter"), "$1\r\n2\r\n");
}

#[test]
fn clients_get_loading_errors_during_a_reload_and_nothing_is_lost() {
    let mut server = start(Kind::Sleeve, &["--appendonly", "yes", "--workers", "2", "--key-load-delay", "100000"]);
    let (mut admin, mut waiter, mut queued) = (server.connect(), server.connect(), server.connect());
    for number in 0..5 {
        say(&mut admin, &format!("SET key:{number} {number}"));
    }
    let id = say(&mut waiter, "CLIENT ID");
    waiter.send(b"BLPOP list 0\r\n").expect("connected");
    wait_until("the waiting", || say(&mut admin, "INFO clients").contains("blocked_clients:1"));
    for line in ["MULTI", "INCR counter"] {
        say(&mut queued, line);
    }
    let mut reloading = server.connect();
    reloading.send(b"DEBUG RELOAD\r\n").expect("connected");
    wait_until("the loading", || info(&server, "loading") == "1");
    assert!(say(&mut admin, "GET key:1").starts_with("-LOADING "));
    assert!(say(&mut admin, "FLUSHALL").starts_with("-LOADING "));
    assert!(say(&mut queued, "EXEC").starts_with("-EXECABORT Transaction discarded because of: LOADING "));
    assert!(say(&mut admin, "DEBUG RELOAD").starts_with("-LOADING "));
    assert_eq!(say(&mut admin, "CONFIG SET key-load-delay 0"), "+OK\r\n");
    assert_eq!(String::from_utf8_lossy(&reloading.reply().expect("a reply")), "+OK\r\n");
    assert_eq!(say(&mut admin, "GET key:4"), "$1\r\n4\r\n");
    assert_eq!(say(&mut admin, "DEL counter"), ":0\r\n");
    assert_eq!(say(&mut admin, "RPUSH list x"), ":1\r\n");
    assert_eq!(String::from_utf8_lossy(&waiter.reply().expect("a reply")), "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n", "{id}");
    let before = digest(&server);
    server.restart().expect("it starts again");
    assert_eq!(digest(&server), before);
}

#[test]
fn writes_at_the_start_of_a_reload_come_before_it_or_are_refused() {
    let mut server = start(Kind::Sleeve, &["--appendonly", "yes", "--workers", "2"]);
    let written = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|number| {
                let mut connection = server.connect();
                scope.spawn(move || {
                    let (mut written, mut refused) = (0, 0);
                    while refused < 20 && written < 200_000 {
                        match say(&mut connection, &format!("INCR counter:{number}")) {
                            reply if reply.starts_with("-LOADING") => refused += 1,
                            reply => {
                                written += 1;
                                assert_eq!(reply, format!(":{written}\r\n"));
                            }
                        }
                    }
                    written
                })
            })
            .collect();
        let mut connection = server.connect();
        while !writers.iter().all(|writer| writer.is_finished()) {
            assert_eq!(say(&mut connection, "DEBUG RELOAD"), "+OK\r\n");
            assert_eq!(say(&mut connection, "DEBUG LOADAOF"), "+OK\r\n");
        }
        writers.into_iter().map(|writer| writer.join().expect("it does not fail")).collect::<Vec<u64>>()
    });
    let found = |server: &Server| -> Vec<String> {
        let mut connection = server.connect();
        (0..4).map(|number| say(&mut connection, &format!("INCRBY counter:{number} 0"))).collect()
    };
    let wanted: Vec<String> = written.iter().map(|count| format!(":{count}\r\n")).collect();
    assert_eq!(found(&server), wanted);
    server.restart().expect("it starts again");
    assert_eq!(found(&server), wanted);
}
