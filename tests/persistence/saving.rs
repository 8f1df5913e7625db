//! The snapshot and the AOF folder after commands that save, beside redis-server 7.0; and dumps that go to it and come from
//! Valkey 9.

use std::fs;

use sleeve_tests::transcript::frame::text;
use sleeve_tests::{Connection, Kind, Server};

use sleeve_tests::probe::{ask, info, wait_until};

const BOTH: [Kind; 2] = [Kind::Sleeve, Kind::Redis];

fn start(kind: Kind, arguments: &[&str]) -> Server {
    Server::start_with(kind, &[&["--enable-debug-command", "yes"], arguments].concat())
}

fn say(connection: &mut Connection, line: &str) -> String {
    ask(connection, &line.split(' ').collect::<Vec<_>>())
}

#[test]
fn flushall_leaves_a_snapshot_without_data_where_there_are_rules() {
    for kind in BOTH {
        for (rules, left) in [("3600 1000000", 0), ("", 1)] {
            let mut server = start(kind, &["--save", rules]);
            let mut connection = server.connect();
            say(&mut connection, "SET a 1");
            assert_eq!(say(&mut connection, "SAVE"), "+OK\r\n");
            say(&mut connection, "SET b 1");
            assert_eq!(say(&mut connection, "FLUSHALL"), "+OK\r\n");
            let is_saved = info(&server, "rdb_changes_since_last_save") == "0";
            assert_eq!(is_saved, left == 0, "{} with save {rules:?}", kind.name());
            server.kill();
            server.restart().expect("it starts again");
            assert_eq!(say(&mut server.connect(), "DBSIZE"), format!(":{left}\r\n"), "{} {rules:?}", kind.name());
        }
    }
    // If the client cannot wait, the snapshot is written all the same.
    let mut server = start(Kind::Sleeve, &["--save", "3600 1000000", "--appendonly", "no"]);
    for lines in [&["MULTI", "FLUSHALL", "EXEC"][..], &["EVAL return{redis.call('flushall')} 0"]] {
        let mut connection = server.connect();
        say(&mut connection, "SET a 1");
        assert_eq!(say(&mut connection, "SAVE"), "+OK\r\n");
        let replies: Vec<String> = lines.iter().map(|line| say(&mut connection, line)).collect();
        assert_eq!(replies.last().map(String::as_str), Some("*1\r\n+OK\r\n"));
        wait_until("the snapshot", || info(&server, "rdb_changes_since_last_save") == "0");
        server.restart().expect("it starts again");
        assert_eq!(say(&mut server.connect(), "DBSIZE"), ":0\r\n");
    }
}

#[test]
fn flushall_gives_up_the_snapshot_that_is_being_written() {
    for kind in BOTH {
        let server = start(kind, &["--save", "", "--rdb-key-save-delay", "100000"]);
        let mut connection = server.connect();
        say(&mut connection, "DEBUG POPULATE 500");
        assert_eq!(say(&mut connection, "BGSAVE"), "+Background saving started\r\n");
        assert_eq!(say(&mut connection, "FLUSHALL"), "+OK\r\n");
        wait_until("its end", || info(&server, "rdb_bgsave_in_progress") == "0");
        assert_eq!(info(&server, "rdb_last_bgsave_status"), "ok", "{}", kind.name());
        assert_ne!(info(&server, "rdb_changes_since_last_save"), "0");
        assert!(!server.folder().join("dump.rdb").exists());
    }
}

#[test]
fn a_failed_save_is_reported_to_its_caller_alone() {
    for kind in BOTH {
        let server = start(kind, &["--save", "3600 1"]);
        fs::create_dir_all(server.folder().join("dump.rdb/in the way")).expect("a folder of the server");
        let mut connection = server.connect();
        say(&mut connection, "SET a 1");
        assert!(say(&mut connection, "SAVE").starts_with("-ERR"));
        assert!(say(&mut connection, "SHUTDOWN").starts_with("-ERR Errors trying to SHUTDOWN. Check logs."));
        assert_eq!(say(&mut connection, "PING"), "+PONG\r\n", "{}", kind.name());
        assert_eq!(say(&mut connection, "SET a 2"), "+OK\r\n", "{}", kind.name());
        assert_eq!(say(&mut connection, "BGSAVE"), "+Background saving started\r\n");
        wait_until("its end", || info(&server, "rdb_last_bgsave_status") == "err");
        assert!(say(&mut connection, "SET a 3").starts_with("-MISCONF Redis is configured to save"));
        let _ = say(&mut connection, "SHUTDOWN NOSAVE FORCE X");
    }
}

#[test]
fn bgrewriteaof_without_a_log_leaves_a_base_alone() {
    for kind in BOTH {
        for preamble in ["yes", "no"] {
            let mut server = start(kind, &["--save", "", "--aof-use-rdb-preamble", preamble]);
            let mut connection = server.connect();
            say(&mut connection, "SET a 1");
            assert_eq!(say(&mut connection, "BGREWRITEAOF"), "+Background append only file rewriting started\r\n");
            wait_until("the rewrite", || info(&server, "aof_rewrite_in_progress") == "0");
            let folder = server.folder().join("appendonlydir");
            let manifest = fs::read_to_string(folder.join("appendonly.aof.manifest")).expect("a manifest");
            let ending = if preamble == "yes" { "rdb" } else { "aof" };
            assert_eq!(manifest, format!("file appendonly.aof.1.base.{ending} seq 1 type b\n"), "{}", kind.name());
            say(&mut connection, "SET a 2");
            assert_eq!(say(&mut connection, "DEBUG LOADAOF"), "+OK\r\n");
            assert_eq!(say(&mut connection, "GET a"), "$1\r\n1\r\n");
            assert_eq!(say(&mut connection, "CONFIG SET appendonly yes"), "+OK\r\n");
            wait_until("the log", || {
                info(&server, "aof_enabled") == "1" && info(&server, "aof_rewrite_in_progress") == "0"
            });
            assert_eq!(say(&mut connection, "INCR a"), ":2\r\n");
            assert_eq!(say(&mut connection, "DEBUG LOADAOF"), "+OK\r\n");
            assert_eq!(say(&mut connection, "GET a"), "$1\r\n2\r\n", "{}", kind.name());
            server.kill();
        }
    }
}

#[test]
fn an_aof_switched_off_before_its_first_base_exists_does_not_begin() {
    let server = start(Kind::Sleeve, &["--save", "", "--rdb-key-save-delay", "10000000"]);
    let mut connection = server.connect();
    say(&mut connection, "SET a 1");
    for line in ["BGSAVE", "CONFIG SET appendonly yes", "CONFIG SET appendonly no"] {
        assert!(say(&mut connection, line).starts_with('+'), "{line}");
    }
    assert_eq!((info(&server, "aof_rewrite_scheduled"), info(&server, "aof_enabled")), ("0".into(), "0".into()));
    assert_eq!(say(&mut connection, "CONFIG SET rdb-key-save-delay 0"), "+OK\r\n");
    wait_until("the snapshot", || info(&server, "rdb_bgsave_in_progress") == "0");
    assert!(!server.folder().join("appendonlydir/appendonly.aof.manifest").exists());
}

#[test]
fn a_base_in_requests_keeps_pending_and_deleted_entries() {
    let arguments = ["--appendonly", "yes", "--aof-use-rdb-preamble", "no"];
    let mut server = start(Kind::Sleeve, &arguments);
    let mut connection = server.connect();
    for (key, count) in [("small", 9), ("large", 600), ("gone", 3)] {
        for id in 1..=count {
            say(&mut connection, &format!("XADD {key} {id}-1 field {id}"));
        }
        say(&mut connection, &format!("XGROUP CREATE {key} group 0"));
        say(&mut connection, &format!("XREADGROUP GROUP group reader COUNT 6 STREAMS {key} >"));
        say(&mut connection, &format!("XDEL {key} 2-1 5-1"));
        say(&mut connection, &format!("XTRIM {key} MAXLEN {}", if key == "gone" { 0 } else { count - 4 }));
        say(&mut connection, &format!("XGROUP CREATECONSUMER {key} group idle"));
    }
    say(&mut connection, "XGROUP CREATE empty group $ MKSTREAM");
    let questions = |connection: &mut Connection| {
        let keys = ["small", "large", "gone", "empty"];
        let ask = |key: &&str| {
            let full = say(connection, &format!("XINFO STREAM {key} FULL COUNT 0"));
            // The encoding of a stream, and the times at which consumers were seen, are not in the AOF.
            let own = ["radix-tree", "seen-time", "active-time"];
            let mut lines = full.split("\r\n").collect::<Vec<_>>();
            for place in
                (0..lines.len()).rev().filter(|&place| own.iter().any(|own| full_line(&full, place).starts_with(own)))
            {
                lines.drain(place..place + 2);
            }
            lines.join(" ")
        };
        keys.iter().map(ask).collect::<Vec<_>>()
    };
    let before = questions(&mut connection);
    assert!(say(&mut connection, "BGREWRITEAOF").starts_with('+'));
    wait_until("the rewrite", || info(&server, "aof_rewrite_in_progress") == "0");
    assert_eq!(info(&server, "aof_last_bgrewrite_status"), "ok", "{}", server.log());
    server.restart().expect("it starts again");
    assert_eq!(questions(&mut server.connect()), before);
}

/// Returns a line of a reply.
fn full_line(reply: &str, place: usize) -> &str {
    reply.split("\r\n").nth(place).unwrap_or_default()
}

#[test]
fn libraries_go_to_redis_7_and_values_come_from_valkey_9() {
    let library = "#!lua name=lib\nredis.register_function('f', function() return 7 end)";
    let (ours, theirs) = (start(Kind::Sleeve, &[]), start(Kind::Redis, &[]));
    let (mut here, mut there) = (ours.connect(), theirs.connect());
    assert_eq!(ask(&mut here, &["FUNCTION", "LOAD", library]), "$3\r\nlib\r\n");
    let dump = here.command(&["FUNCTION", "DUMP"]).expect("a reply");
    let words = [b"FUNCTION".as_slice(), b"RESTORE", text(&dump).expect("a text")];
    assert_eq!(there.command(&words).expect("a reply"), b"+OK\r\n");
    assert_eq!(say(&mut there, "FCALL f 0"), ":7\r\n");

    let valkey = start(Kind::Valkey, &[]);
    let mut there = valkey.connect();
    assert_eq!(ask(&mut there, &["FUNCTION", "LOAD", library]), "$3\r\nlib\r\n");
    let dump = there.command(&["FUNCTION", "DUMP"]).expect("a reply");
    let words = [b"FUNCTION".as_slice(), b"RESTORE", text(&dump).expect("a text"), b"REPLACE"];
    assert_eq!(here.command(&words).expect("a reply"), b"+OK\r\n");
    let lines = [
        "SET string word",
        "RPUSH list a b 3",
        "SADD set a b",
        "SADD numbers 1 2",
        "ZADD sorted 1.5 a 2 b",
        "HSET hash a 1 b 2",
        "HSET timed a 1 b 2 c 3",
        "HPEXPIREAT timed 4102444800000 FIELDS 2 a b",
        "XADD stream 1-1 a b",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group reader STREAMS stream >",
    ];
    lines.iter().for_each(|line| assert!(!say(&mut there, line).starts_with('-'), "{line}"));
    for key in ["string", "list", "set", "numbers", "sorted", "hash", "timed", "stream"] {
        let dump = there.command(&["DUMP", key]).expect("a reply");
        let words = [b"RESTORE".as_slice(), key.as_bytes(), b"0", text(&dump).expect("a text")];
        assert_eq!(here.command(&words).expect("a reply"), b"+OK\r\n", "{key}: {}", dump.escape_ascii());
    }
    for line in ["HPEXPIRETIME timed FIELDS 3 a b c", "HGET timed b", "LRANGE list 0 -1", "XPENDING stream group"] {
        assert_eq!(say(&mut here, line), say(&mut there, line), "{line}");
    }
}

#[test]
fn a_server_that_could_not_save_at_its_end_saves_at_the_next_signal() {
    let mut server = start(Kind::Sleeve, &["--save", "3600 1000000", "--appendonly", "no"]);
    let mut connection = server.connect();
    assert_eq!(say(&mut connection, "SET a 1"), "+OK\r\n");
    let obstacle = server.folder().join("dump.rdb/in the way");
    fs::create_dir_all(&obstacle).expect("a folder of the server");
    let process = server.process_id().to_string();
    let end = || _ = std::process::Command::new("kill").arg(&process).status().expect("kill is everywhere");
    end();
    wait_until("the failure", || server.log().contains("Error trying to save the DB, can't exit."));
    assert_eq!(say(&mut connection, "SET b 1"), "+OK\r\n");
    fs::remove_dir_all(server.folder().join("dump.rdb")).expect("nobody is in it");
    end();
    server.wait_for_exit(std::time::Duration::from_secs(60)).expect("it ends");
    server.restart().expect("it starts again");
    assert_eq!(say(&mut server.connect(), "DBSIZE"), ":2\r\n");
}

#[test]
fn a_transaction_schedules_its_snapshots_for_its_end() {
    for kind in BOTH {
        let server = start(kind, &["--save", "", "--appendonly", "no"]);
        let mut connection = server.connect();
        let forks = || info(&server, "total_forks").parse::<u64>().expect("a number");
        for (line, reply, log) in [
            ("BGSAVE", "+Background saving scheduled\r\n", ""),
            ("BGREWRITEAOF", "+Background append only file rewriting scheduled\r\n", ""),
            (
                "CONFIG SET appendonly yes",
                "+OK\r\n",
                "AOF was enabled during a transaction. An AOF background was scheduled",
            ),
        ] {
            let before = forks();
            say(&mut connection, "MULTI");
            say(&mut connection, "SET a 1");
            say(&mut connection, line);
            assert_eq!(say(&mut connection, "EXEC"), format!("*2\r\n+OK\r\n{reply}"), "{} {line}", kind.name());
            wait_until("the snapshot", || forks() > before && info(&server, "rdb_bgsave_in_progress") == "0");
            wait_until("its end", || info(&server, "aof_rewrite_in_progress") == "0");
            assert!(server.log().contains(log), "{} {line}", kind.name());
        }
        assert_ne!(info(&server, "latest_fork_usec"), "0", "{}", kind.name());
        assert_eq!(say(&mut connection, "CONFIG RESETSTAT"), "+OK\r\n");
        assert_eq!((forks(), info(&server, "latest_fork_usec")), (0, "0".to_owned()), "{}", kind.name());
    }
}

#[test]
fn debug_pause_cron_delays_expiry_and_the_end_that_a_signal_asks_for() {
    for kind in BOTH {
        let mut server = start(kind, &["--save", "", "--appendonly", "no"]);
        let mut connection = server.connect();
        assert_eq!(say(&mut connection, "SHUTDOWN ABORT"), "-ERR No shutdown in progress.\r\n");
        assert_eq!(say(&mut connection, "DEBUG PAUSE-CRON 1"), "+OK\r\n");
        say(&mut connection, "PSETEX a 1 1");
        let process = server.process_id().to_string();
        let end = || _ = std::process::Command::new("kill").arg(&process).status().expect("kill is everywhere");
        end();
        wait_until("the signal", || server.log().contains("Received SIGTERM"));
        wait_until("the abort", || say(&mut connection, "SHUTDOWN ABORT") == "+OK\r\n");
        assert!(server.log().contains("Shutdown manually aborted"), "{}", kind.name());
        assert_eq!(say(&mut connection, "DBSIZE"), ":1\r\n", "{}", kind.name());
        assert_eq!(say(&mut connection, "DEBUG PAUSE-CRON 0"), "+OK\r\n");
        wait_until("the expiry", || info(&server, "expired_keys") == "1");
        assert_eq!(say(&mut connection, "DEBUG PAUSE-CRON 1"), "+OK\r\n");
        end();
        assert_eq!(say(&mut connection, "PING"), "+PONG\r\n");
        assert_eq!(say(&mut connection, "DEBUG PAUSE-CRON 0"), "+OK\r\n");
        server.wait_for_exit(std::time::Duration::from_secs(60)).expect("it ends");
    }
}
